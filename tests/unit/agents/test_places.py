"""A place in the code of a resumable tool is the same text each time, however long anything takes."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.agents import places

#: Code as a tree: a number of things done one after the other, or branches that run at once.
Tree = Any
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.integers(1, 3), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8
)


async def _play(tree: Tree, chance: random.Random, seen: dict[str, str], path: str) -> None:
    """Do what the tree says, each thing as slow as chance has it; note which place each had."""
    if isinstance(tree, int):
        for number in range(tree):
            place = places.here()
            assert place not in seen, "two things at one place"
            seen[place] = f"{path}:{number}"
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        return
    # Something before and after the branches, as code has.
    await _play(1, chance, seen, f"{path}<")
    await asyncio.gather(*(_play(one, chance, seen, f"{path}.{i}") for i, one in enumerate(tree)))
    await _play(1, chance, seen, f"{path}>")


def _seen(tree: Tree, seed: int) -> dict[str, str]:
    seen: dict[str, str] = {}

    async def main() -> None:
        places.begin()
        await _play(tree, random.Random(seed), seen, "")

    asyncio.run(main())
    return seen


@given(TREES, st.integers(0, 1000), st.integers(0, 1000))
def test_what_is_done_has_the_same_place_whichever_branch_is_quicker(
    tree: Tree, first: int, second: int
) -> None:
    assert _seen(tree, first) == _seen(tree, second)


@pytest.mark.parametrize(
    ("place", "parts"), [("3", ("", 3)), ("2/1.4", ("2/1.", 4)), ("2/1.4/12.1", ("2/1.4/12.", 1))]
)
def test_a_place_is_taken_apart(place: str, parts: tuple[str, int]) -> None:
    assert places.split(place) == parts
