"""A tab that notes when it hears which word."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from tests.live.rig.tabs import Tab
from tests.live.rig.talk import Told


class Ear(Tab):
    """A tab without a chat on its screen: it is told of every chat of its user's."""

    told: Told

    @classmethod
    @contextlib.asynccontextmanager
    async def listening(cls, url: str, token: str, told: Told) -> AsyncIterator[Ear]:
        async with cls.open(url, token) as tab:
            assert isinstance(tab, Ear)
            tab.told = told
            yield tab

    async def _take(self, packet: str) -> None:
        if hasattr(self, "told"):
            self.told.hear(packet)
            self.events.clear()
        await super()._take(packet)
