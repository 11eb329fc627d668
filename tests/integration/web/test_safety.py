"""Who may come in, from where, what they may see, and that what others wrote stays text."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from rejoinder.contract.identity import Identity
from rejoinder.node import Node
from tests.integration.nodes import BOB, running
from tests.integration.web.asking import asked
from tests.integration.web.browser import ORIGIN, Browser, key_of, parse, signed_in

FORM = {"content-type": "application/x-www-form-urlencoded"}
SAME = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}


DIGEST = "SELECT md5(coalesce(string_agg(x::text, '|' ORDER BY x::text), '')) FROM rejoinder.{} x"


async def contents(node: Node) -> dict[str, str]:
    """What every table holds, as one digest each; but for who is alive and how often somebody knocked."""
    tables = await node.database.rows(
        "SELECT tablename AS t FROM pg_tables WHERE schemaname = 'rejoinder' AND tablename NOT IN ('process', 'flood')"
    )
    return {row["t"]: str(await node.database.value(DIGEST.format(row["t"]))) for row in tables}


async def test_a_page_sends_strangers_to_the_sign_in_and_back(database_url: str) -> None:
    async with running(database_url) as node, asked(node, "Hidden?") as one:
        browser = Browser(node)
        async with browser.http:
            page = await browser.get(one.path)
            assert page.path == "/sign-in"
            assert "Hidden" not in page.html
            page = await page.form().fill({"key": await key_of(node, "ann")}).press("Sign in")
            assert page.path == one.path
            assert "Hidden?" in page.text


@pytest.mark.parametrize(
    "target",
    ["https://evil.example", "//evil.example", "/inbox/../../x", "/inbox\n", "/\\evil.example", "/api/keys"],
)
async def test_a_sign_in_leads_to_no_foreign_page(database_url: str, target: str) -> None:
    async with running(database_url) as node:
        browser = Browser(node)
        async with browser.http:
            key = await key_of(node, "ann")
            page = await browser.get("/sign-in?" + urlencode({"next": target}))
            page = await page.form().fill({"key": key}).press("Sign in")
            assert page.path == "/inbox"


async def test_a_sign_in_link_is_used_up_by_its_button_only(database_url: str) -> None:
    async with running(database_url) as node:
        key = await key_of(node, "ann")
        token = await node.access.create_sign_in(await node.access.identify(key))
        browser = Browser(node)
        async with browser.http:
            before = await contents(node)
            for method in ("GET", "HEAD", "GET"):
                response = await browser.http.request(method, f"/sign-in?token={token}")
                assert response.status_code == 200
                assert token not in response.text
                assert response.headers["referrer-policy"] == "strict-origin"
            assert await contents(node) == before
            page = await browser.get(f"/sign-in?token={token}")
            assert (await page.form().press("Open")).path == "/inbox"
        other = Browser(node)
        async with other.http:
            page = await (await other.get(f"/sign-in?token={token}")).form().press("Open")
            assert page.status == 401
            assert "used already" in page.text
            page = await page.form().fill({"key": key}).press("Sign in")
            assert page.path == "/inbox"


@pytest.mark.parametrize(
    "key", ["", "rjk_", "rjk_" + "x" * 43, "rjc_x", "nonsense", "rjk_\u00e9\u202e", "x" * 5000]
)
async def test_a_wrong_key_is_refused_and_never_echoed(database_url: str, key: str) -> None:
    async with running(database_url) as node:
        browser = Browser(node)
        async with browser.http:
            page = await (await browser.get("/sign-in")).form().fill({"key": key}).press("Sign in")
            assert page.status in (401, 422)
            assert len(key) < 5 or key not in page.html
            assert "set-cookie" not in page.response.headers


async def test_a_sign_in_from_another_site_is_refused(database_url: str) -> None:
    async with running(database_url) as node:
        key = await key_of(node, "ann")
        browser = Browser(node)
        async with browser.http:
            for headers in (
                {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
                {"origin": "null"},
                {"sec-fetch-site": "cross-site"},
                {},
            ):
                response = await browser.http.post(
                    "/sign-in", content=urlencode({"key": key}), headers=FORM | headers
                )
                assert response.status_code == 403
                assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    ("headers", "with_token"),
    [
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, True),
        ({"origin": "http://localhost:81"}, True),
        ({"origin": "null"}, True),
        ({}, True),
        (SAME, False),
    ],
)
async def test_a_foreign_page_can_answer_nothing(
    database_url: str, headers: dict[str, str], with_token: bool
) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="confirm") as one,
    ):
        form = (await browser.get(one.path)).answer_form
        token = dict(form.pairs)["form_token"] if with_token else "wrong"
        before = await contents(node)
        for action in ("answer", "withdraw"):
            response = await browser.http.post(
                f"{one.path}/{action}",
                content=urlencode({"form_token": token, "answer": "true"}),
                headers=FORM | headers,
            )
            assert response.status_code == 403
        assert await contents(node) == before


async def test_reading_changes_nothing(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node) as one:
        paths = [
            "/", "/sign-in", "/inbox", "/inbox/queue", one.path, f"{one.path}/pane", f"{one.path}?done=1", "/runs",
            f"/runs/{one.question.run_id}", "/audit", "/keys", f"{one.path}/answer?answer=true", f"{one.path}/withdraw",
            "/sign-out", f"/runs/{one.question.run_id}/retry", "/keys/revoke?name=ann",
        ]  # fmt: skip
        before = await contents(node)
        for path in paths:
            for method in ("GET", "HEAD"):
                response = await browser.http.request(method, path)
                assert response.status_code in (200, 404, 405), path
        assert await contents(node) == before


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain", ""])
async def test_only_what_a_form_sends_is_taken(database_url: str, kind: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node) as one:
        headers = SAME | ({"content-type": kind} if kind else {})
        response = await browser.http.post(f"{one.path}/answer", content=b"answer=x", headers=headers)
        assert response.status_code == 400
        assert not one.call.done()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"form_token=%ff", 400),
        (b"answer=\xff", 400),
        (b"&".join(b"a=1" for _ in range(6000)), 400),
        (b"answer=" + b"x" * 300_000, 413),
    ],
)
async def test_a_body_that_no_browser_sends_is_refused(database_url: str, body: bytes, status: int) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node) as one:
        response = await browser.http.post(f"{one.path}/answer", content=body, headers=FORM | SAME)
        assert response.status_code == status
        assert not one.call.done()


#: All that our own pages are made of.
TAGS = re.compile(
    "a|article|body|br|button|code|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|form|h1|h2|head|header|html|input|kbd|"
    "label|legend|li|link|main|meta|nav|ol|option|p|pre|script|section|select|span|strong|summary|svg|textarea|time|title|ul|use"
)
HIDDEN = re.compile("[\u0007\u00ad\u200b\u2028\u202a-\u202e\u2066-\u2069]")


def harmless(html: str) -> None:
    """No element, attribute, address or invisible character that we did not put there."""
    for one in parse(html).all():
        assert TAGS.fullmatch(one.tag), one.tag
        assert not any(name.startswith("on") or name in ("style", "srcdoc") for name in one.attributes)
        assert one.tag != "script" or one.get("src").startswith(("/assets/app-", "/assets/form-"))
        assert not one.get("href").lower().startswith(("javascript", "data"))
        assert one.get("href").startswith(("/", "#", "https://x.example/")) or not one.get("href")
        for name in ("alt", "title", "aria-label", "placeholder"):
            assert not HIDDEN.search(one.get(name))
        if one.tag != "textarea":
            assert not any(HIDDEN.search(child) for child in one.children if isinstance(child, str))


EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover=alert(1) x='",
    "{{ 7*7 }}${7*7}{% raw %}",
    "</title></textarea></script><b>",
    "javascript:alert(1)",
    "\u202eevil\u2066\u200b\u0007\u2028\u00ad",
    "<https://evil.example|Approve> *bold* https://evil.example",
]


@pytest.mark.parametrize("evil", EVIL)
async def test_what_others_wrote_stays_text_everywhere(database_url: str, evil: str) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "title": evil,
        "required": [evil],
        "properties": {
            evil: {"type": "string", "title": evil, "description": evil, "default": evil},
            "pick": {"enum": [evil, "b"], "title": evil},
            "rows": {
                "type": "array",
                "title": evil,
                "items": {"type": "object", "title": evil, "properties": {evil: {"type": "string"}}},
            },
        },
    }
    by = Identity(name=evil, grants=frozenset(("read", "write")))
    async with running(database_url) as node, signed_in(node) as browser:
        arguments = {
            "group_id": evil,
            "media": [{"kind": "link", "url": "https://x.example/?<b>", "caption": evil}],
        }
        shown: list[str] = []
        async with asked(node, evil, by=by, answer_format="form", schema=schema, **arguments) as one:
            shown += [
                (await browser.get(path)).html
                for path in ("/inbox", one.path, f"/inbox?q={quote(evil)}", "/audit")
            ]
            page = await (await browser.get(one.path)).answer_form.press("Send")
            shown += [page.html, (await browser.get(f"/runs/{one.question.run_id}")).html]
            assert (await one.result())[evil] == evil
        for form, given in (("select", {"options": [evil, "b"]}), ("text", {"options": [evil]})):
            async with asked(node, evil, by=by, answer_format=form, **given) as one:
                shown.append((await browser.get(one.path)).html)
                await node.asks.answer(one.question.id, evil, by=BOB, via="cli")
                shown.append((await browser.get(one.path)).html)
        for html in shown:
            harmless(html)
            assert "49}" not in html


async def test_every_page_says_what_a_browser_may_do_with_it(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node) as one:
        for path in ("/inbox", one.path, "/runs", "/audit", "/keys", "/sign-in", "/inbox/nothing"):
            headers = (await browser.get(path)).response.headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["referrer-policy"] in ("same-origin", "strict-origin")


async def test_assets_are_kept_for_ever_under_a_name_of_their_content(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        html = (await browser.get("/inbox")).html
        paths = set(re.findall(r"/assets/[\w.-]+", html))
        assert len(paths) == 4
        for path in paths:
            response = await browser.http.get(path)
            assert "immutable" in response.headers["cache-control"]
        assert (await browser.http.get("/assets/app.css")).status_code == 404
        assert (await browser.http.get("/assets/..%2Fpages.py")).status_code == 404


async def test_a_restricted_person_sees_what_is_addressed_to_them(database_url: str) -> None:
    async with running(database_url) as node:
        await key_of(node, "boss")
        async with (
            signed_in(node, "zoe", ("read", "write"), "boss") as browser,
            asked(node, "For anybody?", answer_format="confirm") as other,
            asked(node, "For Zoe?", answer_format="confirm", audience="zoe") as mine,
        ):
            page = await browser.get("/inbox?audience=boss")
            assert "For Zoe?" in page.text
            assert "For anybody?" not in page.html
            assert "(1) " in page.tree.one("title").text
            assert (await browser.get(other.path)).status == 404
            token = dict((await browser.get(mine.path)).answer_form.pairs)["form_token"]
            page = await browser.post(f"{other.path}/answer", [("form_token", token), ("answer", "true")])
            assert page.status == 404
            for path in ("/runs", "/audit"):
                assert "For anybody?" not in (await browser.get(path)).html
            assert (await browser.get(f"/runs/{other.question.run_id}")).status == 403
            assert (await browser.get("/keys")).status == 403
            page = await (await browser.get(mine.path)).answer_form.press("Yes")
            assert "You answered" in page.text
            assert await mine.result() is True
            assert not other.call.done()


async def test_a_reader_is_shown_no_controls_and_has_none(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node, "ray", ("read",)) as browser,
        asked(node, answer_format="confirm") as one,
    ):
        page = await browser.get(one.path)
        assert "may read this question, but not answer it" in page.text
        assert page.tree.all("form", action=f"{one.path}/answer") == []
        token = page.tree.one("input", name="form_token").get("value")
        for action in ("answer", "withdraw"):
            page = await browser.post(f"{one.path}/{action}", [("form_token", token), ("answer", "true")])
            assert page.status == 403
        assert not one.call.done()


async def test_a_revoked_key_ends_its_sessions(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        await node.access.revoke_key(
            "ann", by=(await node.access.identity_of_key((await node.access.keys())[0].id)) or BOB
        )
        assert (await browser.get("/inbox")).path == "/sign-in"


async def test_with_the_gate_off_the_pages_are_open_to_this_machine_only(database_url: str) -> None:
    async with (
        running(database_url, access_control_enable=False) as node,
        asked(node, answer_format="confirm") as one,
    ):
        browser = Browser(node)
        async with browser.http:
            page = await browser.get("/inbox")
            assert "May I?" in page.text
            form = page.answer_form
            body = urlencode([*form.pairs, ("answer", "true")])
            response = await browser.http.post(
                f"{one.path}/answer", content=body, headers=FORM | {"origin": "https://evil.example"}
            )
            assert response.status_code == 403
            assert (await browser.http.get("/inbox", headers={"host": "evil.example"})).status_code == 421
            page = await form.press("Yes")
            assert "You answered" in page.text
            assert await one.result() is True
