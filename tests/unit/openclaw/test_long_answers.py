"""A history cuts long texts after 8,000 characters; the message must not lose the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rejoinder.openclaw.recording import Line
from rejoinder.openclaw.replay import Message, replay

KEY = "agent:main:chat"
WORDS = [f"word{number}" for number in range(4_000)]
WHOLE = " ".join(WORDS)
CUT = WHOLE[:8_000] + "\n...(truncated)..."
OMITTED = "[chat.history omitted: message too large]"


def told(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def frames(pushed: str, final: str, stored: str, *, streamed: bool) -> Iterator[dict[str, Any]]:
    def event(name: str, **payload: Any) -> dict[str, Any]:
        return {"type": "event", "event": name, "payload": {"sessionKey": KEY, "agentId": "main", **payload}}

    asked = {
        "role": "user",
        "content": "go",
        "idempotencyKey": "R:user",
        "__openclaw": {"id": "a", "seq": 1},
    }
    answer = {
        "role": "assistant",
        "stopReason": "stop",
        "__openclaw": {"id": "b", "seq": 2, "runId": "R"},
    }
    yield event("sessions.changed", phase="start", runId="R", hasActiveRun=True, status="running")
    yield event("session.message", sessionId="S", messageSeq=1, message=asked)
    yield event("agent", runId="R", stream="lifecycle", seq=1, data={"phase": "start"})
    whole = ""
    for number, start in enumerate(range(0, len(WORDS), 400) if streamed else ()):
        delta = (" " if whole else "") + " ".join(WORDS[start : start + 400])
        whole += delta
        data = {"text": whole, "delta": delta, "itemId": "i:1"}
        yield event("agent", runId="R", stream="assistant", seq=number + 2, data=data)
        message = {"role": "assistant", "content": told(whole)}
        yield event("chat", runId="R", state="delta", seq=number + 2, deltaText=delta, message=message)
    yield event("session.message", sessionId="S", messageSeq=2, message={**answer, "content": told(pushed)})
    end = {"phase": "end", "executionSettled": True}
    yield event("agent", runId="R", stream="lifecycle", seq=99, data=end)
    message = {"role": "assistant", "content": told(final)}
    yield event("chat", runId="R", state="final", seq=99, stopReason="stop", message=message)
    yield event("sessions.changed", reason="chat.run.settled", hasActiveRun=False, status="done")
    rows = [asked, {**answer, "content": told(stored)}]
    payload = {"sessionKey": KEY, "sessionId": "S", "messages": rows}
    yield {"type": "res", "id": "9", "ok": True, "payload": payload}


def message_of(*texts: str, streamed: bool = True) -> Message:
    lines = [Line(0.0, "1", "in", frame) for frame in frames(*texts, streamed=streamed)]
    (messages,) = replay(lines).values()
    (message,) = messages
    return message


@pytest.mark.parametrize("pushed", [WHOLE, CUT, OMITTED])
@pytest.mark.parametrize("final", [WHOLE, CUT])
@pytest.mark.parametrize("stored", [WHOLE, CUT, OMITTED])
def test_what_streamed_makes_a_cut_text_whole(pushed: str, final: str, stored: str) -> None:
    message = message_of(pushed, final, stored)
    assert message.done
    assert message.text == WHOLE


@pytest.mark.parametrize("pushed", [WHOLE, CUT])
@pytest.mark.parametrize("stored", [CUT, OMITTED])
def test_so_does_a_final_that_has_all_of_it(pushed: str, stored: str) -> None:
    assert message_of(pushed, WHOLE, stored, streamed=False).text == WHOLE


def test_a_text_that_is_nowhere_whole_says_so() -> None:
    message = message_of(CUT, CUT, CUT, streamed=False)
    assert message.text == CUT
