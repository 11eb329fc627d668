"""Every kind of run on a real Gateway: recorded by the product, replayed by the product, equal to the transcript."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from rejoinder.openclaw.history import read_history
from rejoinder.turns.identity import message_id
from tests.live.rig import places
from tests.live.rig.gateway import Gateway
from tests.live.rig.model import Model, fail, hold, prompt, say, tool
from tests.live.rig.watching import Session, Watch, shown, watching
from tests.support import assert_eventually

ECHO = tool("exec", command="echo found")
#: By default a command goes on in the background after ten seconds, and the model with it.
STAYS = {"yieldMs": 120_000}


@pytest.fixture
async def watch(gateway: Gateway) -> AsyncIterator[Watch]:
    async with watching(gateway) as watch:
        yield watch


async def test_an_answer_is_one_message_under_the_id_it_was_asked_with(watch: Watch) -> None:
    session = Session()
    message, run = await watch.send(session, say("Hello ", "there, ", "all of you."))
    ended = await watch.heard.ended(run)
    assert ended["state"] == "final"
    await watch.idle(session)
    found = await watch.replayed(session)
    assert shown(found) == [("Hello there, all of you.", [])]
    assert (found[0].id, found[0].run_id) == (message, run)


async def test_tools_become_cards_between_their_texts(watch: Watch) -> None:
    session = Session()
    message, run = await watch.send(
        session,
        say("Let me look.", tools=[ECHO]),
        say(tools=[tool("read", path="/nothing/is/here"), ECHO]),
        say("Three are ", "done."),
    )
    await watch.heard.ended(run)
    await watch.idle(session)
    found = await watch.replayed(session)
    cards = ["exec completed", "read failed", "exec completed"]
    assert shown(found) == [("Let me look. Three are done.", cards)]
    assert found[0].id == message


async def test_a_run_of_the_agents_own_has_a_message_that_follows_from_its_id(watch: Watch) -> None:
    session = Session()
    first, _ = await watch.ask(session, say(tools=[ECHO]), say("I did it by myself."))
    second, _ = await watch.ask(session, say("And again."))
    await watch.idle(session)
    found = await watch.replayed(session)
    assert shown(found) == [("I did it by myself.", ["exec completed"]), ("And again.", [])]
    assert [one.id for one in found] == [message_id(session.key, first), message_id(session.key, second)]


async def test_two_scheduled_turns_of_one_session_are_two_messages(watch: Watch) -> None:
    session = Session()
    _, run = await watch.send(session, say("Hello."))
    await watch.heard.ended(run)
    job = await watch.client.call(
        "cron.add",
        {
            "name": f"live {uuid.uuid4()}",
            "schedule": {"kind": "every", "everyMs": 3_600_000},
            "wakeMode": "now",
            "sessionTarget": f"session:{session.key}",
            "payload": {"kind": "agentTurn", "message": prompt(say(tools=[ECHO]), say("It is time."))},
            "delivery": {"mode": "none"},
        },
    )

    def finished(count: int) -> bool:
        jobs = [one.payload for one in watch.heard.events if one.name == "cron"]
        ends = [it for it in jobs if it.get("jobId") == job["id"] and it.get("action") == "finished"]
        return len(ends) == count

    try:
        for count in (1, 2):
            await watch.client.call("cron.run", {"id": job["id"], "mode": "force"})
            await assert_eventually(partial(finished, count), "the job did not finish", 60)
            await watch.idle(session)
    finally:
        await watch.client.call("cron.remove", {"id": job["id"]})
    found = await watch.replayed(session)
    wake = ("It is time.", ["exec completed"])
    assert shown(found) == [("Hello.", []), wake, wake]
    if watch.version == places.GATEWAY:
        # This one gives both the same run id; their messages are two all the same.
        assert found[1].run_id == found[2].run_id


async def test_a_message_from_another_session_is_answered_in_this_one(watch: Watch) -> None:
    session, sender = Session(), Session()
    message = prompt(say(tools=[ECHO]), say("I got it."), lead="From another agent.")
    order = tool("sessions_send", sessionKey=session.key, message=message, timeoutSeconds=0)
    _, first = await watch.send(session, say("Here I am."))
    await watch.heard.ended(first)
    _, run = await watch.send(sender, say(tools=[order]), say("Sent."))
    await watch.heard.ended(run)
    await watch.heard.ended_other(session.key, first)
    await watch.idle(session)
    assert shown(await watch.replayed(session)) == [("Here I am.", []), ("I got it.", ["exec completed"])]


async def test_a_sub_agents_end_is_a_message_of_the_parent_and_the_child_shows_nothing(
    watch: Watch, model: Model
) -> None:
    session = Session()
    model.rule("CHILD-RESULT", say("The child found it."))
    child = prompt(say(tools=[ECHO]), say(hold("child"), "CHILD-", "RESULT"), lead="A task.")
    _, run = await watch.send(
        session,
        say("I ask a child.", tools=[tool("sessions_spawn", task=child)]),
        say("It works in the background."),
    )
    await model.held("child")
    await watch.heard.ended(run)
    model.release("child")
    await watch.heard.ended_other(session.key, run)
    await watch.idle(session)
    found = await watch.replayed(session)
    assert shown(found) == [
        ("I ask a child. It works in the background.", ["sessions_spawn completed"]),
        ("The child found it.", []),
    ]


async def test_a_parent_that_waits_for_its_child_has_two_messages(watch: Watch, model: Model) -> None:
    session = Session()
    model.rule("CHILD-RESULT", say("Now I go on."))
    child = prompt(say(hold("child"), "CHILD-", "RESULT"), lead="A task.")
    _, run = await watch.send(
        session,
        say(tools=[tool("sessions_spawn", task=child)]),
        say("I wait.", tools=[tool("sessions_yield")]),
    )
    await model.held("child")
    ended = await watch.heard.ended(run)
    assert ended.get("yielded") is True
    model.release("child")
    await watch.heard.ended_other(session.key, run)
    await watch.idle(session)
    found = await watch.replayed(session)
    cards = ["sessions_spawn completed", "sessions_yield completed"]
    assert shown(found) == [("I wait.", cards), ("Now I go on.", [])]


async def test_a_stopped_answer_keeps_what_was_said(watch: Watch, model: Model) -> None:
    session = Session()
    _, run = await watch.send(session, say(tools=[ECHO]), say("As far as ", hold("middle"), "never said"))
    await model.held("middle")
    await watch.heard.heard("chat", lambda it: it.get("runId") == run and it.get("state") == "delta")
    stopped = await watch.client.call("chat.abort", {"sessionKey": session.key, "runId": run})
    assert stopped["aborted"]
    assert (await watch.heard.ended(run))["state"] == "aborted"
    await watch.idle(session)
    assert shown(await watch.replayed(session)) == [("As far as", ["exec completed"])]


async def test_a_stop_ends_a_tool_that_runs(watch: Watch, tmp_path: Path) -> None:
    session = Session()
    pid = tmp_path / "pid"
    # It waits at a pipe that nobody ever writes to.
    waiting = f"mkfifo {tmp_path}/never; echo $$ > {pid}; exec cat {tmp_path}/never"
    _, run = await watch.send(
        session, say("Wait.", tools=[tool("exec", command=waiting, **STAYS)]), say("never said")
    )
    await watch.heard.heard(
        "agent",
        lambda it: (
            it.get("runId") == run and it.get("stream") == "tool" and it["data"].get("phase") == "start"
        ),
    )
    await watch.client.call("chat.abort", {"sessionKey": session.key})
    await watch.heard.ended(run)
    await watch.idle(session)
    (only,) = await watch.replayed(session)
    assert only.text == "Wait."
    assert [card.name for card in only.cards] == ["exec"]
    assert only.cards[0].status in ("failed", "incomplete")


async def test_a_run_with_nothing_to_say_has_no_message(watch: Watch, model: Model) -> None:
    session = Session()
    # A newer Gateway asks the model once more, and takes the run for failed.
    model.rule("did not produce a user-visible answer", say("NO_REPLY"))
    silent, done = await watch.begin(session, say("NO_", "REPLY"))
    await watch.heard.ended(silent)
    await asyncio.wait((done,), timeout=60)
    await watch.ask(session, say("Only this."))
    await watch.idle(session)
    assert shown(await watch.replayed(session)) == [("Only this.", [])]


async def test_a_message_sent_while_a_tool_runs_is_answered_once(watch: Watch, tmp_path: Path) -> None:
    session = Session()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waiting = tool("exec", command=f"cat {gate}", **STAYS)
    first, run = await watch.send(session, say("One.", tools=[waiting]), say("Two."))
    await watch.heard.heard("agent", lambda it: it.get("runId") == run and it.get("stream") == "tool")
    second, _ = await watch.send(session, say("And two.", " Also three."))
    await asyncio.to_thread(gate.write_text, "go")
    await watch.said(session, "Also three.")
    found = await watch.replayed(session)
    # The Gateway lets the run that was busy answer both, before its next words or after them, or begins another one.
    words = " ".join(text for text, _ in shown(found))
    assert words in ("One. And two. Also three.", "One. Two. And two. Also three.")
    assert [card for _, cards in shown(found) for card in cards] == ["exec completed"]
    assert [one.id for one in found] in ([first], [first, second])
    assert found[0].run_id == run


async def test_a_message_sent_at_the_end_of_an_answer_is_shown_once_either_way(
    watch: Watch, model: Model
) -> None:
    session = Session()
    first, _ = await watch.send(session, say("One.", tools=[ECHO]), say(hold("busy"), "Two."))
    await model.held("busy")
    second, _ = await watch.send(session, say("And three."))
    model.release("busy")
    await watch.said(session, "And three.")
    found = await watch.replayed(session)
    # Whether the Gateway still puts it into the run or starts another one is a matter of moments.
    assert " ".join(text for text, _ in shown(found)) == "One. Two. And three."
    assert [one.id for one in found] in ([first], [first, second])


async def test_a_message_queued_behind_an_agents_run_is_answered_in_its_own_message(
    watch: Watch, model: Model
) -> None:
    session = Session()
    run, done = await watch.begin(session, say("Mine ", hold("busy"), "first."))
    await model.held("busy")
    message, _ = await watch.send(session, say("Now yours."))
    model.release("busy")
    await done
    await watch.said(session, "Now yours.")
    found = await watch.replayed(session)
    assert shown(found) == [("Mine first.", []), ("Now yours.", [])]
    assert [one.id for one in found] == [message_id(session.key, run), message]


async def test_a_model_that_fails_ends_the_run_with_an_error(watch: Watch) -> None:
    session = Session()
    message, run = await watch.send(session, fail(400, "the scripted failure"))
    ended = await watch.heard.ended(run)
    assert ended["state"] == "error"
    await watch.idle(session)
    found = await watch.replayed(session)
    assert [one.id for one in found] == [message]


async def test_the_same_message_sent_twice_is_one_run(gateway: Gateway, watch: Watch) -> None:
    session = Session()
    message, run = await watch.send(session, say("Once."))
    again = {"sessionKey": session.key, "idempotencyKey": run, "message": prompt(say("Once."))}
    async with gateway.client() as other:
        assert (await other.call("chat.send", again))["runId"] == run
    await watch.heard.ended(run)
    await watch.idle(session)
    assert (await watch.client.call("chat.send", again))["runId"] == run
    found = await watch.replayed(session)
    assert [(one.id, one.text) for one in found] == [(message, "Once.")]


async def test_the_history_names_the_run_that_executes_and_its_text_so_far(
    watch: Watch, model: Model
) -> None:
    session = Session()
    run, done = await watch.begin(session, say("So far ", hold("middle"), "so good."))
    await model.held("middle")
    await watch.heard.heard("chat", lambda it: it.get("runId") == run and it.get("state") == "delta")
    history = await read_history(watch.client, session.key)
    assert history.in_flight is not None
    assert history.in_flight.run_id == run
    assert history.in_flight.text.strip() == "So far"
    model.release("middle")
    await done
    assert shown(await watch.replayed(session)) == [("So far so good.", [])]


async def test_a_follower_gets_the_run_from_its_first_event(watch: Watch) -> None:
    session = Session()
    _, run = session.reply()
    stream = watch.client.claim(run)
    params = {"sessionKey": session.key, "idempotencyKey": run, "message": prompt(say("One ", "two."))}
    await watch.client.call("chat.send", params)
    states: list[str] = []
    async for event in stream:
        assert not hasattr(event, "reason"), "nothing may be missing"
        if event.name == "chat":
            states.append(str(event.payload.get("state")))
        if states and states[-1] in ("final", "error", "aborted"):
            break
    stream.close()
    assert "delta" in states
    assert states[-1] == "final"


async def test_a_sessions_time_moves_when_a_run_ends(watch: Watch, model: Model) -> None:
    session = Session()

    async def moved() -> int:
        history = await read_history(watch.client, session.key)
        assert history.session is not None
        assert history.session.updated_at is not None
        return history.session.updated_at

    _, run = await watch.send(session, say("One ", hold("middle"), "two."))
    await model.held("middle")
    await watch.heard.heard("chat", lambda it: it.get("runId") == run and it.get("state") == "delta")
    between = await moved()
    model.release("middle")
    await watch.said(session, "One two.")
    assert await moved() > between
