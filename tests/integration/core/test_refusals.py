"""Every way to ask wrongly: refused by the parameter's name, and nothing is stored."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rejoinder.contract.errors import (
    AskArgumentError,
    CrossIdentityAudienceError,
    InteractionAlreadyAnsweredError,
    InteractionNotFoundError,
    NoRunError,
    SuspensionError,
    WrongAudienceError,
)
from rejoinder.contract.identity import Identity
from rejoinder.node import Node
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.core.support import assert_sound, in_an_hour, the_question
from tests.integration.nodes import ANN, BOB, running
from tests.support import assert_eventually

RESTRICTED = Identity(name="kit", grants=frozenset(("read", "write")), restricted=True)
SOON = datetime.now(UTC) + timedelta(hours=5)
ASYNC: dict[str, Any] = {"mode": "async", "expiry_at": SOON}
NESTED: dict[str, Any] = {"type": "object"}
for _ in range(200):
    NESTED = {"type": "object", "properties": {"a": NESTED}}

#: what was given besides a question, and the field that the refusal names
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"question": ""}, "question"),
    ({"question": " \n\t"}, "question"),
    ({"question": "x" * 8_193}, "question"),
    ({"question": "nul \x00"}, "question"),
    ({"question": "lone \ud800"}, "question"),
    ({"question": 5}, "question"),
    ({"question": None}, "question"),
    ({"answer_format": "free"}, "answer_format"),
    ({"answer_format": "external"}, "link"),
    ({"answer_format": "text\x00\ud800"}, "answer_format"),
    ({"answer_format": None}, "answer_format"),
    ({"answer_format": ["text"]}, "answer_format"),
    ({"answer_format": {"text": 1}}, "answer_format"),
    ({"answer_format": "select"}, "options"),
    ({"answer_format": "select", "options": []}, "options"),
    ({"answer_format": "select", "options": "ab"}, "options"),
    ({"answer_format": "select", "options": {"a": 1}}, "options"),
    ({"answer_format": "select", "options": ["a", "a"]}, "options"),
    ({"answer_format": "select", "options": ["a", ""]}, "options[1]"),
    ({"answer_format": "select", "options": ["a", 2]}, "options[1]"),
    ({"answer_format": "select", "options": ["a\x00"]}, "options[0]"),
    ({"answer_format": "select", "options": ["a" * 1_001]}, "options[0]"),
    ({"answer_format": "select", "options": [str(i) for i in range(201)]}, "options"),
    ({"answer_format": "confirm", "options": ["a"]}, "options"),
    ({"answer_format": "form", "options": ["a"], "schema": {"type": "object"}}, "options"),
    ({"answer_format": "text", "schema": {"type": "object"}}, "schema"),
    ({"answer_format": "confirm", "schema": {"type": "object"}}, "schema"),
    ({"answer_format": "form"}, "schema"),
    ({"answer_format": "form", "schema": []}, "schema"),
    ({"answer_format": "form", "schema": "object"}, "schema"),
    ({"answer_format": "form", "schema": {"type": "array"}}, "schema"),
    ({"answer_format": "form", "schema": {"type": "objekt"}}, "schema"),
    ({"answer_format": "form", "schema": {"$ref": "http://169.254.169.254/"}}, "schema"),
    ({"answer_format": "form", "schema": {"$ref": "file:///etc/passwd"}}, "schema"),
    ({"answer_format": "form", "schema": NESTED}, "schema"),
    ({"group_id": ""}, "group_id"),
    ({"group_id": "g" * 201}, "group_id"),
    ({"group_id": "g\x00"}, "group_id"),
    ({"group_id": 7}, "group_id"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": -1}, "timeout"),
    ({"timeout": float("nan")}, "timeout"),
    ({"timeout": float("inf")}, "timeout"),
    ({"timeout": 10**9}, "timeout"),
    ({"timeout": 10**400}, "timeout"),
    ({"timeout": "5"}, "timeout"),
    ({"timeout": True}, "timeout"),
    ({"timeout": 5, "expiry_at": SOON}, "timeout"),
    ({"timeout": 5, **ASYNC}, "timeout"),
    ({"timeout": 5, "mode": "async"}, "timeout"),
    ({"expiry_at": SOON}, "expiry_at"),
    ({"mode": "async"}, "expiry_at"),
    ({"mode": "async", "expiry_at": SOON.replace(tzinfo=None)}, "expiry_at"),
    ({"mode": "async", "expiry_at": "2030-01-31T09:00:00"}, "expiry_at"),
    ({"mode": "async", "expiry_at": "tomorrow"}, "expiry_at"),
    ({"mode": "async", "expiry_at": 1_900_000_000}, "expiry_at"),
    ({"mode": "async", "expiry_at": datetime(1, 1, 1, tzinfo=UTC)}, "expiry_at"),
    ({"mode": "async", "expiry_at": datetime(9999, 12, 31, tzinfo=UTC)}, "expiry_at"),
    ({"mode": "async", "expiry_at": datetime.now(UTC) - timedelta(seconds=1)}, "expiry_at"),
    ({"mode": "later"}, "mode"),
    ({"mode": None}, "mode"),
    ({"mode": ["async"]}, "mode"),
    ({"on_expiry": "resume"}, "on_expiry"),
    ({"on_expiry": "later", **ASYNC}, "on_expiry"),
    ({"on_expiry": None, **ASYNC}, "on_expiry"),
    ({"on_expiry": ["kill"], **ASYNC}, "on_expiry"),
    ({"audience": ""}, "audience"),
    ({"audience": " "}, "audience"),
    ({"audience": "a" * 201}, "audience"),
    ({"audience": 3}, "audience"),
    ({"audience": "\udfff"}, "audience"),
    ({"sensitive": "yes"}, "sensitive"),
    ({"sensitive": 1}, "sensitive"),
    ({"sensitive": True, **ASYNC}, "sensitive"),
    ({"media": []}, "media"),
    ({"media": "https://example.org/a.png"}, "media"),
    ({"media": [{"kind": "link", "url": "https://example.org"}] * 51}, "media"),
    ({"media": ["https://example.org/a.png"]}, "media[0]"),
    ({"media": [{"kind": "image"}]}, "media[0].url"),
    ({"media": [{"kind": "picture", "url": "https://example.org"}]}, "media[0].kind"),
    ({"media": [{"kind": ["image"], "url": "https://example.org"}]}, "media[0].kind"),
    ({"media": [{"kind": "image", "url": "http://example.org/a.png"}]}, "media[0].url"),
    ({"media": [{"kind": "image", "url": "https://u:p@example.org/a.png"}]}, "media[0].url"),
    ({"media": [{"kind": "image", "url": "https://exämple.org/a.png"}]}, "media[0].url"),
    ({"media": [{"kind": "image", "url": "https://example.org/a\nb"}]}, "media[0].url"),
    ({"media": [{"kind": "link", "url": "javascript:alert(1)"}]}, "media[0].url"),
    ({"media": [{"kind": "link", "url": "//example.org"}]}, "media[0].url"),
    ({"media": [{"kind": "link", "url": "https://example.org/\ud800"}]}, "media[0].url"),
    ({"media": [{"kind": "image", "url": "data:image/svg+xml;base64,AAAA"}]}, "media[0].url"),
    ({"media": [{"kind": "image", "url": "data:text/html;base64,AAAA"}]}, "media[0].url"),
    ({"media": [{"kind": "image", "url": "data:image/png;base64,A"}]}, "media[0].url"),
    ({"media": [{"kind": "image", "url": "data:image/png;base64,"}]}, "media[0].url"),
    ({"media": [{"kind": "document", "url": "data:image/png;base64,AAAA"}]}, "media[0].url"),
    ({"media": [{"kind": "link", "url": "https://example.org", "caption": "c" * 1_001}]}, "media[0].caption"),
    ({"media": [{"kind": "link", "url": "https://example.org", "caption": "\x00"}]}, "media[0].caption"),
    ({"media": [{"kind": "link", "url": "https://example.org", "filename": "a"}]}, "media[0].filename"),
    ({"media": [{"kind": "link", "url": "https://example.org", "size": 1}]}, "media[0]"),
    ({"media": [{"kind": "link", "url": "https://example.org/" + "u" * 8_200}]}, "media[0].url"),
]


def _name(case: tuple[dict[str, Any], str]) -> str:
    return f"{case[1]}-{ascii(case[0])[:40]}"


async def ask_in(node: Node, given: dict[str, Any], by: Identity = ANN) -> Any:
    """What ``ask`` raises inside a tool."""
    caught: list[BaseException] = []

    @tool(name=f"asks_{len(node.registry)}")
    async def asks() -> Any:
        arguments = dict(given)
        try:
            return await ask(arguments.pop("question", "?"), **arguments)
        except BaseException as error:
            caught.append(error)
            raise

    @asks.continuation
    async def go_on(ask_result: Any) -> Any:
        return ask_result

    node.registry.add(asks)
    call = asyncio.create_task(node.run_service.call(asks.name, {}, by=by, door="test"))

    async def taken() -> bool:
        return call.done() or bool(await node.asks.page(by=ANN, limit=1))

    # Where a wrong ask is taken after all, its question shows it.
    await assert_eventually(taken, f"neither refused nor taken: {given}")
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    return caught[0] if caught else None


async def test_each_wrong_ask_names_its_parameter_and_stores_nothing(database_url: str) -> None:
    wrong: list[str] = []
    async with running(database_url) as node:
        for case in WRONG:
            given, field = case
            error = await ask_in(node, given)
            if not isinstance(error, AskArgumentError) or error.field != field or error.status != 400:
                wrong.append(f"{_name(case)}: {type(error).__name__} {getattr(error, 'field', '')} {error}")
        assert not wrong, "\n".join(wrong)
        for table in ("run", "question", "park", "resume"):
            assert await node.database.value(f"SELECT count(*) FROM rejoinder.{table}") == 0
        # Each is in the audit trail by its parameter, and nothing of what was given is.
        trail = await node.database.rows(
            "SELECT reason, detail FROM rejoinder.event WHERE kind = 'ask.refused' ORDER BY seq"
        )
        assert [row["detail"]["field"] for row in trail] == [field for _, field in WRONG]
        assert {tuple(row["detail"]) for row in trail} == {("tool", "field")}
        await assert_sound(database_url)


async def test_a_restricted_identity_asks_itself_only(database_url: str) -> None:
    async with running(database_url) as node:
        error = await ask_in(node, {"audience": "ann"}, by=RESTRICTED)
        assert isinstance(error, CrossIdentityAudienceError)
        assert (error.status, error.field) == (403, "audience")
        call = asyncio.create_task(
            node.run_service.call("ask", {"question": "?"}, by=RESTRICTED, door="test")
        )
        question = await the_question(node)
        assert question.audience == "kit"
        await node.asks.answer(question.id, "x", by=RESTRICTED, via="test")
        await call


async def test_without_a_continuation_nothing_is_parked(database_url: str) -> None:
    @tool
    async def plain() -> Any:
        return await ask("?", mode="async", expiry_at=in_an_hour())

    async with running(database_url, plain) as node:
        with pytest.raises(SuspensionError):
            await node.run_service.call("plain", {}, by=ANN, door="test")
        assert await node.database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_outside_a_run_nothing_is_asked(database_url: str) -> None:
    with pytest.raises(NoRunError):
        await ask("?")


@pytest.mark.parametrize("by", [RESTRICTED, BOB])
async def test_who_may_answer_what(database_url: str, by: Identity) -> None:
    """A restricted identity neither sees nor answers what is not addressed to it; losers learn who was faster."""
    async with running(database_url) as node:
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        question = await the_question(node)
        if by.restricted:
            assert await node.asks.page(by=by, limit=10) == []
            with pytest.raises(InteractionNotFoundError):
                await node.asks.get(question.id, by=by)
            with pytest.raises(WrongAudienceError):
                await node.asks.answer(question.id, "x", by=by, via="test")
            with pytest.raises(WrongAudienceError):
                await node.asks.cancel(question.id, by=by, via="test")
        await node.asks.answer(question.id, "x", by=BOB, via="test")
        with pytest.raises(InteractionAlreadyAnsweredError) as lost:
            await node.asks.answer(question.id, "y", by=ANN, via="test")
        assert (lost.value.by, lost.value.answer, lost.value.status) == ("bob", "x", 409)
        assert lost.value.at is not None
        await call
