"""A small outside system: it has requests confirmed or declined by a party, on a page of its own, and says so with signed
webhooks, again and again until they are taken.

python outside.py --port 9400 --data outside.db --webhook URL

Its API wants CONFIRM_API_KEY as a bearer token, its webhooks are signed with CONFIRM_SIGNING_SECRET. Everything that
such systems do wrong now and then can be ordered at POST /control, with the same key; see ``Control``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import hmac
import html
import json
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import parse_qs

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

SCHEMA = """
CREATE TABLE IF NOT EXISTS confirmation (
    id TEXT PRIMARY KEY, reference TEXT NOT NULL, return_url TEXT NOT NULL, metadata TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending', decision TEXT, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS event (
    id TEXT PRIMARY KEY, body TEXT NOT NULL, created REAL NOT NULL, sent INTEGER NOT NULL DEFAULT 0);
"""
MOST = 100
#: Attempts of one webhook, and seconds before the second one; they double.
ATTEMPTS, FIRST = 8, 0.1


@dataclass(frozen=True)
class Control:
    """What goes wrong from now on. ``outage``: everything but this door answers 503. ``hold``: webhooks are kept back; once
    that is off they go out in the wrong order. ``drop``: so many events are never sent. ``duplicate``: so many are sent
    twice. ``throttle``: so many list requests answer 429. ``say``: the decision that events tell, in place of the
    party's. ``backdate``: hours by which confirmations made from now on look older."""

    outage: bool = False
    hold: bool = False
    drop: int = 0
    duplicate: int = 0
    throttle: int = 0
    say: str | None = None
    backdate: float = 0


class System:
    def __init__(self, data: str, webhook: str, api_key: str, secret: str) -> None:
        self.rows = sqlite3.connect(data, isolation_level=None)
        self.rows.row_factory = sqlite3.Row
        self.rows.executescript(SCHEMA)
        self.webhook, self.api_key, self.secret = webhook, api_key, secret
        self.control = Control()
        self.kept: list[str] = []
        self.sending: set[asyncio.Task[None]] = set()
        self.heard: list[tuple[str, int]] = []

    def confirmation(self, identifier: str) -> dict[str, Any] | None:
        row = self.rows.execute("SELECT * FROM confirmation WHERE id = ?", (identifier,)).fetchone()
        return None if row is None else shown(row)

    def decide(self, identifier: str, decision: str) -> None:
        """The party's word, once; and the event that tells it."""
        changed = self.rows.execute(
            "UPDATE confirmation SET status = 'completed', decision = ? WHERE id = ? AND status = 'pending'",
            (decision, identifier),
        )
        found = self.confirmation(identifier)
        if changed.rowcount != 1 or found is None:
            return
        event = {
            "id": f"evt_{secrets.token_hex(8)}",
            "type": "confirmation.completed" if decision == "confirmed" else "confirmation.declined",
            "created": int(time.time()),
            "reference": found["reference"],
            "decision": self.control.say or decision,
            "metadata": found["metadata"],
        }
        self.rows.execute(
            "INSERT INTO event (id, body, created) VALUES (?, ?, ?)",
            (event["id"], json.dumps(event), time.time()),
        )
        if self.control.drop:
            self.control = replace(self.control, drop=self.control.drop - 1)
            return
        times = 2 if self.control.duplicate else 1
        self.control = replace(self.control, duplicate=max(0, self.control.duplicate - 1))
        for _ in range(times):
            self.kept.append(str(event["id"]))
        self.send_kept()

    def send_kept(self) -> None:
        if self.control.hold:
            return
        for identifier in reversed(self.kept):
            task = asyncio.create_task(self.send(identifier))
            self.sending.add(task)
            task.add_done_callback(self.sending.discard)
        self.kept.clear()

    def signed(self, body: str, at: int) -> str:
        digest = hmac.new(self.secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
        return f"t={at},v1={digest}"

    async def send(self, identifier: str) -> None:
        """Until it is taken, or has been tried often enough."""
        body = self.rows.execute("SELECT body FROM event WHERE id = ?", (identifier,)).fetchone()["body"]
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as client:
            for attempt in range(ATTEMPTS):
                headers = {
                    "content-type": "application/json",
                    "stripe-signature": self.signed(body, int(time.time())),
                }
                status = 0
                with contextlib.suppress(httpx2.HTTPError):
                    status = (await client.post(self.webhook, content=body, headers=headers)).status_code
                self.heard.append((identifier, status))
                if status == 200:
                    self.rows.execute("UPDATE event SET sent = sent + 1 WHERE id = ?", (identifier,))
                    return
                await asyncio.sleep(FIRST * 2**attempt)


def shown(row: sqlite3.Row) -> dict[str, Any]:
    return {**dict(row), "metadata": json.loads(row["metadata"])}


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Confirm</title><body><main><h1>{reference}</h1><p>{said}</p>{form}</main></body></html>"""
FORM = """<form method="post"><button name="decision" value="confirmed">Confirm</button>
<button name="decision" value="declined">Decline</button></form>"""


def application(system: System) -> Starlette:
    def unavailable(request: Request, *, key: bool = True) -> Response | None:
        if system.control.outage:
            return JSONResponse({"error": "unavailable"}, 503)
        given = request.headers.get("authorization", "")
        if key and not hmac.compare_digest(given.encode(), f"Bearer {system.api_key}".encode()):
            return JSONResponse({"error": "no such key"}, 401)
        return None

    async def create(request: Request) -> Response:
        if refusal := unavailable(request):
            return refusal
        body = await request.json()
        identifier = f"cnf_{secrets.token_hex(8)}"
        system.rows.execute(
            "INSERT INTO confirmation (id, reference, return_url, metadata, created) VALUES (?, ?, ?, ?, ?)",
            (
                identifier,
                body["reference"],
                body["return_url"],
                json.dumps(body.get("metadata") or {}),
                time.time() - system.control.backdate * 3600,
            ),
        )
        url = str(request.url.replace(path=f"/c/{identifier}", query=""))
        return JSONResponse({**(system.confirmation(identifier) or {}), "url": url}, 201)

    async def listed(request: Request) -> Response:
        if refusal := unavailable(request):
            return refusal
        if system.control.throttle:
            system.control = replace(system.control, throttle=system.control.throttle - 1)
            return JSONResponse({"error": "slow down"}, 429, headers={"retry-after": "0"})
        asked = request.query_params
        limit = min(int(asked.get("limit", "20")), MOST)
        rows = system.rows.execute(
            "SELECT * FROM confirmation WHERE created >= ? AND created < ? AND (? = '' OR status = ?) AND id > ?"
            " ORDER BY id LIMIT ?",
            (
                float(asked.get("created_from", "0")),
                float(asked.get("created_to", "1e18")),
                asked.get("status", ""),
                asked.get("status", ""),
                asked.get("after", ""),
                limit + 1,
            ),
        ).fetchall()
        return JSONResponse({"items": [shown(row) for row in rows[:limit]], "has_more": len(rows) > limit})

    async def page(request: Request) -> Response:
        if refusal := unavailable(request, key=False):
            return refusal
        found = system.confirmation(request.path_params["id"])
        if found is None:
            return HTMLResponse("Not found", 404)
        if request.method == "POST":
            decision = parse_qs((await request.body()).decode()).get("decision", [""])[0]
            if decision not in ("confirmed", "declined"):
                return HTMLResponse("Press one of the buttons.", 400)
            system.decide(found["id"], decision)
            return RedirectResponse(found["return_url"], 303)
        said = f"This was {found['decision']}." if found["decision"] else "Please confirm or decline."
        form = "" if found["decision"] else FORM
        return HTMLResponse(
            PAGE.format(reference=html.escape(found["reference"]), said=html.escape(said), form=form)
        )

    async def control(request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {system.api_key}".encode()):
            return JSONResponse({"error": "no such key"}, 401)
        if request.method == "POST":
            orders = await request.json()
            if isinstance(replay := orders.pop("replay", None), str):
                await system.send(replay)
            system.control = replace(system.control, **orders)
            system.send_kept()
        rows = system.rows.execute("SELECT * FROM confirmation ORDER BY created, id").fetchall()
        return JSONResponse(
            {
                "control": asdict(system.control),
                "confirmations": [shown(r) for r in rows],
                "heard": system.heard,
            }
        )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        for task in system.sending:
            task.cancel()

    return Starlette(
        routes=[
            Route("/v1/confirmations", create, methods=["POST"]),
            Route("/v1/confirmations", listed, methods=["GET"]),
            Route("/c/{id}", page, methods=["GET", "POST"]),
            Route("/control", control, methods=["GET", "POST"]),
        ],
        lifespan=lifespan,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="An outside system that has requests confirmed.")
    parser.add_argument("--port", type=int, default=9400)
    parser.add_argument("--data", default=":memory:", help="the file that it remembers in")
    parser.add_argument("--webhook", required=True, help="where its events go")
    given = parser.parse_args()
    system = System(
        given.data, given.webhook, os.environ["CONFIRM_API_KEY"], os.environ["CONFIRM_SIGNING_SECRET"]
    )
    uvicorn.run(application(system), host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
