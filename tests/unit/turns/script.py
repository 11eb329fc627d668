"""Gateway frames and history rows, written as short as a test can read them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from rejoinder.turns.signals import (
    Action,
    Discard,
    Dropped,
    End,
    Gap,
    Hello,
    HistoryFailed,
    HistoryRead,
    Listed,
    Pushed,
    ReadHistory,
    Run,
    Show,
    Signal,
)
from rejoinder.turns.table import RunTable

CHAT = "11111111-1111-4111-8111-111111111111"
USER = "22222222-2222-4222-8222-222222222222"
M1 = "33333333-3333-4333-8333-333333333333"
M2 = "44444444-4444-4444-8444-444444444444"
KEY = f"agent:main:openwebui-{USER}-{CHAT}"
SESSION = "55555555-5555-4555-8555-555555555555"
OWN = f"msg-{CHAT}-{M1}-1"
OTHER = f"msg-{CHAT}-{M2}-1"

Frame = tuple[str, dict[str, Any]]
Row = dict[str, Any]


class Frames:
    """The frames of one run, numbered as the Gateway numbers them."""

    def __init__(self, run: str, key: str = KEY, session: str = SESSION) -> None:
        self.run, self.key, self.session = run, key, session
        self._seq = itertools.count(1)

    def _base(self, seq: int | None = None) -> dict[str, Any]:
        number = next(self._seq) if seq is None else seq
        return {
            "runId": self.run,
            "sessionKey": self.key,
            "agentId": "main",
            "sessionId": self.session,
            "seq": number,
        }

    def agent(self, stream: str, seq: int | None = None, **data: Any) -> Frame:
        return "agent", {**self._base(seq), "stream": stream, "data": data}

    def begin(self, **more: Any) -> list[Frame]:
        """Lifecycle start and the session's phase start."""
        name, payload = self.agent("lifecycle", phase="start", startedAt=1)
        return [(name, {**payload, **more}), self.changed(phase="start", runId=self.run, hasActiveRun=True)]

    def changed(self, **row: Any) -> Frame:
        base = {"sessionKey": self.key, "sessionId": self.session, "status": "running"}
        return "sessions.changed", {**base, **row}

    def delta(self, whole: str | None, delta: str | None = None, seq: int | None = None) -> Frame:
        payload = {**self._base(seq), "state": "delta"}
        if delta is not None:
            payload["deltaText"] = delta
        if whole is not None:
            payload["message"] = {"role": "assistant", "content": [{"type": "text", "text": whole}]}
        return "chat", payload

    def says(
        self, whole: str, delta: str | None = None, item: str | None = None, seq: int | None = None
    ) -> Frame:
        data: dict[str, Any] = {"text": whole}
        if delta is not None:
            data["delta"] = delta
        if item is not None:
            data["itemId"] = item
        return self.agent("assistant", seq, **data)

    def preamble(self, text: str, item: str = "commentary-0", phase: str = "update") -> Frame:
        return self.agent("item", kind="preamble", phase=phase, progressText=text, itemId=item)

    def call(self, call: str | None, name: str = "exec", args: Any = None) -> Frame:
        data: dict[str, Any] = {"phase": "start", "name": name, "args": args or {"command": "ls"}}
        if call is not None:
            data["toolCallId"] = call
        return "session.tool", {**self._base(), "stream": "tool", "data": data}

    def result(self, call: str | None, text: str = "ok", *, name: str = "exec", error: bool = False) -> Frame:
        content = {"content": [{"type": "text", "text": text}]}
        data: dict[str, Any] = {"phase": "result", "name": name, "isError": error, "result": content}
        if call is not None:
            data["toolCallId"] = call
        return "session.tool", {**self._base(), "stream": "tool", "data": data}

    def over(self, phase: str = "end", **data: Any) -> Frame:
        return self.agent("lifecycle", phase=phase, executionSettled=True, **data)

    def chat(self, state: str, text: str | None = None, **more: Any) -> Frame:
        payload = {**self._base(), "state": state, **more}
        if text is not None:
            payload["message"] = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        return "chat", payload

    def bare(self) -> Frame:
        return "chat", {"runId": self.run, "sessionKey": self.key, "seq": 1, "state": "final"}

    def final(self, text: str | None = None, **more: Any) -> list[Frame]:
        """The agent's settled end and the chat's final."""
        return [self.over(stopReason="stop"), self.chat("final", text, stopReason="stop", **more)]

    def settled(self, status: str = "done", **row: Any) -> Frame:
        base = {"status": status, "hasActiveRun": False, "activeRunIds": [], "lastRunId": self.run}
        return self.changed(reason="chat.run.settled", **{**base, **row})

    def row(self, row: Row) -> Frame:
        return "session.message", {"sessionKey": self.key, "sessionId": self.session, "message": row}

    # History rows.

    def asked(self, text: str = "go", **more: Any) -> Row:
        return {
            "role": "user",
            "content": text,
            "idempotencyKey": f"{self.run}:user",
            "__openclaw": {},
            **more,
        }

    def recovers(self) -> Row:
        source = {"kind": "internal_system", "sourceTool": "main_session_restart_recovery"}
        return self.asked("[System] Your previous turn was interrupted.", provenance=source)

    def said(self, text: str, stop: str = "stop", **more: Any) -> Row:
        content = [{"type": "text", "text": text}]
        return {
            "role": "assistant",
            "content": content,
            "stopReason": stop,
            "__openclaw": {"runId": self.run},
            **more,
        }

    def before_tool(self, text: str) -> Row:
        row = self.said(text, openclawStreamFallback={"replacementText": text, "source": "segment"})
        del row["stopReason"]
        return row

    def called(self, *calls: str, name: str = "exec") -> Row:
        blocks = [
            {"type": "toolCall", "id": call, "name": name, "arguments": {"command": "ls"}} for call in calls
        ]
        return {
            "role": "assistant",
            "content": blocks,
            "stopReason": "toolUse",
            "__openclaw": {"runId": self.run},
        }

    def returned(self, call: str, text: str = "ok", *, name: str = "exec", error: bool = False) -> Row:
        content = [{"type": "text", "text": text}]
        notes = {"runId": self.run}
        return {
            "role": "toolResult",
            "toolCallId": call,
            "toolName": name,
            "isError": error,
            "content": content,
            "__openclaw": notes,
        }

    def cli_said(self, text: str) -> Row:
        row = self.said(text, idempotencyKey=f"cli-assistant:{self.run}")
        row["__openclaw"] = {}
        return row


class Scene:
    """A run table fed by hand, with what it asked for."""

    def __init__(self, key: str = KEY, **options: Any) -> None:
        self.key = key
        self.table = RunTable(**options) if options else RunTable()
        self.actions: list[Action] = []

    def hello(self, boot: str = "boot-1", *rows: dict[str, Any]) -> list[Action]:
        return self.feed(Hello(boot, rows))

    def listed(self, *rows: dict[str, Any]) -> list[Action]:
        return self.feed(Listed(rows))

    def push(self, *frames: Frame) -> list[Action]:
        return [action for name, payload in frames for action in self.feed(Pushed(name, payload))]

    def gap(self) -> list[Action]:
        return self.feed(Gap())

    def drop(self) -> list[Action]:
        return self.feed(Dropped())

    def history(self, *rows: Row, key: str | None = None, **more: Any) -> list[Action]:
        payload = {"sessionKey": key or self.key, "sessionId": SESSION, "messages": list(rows), **more}
        return self.feed(HistoryRead(key or self.key, payload))

    def no_history(self, *, restarting: bool = False) -> list[Action]:
        return self.feed(HistoryFailed(self.key, restarting))

    def feed(self, signal: Signal) -> list[Action]:
        answer = self.table.feed(signal)
        self.actions.extend(answer)
        return answer

    def ended(self) -> list[Run]:
        return [action.run for action in self.actions if isinstance(action, End)]

    def messages(self) -> dict[str, tuple[str, list[tuple[str, str]]]]:
        """Each finished message's text and cards, by its id; a message that ended twice counts by its last."""
        found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
        for run in self.ended():
            assert run.message_id is not None
            assert run.final is not None
            found[run.message_id] = (run.final.text, [(card.name, card.status) for card in run.final.cards])
        return found


def row(key: str = KEY, status: str = "running", **more: Any) -> dict[str, Any]:
    """A row of the session list."""
    return {"key": key, "sessionId": SESSION, "status": status, "hasActiveRun": False, **more}


def firsts(actions: Sequence[Action]) -> list[Show]:
    """The claims among the actions."""
    return [action for action in actions if isinstance(action, Show) and action.first]


def wants_history(actions: Sequence[Action]) -> bool:
    """Whether a history is asked for."""
    return any(isinstance(action, ReadHistory) for action in actions)


def discarded(actions: Sequence[Action]) -> list[Run]:
    """The runs that ended without a message."""
    return [action.run for action in actions if isinstance(action, Discard)]
