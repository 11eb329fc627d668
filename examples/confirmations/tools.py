"""Confirmations: a request that an agent makes, a party answers at an outside system, and nobody in between can forge.

``request_confirmation`` makes the outside page; the manifest composes ``request_confirmation_ask_external`` of it, which
waits for the answer, and a preset pins what that is asked with. ``confirm_action`` is what the hook runs on a signed
event, ``reconcile_confirmations`` what a schedule runs for events that never came.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx2

from rejoinder import tool
from rejoinder.contract.errors import ConfigurationError, RejoinderError, RunTerminalFailed
from rejoinder.net.outbound import OutboundError, Reply
from rejoinder.tools.bridge import CALLBACK_KEY, Bridge, missing, passing, read_body, verified_event
from rejoinder.tools.ladder import Ladder
from rejoinder.tools.reconciling import INTERVAL, Found, hours_back, reconcile

COMPLETED, CONFIRMED = "confirmation.completed", "confirmed"
API, KEY = "CONFIRM_API_BASE", "CONFIRM_API_KEY"
TIMEOUT, PACE = "CONFIRM_REQUEST_TIMEOUT_SECONDS", "CONFIRM_RECONCILE_ANSWER_INTERVAL_SECONDS"
PAGE_SIZE, MOST_PAGES = 100, 50


class OutsideError(RejoinderError):
    """The outside system refused, or did not answer."""

    code = "outside-refused"
    status = 502


@tool(title="Make a confirmation page")
async def request_confirmation(callback_url: str, reference: str, return_url: str) -> str:
    """Have a party confirm a request on a page of the outside system."""
    made = await _outside(
        "POST",
        "/v1/confirmations",
        {"reference": reference, "return_url": return_url, "metadata": {CALLBACK_KEY: callback_url}},
    )
    return str(made["url"])


@tool(internal=True, idempotent=True)
async def confirm_action(event: dict[str, Any] | None = None) -> dict[str, str]:
    """Answer the question that a confirmation is about. The event is the one that was kept when its signature had been
    verified; what a caller gives as ``event`` is not looked at."""
    told = verified_event()
    if told.get("type") != COMPLETED:
        raise RunTerminalFailed(f"only events of the type {COMPLETED} are answered with")
    if told.get("decision") != CONFIRMED:
        raise RunTerminalFailed(f"only the decision {CONFIRMED} is answered with")
    return {"status": await Bridge.of_run().answer(_callback_url(told), _payload(told))}


@tool(internal=True, admin_may_run=True, idempotent=True)
async def reconcile_confirmations(lookback_hours: int = 26) -> dict[str, Any]:
    """Answer what was confirmed in the last ``lookback_hours`` (1 to 168) and has no answer here: a webhook that never
    came, or one that is held. Returns {selected, answered, already_answered, expired, rejected, failed}."""
    since = time.time() - hours_back(lookback_hours) * 3600
    bridge = Bridge.of_run()
    found = [
        Found(str(one["id"]), _callback_url(one), _payload(one))
        async for one in _completed(since)
        if one.get("decision") == CONFIRMED and _callback_url(one) is not None
    ]
    return (await reconcile(bridge, found, interval=_seconds(PACE, INTERVAL, least=0))).as_json()


def _callback_url(told: Mapping[str, Any]) -> object:
    metadata = told.get("metadata")
    return metadata.get(CALLBACK_KEY) if isinstance(metadata, Mapping) else None


def _payload(told: Mapping[str, Any]) -> dict[str, Any]:
    """What the question is told, and nothing else that the outside system may have put beside it."""
    return {key: told.get(key) for key in ("reference", "decision")}


async def _completed(since: float) -> AsyncIterator[dict[str, Any]]:
    after = ""
    for _ in range(MOST_PAGES):
        asked = {"status": "completed", "created_from": f"{since:.3f}", "limit": PAGE_SIZE, "after": after}
        page = await _outside("GET", f"/v1/confirmations?{urlencode(asked)}")
        for one in page["items"]:
            yield one
        if not page["has_more"]:
            return
        after = page["items"][-1]["id"]
    raise OutsideError(
        f"over {MOST_PAGES * PAGE_SIZE} confirmations in the window; look back fewer hours, and more than once"
    )


async def _outside(method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    base, key = os.environ.get(API), os.environ.get(KEY)
    missing({API: base, KEY: key})
    patience = _seconds(TIMEOUT, 20)
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    async with httpx2.AsyncClient(timeout=patience, trust_env=False) as client:

        async def send() -> Reply:
            try:
                reply = await client.request(
                    method,
                    f"{base}{path}",
                    content=json.dumps(body) if body is not None else None,
                    headers=headers,
                )
            except httpx2.HTTPError as error:
                raise OutboundError(
                    f"the outside system could not be called ({type(error).__name__})"
                ) from None
            return Reply(reply.status_code, {k.lower(): v for k, v in reply.headers.items()}, reply.content)

        # What makes something is sent once: its reply may be what was lost.
        reply = await (Ladder() if method == "GET" else Ladder(attempts=1)).climb(send, passing)
    if reply.status not in (200, 201):
        raise OutsideError(f"the outside system answered {reply.status}")
    return read_body(reply)


def _seconds(name: str, default: float, *, least: float = 0.001) -> float:
    try:
        value = float(os.environ.get(name) or default)
    except ValueError:
        value = -1.0
    if not least <= value < 86_400:
        raise ConfigurationError(f"{name} must be a number of seconds")
    return value
