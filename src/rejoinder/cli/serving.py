"""What the doctor asks the running server: which presets make no tool there. Only a server knows which tools it has."""

from __future__ import annotations

import os
from pathlib import Path

from rejoinder.cli.client import Client
from rejoinder.cli.remote import Remote, items_of
from rejoinder.contract.errors import RejoinderError
from rejoinder.launch.findings import Finding
from rejoinder.launch.paths import DataFolder

PATIENCE = 5.0
SHOWN = 10


def look_at_presets(data: Path | None) -> list[Finding]:
    """A warning where presets are quarantined. Nothing where no server can be asked: other checks tell why."""
    found: list[str] = []
    after: str | None = None
    try:
        client = _client(data)
        while client is not None:
            answer = client.get("/api/presets", after=after, limit=200)
            found += [str(one["name"]) for one in items_of(answer) if one.get("quarantine")]
            after = answer.get("next_after") if isinstance(answer, dict) else None
            if after is None:
                break
    except RejoinderError:
        return []
    if not found:
        return []
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return [
        Finding(
            "presets",
            "warn",
            f"Presets that the server makes no tool of: {', '.join(found[:SHOWN])}{more}.",
            "See why with: rejoinder presets list. Each comes back by itself once its base tool fits again.",
        )
    ]


def _client(data: Path | None) -> Client | None:
    server = os.environ.get("REJOINDER_SERVER")
    if server or data is None:
        return Remote(server=server or None, timeout=PATIENCE).client()
    folder = DataFolder.choose(data)
    url = folder.read_endpoint()
    return Client(url, folder.read_owner_key(), timeout=PATIENCE) if url is not None else None
