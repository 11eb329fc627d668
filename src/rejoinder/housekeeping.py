"""What a process does now and then beside its work: rows that are over are pruned, and servers look whether answers could
reach them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from rejoinder.asks.canary import check_route
from rejoinder.contract.errors import NotReadyError
from rejoinder.contract.public import public_base, wrong_with
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics

if TYPE_CHECKING:
    from rejoinder.node import Node

log = get_logger("node")

HOUSEKEEPING_SECONDS = 60.0
#: The first canary is sent once the doors stand open, the next ones at this distance.
CANARY_FIRST_SECONDS = 10.0
CANARY_SECONDS = 300.0
#: A thousand images are looked at in one round; the next housekeeping goes on from there.
MEDIA_ROUNDS = 20
#: A request is given up while its client still counts on it; after that, who was told is of no interest.
LEGS_KEPT = timedelta(days=1)
#: Between two batches, so that the work that people wait for gets its turn.
PAUSE_SECONDS = 0.1


async def send_canaries(node: Node) -> None:
    """Servers look whether answers could reach them from outside, so that a dead route is not taken for tickets
    that are over."""
    base = node.settings.interactions_public_base_url
    if base is None or wrong_with(base) is not None or node.kind not in ("server", "up"):
        return
    up = True
    await asyncio.sleep(CANARY_FIRST_SECONDS)
    while True:
        try:
            route = await check_route(node.office, node.outbound, public_base(base))
        except NotReadyError:
            pass
        except Exception:
            log.exception("the canary failed")
        else:
            metrics.callback_route.set(route.up)
            if route.up != up:
                (log.info if route.up else log.error)("callback route", up=route.up, what=route.what)
            up = route.up
        await asyncio.sleep(CANARY_SECONDS)


@dataclass(frozen=True, slots=True)
class Chore:
    """``once()`` takes away what is over and returns how many rows; where that is a whole ``batch``, there is more."""

    name: str
    once: Callable[[], Awaitable[int]]
    batch: int


def chores(node: Node) -> list[Chore]:
    settings = node.settings
    audit = timedelta(days=settings.rejoinder_audit_retention_days)
    results = settings.tai_tool_runs_result_ttl_seconds
    found = [
        Chore("events", lambda: node.events.prune(audit), 5000),
        Chore("runs", lambda: node.runs.prune(results=results, rows=audit.total_seconds()), 1000),
        Chore("sessions", _all(node.access.prune), 1),
        Chore("tickets", node.tickets.prune, 5000),
        Chore("deliveries", _deliveries(node), 1000),
        Chore("notifications", lambda: node.notifications.prune(audit), 1000),
        Chore("media", _media(node), 1),
        Chore("hits", node.hits.prune, 5000),
        Chore("legs", lambda: node.legs.prune(LEGS_KEPT), 5000),
        Chore("schedules", lambda: node.schedule_store.prune(audit), 1000),
    ]
    if node.worker is not None:
        found.append(Chore("checkpoints", _all(lambda: node.agents.sweep(node.asks)), 1))
    return found


def _deliveries(node: Node) -> Callable[[], Awaitable[int]]:
    settings = node.settings
    return lambda: node.kept.prune(
        verified=settings.rejoinder_delivery_retention_seconds,
        open_ones=settings.rejoinder_open_delivery_retention_seconds,
    )


def _all(act: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[int]]:
    """A chore that does all there is at once."""

    async def once() -> int:
        await act()
        return 0

    return once


def _media(node: Node) -> Callable[[], Awaitable[int]]:
    seen = ""

    async def once() -> int:
        nonlocal seen
        for _ in range(MEDIA_ROUNDS):
            seen, _ = await node.media.prune(after=seen, kept=node.settings.interactions_idle_ttl_seconds)
            if not seen:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        return 0

    return once


async def keep_house(node: Node) -> None:
    todo = chores(node)
    while True:
        await asyncio.sleep(HOUSEKEEPING_SECONDS)
        for chore in todo:
            try:
                while await chore.once() >= chore.batch:
                    await asyncio.sleep(PAUSE_SECONDS)
            except NotReadyError:
                pass
            except Exception:
                # What stands in one chore's way must not keep the others from being done.
                log.exception("housekeeping failed", chore=chore.name)
