"""Bodies larger than any door takes: refused before the door, announced or not, at every path."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.routing import Route

from rejoinder.contract.errors import TooLargeError
from rejoinder.doors.bodies import LARGE
from rejoinder.doors.requests import Requests
from tests.abuse.test_doors import ID, filled
from tests.integration.doors.edge import Edge, edge

CHUNK = b"x" * 65_536


class Sender:
    """One request as a server hands it on: the body comes in pieces for as long as somebody reads them."""

    def __init__(self, e: Edge, method: str, path: str, length: int | None) -> None:
        headers = [
            (b"host", b"127.0.0.1"),
            (b"authorization", e.owner.headers["authorization"].encode()),
            (b"content-type", b"application/json"),
        ]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self.read = 0
        self.status = 0

    async def receive(self) -> dict[str, Any]:
        self.read += len(CHUNK)
        return {"type": "http.request", "body": CHUNK, "more_body": True}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]


def paths(e: Edge) -> list[tuple[str, str]]:
    """Every path that takes something, and one that does not exist."""
    found = {
        (method, filled(route.path, ID))
        for route in e.app.routes
        if isinstance(route, Route)
        for method in route.methods or {"POST"}
        if method not in ("GET", "HEAD", "OPTIONS")
    }
    return sorted(found | {("POST", "/nowhere")})


async def test_an_announced_one_is_refused_unread(database_url: str) -> None:
    async with edge(database_url) as e:
        for method, path in paths(e):
            for length in (LARGE + 1, 10**17):
                sender = Sender(e, method, path, length)
                await e.app(sender.scope, sender.receive, sender.send)
                assert (sender.status, sender.read) == (413, 0), f"{method} {path}"


async def test_one_that_says_nothing_is_read_to_the_cap_and_no_further(database_url: str) -> None:
    async with edge(database_url) as e:
        refused = 0
        for method, path in paths(e):
            sender = Sender(e, method, path, None)
            await e.app(sender.scope, sender.receive, sender.send)
            assert 200 <= sender.status < 500, f"{method} {path}"
            assert sender.read <= LARGE + len(CHUNK), f"{method} {path} read on"
            if sender.read > LARGE:
                assert sender.status == 413, f"{method} {path}"
            refused += sender.status == 413
        # The doors that take a body at all.
        assert refused >= 6


async def test_one_that_grows_after_the_answer_began_cuts_it_off(database_url: str) -> None:
    async def answers_first(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await receive()

    async with edge(database_url) as e:
        sender = Sender(e, "POST", "/api/run-tool", None)
        surrounded = Requests(answers_first, [], e.node)
        sender.scope["app"] = e.app
        cut: BaseException | None = None
        try:
            await surrounded(sender.scope, sender.receive, sender.send)
        except Exception as error:
            cut = error
        # What serves the application closes the connection on any error: a part is never taken for the whole.
        assert cut is not None
        assert not isinstance(cut, TooLargeError)
        assert (sender.status, sender.read <= LARGE + len(CHUNK)) == (200, True)
