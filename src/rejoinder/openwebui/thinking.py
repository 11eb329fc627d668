"""The filter that sets the thinking level of a chat: it writes the field that Open WebUI's own settings write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

Level = Literal["default", "off", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "adaptive"]


class Filter:
    """What Open WebUI loads."""

    class Valves(BaseModel):
        """An administrator's settings."""

        priority: int = Field(default=0, description="The order among filters; the lowest comes first.")
        override_advanced_params: bool = Field(
            default=True, description="Win over the reasoning effort that is set in the chat's controls."
        )
        PIPE_ID: str = Field(default="openclaw_gateway", description="The pipe whose models it is for.")

    class UserValves(BaseModel):
        """A person's settings."""

        level: Level = Field(
            default="default",
            description="How much the agent thinks before it answers. “default” leaves it to the agent.",
        )

    def __init__(self) -> None:
        self.valves = self.Valves()
        self.toggle = True

    async def inlet(
        self,
        body: dict[str, Any],
        __user__: Mapping[str, Any] | None = None,
        __model__: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Before a request goes out."""
        level = _level((__user__ or {}).get("valves"))
        if level == "default" or not self._is_ours(body, __model__ or {}):
            return body
        if body.get("reasoning_effort") and not self.valves.override_advanced_params:
            return body
        body["reasoning_effort"] = level
        return body

    def _is_ours(self, body: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
        info = model.get("info")
        base = info.get("base_model_id") if isinstance(info, Mapping) else None
        prefix = f"{self.valves.PIPE_ID}."
        return any(str(one or "").startswith(prefix) for one in (body.get("model"), base))


def _level(valves: object) -> str:
    found = valves.get("level") if isinstance(valves, Mapping) else getattr(valves, "level", None)
    return str(found or "default")
