"""ask_external: what composes it, what it takes, and that nobody who calls it can touch how the answer is proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rejoinder import tool
from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.manifest import Registry, load_manifest
from rejoinder.runs.tools import Tool
from rejoinder.tools.ask_external import ask_external
from rejoinder.verifiers.registry import Verifiers
from tests.integration.external.outside import GOOD, SCHEMA, SHARED, Outside, outside, proof, result

TOOLS = """
from rejoinder import tool

@tool(title="Ask for a signature", idempotent=True)
async def request_signature(callback_url: str, reference: str, pages: int = 1) -> str:
    \"\"\"Make a document to sign.\"\"\"
    return f"https://sign.example/{reference}/{pages}?cb={callback_url}"

@tool
def plainly(callback_url: str) -> str:
    return "https://sign.example/?cb=" + callback_url

@tool
async def other() -> str:
    return "other"
"""
ATTACHED = """
extensions_modules: [rejoinder.tools.ask_external]
tools:
  - module: ./signing.py
    include: [other]
    extensions:
      request_signature:
        - - name: ask_external
            config:
              verifier: {verifier: shared_secret, config: {header: X-Bridge, secret_env: BRIDGE_SECRET}}
      plainly: [[ask_external]]
"""


def manifest(folder: Path, text: str) -> Registry:
    (folder / "signing.py").write_text(TOOLS)
    (folder / "verifying.py").write_text(VERIFYING)
    path = folder / "manifest.yaml"
    path.write_text(text)
    return load_manifest(path)


VERIFYING = """
from rejoinder import FreshnessWindow, VerificationFailedError, Verifier

class Acme(Verifier):
    name = "acme"
    async def verify(self, raw, headers, config):
        if headers.get("x-acme") != "good":
            raise VerificationFailedError()
    def replay_defense(self, raw, headers, config):
        return FreshnessWindow(60)

acme = Acme()
"""


def test_the_attachment_composes_and_loading_alone_does_not(tmp_path: Path) -> None:
    names = {one.tool.name for one in manifest(tmp_path, ATTACHED)}
    assert names == {"other", "request_signature_ask_external", "plainly_ask_external"}
    alone = ATTACHED[: ATTACHED.index("    extensions:")]
    assert {one.tool.name for one in manifest(tmp_path, alone)} == {"other"}


def test_the_builder_itself_may_stay_hidden(tmp_path: Path) -> None:
    names = {one.tool.name for one in manifest(tmp_path, ATTACHED.replace("[other]", "[]"))}
    assert names == {"request_signature_ask_external", "plainly_ask_external"}


def test_what_the_composed_tool_takes(tmp_path: Path) -> None:
    composed = manifest(tmp_path, ATTACHED).get("request_signature_ask_external")
    taken = composed.input_schema["properties"]
    assert set(taken) == {"reference", "pages", "question", "answer_schema", "timeout"}
    assert set(composed.input_schema["required"]) == {"reference", "question"}
    assert taken["pages"] == {"default": 1, "title": "Pages", "type": "integer"} | {
        "title": taken["pages"]["title"]
    }
    assert composed.title == "Ask for a signature"
    assert composed.idempotent
    assert "Make a document to sign." in composed.description
    shown = str(composed.input_schema) + composed.description
    for secret in ("X-Bridge", "BRIDGE_SECRET", "shared_secret", "callback_url", "verifier"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("ask_external]", "no_such]"), "no_such cannot be imported"),
        (("rejoinder.tools.ask_external]", "json]"), r"extensions_modules\[0\]: json defines no extension"),
        (("[rejoinder.tools.ask_external]", "rejoinder.tools.ask_external"), "extensions_modules must be a list"),
        (("plainly: [[ask_external]]", "plainly: [[nothing]]"), r"plainly\[0\]\[0\]: no module .* has an extension named nothing"),
        (("plainly: [[ask_external]]", "nobody: [[ask_external]]"), "extensions.nobody: the module has no tool"),
        (("plainly: [[ask_external]]", "plainly: [ask_external]"), r"plainly\[0\] must be a list"),
        (("plainly: [[ask_external]]", "plainly: []"), "plainly must be a list of lists"),
        (("plainly: [[ask_external]]", "plainly: [[7]]"), "must be an extension's name"),
        (("plainly: [[ask_external]]", "plainly: [[{name: ask_external, more: 1}]]"), "must be an extension's name"),
        (("plainly: [[ask_external]]", "plainly: [[{name: ask_external, config: 1}]]"), "config must be an object"),
        (("plainly: [[ask_external]]", "plainly: [[{name: ask_external, config: {secret: s}}]]"), "no config named secret"),
        (("plainly: [[ask_external]]", "plainly: [[{name: ask_external, config: {verifier: stripe}}]]"), "verifier must be an object"),
        (("plainly: [[ask_external]]", "plainly: [[{name: ask_external, config: {verifier: {verifier: stripe}}}]]"), "secret_env must be"),
        (("plainly: [[ask_external]]", "other: [[ask_external]]"), "other must take callback_url"),
        (("plainly: [[ask_external]]", "plainly: [[ask_external, ask_external]]"), "plainly_ask_external must take callback_url"),
        (("plainly: [[ask_external]]", "plainly: [[ask_external], [ask_external]]"), "two tools named plainly_ask_external"),
        (("tools:", "webhook_verifier_modules: [json]\ntools:"), "json defines no webhook verifier"),
        (("tools:", "webhook_verifier_modules: [./verifying.py, ./verifying.py]\ntools:"), None),
    ],
)  # fmt: skip
def test_manifests_that_cannot_be_used(tmp_path: Path, change: tuple[str, str], told: str | None) -> None:
    text = ATTACHED.replace(*change)
    assert text != ATTACHED
    if told is None:
        assert "acme" in manifest(tmp_path, text).verifiers.names()
        return
    with pytest.raises(ConfigurationError, match=told):
        manifest(tmp_path, text)


def named(taken: str) -> Tool:
    scope: dict[str, Any] = {}
    exec(f"def builder({taken}):\n    return callback_url", scope)
    return tool(scope["builder"])


@pytest.mark.parametrize(
    "taken", ["callback_url, question", "callback_url, *, answer_schema=None", "timeout, callback_url", "url"]
)
def test_signatures_that_cannot_be_wrapped(taken: str) -> None:
    with pytest.raises(ConfigurationError, match="must"):
        ask_external.compose(named(taken), {}, Verifiers())


@pytest.mark.parametrize("taken", ["callback_url, /", "callback_url, *rest", "callback_url, **rest"])
def test_signatures_that_are_no_tools(taken: str) -> None:
    with pytest.raises(ConfigurationError):
        named(taken)


# Called


async def test_it_waits_for_the_outside_system(database_url: str, tmp_path: Path, secret: None) -> None:
    registry = manifest(tmp_path, ATTACHED)
    async with outside(database_url, *(one.tool for one in registry)) as (e, _):
        arguments = {"reference": "c-7", "question": "Sign it?", "answer_schema": SCHEMA}
        asked = await e.call("request_signature_ask_external", arguments)
        url = (await e.owner.post(f"/api/interactions/{asked.id}/open")).json()["data"]["url"]
        assert url.startswith("https://sign.example/c-7/1?cb=https://ask.example.org/api/")
        path = url.partition("https://ask.example.org")[2]
        async with e.anonymous() as client:
            assert (await client.post(path, json=GOOD)).status_code == 401
            assert (await client.post(path, json={"decision": "no"}, headers=proof())).status_code == 400
            assert await e.state(asked.id) == "pending"
            assert (await client.post(path, json=GOOD, headers=proof())).status_code == 200
        assert await result(asked) == GOOD


async def test_a_plain_function_is_wrapped_too(database_url: str, tmp_path: Path) -> None:
    registry = manifest(tmp_path, ATTACHED)
    async with outside(database_url, *(one.tool for one in registry)) as (e, _):
        asked = await e.call("plainly_ask_external", {"question": "Sign it?", "timeout": 5})
        url = (await e.owner.post(f"/api/interactions/{asked.id}/open")).json()["data"]["url"]
        async with e.anonymous() as client:
            await client.post(url.partition("https://ask.example.org")[2], json={"any": 1})
        assert await result(asked) == {"any": 1}


async def test_a_caller_cannot_touch_how_it_is_proven(database_url: str, tmp_path: Path) -> None:
    registry = manifest(tmp_path, ATTACHED)
    extras: list[dict[str, Any]] = [
        {"verifier": None},
        {"verifier": SHARED},
        {"config": {}},
        {"link": "x"},
        {"callback_url": "https://evil.example"},
    ]
    async with outside(database_url, *(one.tool for one in registry)) as (e, _):
        for extra in extras:
            arguments = {"reference": "c-7", "question": "?"} | extra
            call = {"tool_name": "request_signature_ask_external", "arguments": arguments}
            reply = await e.owner.post("/api/run-tool", json=call)
            assert reply.status_code == 400
            assert reply.json()["field"] == next(iter(extra))
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_an_unknown_verifier_is_refused_when_it_asks(database_url: str) -> None:
    system = Outside()
    made = ask_external.compose(
        tool(name="build")(system.page), {"verifier": {"verifier": "nobody"}}, Verifiers()
    )
    async with outside(database_url, made) as (e, _):
        reply = await e.owner.post(
            "/api/run-tool", json={"tool_name": "build_ask_external", "arguments": {"question": "?"}}
        )
        assert (reply.status_code, reply.json()["field"]) == (400, "verifier")
        assert system.urls == []


async def test_a_tool_that_returns_no_address(database_url: str) -> None:
    @tool
    async def build(callback_url: str) -> dict[str, str]:
        return {"url": callback_url}

    made = ask_external.compose(build, {}, Verifiers())
    async with outside(database_url, made) as (e, _):
        reply = await e.owner.post(
            "/api/run-tool", json={"tool_name": "build_ask_external", "arguments": {"question": "?"}}
        )
        assert reply.status_code == 500
        assert "must return the address" in reply.json()["error"]


async def test_a_verifier_of_ones_own(database_url: str, tmp_path: Path) -> None:
    text = ATTACHED.replace("tools:", "webhook_verifier_modules: [./verifying.py]\ntools:").replace(
        "{verifier: shared_secret, config: {header: X-Bridge, secret_env: BRIDGE_SECRET}}", "{verifier: acme}"
    )
    registry = manifest(tmp_path, text)
    async with outside(database_url, *(one.tool for one in registry)) as (e, _):
        e.node.asks.verifiers.add(registry.verifiers.get("acme"))  # type: ignore[arg-type]
        asked = await e.call("request_signature_ask_external", {"reference": "a", "question": "?"})
        url = (await e.owner.post(f"/api/interactions/{asked.id}/open")).json()["data"]["url"]
        path = url.partition("https://ask.example.org")[2]
        async with e.anonymous() as client:
            assert (await client.post(path, json=GOOD, headers={"x-acme": "bad"})).status_code == 401
            assert (await client.post(path, json=GOOD, headers={"x-acme": "good"})).status_code == 200
        assert await result(asked) == GOOD
        names = (await e.owner.get("/api/hooks/verifiers")).json()["data"]["items"]
        assert [one["name"] for one in names] == [
            "acme",
            "github",
            "shared_secret",
            "standard_webhooks",
            "stripe",
        ]
