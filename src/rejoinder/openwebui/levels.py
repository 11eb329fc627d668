"""The thinking level of a message, brought down to one that its model knows.

A Gateway answers a level that the model does not know with a reply that says so, and the message is lost: so what the
model knows is asked before.
"""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.openclaw.errors import GatewayError
from rejoinder.openclaw.frames import mapping, rows
from rejoinder.openclaw.sessions import Caller

#: From the least to the most; `adaptive` leaves it to the model and counts as medium.
LADDER = ("off", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
LEVELS = frozenset((*LADDER, "adaptive"))


def fitting(level: str, known: Sequence[str]) -> str | None:
    """The highest level the model knows that is not above the wanted one; None if it knows only higher ones."""
    if level in known or not known:
        return level
    wanted = LADDER.index("medium" if level == "adaptive" else level)
    below = [one for one in LADDER[: wanted + 1] if one in known]
    return below[-1] if below else None


async def known_levels(caller: Caller, agent: str, model: str | None) -> list[str]:
    """The levels that a model knows, or the agent's own one where no model is named; empty if it is not told."""
    try:
        if model is None:
            listed = rows(mapping(await caller.call("agents.list", {})).get("agents"))
            found = next((one for one in listed if one.get("id") == agent), None)
        else:
            listed = rows(mapping(await caller.call("models.list", {"agentId": agent})).get("models"))
            found = next((one for one in listed if f"{one.get('provider')}/{one.get('id')}" == model), None)
    except GatewayError:
        return []
    levels = rows((found or {}).get("thinkingLevels"))
    return [str(one["id"]) for one in levels if one.get("id")]


async def chosen_level(
    caller: Caller, agent: str, model: str | None, level: str | None
) -> tuple[str | None, str]:
    """The level to send, and a sentence for the person where it is another one than was wanted."""
    if level is None:
        return None, ""
    found = fitting(level, await known_levels(caller, agent, model))
    if found == level:
        return found, ""
    name = f"The model {model}" if model else "The agent's model"
    told = f"{found} is used" if found else "its own is used"
    return found, f"{name} does not know the thinking level {level}: {told}"
