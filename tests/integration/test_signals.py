"""Signals between processes: each is heard once everywhere, the sender included."""

from __future__ import annotations

from rejoinder.store.database import Database
from rejoinder.store.signals import Signals
from tests.support import assert_eventually


async def test_a_signal_is_heard_once_by_its_sender_and_once_by_others(database: Database) -> None:
    here, there = Signals(database), Signals(database)
    heard: dict[str, list[str]] = {"here": [], "there": []}
    here.hear("q", heard["here"].append)
    there.hear("q", heard["there"].append)
    await here.start()
    await there.start()
    try:
        here.tell("q:1", "q:2")
        assert heard["here"] == ["1", "2"]
        await assert_eventually(lambda: heard["there"] == ["1", "2"], "it was not heard elsewhere")
        # What comes back on the same connection comes in order: after this one, no echo is still on its way.
        there.tell("q:3")
        await assert_eventually(lambda: "3" in heard["here"], "it was not heard here")
        assert heard == {"here": ["1", "2", "3"], "there": ["1", "2", "3"]}
    finally:
        await here.stop()
        await there.stop()
