"""A browser without scripts: it keeps a cookie, follows redirects, fills forms in as they stand and presses buttons."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin

import httpx2

from rejoinder.contract.identity import GRANTS, LOCAL_OWNER, Grant
from rejoinder.doors.app import create_app
from rejoinder.node import Node

ORIGIN = "http://localhost"
VOID = frozenset(("input", "br", "img", "meta", "link", "hr", "use", "path"))


class Element:
    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element | str] = []

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag: str | None = None, **attributes: str) -> list[Element]:
        """Every element below with this tag and these attributes (``class_`` and ``data_id`` for those names)."""
        found = []
        for child in self.children:
            if isinstance(child, str):
                continue
            if (tag is None or child.tag == tag) and all(
                child.attributes.get(name.rstrip("_").replace("_", "-")) == value
                for name, value in attributes.items()
            ):
                found.append(child)
            found += child.all(tag, **attributes)
        return found

    def one(self, tag: str | None = None, **attributes: str) -> Element:
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} elements are {tag} {attributes}"
        return found[0]


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#root", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        for index in range(len(self._open) - 1, 0, -1):
            if self._open[index].tag == tag:
                del self._open[index:]
                return

    def handle_data(self, data: str) -> None:
        if self._open[-1].tag == "textarea" and not self._open[-1].children:
            data = data.removeprefix("\n")
        self._open[-1].children.append(data)


def parse(html: str) -> Element:
    tree = _Tree()
    tree.feed(html)
    tree.close()
    return tree.root


class Page:
    def __init__(self, browser: Browser, response: httpx2.Response) -> None:
        self._browser = browser
        self.response = response
        self.status = response.status_code
        self.url = str(response.url)
        self.path = response.url.path
        self.html = response.text
        self.tree = parse(self.html)

    @property
    def text(self) -> str:
        """What a reader sees, with runs of blanks as one."""
        return " ".join(self.tree.one("main").text.split())

    def form(self, action: str | None = None) -> Form:
        """The form whose address ends so (before its query)."""
        found = [
            one
            for one in self.tree.all("form", method="post")
            if action is None or one.get("action").partition("?")[0].endswith(action)
        ]
        assert len(found) == 1, f"{len(found)} forms go to {action}"
        return Form(self, found[0])

    @property
    def answer_form(self) -> Form:
        return self.form("/answer")


class Form:
    """A form as the page shows it; ``fill`` types into it, ``press`` sends it."""

    def __init__(self, page: Page, element: Element) -> None:
        self._page = page
        self.element = element
        self.pairs: list[tuple[str, str]] = []
        for control in element.all():
            name = control.get("name")
            if not name:
                continue
            if control.tag == "textarea":
                self.pairs.append((name, control.text))
            elif control.tag == "select":
                options = control.all("option")
                chosen = [one for one in options if "selected" in one.attributes] or options[:1]
                self.pairs += [(name, one.get("value")) for one in chosen]
            elif control.tag == "input":
                kind = control.get("type", "text")
                if kind not in ("radio", "checkbox") or "checked" in control.attributes:
                    self.pairs.append((name, control.get("value")))

    def label(self, text: str) -> str:
        """The name of the control with this label."""
        for one in self.element.all("label"):
            if " ".join(one.text.split()).startswith(text):
                for control in self.element.all(id=one.get("for")):
                    return control.get("name")
        raise AssertionError(f"no control is labelled {text!r}")

    def legend(self, text: str) -> str:
        """The name of the choices under this legend."""
        for one in self.element.all("fieldset"):
            if " ".join(one.all("legend")[0].text.split()).startswith(text):
                return one.all("input")[0].get("name")
        raise AssertionError(f"no choices are under {text!r}")

    def fill(self, values: Mapping[str, str | list[str]]) -> Form:
        for name, value in values.items():
            self.pairs = [pair for pair in self.pairs if pair[0] != name]
            self.pairs += [(name, one) for one in ([value] if isinstance(value, str) else value)]
        return self

    def button(self, text: str) -> Element:
        for one in self.element.all("button"):
            if " ".join(one.text.split()).startswith(text):
                return one
        raise AssertionError(f"no button says {text!r}")

    async def press(self, text: str | None = None) -> Page:
        """Presses the button that begins so; None is the Enter key: the first button."""
        button = self.button(text) if text else self.element.all("button")[0]
        pairs = list(self.pairs)
        if button.get("name"):
            pairs.append((button.get("name"), button.get("value")))
        return await self._page._browser.post(self.element.get("action"), pairs, at=self._page.url)


class Browser:
    def __init__(self, node: Node) -> None:
        transport = httpx2.ASGITransport(create_app(node), client=("127.0.0.1", 50000))
        self.http = httpx2.AsyncClient(transport=transport, base_url=ORIGIN, follow_redirects=True)

    async def get(self, path: str, **given: Any) -> Page:
        return Page(self, await self.http.get(path, **given))

    async def post(self, path: str, pairs: list[tuple[str, str]], *, at: str = ORIGIN) -> Page:
        # As a browser does: line breaks go as CRLF.
        sent = [(name, value.replace("\r\n", "\n").replace("\n", "\r\n")) for name, value in pairs]
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": ORIGIN,
            "sec-fetch-site": "same-origin",
        }
        url = urljoin(at, path) if path else at
        return Page(self, await self.http.post(url, content=urlencode(sent), headers=headers))

    async def sign_in(self, key: str) -> Page:
        page = await self.get("/sign-in")
        return await page.form().fill({"key": key}).press("Sign in")


async def key_of(
    node: Node, name: str, grants: tuple[Grant, ...] = ("read", "write"), owner: str | None = None
) -> str:
    _, secret = await node.access.create_key(name=name, grants=list(grants), owner=owner, by=LOCAL_OWNER)
    return secret


@asynccontextmanager
async def signed_in(
    node: Node, name: str = "ann", grants: tuple[Grant, ...] = GRANTS, owner: str | None = None
) -> AsyncIterator[Browser]:
    """A browser that is signed in under this name."""
    browser = Browser(node)
    async with browser.http:
        await browser.sign_in(await key_of(node, name, grants, owner))
        yield browser
