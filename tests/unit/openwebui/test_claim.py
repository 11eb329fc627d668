"""Where a new message belongs in a chat, whatever state the chat is in."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.openwebui.claim import deepest_leaf, model_at
from rejoinder.openwebui.registry import Registry, new_writer_id

Messages = dict[str, dict[str, Any]]


def chain(**children: list[str]) -> Messages:
    return {name: {"id": name, "childrenIds": below, "timestamp": 1} for name, below in children.items()}


@pytest.mark.parametrize(
    ("messages", "current", "expected"),
    [
        ({}, None, None),
        ({}, "gone", None),
        (chain(a=["b"], b=["c"], c=[]), "a", "c"),
        (chain(a=["b", "c"], b=[], c=[]), "a", "c"),  # the newest child
        (chain(a=["b", "c"], b=[], c=[]), "b", "b"),  # the branch that is shown
        (chain(a=["b", "gone"], b=[]), "a", "b"),
        (chain(a=["b"], b=["a"]), "a", "b"),  # a circle
        (chain(a=["a"]), "a", "a"),
        (chain(a=["b"], b=[]), "gone", "b"),
    ],
)
def test_the_tail_of_the_shown_branch(messages: Messages, current: str | None, expected: str | None) -> None:
    assert deepest_leaf(messages, current) == expected


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdefgh"), max_size=4), max_size=6),
    st.sampled_from([*"abcdefgh", None]),
)
def test_however_broken_a_chat_is_there_is_a_tail(tree: dict[str, list[str]], current: str | None) -> None:
    messages = chain(**tree)
    leaf = deepest_leaf(messages, current)
    assert (leaf is None) == (not messages)
    assert leaf is None or leaf in messages


def test_a_new_reply_has_the_model_of_the_nearest_one() -> None:
    messages: Messages = {
        "a": {"models": ["m.asked"], "parentId": None},
        "b": {"model": "m.answered", "parentId": "a"},
        "c": {"parentId": "b"},
        "x": {"parentId": "y"},
        "y": {"parentId": "x"},
    }
    assert model_at(messages, "c", ["m.chat"]) == "m.answered"
    assert model_at(messages, "a", ["m.chat"]) == "m.asked"
    assert model_at(messages, "x", ["m.chat"]) == "m.chat"
    assert model_at(messages, None, []) == ""


def test_a_writer_is_known_for_alive_or_dead() -> None:
    anchor = SimpleNamespace()
    one, other = Registry(anchor), Registry(anchor)
    mine, gone = new_writer_id(), new_writer_id()
    retired: list[str] = []
    one.enter(mine, lambda: retired.append(mine))
    assert other.alive(mine)
    # Of this process, but nobody's any more.
    assert not other.alive(gone)
    other.enter(gone, lambda: retired.append(gone))
    assert retired == [mine]
    other.leave(mine)
    assert not one.alive(mine)
    machine, _, _, nonce = mine.split("/")
    parent = os.getppid()
    assert not one.alive(f"{machine}/{parent}/1/{nonce}")  # that number is another process' by now
    assert not one.alive(f"elsewhere/{os.getpid()}/1/{nonce}")
    assert not one.alive("nonsense")


def test_another_living_process_of_this_machine_is_alive() -> None:
    machine = new_writer_id().split("/")[0]
    parent = str(os.getppid())
    with open(f"/proc/{parent}/stat", encoding="utf-8") as file:
        started = file.read().rpartition(")")[2].split()[19]
    assert Registry(SimpleNamespace()).alive(f"{machine}/{parent}/{started}/abc")
