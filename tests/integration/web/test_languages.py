"""The pages speak their reader's language: the one asked for, the browser's, or the deployment's."""

from __future__ import annotations

import pytest

from tests.integration.nodes import running
from tests.integration.web.asking import asked
from tests.integration.web.browser import Browser, key_of, signed_in

FORM = {
    "type": "object",
    "required": ["mail", "kind"],
    "properties": {
        "mail": {"type": "string", "format": "email", "title": "E-Mail"},
        "kind": {"type": "boolean", "title": "Art"},
    },
}


async def test_the_browsers_wish_is_followed(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node, "Wann?") as one:
        page = await browser.get(one.path, headers={"accept-language": "de-AT,de;q=0.9,en;q=0.5"})
        assert page.tree.one("html").get("lang") == "de"
        assert "Antwort bis " in page.text
        assert page.answer_form.button("Antwort senden")
        assert '"{count} Minuten"' in page.tree.one("html").get("data-words")
        page = await browser.get(one.path, headers={"accept-language": "fr, en;q=0.2"})
        assert page.tree.one("html").get("lang") == "en"
        assert "Answer by " in page.text


async def test_a_language_that_was_asked_for_stays(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        page = await browser.get("/inbox?lang=de", headers={"accept-language": "en"})
        assert "Nichts wartet auf eine Antwort." in page.text
        page = await browser.get("/runs", headers={"accept-language": "en"})
        assert page.tree.one("html").get("lang") == "de"
        page = await browser.get("/runs?lang=en")
        assert page.tree.one("html").get("lang") == "en"
        page = await browser.get("/runs?lang=xx%0d%0aset-cookie:a")
        assert page.tree.one("html").get("lang") == "en"


@pytest.mark.parametrize("path", ["/inbox", "/runs", "/audit", "/keys", "/inbox/nothing"])
async def test_every_page_speaks_it(database_url: str, path: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        page = await browser.get(path + "?lang=de")
        assert page.tree.one("html").get("lang") == "de"
        for english in (" the ", "Runs", "Inbox", "Keys", "Nothing", " is "):
            assert english not in f" {page.text} "


async def test_faults_are_told_in_it_and_the_doors_stay_english(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="form", schema=FORM) as one,
    ):
        form = (await browser.get(one.path + "?lang=de")).answer_form
        page = await form.fill({form.label("E-Mail"): "x"}).press()
        assert page.status == 422
        faults = page.tree.one("div", id="faults").text
        assert "Es gibt 2 Probleme" in faults
        assert "E-Mail: Geben Sie eine gültige E-Mail-Adresse ein" in faults
        assert "Art: Dieses Feld muss ausgefüllt werden" in faults
        key = await key_of(node, "bob")
        response = await browser.http.post(
            f"/api/interactions/{one.question.id}/answer",
            json={"answer": {"mail": "x"}},
            headers={"authorization": f"Bearer {key}", "accept-language": "de"},
        )
        assert response.json()["errors"] == {
            "mail": "Enter a valid email address",
            "kind": "This field is required",
        }


async def test_the_deployments_language_is_the_last_word(database_url: str) -> None:
    async with running(database_url, rejoinder_language="de") as node:
        browser = Browser(node)
        async with browser.http:
            assert "Anmelden" in (await browser.get("/sign-in")).text
            page = await browser.get("/sign-in", headers={"accept-language": "en"})
            assert "Sign in" in page.text
            page = await browser.get("/sign-in")
            page = await page.form().fill({"key": "rjk_wrong"}).press("Anmelden")
            assert page.tree.one("html").get("lang") == "de"
            assert "Dieser Schlüssel ist hier nicht bekannt" in page.text
