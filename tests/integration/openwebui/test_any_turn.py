"""Every two of: how a run tells its words and its tools, how it ends, whose it is, what goes wrong, what the person does.

Through the whole bridge, over a real socket. Whatever happens, a run that says something is one message, finished, with
the transcript's words and cards, in one chain; and nothing is left over that waits.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rejoinder.openwebui.bridge import Bridge
from rejoinder.openwebui.turn import Asked, reply
from rejoinder.turns.identity import message_id
from tests.fake_gateway import RESTARTING, FakeGateway
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import REAL, World, key_of, stub, user_says
from tests.integration.openwebui.scripts import Script, Told, row_of, scripts, told
from tests.integration.openwebui.test_bridge import (
    asked_by,
    cards,
    new_run,
    no_tasks,
    quiet,
    shown,
    stop_tasks,
    tell,
    text,
)
from tests.integration.openwebui.test_restarts import back, pass_by
from tests.support import assert_eventually
from tests.unit.turns.restarts import recovering, waiting
from tests.unit.turns.script import Frame, Frames

RECOVERED = ("killed", "restarted")
ENDED = ("stopped", "contained")
#: How a run ends that tells its end.
WHOLE = ("final", "lifecycle", "error", "aborted", "final twice", "final early")
EXIT = "Claude Code process exited with code 143"


class Play:
    """One script, played."""

    def __init__(self, script: Script, gateway: FakeGateway, world: World, connect: Connect) -> None:
        self.script = script
        self.gateway, self.world, self.connect = gateway, world, connect
        self.requests: list[asyncio.Future[Any]] = []
        self.errors: list[str] = []
        self.second: tuple[str, dict[str, Any]] | None = None
        self.aborted = asyncio.Event()
        self.sends: list[str] = []
        gateway.handlers["chat.send"] = self._take
        gateway.handlers["chat.abort"] = self._abort
        gateway.handlers["sessions.patch"] = lambda params: {}
        gateway.handlers["artifacts.list"] = lambda params: {"artifacts": []}

    def _abort(self, params: dict[str, Any]) -> dict[str, Any]:
        self.aborted.set()
        return {"ok": True, "aborted": True, "runIds": []}

    async def play(self) -> None:
        script, world = self.script, self.world
        self.left = stub()
        before = [user_says("hello"), *([self.left] if script.source == "own" else [])]
        self.chat = await world.chat(*before)
        self.bridge = await self.connect()
        if script.fault == "two connections":
            self.bridge = await self.connect()
        await self._begin()
        run = self.run = told(script, self.frames)
        self._stands(run.rows[: run.written], active=True)
        tell(self.gateway, *self._told(self._start()))
        tell(self.gateway, *self._told(run.body[: run.middle]))
        await self._seen(run.middle)
        await self._act()
        if script.act == "stop" or script.fault in (*RECOVERED, *ENDED):
            await self._cut()
        else:
            await self._fault()
            await self._end()
            if script.fault == "draining":
                await self._drained()
        if self.second is not None:
            await self._answer(*self.second)
        for request in self.requests:
            await asyncio.wait((request,))

    async def _begin(self) -> None:
        kind = self.script.source
        self.key = key_of(self.world, self.chat)
        run = new_run()
        if kind == "child":
            self.key = f"agent:main:subagent:{new_run()}"
        elif kind == "action":
            run = f"owui-action-compact-{run}"
        elif kind == "own":
            run = await self._send(self.left["id"])
        self.frames = Frames(run, self.key)

    async def _send(self, message: str, *, waits: bool = False) -> str:
        """A person's message; the id of its run when the Gateway has taken it."""
        asked = asked_by(self.world, self.chat, message)
        self.requests.append(asyncio.ensure_future(self._hosted(self.bridge, asked)))
        if waits:
            return ""
        await assert_eventually(lambda: self.sends)
        if self.script.fault == "refused":
            await self._reconnect()
            await assert_eventually(lambda: len(self.sends) == 2)
            assert self.sends[0] == self.sends[1]
        return self.sends[-1]

    def _take(self, params: dict[str, Any]) -> Any:
        self.sends.append(params["idempotencyKey"])
        if self.script.fault == "refused" and len(self.sends) == 1:
            return RESTARTING
        return {"runId": params["idempotencyKey"], "status": "started"}

    async def _hosted(self, bridge: Bridge, asked: Asked) -> None:
        """A request as the Host runs it: its stream is read and its end written into the chat, in one task."""
        events: list[dict[str, Any]] = []
        try:
            async for event in reply(bridge, asked, quiet):
                events += [event]
        finally:
            output = shown(events)
            self.errors += [str(event["error"]) for event in events if "error" in event]
            said = "\n\n".join(item["content"][0]["text"] for item in output if item["type"] == "message")
            async with self.world.host.edit(self.chat) as chat:
                if chat is not None:
                    fields = {"done": True, "content": said, "output": output}
                    await chat.put(str(asked.message), fields)

    def _start(self) -> list[Frame]:
        first = [] if self.script.source == "heartbeat" else [self.frames.row(self.frames.asked())]
        return [*self.frames.begin(), *first]

    def _told(self, frames: list[Frame]) -> list[Frame]:
        if self.script.source == "child":
            return [(name, {**payload, "spawnedBy": "agent:main:main"}) for name, payload in frames]
        if self.script.source == "heartbeat":
            return [
                (name, {**payload, "isHeartbeat": True} if name in ("agent", "chat") else payload)
                for name, payload in frames
            ]
        return frames

    def _stands(self, rows: list[Any], *, active: bool) -> None:
        ended = {"stopped": "aborted", "contained": "error"}.get(self.script.fault, self.script.ending)
        session = row_of(self.key, self.frames, ended, active=active)
        flight = {"inFlightRun": {"runId": self.frames.run, "text": "", "events": []}} if active else {}
        rows = rows[1:] if self.script.source == "heartbeat" else rows
        self.gateway.sessions = [session]
        known = {"sessionKey": self.key, "sessionId": self.frames.session, "messages": list(rows)}
        self.gateway.histories[self.key] = {**known, "sessionInfo": session, **flight}

    async def _seen(self, frames: int) -> None:
        """Until the bridge has taken in so many frames of the run's own."""
        if self.script.source in ("child", "action"):
            return

        def there() -> bool:
            run = self.bridge.table.find(self.key, self.frames.run)
            return run is not None and run.state.events >= frames + 1

        await assert_eventually(there)
        if self.script.source == "agent" and self.run.partial and self.script.text != "sentinel":
            await assert_eventually(lambda: self._writes())

    async def _writes(self) -> bool:
        return bool(await self.world.host.tasks(self.chat))

    async def _act(self) -> None:
        act, own = self.script.act, self.script.source == "own"
        if act == "new message":
            mine, asked = stub(), {**user_says("and now me"), "done": True, "childrenIds": []}
            async with self.world.host.edit(self.chat) as chat:
                assert chat is not None
                await chat.put(asked["id"], {**asked, "parentId": chat.current})
                await chat.put(mine["id"], {**mine, "parentId": asked["id"], "childrenIds": []})
            await self._send(mine["id"], waits=True)
            self.second = ("Mine.", mine)
        elif act == "delete":
            if REAL:
                from open_webui.models.chats import Chats

                await Chats.delete_chat_by_id(self.chat)
            else:
                self.world.host.chats.known.pop(self.chat)
        elif act in ("stop", "send now"):
            meant = "stop" if act == "stop" else "send"
            self.world.answers[self.chat] = lambda code: [meant, 40]
            if own:
                self.requests[0].cancel()
            else:
                await stop_tasks()
            await (self.aborted.wait() if act == "stop" else assert_eventually(self._writes))

    async def _cut(self) -> None:
        """The run is stopped, or its Gateway."""
        fault, f, run = self.script.fault, self.frames, self.run
        rows = run.rows[: run.written]
        if self.script.act == "stop":
            rows = [*rows, f.said(run.partial, stop="aborted")]
            self._stands(rows, active=False)
            tell(self.gateway, f.over(aborted=True, stopReason="rpc"))
            tell(self.gateway, f.chat("aborted", run.partial, stopReason="rpc"), f.settled("killed"))
            return
        if fault == "killed":
            await self.gateway.kill()
        elif fault == "restarted":
            tell(self.gateway, ("shutdown", {"reason": "gateway restarting", "restartExpectedMs": 1500}))
            if self.script.source == "agent":
                tell(self.gateway, f.chat("aborted", run.partial, stopReason="restart"))
            tell(self.gateway, f.settled("running", abortedLastRun=True, lastRunId=None))
        elif fault == "stopped":
            self._stands(rows, active=False)
            tell(self.gateway, ("shutdown", {"reason": "gateway stopping"}))
            tell(self.gateway, f.chat("aborted", run.partial, stopReason="rpc"))
            tell(self.gateway, f.over(aborted=True), f.settled("killed", abortedLastRun=True))
        else:
            self._stands(rows, active=False)
            tell(self.gateway, f.chat("error", errorMessage=EXIT), f.over("error", error=EXIT))
            tell(self.gateway, f.settled("failed", lastRunError=EXIT))
            tell(self.gateway, ("shutdown", {"reason": "gateway stopping"}))
        for connection in self.gateway.live:
            await connection.flushed()
        await self.gateway.stop()
        await assert_eventually(lambda: not self.bridge.client.connected)
        if fault in RECOVERED:
            moments = [waiting(tuple(rows), self.key), *recovering(new_run(), tuple(rows), self.key)]
            self.gateway.sessions = [moments[0].listed]
            self.gateway.histories[self.key] = {"sessionKey": self.key, **moments[0].history}
            await back(self.gateway, self.bridge)
            await pass_by(self.gateway, self.key, *moments[1:])
        else:
            await back(self.gateway, self.bridge)

    async def _fault(self) -> None:
        fault, run = self.script.fault, self.run
        rest = run.body[run.middle :]
        if fault == "lost frames":
            lost, rest = rest[: len(rest) // 2 + 1], rest[len(rest) // 2 + 1 :]
            for connection in self.gateway.live:
                for _ in lost:
                    connection.skip()
        elif fault in ("dropped", "slow"):
            rest = rest[len(rest) // 2 :]
            for connection in self.gateway.live:
                if fault == "slow":
                    await connection.drop(1008, "slow consumer")
                else:
                    connection.abort()
            await self._reconnect()
        elif fault == "redeployed":
            self.bridge = await self.connect()
        elif fault == "draining":
            self.gateway.draining = True
        tell(self.gateway, *self._told(rest))

    async def _reconnect(self) -> None:
        hellos = self.bridge.hellos
        for connection in self.gateway.live:
            connection.abort()

        def greeted() -> bool:
            self.bridge.client.retry()
            return self.bridge.hellos > hellos

        await assert_eventually(greeted)

    async def _end(self) -> None:
        self._stands(self.run.rows, active=False)
        tell(self.gateway, *self._told(self.run.end))
        if self.script.ending == "none":
            # Its end got lost: the next frame shows the hole.
            tell(self.gateway, ("tick", {"ts": 0}))
            for connection in self.gateway.live:
                connection.skip()
        tell(self.gateway, ("tick", {"ts": 1}))

    async def _drained(self) -> None:
        """The Gateway, asked to stop, has waited for its last run, and is started again."""
        if self.script.ending in WHOLE and self.script.source in ("own", "agent"):
            # It may have others to wait for, for minutes: a reply that came whole is over before.
            await assert_eventually(lambda: self.frames.run not in self._open())
        tell(self.gateway, ("shutdown", {"reason": "gateway stopping"}))
        for connection in self.gateway.live:
            await connection.flushed()
        await self.gateway.stop()
        await assert_eventually(lambda: not self.bridge.client.connected)
        self.gateway.draining = False
        await back(self.gateway, self.bridge)

    def _open(self) -> list[str]:
        return [run.run_id for run in self.bridge.table.unfinished()]

    async def _answer(self, words: str, mine: dict[str, Any]) -> None:
        """The message that the person sent meanwhile is taken when the run is over."""

        def taken() -> str | None:
            return next((one for one in self.sends if mine["id"] in one), None)

        f = Frames(str(await assert_eventually(taken)), self.key)
        known = self.gateway.histories[self.key]
        known["messages"] = [*known["messages"], f.asked(), f.said(words)]
        tell(
            self.gateway,
            *f.begin(),
            f.row(f.asked()),
            f.says(words, words, "i"),
            *f.final(words),
            f.settled(),
        )

    def expected(self) -> tuple[str, list[str]]:
        """What the run's message says in the end."""
        script, run = self.script, self.run
        names = Told(run.frames, run.rows[: run.written]).said[1]
        if script.act == "stop" or script.fault in ENDED:
            return run.partial, names
        if script.fault in RECOVERED:
            return "Carried on.", [*names, "exec"]
        return run.said


def _name(script: Script) -> str:
    return str(script)


@pytest.mark.parametrize("script", scripts(1), ids=_name)
async def test_any_turn_is_one_message(
    gateway: FakeGateway, world: World, connect: Connect, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    play = Play(script, gateway, world, connect)
    await play.play()
    own = script.source == "own"
    words, names = play.expected()
    failed = script.fault == "contained" or (
        script.ending == "error" and script.act != "stop" and script.fault not in (*RECOVERED, *ENDED)
    )
    seen = not script.silent and (words or names or (failed and script.text != "sentinel"))
    count = int(bool(seen) or own) + int(play.second is not None)

    if script.act != "delete":

        async def finished() -> list[dict[str, Any]]:
            found = await world.replies(play.chat)
            return found if len(found) == count and all(one["done"] for one in found) else []

        async def over() -> bool:
            return (
                bool(await finished())
                and not play.bridge.messages.busy
                and not play.bridge.table.unfinished()
            )

        if count:
            await assert_eventually(over, f"{count} finished replies, and nothing that waits")
        replies = await finished()
        if seen or own:
            one = next(one for one in replies if one["id"] == message_id(play.key, play.frames.run))
            assert (" ".join(text(one).split()), cards(one)) == (words, names)
            if failed and seen:
                assert one.get("error") or play.errors
        if play.second is not None:
            assert [text(one) for one in replies if one["id"] == play.second[1]["id"]] == ["Mine."]
        history = await world.history(play.chat)
        assert all(len(one["childrenIds"]) <= 1 for one in history["messages"].values())
        for one in replies:
            calls = [item["call_id"] for item in one["output"] or () if item["type"] == "function_call"]
            answered = [
                item["call_id"] for item in one["output"] or () if item["type"] == "function_call_output"
            ]
            assert calls == answered
            assert len(set(calls)) == len(calls)
    await assert_eventually(lambda: not play.bridge.messages.busy and not play.bridge.table.unfinished())
    await assert_eventually(lambda: no_tasks(world, play.chat))
    faults = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not faults, faults
