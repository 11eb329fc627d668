"""Calls of tools that a person approves first: shown whole, bound by a digest, never run without consent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rejoinder.contract.approvals import call_digest
from rejoinder.contract.errors import (
    AnswerMismatchError,
    ApprovalDeniedError,
    ConfigurationError,
    InteractionTimeoutError,
    RunTerminalFailed,
    ToolArgumentError,
    WrongAudienceError,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.node import Node
from rejoinder.runs.approval import Approval, go_on
from rejoinder.runs.ask import ask
from rejoinder.runs.manifest import load_manifest
from rejoinder.runs.tools import Tool, tool
from tests.integration.core.support import (
    assert_sound,
    in_an_hour,
    open_questions,
    run_reaches,
    the_question,
)
from tests.integration.nodes import ANN, BOB, running
from tests.support import MovableClock


class Payments:
    """A tool that needs approval, and what it has done."""

    def __init__(self, **options: Any) -> None:
        self.paid: list[tuple[int, str, str]] = []

        @tool(requires_approval=True, destructive=True, title="Pay", **options)
        async def pay(amount: int, to: str, note: str = "-") -> str:
            """Pay somebody."""
            self.paid.append((amount, to, note))
            return f"paid {amount}"

        self.tool = pay


def approve(question: Question, **more: Any) -> dict[str, Any]:
    assert question.format_payload is not None
    return {"decision": "approve", "digest": question.format_payload["digest"], **more}


async def call(node: Node, by: Identity = ANN, **arguments: Any) -> Any:
    return (
        await node.run_service.call("pay", {"to": "bob", "amount": 10} | arguments, by=by, door="http")
    ).result


async def test_it_is_shown_whole_and_runs_once_approved(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool) as node:
        calling = asyncio.create_task(call(node))
        question = await the_question(node)
        assert payments.paid == []
        assert question.answer_format == "approval"
        payload = question.format_payload
        assert payload is not None
        # With the defaults of what was left out, in the tool's own order.
        assert list(payload["arguments"].items()) == [("amount", 10), ("to", "bob"), ("note", "-")]
        assert (payload["tool"], payload["title"], payload["destructive"]) == ("pay", "Pay", True)
        assert payload["description"] == "Pay somebody."
        assert payload["digest"] == call_digest("pay", payload["arguments"])
        await node.asks.answer(question.id, approve(question), by=BOB, via="inbox")
        assert await calling == "paid 10"
    assert payments.paid == [(10, "bob", "-")]


async def test_edited_arguments_run_and_no_others(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool) as node:
        calling = asyncio.create_task(call(node))
        question = await the_question(node)
        edited = approve(question, arguments={"amount": 5, "to": "bob", "note": "half"})
        await node.asks.answer(question.id, edited, by=BOB, via="inbox")
        await calling
    assert payments.paid == [(5, "bob", "half")]


@pytest.mark.parametrize(
    ("answer", "told"), [({"reason": "too much"}, "They say: too much"), ({}, "denied by bob")]
)
async def test_denied_it_does_not_run_and_says_why(
    database_url: str, answer: dict[str, Any], told: str
) -> None:
    payments = Payments()
    async with running(database_url, payments.tool, worker=True) as node:
        run_id = await node.run_service.start_background("pay", {"amount": 10, "to": "bob"}, by=ANN)
        question = await the_question(node)
        await node.asks.answer(question.id, {"decision": "deny"} | answer, by=BOB, via="inbox")
        assert await run_reaches(node, run_id, "failed", "succeeded") == "failed"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.error is not None
        assert run.error["code"] == "approval-denied"
        assert told in run.error["error"]
        assert not run.held, "a person meant it: nobody has to look"
    assert payments.paid == []


#: Answers that decide nothing, with the field that is wrong. ``D`` stands for the call's own digest.
UNFIT: list[tuple[Any, str | None]] = [
    (True, None),
    ("approve", None),
    ([], None),
    ({}, "decision"),
    ({"decision": "yes"}, "decision"),
    ({"decision": True}, "decision"),
    ({"decision": "approve"}, "digest"),
    ({"decision": "approve", "digest": "0" * 64}, "digest"),
    ({"decision": "approve", "digest": None}, "digest"),
    ({"decision": "approve", "digest": ["D"]}, "digest"),
    ({"decision": "approve", "digest": "D", "reason": "fine"}, "reason"),
    ({"decision": "approve", "digest": "D", "extra": 1}, "extra"),
    ({"decision": "approve", "digest": "D", "arguments": []}, "arguments"),
    ({"decision": "approve", "digest": "D", "arguments": {}}, "arguments.amount"),
    ({"decision": "approve", "digest": "D", "arguments": {"amount": "ten", "to": "x"}}, "arguments.amount"),
    (
        {"decision": "approve", "digest": "D", "arguments": {"amount": 1, "to": "x", "cc": "y"}},
        "arguments.cc",
    ),
    ({"decision": "deny", "arguments": {}}, "arguments"),
    ({"decision": "deny", "digest": "0" * 64}, "digest"),
    ({"decision": "deny", "reason": 5}, "reason"),
    ({"decision": "deny", "reason": "x" * 2_001}, "reason"),
    ({"decision": "deny", "reason": "\x00"}, None),
]


async def test_an_answer_that_does_not_fit_decides_nothing(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool) as node:
        calling = asyncio.create_task(call(node))
        question = await the_question(node)
        for answer, field in UNFIT:
            if isinstance(answer, dict) and answer.get("digest") == "D":
                answer = approve(question) | {k: v for k, v in answer.items() if k != "digest"}
            with pytest.raises(AnswerMismatchError) as refused:
                await node.asks.answer(question.id, answer, by=BOB, via="inbox")
            assert refused.value.field == field, answer
        assert (await the_question(node)).state == "pending"
        await node.asks.answer(question.id, approve(question), by=BOB, via="inbox")
        await calling
    assert len(payments.paid) == 1


async def test_models_do_not_approve_their_own_calls(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool) as node:
        owned = Identity(name="agent", grants=frozenset(("read", "write")), restricted=True)
        calling = asyncio.create_task(call(node, by=owned))
        question = await the_question(node)
        assert question.audience is None, "a restricted caller was asked itself"
        for by, via in [(owned, "http"), (owned, "mcp"), (ANN, "mcp"), (ANN, "tool")]:
            with pytest.raises(WrongAudienceError):
                await node.asks.answer(question.id, approve(question), by=by, via=via)
        resolving = {"interaction_id": str(question.id), "payload": approve(question)}
        with pytest.raises(WrongAudienceError):
            await node.run_service.call("resume_parked", resolving, by=ANN, door="mcp")
        assert payments.paid == []
        await node.asks.answer(question.id, approve(question), by=ANN, via="inbox")
        await calling


async def test_twenty_decide_at_once_and_one_counts(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool) as node:
        calling = asyncio.create_task(call(node))
        question = await the_question(node)
        answers = [approve(question), {"decision": "deny"}] * 10
        racing = (
            node.asks.answer(question.id, one, by=Identity(f"p{i}", frozenset(("write",))), via="inbox")
            for i, one in enumerate(answers)
        )
        outcomes = await asyncio.gather(*racing, return_exceptions=True)
        assert sum(1 for one in outcomes if not isinstance(one, BaseException)) == 1
        await asyncio.gather(calling, return_exceptions=True)
        won = await node.questions.by_id(question.id)
        assert won is not None
        assert len(payments.paid) == (1 if won.answer["decision"] == "approve" else 0)


async def test_silence_is_no_consent(database_url: str, clock: MovableClock) -> None:
    payments = Payments()
    async with running(database_url, payments.tool, worker=True) as node:
        calling = asyncio.create_task(call(node))
        await the_question(node)
        run_id = await node.run_service.start_background("pay", {"amount": 10, "to": "bob"}, by=ANN)
        await open_questions(node, 2)
        await run_reaches(node, run_id, "parked")
        await clock.advance(2 * 86_400)
        node.deadlines.look()
        with pytest.raises(InteractionTimeoutError):
            await calling
        assert await run_reaches(node, run_id, "failed", "succeeded") == "failed"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.error is not None
        assert run.error["code"] == "approval-denied"
        assert "No consent was given" in run.error["error"]
    assert payments.paid == []
    await assert_sound(database_url)


async def test_in_the_background_it_parks_and_any_worker_runs_it(database_url: str) -> None:
    first, second = Payments(), Payments()
    async with running(database_url, first.tool, worker=True) as node:
        run_id = await node.run_service.start_background("pay", {"amount": 10, "to": "bob"}, by=ANN)
        await run_reaches(node, run_id, "parked")
        question = await the_question(node)
        assert question.mode == "async"
    async with running(database_url, second.tool, worker=True) as node:
        await node.asks.answer(question.id, approve(question), by=BOB, via="cli")
        assert await run_reaches(node, run_id, "failed", "succeeded") == "succeeded"
    assert (first.paid, second.paid) == ([], [(10, "bob", "-")])


async def test_a_call_that_changed_meanwhile_does_not_run(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool, worker=True) as node:
        run_id = await node.run_service.start_background("pay", {"amount": 10, "to": "bob"}, by=ANN)
        await run_reaches(node, run_id, "parked")
        question = await the_question(node)
        await node.database.execute(
            'UPDATE rejoinder.run SET arguments = \'{"amount": 1000, "to": "eve"}\' WHERE id = $1', run_id
        )
        await node.asks.answer(question.id, approve(question), by=BOB, via="inbox")
        assert await run_reaches(node, run_id, "failed", "succeeded") == "failed"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.error is not None
        assert "not the call that would run" in run.error["error"]
    assert payments.paid == []


async def test_a_question_that_was_forged_in_its_row_does_not_run(database_url: str) -> None:
    """The digest is computed anew of what was shown: changing the row's arguments or its digest alone is noticed."""
    payments = Payments()

    @tool(name="tries")
    async def tries() -> list[str]:
        good = {"tool": "pay", "arguments": {"amount": 1, "to": "x", "note": "-"}}
        digest = call_digest("pay", good["arguments"])  # type: ignore[arg-type]
        approved = {"decision": "approve", "digest": digest}
        forged: list[Approval] = [
            Approval(good | {"arguments": {"amount": 2, "to": "x", "note": "-"}}, None, approved, "ann"),
            Approval(good | {"tool": "refund"}, None, approved, "ann"),
            Approval(good, [{"kind": "link", "url": "https://example.com"}], approved, "ann"),
            Approval(good, None, {"decision": "approve", "digest": "0" * 64}, "ann"),
            Approval(good, None, {"decision": "approve"}, "ann"),
        ]
        told = []
        for one in forged:
            try:
                await go_on(payments.tool, one)
            except RunTerminalFailed as error:
                told.append(error.message)
        return told

    async with running(database_url, payments.tool, tries) as node:
        result = await node.run_service.call("tries", {}, by=ANN, door="test")
        assert len(result.result) == 5
    assert payments.paid == []


async def test_what_nobody_could_read_is_not_asked(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool) as node:
        with pytest.raises(ToolArgumentError, match="approved by reading it"):
            await call(node, note="x" * 200_001)
        assert await node.asks.count(by=ANN, cap=10) == 0


async def test_after_approval_the_tool_may_ask_and_park_as_ever(database_url: str) -> None:
    given: list[Any] = []

    @tool(requires_approval=True)
    async def send(to: str) -> Any:
        return await ask(f"Subject of the mail to {to}?", mode="async", expiry_at=in_an_hour())

    @send.continuation
    async def _sent(ask_result: Any, arguments: dict[str, Any]) -> str:
        given.append((arguments["to"], ask_result.answer))
        return "sent"

    async with running(database_url, send, worker=True) as node:
        run_id = await node.run_service.start_background("send", {"to": "bob"}, by=ANN)
        question = await the_question(node)
        await node.asks.answer(question.id, approve(question, arguments={"to": "eve"}), by=BOB, via="inbox")
        question = await the_question(node)
        assert question.question == "Subject of the mail to eve?"
        await node.asks.answer(question.id, "Hello", by=BOB, via="inbox")
        assert await run_reaches(node, run_id, "failed", "succeeded") == "succeeded"
    # With what was approved, and not with what was asked for.
    assert given == [("eve", "Hello")]


MODULE = """
from rejoinder import tool
@tool
def wipe(what: str) -> str: return what
@tool
def look(what: str) -> str: return what
"""


def manifest_of(folder: Path, more: str) -> dict[str, Tool]:
    (folder / "tools.py").write_text(MODULE)
    manifest = folder / "manifest.yaml"
    manifest.write_text(f"tools:\n  - module: ./tools.py\n{more}")
    return {one.tool.name: one.tool for one in load_manifest(manifest)}


def test_the_manifest_says_which_tools_need_approval(tmp_path: Path) -> None:
    named = manifest_of(tmp_path, "    requires_approval: [wipe]\n")
    assert (named["wipe"].requires_approval, named["look"].requires_approval) == (True, False)
    every = manifest_of(tmp_path, "    requires_approval: true\n")
    assert every["wipe"].requires_approval
    assert every["look"].requires_approval
    agent = "agents:\n  - {name: a, model: 'openai:x', tools: [wipe, look], requires_approval: [look]}\n"
    own = manifest_of(tmp_path, agent)
    assert not own["look"].requires_approval, "only the agent's calls are to be approved"
    assert [one.requires_approval for one in own["a"].tools] == [False, True]  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["[other]", "5", "{}", "[1]", "wipe"])
def test_a_manifest_that_names_no_tool_of_the_entry_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationError, match="requires_approval"):
        manifest_of(tmp_path, f"    requires_approval: {value}\n")


async def test_denial_is_an_error_of_its_own(database_url: str) -> None:
    payments = Payments()
    async with running(database_url, payments.tool) as node:
        calling = asyncio.create_task(call(node))
        question = await the_question(node)
        await node.asks.answer(question.id, {"decision": "deny"}, by=BOB, via="inbox")
        with pytest.raises(ApprovalDeniedError):
            await calling
