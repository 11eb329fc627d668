"""Faults that bridges between an agent and a chat are known for, each as a small script of its own kind."""

from __future__ import annotations

import pytest

from rejoinder.turns.finish import finish
from rejoinder.turns.identity import message_id
from rejoinder.turns.items import Card, Text, cards_of, text_of
from rejoinder.turns.reducer import Reducer
from rejoinder.turns.signals import End, ReadList, Show
from rejoinder.turns.table import RunTable
from tests.unit.turns.script import (
    KEY,
    M1,
    M2,
    OTHER,
    OWN,
    Frames,
    Scene,
    discarded,
    firsts,
    row,
    wants_history,
)

AGENT = "8d503703-f0d6-4698-9067-9245d1809fe6"
WORDS = "one two three four five six seven eight nine ten"


def _deltas(f: Frames, text: str) -> list[tuple[str, dict[str, object]]]:
    told, frames = "", []
    for word in text.split(" "):
        delta = word if not told else f" {word}"
        told += delta
        frames.append(f.delta(told, delta))
    return frames


def test_a_page_that_opens_mid_turn_sees_all_words_so_far_and_the_rest() -> None:
    f, live = Frames(AGENT), Reducer(AGENT)
    frames = _deltas(f, WORDS)
    for name, payload in frames[:5]:
        live.feed(name, payload)
    shown = [op.item for op in live.snapshot()]  # type: ignore[union-attr]
    assert text_of(shown) == "one two three four five"
    for name, payload in frames[5:]:
        live.feed(name, payload)
    assert text_of(live.items) == WORDS


def test_a_tool_that_is_silent_for_long_ends_nothing() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.call("c1"))
    scene.push(*[("tick", {"ts": number * 30_000}) for number in range(10)])
    assert [run.run_id for run in scene.table.unfinished()] == [AGENT]
    scene.push(f.result("c1"), *_deltas(f, "Done at last."), *f.final("Done at last."))
    scene.history(f.asked(), f.called("c1"), f.returned("c1"), f.said("Done at last."))
    assert scene.messages() == {message_id(KEY, AGENT): ("Done at last.", [("exec", "completed")])}


def test_a_thinking_model_whose_final_repeats_everything_is_told_once() -> None:
    f, live = Frames(AGENT), Reducer(AGENT)
    frames = [f.agent("thinking", text="Hm", delta="Hm"), *_deltas(f, WORDS), f.says(WORDS), *f.final(WORDS)]
    for name, payload in [*frames, *f.final(WORDS)]:
        live.feed(name, payload)
    live.close()
    assert text_of(live.items) == WORDS


def test_a_socket_that_drops_every_few_events_neither_loses_nor_doubles_words() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    frames = _deltas(f, WORDS)
    scene.push(*f.begin())
    for number, frame in enumerate(frames):
        if number % 3 == 2:
            told = frame[1]["message"]["content"][0]["text"]  # type: ignore[index]
            scene.drop()
            scene.hello("boot-1", row(hasActiveRun=True))
            scene.history(f.asked(), inFlightRun={"runId": AGENT, "text": told, "events": []})
        else:
            scene.push(frame)
    scene.push(*f.final(WORDS), f.settled())
    live = scene.table.find(KEY, AGENT)
    assert live is not None
    assert text_of(live.state.items) == WORDS
    scene.history(f.asked(), f.said(WORDS))
    assert scene.messages() == {message_id(KEY, AGENT): (WORDS, [])}
    assert len(firsts(scene.actions)) == 1


def test_a_final_that_names_no_message_never_repeats_another_runs_answer() -> None:
    scene, one, beat = Scene(), Frames(OWN), Frames(AGENT)
    scene.hello()
    scene.push(*one.begin(), *_deltas(one, "X"), *one.final("X"), one.settled())
    scene.history(one.asked(), one.said("X"))
    scene.push(*beat.begin(), *beat.final(), beat.settled())
    scene.history(one.asked(), one.said("X"), beat.asked())
    assert scene.messages() == {M1: ("X", [])}
    assert [run.run_id for run in discarded(scene.actions)] == [AGENT]


def test_a_stopped_run_whose_tool_goes_on_ends_once_and_stays_ended() -> None:
    scene, f = Scene(), Frames(OWN)
    scene.hello()
    scene.push(*f.begin(), f.call("c1"), f.chat("aborted", stopReason="rpc"))
    scene.history(f.asked(), f.called("c1"))
    later = [f.result("c1", "Aborted", error=True), f.call("c2"), f.says("more", "more", "i")]
    actions = scene.push(*later, f.settled("killed"))
    assert not [action for action in actions if isinstance(action, Show | End)]
    assert scene.messages() == {M1: ("", [("exec", "incomplete")])}


@pytest.mark.parametrize("lost", ["delta", "start", "tool", "final"])
def test_whatever_frame_is_dropped_the_text_is_whole_in_the_end(lost: str) -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    start = [] if lost == "start" else f.begin()
    tool = [] if lost == "tool" else [f.call("c1"), f.result("c1")]
    words = _deltas(f, "one two three")
    end = [] if lost == "final" else f.final("one two three")
    kept = [words[0], words[2]] if lost == "delta" else words
    scene.push(*start)
    assert ReadList() in scene.gap()
    scene.listed(row(hasActiveRun=True, activeRunIds=[AGENT]))
    scene.push(*tool, *kept, *end)
    scene.listed(row(status="done", lastRunId=AGENT, activeRunIds=[]))
    scene.history(f.asked(), f.called("c1"), f.returned("c1"), f.said("one two three"))
    assert scene.messages() == {message_id(KEY, AGENT): ("one two three", [("exec", "completed")])}


def test_one_message_that_starts_two_runs_is_two_messages_with_their_own_words() -> None:
    scene, one, twin = Scene(), Frames(OWN), Frames(AGENT)
    scene.hello()
    for f in (one, twin):
        scene.push(*f.begin(), *_deltas(f, "Same words."), *f.final("Same words."), f.settled())
    scene.history(one.asked(), one.said("Same words."), twin.asked(), twin.said("Same words."))
    assert scene.messages() == {M1: ("Same words.", []), message_id(KEY, AGENT): ("Same words.", [])}


def test_a_completion_announced_twice_is_one_whole_message_for_each_run() -> None:
    scene = Scene()
    first, again = (Frames(f"announce:v1:agent:main:subagent:c:{number}") for number in range(2))
    scene.hello()
    scene.push(*first.begin(), *again.begin())
    for pair in zip(_deltas(first, "The child is done."), _deltas(again, "The child is done."), strict=True):
        scene.push(*pair)
    scene.push(*first.final("The child is done."), *again.final("The child is done."))
    scene.history(first.said("The child is done."), again.said("The child is done."))
    assert scene.messages() == {message_id(KEY, f.run): ("The child is done.", []) for f in (first, again)}


def test_a_yield_that_nothing_follows_spins_for_nobody_and_the_next_turn_is_its_own() -> None:
    scene, one, two = Scene(), Frames(OWN), Frames(OTHER)
    scene.hello()
    scene.push(*one.begin(), one.preamble("I wait."), one.call("c1"), one.result("c1"))
    scene.push(
        one.over(yielded=True), one.chat("final", yielded=True), one.settled("running", lastRunId=None)
    )
    rows = [one.asked(), one.before_tool("I wait."), one.called("c1"), one.returned("c1")]
    scene.history(*rows)
    assert not scene.table.unfinished()
    scene.push(
        *two.begin(), *_deltas(two, "The child said 42."), *two.final("The child said 42."), two.settled()
    )
    scene.history(*rows, two.asked(), two.said("The child said 42."))
    assert scene.messages() == {M1: ("I wait.", [("exec", "completed")]), M2: ("The child said 42.", [])}


@pytest.mark.parametrize("words", [("a", "a", " a"), ("Yes.", "Yes.", " Yes."), ("One", "Tw", "o\n\nthree")])
def test_a_final_that_overtakes_the_last_piece_of_the_text_after_a_tool_completes_it(
    words: tuple[str, str, str],
) -> None:
    # A CLI runtime's final has everything; its pieces came without the whole, and the last of them after it.
    before, start, end = words
    f, live = Frames(AGENT), Reducer(AGENT)
    whole = f"{before}\n\n{start}{end}"
    pieces = [f.delta(None, before), f.call("c1"), f.result("c1"), f.delta(None, f"\n\n{start}")]
    for name, payload in [*pieces, *f.final(whole), f.delta(None, end)]:
        live.feed(name, payload)
    live.close()
    shown = [item.text if isinstance(item, Text) else type(item) for item in live.items]
    assert shown == [before, Card, f"{start}{end}"]
    assert finish([f.cli_said(whole)], live).text == whole


@pytest.mark.parametrize("told", ["chat", "agent"])
def test_text_that_comes_on_one_stream_only_is_shown_live(told: str) -> None:
    f, live = Frames(AGENT), Reducer(AGENT)
    frames = _deltas(f, WORDS)
    if told == "agent":
        pieces = WORDS.split(" ")
        wholes = [" ".join(pieces[:count]) for count in range(1, len(pieces) + 1)]
        frames = [
            f.says(whole, whole[len(before) :]) for before, whole in zip(["", *wholes], wholes, strict=False)
        ]
    shown = []
    for name, payload in frames:
        live.feed(name, payload)
        shown.append(text_of(live.items))
    assert shown == [" ".join(WORDS.split()[:count]) for count in range(1, 11)]


def test_the_same_turn_finished_again_after_a_reload_has_the_same_cards_and_id() -> None:
    f = Frames(OWN)
    rows = [f.asked(), f.called("c1", "c2"), f.returned("c2", error=True), f.returned("c1"), f.said("Done.")]
    shapes = []
    for _ in range(2):
        scene = Scene(adopt=True)
        scene.history(*rows)
        shapes.append(scene.messages())
    assert shapes[0] == shapes[1] == {M1: ("Done.", [("exec", "completed"), ("exec", "failed")])}


def test_a_client_that_was_gone_from_the_first_word_gets_the_full_reply() -> None:
    scene, f = Scene(), Frames(OWN)
    scene.hello()
    scene.table.expect(KEY, OWN)
    scene.drop()
    assert wants_history(scene.hello("boot-1", row(status="done", lastRunId=OWN, activeRunIds=[])))
    scene.history(f.asked(), f.called("c1"), f.returned("c1"), f.said(WORDS))
    assert scene.messages() == {M1: (WORDS, [("exec", "completed")])}


def test_a_thousand_deltas_of_other_chats_do_not_touch_this_one() -> None:
    table = RunTable()
    scene = Scene()
    scene.table = table
    f = Frames(OWN)
    scene.hello()
    scene.push(*f.begin(), f.delta("Hello", "Hello"))
    foreign = Frames("x", key="agent:main:telegram:42")
    assert scene.push(*[foreign.delta(f"{n}", f"{n}") for n in range(1000)]) == []
    live = table.find(KEY, OWN)
    assert live is not None
    assert text_of(live.state.items) == "Hello"


def test_cards_alone_are_a_message_and_an_empty_run_is_none() -> None:
    f = Frames(AGENT)
    assert finish([f.called("c1"), f.returned("c1")], None).visible
    assert not finish((), Reducer(AGENT)).visible
    assert not cards_of(finish((), Reducer(AGENT)).items)
