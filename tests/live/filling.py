"""Fills a question's form in the way a person does: what is not shown cannot be typed into."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Locator, Page

from rejoinder.forms.shape import text


def field_of(page: Page, name: str) -> Locator:
    spelled = name.replace("\\", "\\\\").replace('"', '\\"')
    return page.locator(f'.field[data-field="{spelled}"]')


async def enter(field: Locator, value: Any) -> None:
    """Enter one value into a shown field."""
    match await field.get_attribute("data-kind"):
        case "radios" | "boolean":
            await field.locator(f"input[value={quoted(text(value))}]").check()
        case "checkbox":
            await field.locator("input[type=checkbox]").set_checked(value)
        case "checkboxes":
            for one in await field.locator("input").all():
                await one.set_checked(await one.get_attribute("value") in [text(each) for each in value])
        case "select":
            await field.locator("select").select_option(text(value))
        case "lines":
            await field.locator("textarea").fill("\n".join(value))
        case "entries":
            for number, each in enumerate(value):
                await field.locator("input").nth(number).fill(each)
        case _:
            await field.locator("input:not([type=hidden]), textarea").first.fill(value)


async def fill(page: Page, typed: list[list[Any]]) -> None:
    """Enter everything in order, turning the form's pages where a field is on a later one."""
    for name, value in typed:
        field = field_of(page, name)
        if await field.is_hidden() and await has_pages(page):
            await press(page)
        if await field.is_visible():
            await enter(field, value)


async def press(page: Page) -> None:
    """The button that leads on, and the page that comes of it, where one does."""
    await page.locator(".send button.primary").last.click()
    await page.wait_for_load_state("load")


async def has_pages(page: Page) -> bool:
    return bool(await page.locator(".form input[name=step]").count() > 0)


async def is_last(page: Page) -> bool:
    return bool(await page.locator(".send button.primary").last.get_attribute("value") == "send")


def quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
