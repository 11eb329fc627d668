"""The thinking level goes down to what the model knows, and never up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.openclaw.errors import CallFailed, NotConnected
from rejoinder.openwebui.levels import LADDER, LEVELS, chosen_level, fitting


@given(st.sampled_from(sorted(LEVELS)), st.sets(st.sampled_from(LADDER)))
def test_a_level_goes_down_and_never_up(level: str, known: set[str]) -> None:
    found = fitting(level, sorted(known))
    if not known or level in known:
        assert found == level
        return
    wanted = LADDER.index("medium" if level == "adaptive" else level)
    lower = [LADDER.index(one) for one in known if LADDER.index(one) <= wanted]
    assert found == (LADDER[max(lower)] if lower else None)


class Gateway:
    """Answers calls from a table."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {name.replace("_", "."): answer for name, answer in answers.items()}

    async def call(self, method: str, params: Any, *, seconds: float = 0) -> Any:
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer


def levels(*names: str) -> list[dict[str, str]]:
    return [{"id": name, "label": name} for name in names]


@pytest.mark.parametrize(
    ("model", "level", "found", "told"),
    [
        ("live/thinking", "high", "high", ""),
        ("live/thinking", "ultra", "high", "live/thinking does not know the thinking level ultra: high"),
        ("live/plain", "low", "off", "off is used"),
        ("live/eager", "low", None, "its own is used"),
        ("live/unknown", "max", "max", ""),
        (None, "max", "medium", "The agent's model does not know the thinking level max: medium"),
        (None, None, None, ""),
    ],
)
async def test_the_models_own_levels_are_asked(
    model: str | None, level: str | None, found: str | None, told: str
) -> None:
    listed = [
        {"id": "thinking", "provider": "live", "thinkingLevels": levels("off", "low", "medium", "high")},
        {"id": "plain", "provider": "live", "thinkingLevels": levels("off")},
        {"id": "eager", "provider": "live", "thinkingLevels": levels("high", "max")},
    ]
    agents = [
        {"id": "other", "thinkingLevels": levels("off")},
        {"id": "main", "thinkingLevels": levels("off", "medium")},
    ]
    gateway = Gateway(models_list={"models": listed}, agents_list={"agents": agents})
    level_sent, note = await chosen_level(gateway, "main", model, level)
    assert level_sent == found
    assert told in note
    assert bool(note) == bool(told)


@pytest.mark.parametrize("error", [NotConnected(), CallFailed("models.list", {"code": "INVALID_REQUEST"})])
async def test_where_it_is_not_told_the_level_is_sent_as_it_is(error: Exception) -> None:
    gateway = Gateway(models_list=error, agents_list=error)
    for model in ("live/thinking", None):
        assert await chosen_level(gateway, "main", model, "max") == ("max", "")
