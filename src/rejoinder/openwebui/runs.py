"""A run that is no chat's message, waited for to its own end: a title's, a compaction's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.frames import mapping
from rejoinder.openclaw.history import read_history
from rejoinder.openclaw.streams import Gap
from rejoinder.turns.finish import finish
from rejoinder.turns.transcript import blocks_of, is_closed, rows_of

_ENDS = frozenset(("final", "error", "aborted"))


async def said_at_end(
    client: GatewayClient, key: str, run_id: str, send: Callable[[], Awaitable[None]], seconds: float
) -> str:
    """What the run said when it ended; empty if it failed or said nothing. send: starts it.

    seconds: a run whose end was lost is not waited for without end. Raises GatewayError, TimeoutError.
    """
    stream = client.claim(run_id)
    try:
        await send()
        async with asyncio.timeout(seconds):
            async for item in stream:
                if isinstance(item, Gap):
                    # Its end may be among what was lost; then the transcript has it.
                    if item.reason != "early" and (written := await _written(client, key, run_id)):
                        return written
                elif item.name == "chat" and item.payload.get("state") in _ENDS:
                    return _said(item.payload) if item.payload["state"] == "final" else ""
        return ""
    finally:
        stream.close()
        client.discard(run_id)


async def _written(client: GatewayClient, key: str, run_id: str) -> str:
    history = await read_history(client, key)
    own = rows_of(history.rows, run_id)
    return finish(own, None).text if is_closed(own) else ""


def _said(payload: Mapping[str, Any]) -> str:
    blocks = blocks_of(mapping(payload.get("message")))
    return "\n".join(str(one.get("text") or "") for one in blocks if one.get("type") == "text").strip()
