"""A real Gateway that is killed, restarted or cut off in the middle of runs: one message a run all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rejoinder.openclaw.errors import Dropped
from rejoinder.openclaw.history import read_history
from rejoinder.turns.identity import message_id
from rejoinder.turns.link import source_of
from rejoinder.turns.transcript import is_input, is_recovery, key_of
from tests.live.rig import places
from tests.live.rig.gateway import Gateway
from tests.live.rig.model import Model, hold, say, tool
from tests.live.rig.watching import Session, Watch, shown, watching
from tests.live.rig.wire import Wire
from tests.support import assert_eventually

ECHO = tool("exec", command="echo found")
#: In the Gateway's own words to the model, when it carries on with a run that a restart cut.
RECOVERY = "interrupted"


async def _carried_on(watch: Watch, sessions: list[Session], before: str) -> None:
    """After a restart: the client is there again, and the Gateway carries on with what was cut."""
    hello, rows, rebooted = await watch.heard.hello(2)
    assert rebooted
    assert hello.boot_id != before
    assert {one.key for one in sessions} <= {row.key for row in rows}
    for session in sessions:
        await watch.said(session, "Carried on.")


async def _linked(watch: Watch, session: Session, run: str) -> None:
    """The transcript tells which run the recovery carries on with."""
    history = await read_history(watch.client, session.key)
    recoveries = [row for row in history.rows if is_input(row) and is_recovery(row)]
    assert len(recoveries) == 1
    recovery = key_of(recoveries[0]).removesuffix(":user")
    assert source_of(history.rows, recovery) == run


async def test_after_kill_9_the_gateway_carries_on_and_each_run_is_still_one_message(
    gateway: Gateway, model: Model
) -> None:
    model.rule(RECOVERY, say(tools=[ECHO]), say("Carried on."))
    user, agent = Session(), Session()
    async with watching(gateway) as watch:
        before = (await watch.client.ready(10)).boot_id
        message, run = await watch.send(user, say(tools=[ECHO]), say("Cut ", hold("user"), "off"))
        own, done = await watch.begin(agent, say("Cut ", hold("agent"), "off"))
        await model.held("user")
        await model.held("agent")
        await asyncio.to_thread(gateway.restart)
        with pytest.raises(Dropped):
            await done
        await _carried_on(watch, [user, agent], before)
        await _linked(watch, user, run)
        await _linked(watch, agent, own)
        assert len(watch.heard.drops) == 1

        found = await watch.replayed(user)
        # What was said before the cut is not in the Gateway's transcript; the recovery says it anew.
        assert shown(found) == [("Carried on.", ["exec completed", "exec completed"])]
        assert (found[0].id, found[0].run_id) == (message, run)
        (other,) = await watch.replayed(agent)
        assert (other.id, other.text) == (message_id(agent.key, own), "Carried on.")


async def test_a_restart_that_cuts_runs_is_announced_and_carried_on_with(
    gateway: Gateway, model: Model
) -> None:
    if gateway.version == places.GATEWAY_NEWEST:
        # This one ends instead, and is started by its supervisor: the test before is its case.
        return
    model.rule(RECOVERY, say("Carried on."))
    user, agent = Session(), Session()
    async with watching(gateway) as watch:
        before, pid = (await watch.client.ready(10)).boot_id, gateway.pid
        message, _ = await watch.send(user, say("Cut ", hold("user"), "off"))
        own, _ = await watch.begin(agent, say("Cut ", hold("agent"), "off"))
        await model.held("user")
        await model.held("agent")
        gateway.request_restart()
        notice = await watch.heard.heard("shutdown", lambda it: True)
        assert notice["restartExpectedMs"] > 0
        await _carried_on(watch, [user, agent], before)
        assert (watch.heard.drops[0].why, gateway.pid) == ("restart", pid)

        (one,) = await watch.replayed(user)
        assert (one.id, one.text) == (message, "Carried on.")
        (other,) = await watch.replayed(agent)
        assert (other.id, other.text) == (message_id(agent.key, own), "Carried on.")
    # It keeps a cut run in its books, and would wait minutes for it before it ends.
    gateway.kill()


async def test_a_gateway_asked_to_end_while_idle_says_so_and_the_client_comes_back(
    rig_folder: Path, model: Model
) -> None:
    session = Session()
    # One of its own: what other tests left in its books it would go on with, and end minutes later.
    gateway = Gateway(rig_folder / "idle", model)
    try:
        await asyncio.to_thread(gateway.start)
        async with watching(gateway) as watch:
            await watch.send(session, say("I am here."))
            await watch.said(session, "I am here.")
            await asyncio.to_thread(gateway.stop, 60)
            await assert_eventually(lambda: watch.heard.drops, "the end was not noticed", 30)
            assert watch.heard.drops[0].shutdown is not None
            assert "restartExpectedMs" not in watch.heard.drops[0].shutdown
            assert gateway.returncode == 0
            await asyncio.to_thread(gateway.start)
            _, _, rebooted = await watch.heard.hello(2)
            assert rebooted
    finally:
        gateway.kill()


async def test_a_cut_wire_loses_no_word_of_a_run_that_goes_on(gateway: Gateway, model: Model) -> None:
    session = Session()
    async with Wire.to(gateway.port) as wire, watching(gateway, url=wire.url) as watch:
        message, run = await watch.send(
            session, say("Before. ", hold("one"), tools=[ECHO]), say("Between. ", hold("two"), "After.")
        )
        await model.held("one")
        wire.cut()
        await assert_eventually(lambda: watch.heard.drops, "the cut was not noticed", 30)
        model.release("one")
        await model.held("two")
        wire.mend()
        watch.client.retry()
        _, _, rebooted = await watch.heard.hello(2)
        assert not rebooted
        model.release("two")
        await watch.heard.ended(run)
        await watch.said(session, "After.")
        found = await watch.replayed(session)
        assert shown(found) == [("Before. Between. After.", ["exec completed"])]
        assert found[0].id == message


async def test_a_run_that_ends_while_the_wire_is_cut_is_whole_afterwards(
    gateway: Gateway, model: Model
) -> None:
    session = Session()
    async with (
        gateway.client() as other,
        Wire.to(gateway.port) as wire,
        watching(gateway, url=wire.url) as watch,
    ):
        message, _ = await watch.send(session, say("Before. ", hold("cut"), tools=[ECHO]), say("After."))
        await model.held("cut")
        wire.cut()
        await assert_eventually(lambda: watch.heard.drops, "the cut was not noticed", 30)
        model.release("cut")

        async def over() -> bool:
            history = await read_history(other, session.key)
            return history.session is not None and history.session.has_active_run is False

        await assert_eventually(over, "the run did not end", 60)
        wire.mend()
        watch.client.retry()
        await watch.heard.hello(2)
        await watch.said(session, "After.")
        found = await watch.replayed(session)
        assert shown(found) == [("Before. After.", ["exec completed"])]
        assert found[0].id == message
