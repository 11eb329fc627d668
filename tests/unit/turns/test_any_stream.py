"""Any legal stream of a run, whatever was lost, doubled or reordered, ends as the run's transcript, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.turns.finish import finish
from rejoinder.turns.items import cards_of, text_of
from rejoinder.turns.reducer import Added, Changed, Diff, Grew, Reducer
from rejoinder.turns.signals import Show
from rejoinder.turns.transcript import items_of
from tests.unit.turns.script import KEY, Frame, Frames, Row, Scene, row

_words = st.sampled_from(
    ["a", "ab", "b", "a b", "NO", "no_reply is a word", "one two", "one\ntwo", "Done.", "äé🙂"]
)
_texts = st.lists(_words, min_size=1, max_size=4).map(" ".join)


@dataclass(frozen=True)
class Step:
    """One assistant message: text, then tools, or the closing text alone."""

    text: str
    calls: tuple[bool, ...]


_steps = st.builds(
    Step, st.one_of(st.just(""), _texts), st.lists(st.booleans(), min_size=1, max_size=3).map(tuple)
)
_runs = st.tuples(st.lists(_steps, max_size=3), st.one_of(st.just(""), _texts)).filter(
    lambda run: run[0] or run[1]
)


@dataclass(frozen=True)
class Way:
    """How a stream tells its run."""

    cli: bool
    chat: bool
    agent: bool
    chat_first: bool
    wholes: bool
    deltas: bool
    reorder: bool
    message_in_final: bool
    finals: int
    rows_pushed: bool


@st.composite
def _ways(draw: st.DrawFn) -> Way:
    chat, agent = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    wholes, deltas = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    flags = [draw(st.booleans()) for _ in range(5)]
    return Way(
        flags[0], chat, agent, flags[1], wholes, deltas, flags[2], flags[3], draw(st.integers(1, 2)), flags[4]
    )


class Telling:
    """The frames of one run told one way, and its transcript."""

    def __init__(self, run: tuple[list[Step], str], way: Way, draw: Any, name: str = "run-1") -> None:
        self.frames = Frames(name)
        self.way, self._draw = way, draw
        self.stream: list[Frame] = []
        self.rows: list[Row] = [self.frames.asked()]
        self._whole = ""
        self._items = 0
        steps, closing = run
        texts = [step.text for step in steps] + [closing]
        for number, step in enumerate(steps):
            self._step(number, step)
        if closing:
            self._text(closing, preamble=False)
            if not way.cli:
                self._row(self.frames.said(closing))
        if way.cli:
            said = "\n\n".join(text for text in texts if text)
            if said:
                self.rows.append(self.frames.cli_said(said))
        self.closing = closing
        self.end: list[Frame] = []
        last = (self._whole if way.cli else closing) if way.message_in_final else ""
        for _ in range(way.finals):
            self.end += self.frames.final(last or None)

    def _row(self, row: Row) -> None:
        self.rows.append(row)
        if self.way.rows_pushed and row["role"] == "assistant" and not row.get("openclawStreamFallback"):
            self.stream.append(self.frames.row(row))

    def _step(self, number: int, step: Step) -> None:
        if step.text:
            self._text(step.text, preamble=not self.way.cli)
        calls = [f"call_{number}_{index}" for index in range(len(step.calls))]
        if not self.way.cli:
            if step.text:
                self._row(self.frames.before_tool(step.text))
            self._row(self.frames.called(*calls))
        self.stream += [self.frames.call(call) for call in calls]
        order = self._draw(st.permutations(range(len(calls)))) if self.way.reorder else range(len(calls))
        for index in order:
            failed = not step.calls[index]
            self.stream.append(self.frames.result(calls[index], f"r{index}", error=failed))
        if not self.way.cli:
            self.rows += [
                self.frames.returned(call, f"r{index}", error=not step.calls[index])
                for index, call in enumerate(calls)
            ]

    def _text(self, text: str, *, preamble: bool) -> None:
        self._items += 1
        if preamble:
            name = f"commentary-{self._items}"
            cut = self._draw(st.integers(1, len(text)))
            self.stream += [self.frames.preamble(text[:cut], name), self.frames.preamble(text, name, "end")]
            return
        told = f"\n\n{text}" if self.way.cli and self._whole else text
        base = self._whole if self.way.cli else ""
        places = sorted({*self._draw(st.lists(st.integers(1, len(told)), max_size=4)), len(told)})
        done = 0
        item = None if self.way.cli else f"item-{self._items}"
        for place in places:
            piece, whole = told[done:place], base + told[:place]
            done = place
            seq = next(self.frames._seq)
            pair = []
            delta = piece if self.way.deltas else None
            if self.way.agent:
                data: dict[str, Any] = {"itemId": item} if item else {}
                if self.way.wholes:
                    data["text"] = whole
                if delta is not None:
                    data["delta"] = delta
                pair.append(self.frames.agent("assistant", seq, **data))
            if self.way.chat:
                pair.append(self.frames.delta(whole if self.way.wholes else None, delta, seq))
            self.stream += reversed(pair) if self.way.chat_first else pair
        self._whole = base + told


def _shape(items: list[Any]) -> tuple[str, list[tuple[str, str, str]]]:
    return text_of(items), [(card.call_id, card.name, card.status) for card in cards_of(items)]


def _applied(shown: list[Any], diff: Diff) -> None:
    for op in diff:
        if isinstance(op, Added):
            shown.insert(op.index, op.item)
        elif isinstance(op, Grew):
            assert shown[op.index].id == op.item_id
            shown[op.index].text += op.text
        elif isinstance(op, Changed):
            assert shown[op.index].id == op.item.id
            shown[op.index] = op.item


def _truth(telling: Telling, live: Reducer) -> tuple[str, list[tuple[str, str, str]]]:
    told = items_of(telling.rows[1:])
    if telling.way.cli:
        return text_of(told), [(card.call_id, card.name, card.status) for card in cards_of(live.items)]
    return _shape(told)


@given(run=_runs, way=_ways(), data=st.data())
def test_what_streams_is_the_transcript_word_by_word(
    run: tuple[list[Step], str], way: Way, data: st.DataObject
) -> None:
    telling = Telling(run, way, data.draw)
    live, shown = Reducer("run-1"), []  # type: tuple[Reducer, list[Any]]
    for name, payload in [*telling.stream, *telling.end]:
        _applied(shown, live.feed(name, payload))
    _applied(shown, live.close())
    assert _shape(shown) == _shape(live.items)
    truth = _truth(telling, live)
    assert _shape(live.items) == truth
    assert len(cards_of(live.items)) == sum(len(step.calls) for step in run[0])
    assert _shape(finish(telling.rows[1:], live).items) == truth


@given(run=_runs, way=_ways(), data=st.data())
def test_a_repeated_frame_adds_nothing(run: tuple[list[Step], str], way: Way, data: st.DataObject) -> None:
    telling = Telling(run, way, data.draw)
    stream = [*telling.stream, *telling.end]
    chance = data.draw(st.randoms(use_true_random=True))
    doubled = [frame for frame in stream for _ in range(chance.choice([1, 2]))]
    once, twice = Reducer("run-1"), Reducer("run-1")
    for name, payload in stream:
        once.feed(name, payload)
    for name, payload in doubled:
        twice.feed(name, payload)
    once.close()
    twice.close()
    assert _shape(once.items) == _shape(twice.items)


@given(run=_runs, way=_ways(), data=st.data())
def test_a_final_before_the_last_words_changes_nothing(
    run: tuple[list[Step], str], way: Way, data: st.DataObject
) -> None:
    telling = Telling(run, way, data.draw)
    late = data.draw(st.integers(0, min(2, len(telling.stream))))
    place = len(telling.stream) - late
    live = Reducer("run-1")
    for name, payload in [*telling.stream[:place], *telling.end, *telling.stream[place:]]:
        live.feed(name, payload)
    truth = _truth(telling, live)
    assert _shape(finish(telling.rows[1:], live).items) == truth


@given(run=_runs, way=_ways(), data=st.data())
def test_lost_frames_are_read_from_the_transcript(
    run: tuple[list[Step], str], way: Way, data: st.DataObject
) -> None:
    telling = Telling(run, way, data.draw)
    chance = data.draw(st.randoms(use_true_random=True))
    kept = [frame for frame in telling.stream if chance.random() < 0.6]
    live = Reducer("run-1")
    live.lose()
    for name, payload in [*kept, *telling.end]:
        live.feed(name, payload)
    final = finish(telling.rows[1:], live)
    told = items_of(telling.rows[1:])
    assert final.text.split() == text_of(told).split()
    if not way.cli:
        assert _shape(final.items) == _shape(told)


@settings(max_examples=40)
@given(runs=st.lists(st.tuples(_runs, _ways()), min_size=2, max_size=3), data=st.data())
def test_runs_of_several_sessions_that_interleave_stay_apart(
    runs: list[tuple[tuple[list[Step], str], Way]], data: st.DataObject
) -> None:
    scene = Scene(accepts=lambda key: True)
    scene.hello()
    tellings = []
    for number, (run, way) in enumerate(runs):
        telling = Telling(run, way, data.draw, name=f"run-{number}")
        telling.frames.key = f"key-{number}"
        tellings.append(telling)
    queues = []
    for number, telling in enumerate(tellings):
        frames = [*telling.frames.begin(), *telling.stream, *telling.end]
        queues.append([(name, {**payload, "sessionKey": f"key-{number}"}) for name, payload in frames])
    order = data.draw(st.randoms(use_true_random=True))
    while any(queues):
        queue = order.choice([queue for queue in queues if queue])
        scene.push(queue.pop(0))
    for number, telling in enumerate(tellings):
        scene.history(*telling.rows, key=f"key-{number}")
    for number, telling in enumerate(tellings):
        shown = {run.run_id: run for run in scene.ended() if run.key == f"key-{number}"}
        truth = _truth(telling, scene.table.runs(f"key-{number}")[0].state)
        if truth[0] or truth[1]:
            final = shown[f"run-{number}"].final
            assert final is not None
            assert _shape(final.items) == truth
        assert len(scene.table.runs(f"key-{number}")) == 1


@given(run=_runs, way=_ways(), data=st.data())
def test_gaps_reconnects_and_repeated_frames_make_one_message(
    run: tuple[list[Step], str], way: Way, data: st.DataObject
) -> None:
    telling = Telling(run, way, data.draw)
    scene, f = Scene(), telling.frames
    scene.hello()
    active = row(hasActiveRun=True, activeRunIds=["run-1"])
    chance = data.draw(st.randoms(use_true_random=True))
    for frame in [*f.begin(), *telling.stream]:
        event = chance.choice(["kept", "kept", "kept", "twice", "gap", "drop"])
        if event == "gap":
            scene.gap()
            scene.listed(active)
        elif event == "drop":
            scene.drop()
            scene.hello("boot-1", active)
        else:
            scene.push(*[frame] * (2 if event == "twice" else 1))
    if data.draw(st.booleans()):
        scene.push(*telling.end)
    else:
        scene.gap()
    scene.listed(row(status="done", lastRunId="run-1", activeRunIds=[]))
    scene.history(*telling.rows)
    scene.push(f.settled(), *telling.end)
    scene.history(*telling.rows)
    told = items_of(telling.rows[1:])
    messages = list(scene.messages().values())
    if told:
        assert len(messages) == 1
        assert messages[0][0].split() == text_of(told).split()
        if not way.cli:
            assert messages[0] == (text_of(told), [(card.name, card.status) for card in cards_of(told)])
    assert len(scene.table.runs(KEY)) == 1
    assert len({action.run.message_id for action in scene.actions if isinstance(action, Show)}) <= 1
    assert len([action for action in scene.actions if isinstance(action, Show) and action.first]) <= 1


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_connection_that_joins_late_reads_the_whole_text_from_the_next_event(cut: int) -> None:
    frames = Frames("run-1")
    text = "Hello there, you"
    events = [frames.delta(text[:end], text[end - 1 : end]) for end in range(1, len(text) + 1)]
    live = Reducer("run-1")
    for name, payload in events[cut:]:
        live.feed(name, payload)
    live.close()
    assert text_of(live.items) == text
