"""The Function that connects when Open WebUI starts, with nobody there: a pipe is loaded only when somebody asks."""

from __future__ import annotations

import logging
from typing import Any

from rejoinder.openwebui.deployment import SettingError, bridge_for
from rejoinder.openwebui.host import Host, UnknownHost
from rejoinder.openwebui.valves import EventValves, PipeValves

log = logging.getLogger("rejoinder.openwebui")


class Event:
    """What Open WebUI loads. Every event is a chance to connect, so that a later start-up event does it too."""

    class Valves(EventValves):
        """See `valves`."""

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def event(self, event: Any, __app__: Any = None) -> None:
        """Something happened in Open WebUI."""
        name = event.get("event") if isinstance(event, dict) else getattr(event, "event", "")
        if not str(name).startswith("system.startup"):
            return
        try:
            kept = await Host.probe(__app__).valves(self.valves.PIPE_ID)
            bridge_for(PipeValves(**kept), __app__, pipe_id=self.valves.PIPE_ID)
        except (SettingError, UnknownHost) as error:
            log.warning("%s", error)
