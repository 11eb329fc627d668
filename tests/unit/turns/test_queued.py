"""Which of the messages that wait in a busy session a collection holds."""

from __future__ import annotations

import pytest

from rejoinder.turns.queued import Queued, collected
from rejoinder.turns.transcript import Row
from tests.unit.turns.script import CHAT, M1, OTHER, OWN

LATER = f"msg-{CHAT}-66666666-6666-4666-8666-666666666666-1"


def collection(*texts: str) -> Row:
    parts = [f"---\nQueued #{number} (from gateway-client)\n{text}" for number, text in enumerate(texts, 1)]
    return {"role": "user", "content": "\n\n".join(["[Queued messages while agent was busy]", *parts])}


def waiting(**known: str | None) -> Queued:
    queued = Queued()
    for run_id, text in zip((OWN, OTHER, LATER), known.values(), strict=False):
        queued.put(run_id, text)
    return queued


def test_the_texts_of_a_collection() -> None:
    assert [text.strip() for text in collected(collection("one", "two\n\nlines", ""))] == [
        "one",
        "two\n\nlines",
        "",
    ]
    assert collected({"role": "user", "content": "one"}) == []


@pytest.mark.parametrize(
    ("known", "texts", "held"),
    [
        pytest.param({"a": "one", "b": "two"}, ["one"], [OWN], id="the first alone"),
        pytest.param({"a": "one", "b": "two"}, ["two"], [OTHER], id="the second alone"),
        pytest.param({"a": "one", "b": "two", "c": "three"}, ["one", "two"], [OWN, OTHER], id="two of three"),
        pytest.param(
            {"a": None, "b": None, "c": None}, ["one", "two"], [OWN, OTHER], id="unknown texts: in order"
        ),
        pytest.param({"a": None, "b": "two"}, ["two"], [OTHER], id="a known text goes before an unknown one"),
        pytest.param({"a": "same", "b": "same"}, ["same", "same"], [OWN, OTHER], id="the same twice"),
        pytest.param({"a": "one"}, ["[12:00] one"], [OWN], id="with the Gateway's own words around it"),
        pytest.param({}, ["one"], [], id="none that is known"),
    ],
)
def test_what_a_collection_holds(known: dict[str, str | None], texts: list[str], held: list[str]) -> None:
    assert waiting(**known).collect(collection(*texts)) == held


def test_a_collection_that_tells_no_texts_holds_all_that_wait() -> None:
    assert waiting(a="one", b=None).collect({"role": "user", "content": "go"}) == [OWN, OTHER]


def test_a_reply_that_may_have_waited_is_known_by_its_text_only() -> None:
    queued = Queued()
    queued.put(OWN, "one", sure=False)
    queued.put(OTHER, "two", sure=False)
    assert queued.collect({"role": "user", "content": "go"}) == []
    assert queued.collect(collection("three")) == []
    assert queued.collect(collection("two")) == [OTHER]


def test_all_but_the_last_wait_no_longer_and_the_last_until_its_run_is_known() -> None:
    queued = waiting(a="one", b="two", c="three")
    queued.collect(collection("one", "two"))
    assert list(queued) == [OTHER, LATER]
    queued.take(OTHER)
    assert list(queued) == [LATER]


def test_a_message_is_known_under_every_id_it_may_have_been_sent_with() -> None:
    queued, other = Queued(), f"msg-{CHAT}-{M1}-left"
    queued.put(other, "one", sure=False)
    assert OWN in queued
    queued.put(OWN)
    assert list(queued) == [OWN]
    queued.take(other)
    assert not queued
