"""What a real Gateway sent: what streams is what its transcript says in the end, run by run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.turns.finish import finish
from rejoinder.turns.items import cards_of, text_of
from rejoinder.turns.reducer import Reducer
from rejoinder.turns.sentinels import is_sentinel
from rejoinder.turns.signals import Dropped, Hello, HistoryFailed, HistoryRead, Listed, Pushed
from rejoinder.turns.table import RunTable, any_key
from rejoinder.turns.transcript import is_closed, rows_of

FOLDER = Path(__file__).parents[2] / "fixtures" / "openclaw-2026.9.3"
RECORDINGS = sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz"))
# The connections that neither are subscribed to the sessions nor start runs see only a part.
PARTIAL = ("D",)


def _lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _connections(name: str) -> list[str]:
    found = {line["conn"][0] for line in _lines(name) if line["dir"] == "in"}
    return sorted(first for first in found if first not in PARTIAL)


CASES = [(name, first) for name in RECORDINGS if name != "s01_handshake" for first in _connections(name)]


def _signals(name: str, first: str, *, histories: bool) -> Iterator[Any]:
    asked: dict[tuple[str, str], str] = {}
    boot = ""
    for line in _lines(name):
        frame, connection = line["frame"], line["conn"]
        if not connection.startswith(first):
            continue
        if line["dir"] == "out":
            asked[connection, frame["id"]] = frame["method"]
        elif line["dir"] == "closed":
            yield Dropped()
        elif frame.get("type") == "event":
            yield Pushed(frame["event"], frame.get("payload") or {})
        elif frame.get("ok"):
            method, payload = asked.get((connection, frame["id"])), frame.get("payload") or {}
            if payload.get("type") == "hello-ok":
                boot = payload["server"]["bootId"]
            elif method == "sessions.subscribe" and "list" in payload:
                yield Hello(boot, payload["list"]["sessions"])
            elif method == "sessions.list":
                yield Listed(payload["sessions"])
            elif method == "chat.history" and histories:
                yield HistoryRead(payload["sessionKey"], payload)


def _played(name: str, first: str, *, histories: bool) -> tuple[RunTable, dict[str, list[dict[str, Any]]]]:
    table = RunTable(any_key)
    rows: dict[str, list[dict[str, Any]]] = {}
    for signal in _signals(name, first, histories=histories):
        if isinstance(signal, HistoryRead):
            rows[signal.key] = list(signal.payload["messages"])
        table.feed(signal)
    for key in table.keys():  # noqa: SIM118  a method of its own
        table.feed(HistoryFailed(key))
    return table, rows


def _shape(run: Any) -> tuple[Any, ...]:
    final = run.final
    return run.message_id, final.text, [(card.call_id, card.name, card.status) for card in final.cards]


@pytest.mark.parametrize(("name", "first"), CASES)
def test_what_streamed_alone_is_what_the_history_makes_of_it(name: str, first: str) -> None:
    read, rows = _played(name, first, histories=True)
    streamed, _ = _played(name, first, histories=False)
    for key in rows:
        own = rows[key]
        for run, live in zip(read.runs(key), streamed.runs(key), strict=True):
            assert run.run_id == live.run_id
            if run.continued or run.sources or run.final is None:
                continue
            if is_closed(rows_of(own, run.run_id, run.input_run, run.session_id)):
                assert live.final is not None
                assert _shape(live) == _shape(run)


@pytest.mark.parametrize(("name", "first"), CASES)
def test_every_run_has_one_message_and_no_two_share_it(name: str, first: str) -> None:
    table, _ = _played(name, first, histories=True)
    for key in table.keys():  # noqa: SIM118  a method of its own
        shown = [run for run in table.runs(key) if run.message_id and not run.continued]
        finals = [(run.message_id, run.final) for run in shown if run.final is not None and run.final.visible]
        assert len(dict(finals)) == len(finals)
        assert not any(is_sentinel(final.text) for _, final in finals)


@pytest.mark.parametrize("name", ["s03_tools", "s11_subagent", "s10_queue", "t02_noreply", "c_claudecli"])
def test_every_way_to_cut_a_stream_short_ends_as_the_transcript(name: str) -> None:
    lines = [signal for signal in _signals(name, "A", histories=True) if isinstance(signal, Pushed)]
    histories = {
        s.key: list(s.payload["messages"]) for s in _signals(name, "A", histories=True) if hasattr(s, "key")
    }
    runs: dict[tuple[str, str], list[Pushed]] = {}
    for signal in lines:
        run_id, key = str(signal.payload.get("runId") or ""), str(signal.payload.get("sessionKey") or "")
        if run_id and key in histories and signal.event in ("chat", "agent", "session.tool"):
            runs.setdefault((key, run_id), []).append(signal)
    assert runs
    for (key, run_id), events in runs.items():
        own = rows_of(histories[key], run_id)
        whole = Reducer(run_id)
        for signal in events:
            whole.feed(signal.event, signal.payload)
        expected = finish(own, whole)
        if not is_closed(own):
            continue
        for lost in range(0, len(events), 3):
            live = Reducer(run_id)
            live.lose()
            for signal in [*events[:lost], *events[lost + 3 :]]:
                live.feed(signal.event, signal.payload)
            final = finish(own, live)
            assert final.text.split() == expected.text.split()
            if name != "c_claudecli":
                assert [card.status for card in final.cards] == [card.status for card in expected.cards]


def test_the_recorded_live_state_is_whole_before_any_history_is_read() -> None:
    live = Reducer("msg-toolchat-m1-1")
    for signal in _signals("s03_tools", "B", histories=False):
        if isinstance(signal, Pushed) and signal.payload.get("runId") == live.run_id:
            live.feed(signal.event, signal.payload)
    assert text_of(live.items) == "Let me look.\n\nBoth tools are done."
    assert [card.status for card in cards_of(live.items)] == ["completed", "completed"]
