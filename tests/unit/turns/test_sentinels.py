"""What an agent says to say nothing is never shown, and nothing else is held back for good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.turns.items import text_of
from rejoinder.turns.reducer import Reducer
from rejoinder.turns.sentinels import SENTINELS, held_from, is_sentinel, may_become_sentinel, without_sentinel
from tests.unit.turns.script import Frames


@st.composite
def _spelled(draw: st.DrawFn) -> str:
    word = draw(st.sampled_from(SENTINELS))
    letters = [letter.upper() if draw(st.booleans()) else letter.lower() for letter in word]
    return (
        draw(st.sampled_from(["", " ", "\n"])) + "".join(letters) + draw(st.sampled_from(["", " ", "\n\n"]))
    )


@given(_spelled())
def test_a_sentinel_is_known_however_it_is_spelled(text: str) -> None:
    assert is_sentinel(text)
    assert not without_sentinel(text).strip()


@given(_spelled(), st.data())
def test_a_sentinel_streams_without_a_word_shown(text: str, data: st.DataObject) -> None:
    frames, live = Frames("run"), Reducer("run")
    places = sorted({*data.draw(st.lists(st.integers(1, len(text)), max_size=5)), len(text)})
    done = 0
    for place in places:
        live.feed(*frames.says(text[:place], text[done:place], "item"))
        done = place
        assert not live.items
    assert live.silent
    live.close()
    assert not live.items


@given(st.text(alphabet="NOREPLY_no \nabc.", max_size=60), st.data())
def test_a_text_that_is_none_is_shown_whole_at_the_end(text: str, data: st.DataObject) -> None:
    frames, live = Frames("run"), Reducer("run")
    done = 0
    for place in sorted({*data.draw(st.lists(st.integers(0, len(text)), max_size=6)), len(text)}):
        live.feed(*frames.says(text[:place], text[done:place], "item"))
        done = place
        shown = text_of(live.items)
        assert text.strip("\r\n").startswith(shown) or text.strip().startswith(shown)
    live.close()
    assert text_of(live.items) == without_sentinel(text).strip()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("No reply came from the host.", "No reply came from the host."),
        ("NO_REPLY is what I would say", "NO_REPLY is what I would say"),
        ("Say NO_REPLY", "Say NO_REPLY"),
        ("Done.\n\nNO_REPLY", "Done."),
        ("Done.\nno_reply\n", "Done."),
        ("NO_REPLY\nDone.", "NO_REPLY\nDone."),
        ("NO", "NO"),
    ],
)
def test_only_a_last_line_of_its_own_is_one(text: str, shown: str) -> None:
    assert without_sentinel(text) == shown


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", 0),
        ("N", 0),
        ("no_re", 0),
        ("Hello", 5),
        ("Hello N", 7),
        ("Hello\nN", 5),
        ("Hello\n", 6),
        ("NOx", 3),
    ],
)
def test_a_growing_text_is_shown_as_far_as_it_is_certain(text: str, held: int) -> None:
    assert held_from(text) == held


def test_blank_text_is_no_beginning_of_a_sentinel() -> None:
    assert not may_become_sentinel("")
    assert not may_become_sentinel(" \n")


def test_a_sentinel_that_is_taken_back_and_followed_by_an_answer_shows_the_answer() -> None:
    # s07_noreply: NO_REPLY is replaced by nothing, then the same run tries again.
    frames, live = Frames("run"), Reducer("run")
    live.feed(*frames.says("NO_R", "NO_R", "one"))
    live.feed(*frames.says("NO_REPLY", "EPLY", "one"))
    live.feed(*frames.agent("assistant", text="", delta="", replace=True, itemId="one"))
    live.feed(*frames.agent("lifecycle", phase="start", startedAt=2))
    live.feed(*frames.delta("The answer.", "The answer.", 14))
    live.feed(*frames.says("The answer.", item="two", seq=14))
    live.close()
    assert text_of(live.items) == "The answer."
