"""What surrounds every request: its id, one line in the log, its metric, security headers, and the problem answer.

The line holds the route's template and never a value of the path, the query or a header.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rejoinder.access.gate import CALLER, Hosts
from rejoinder.contract.errors import RejoinderError
from rejoinder.doors.admission import NODE, route_template
from rejoinder.doors.bodies import LARGE, CallerGoneError, content_length, too_large
from rejoinder.doors.problems import internal, problem_of, render
from rejoinder.doors.turned_away import page_of
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics

if TYPE_CHECKING:
    from rejoinder.node import Node

log = get_logger("requests")

REQUEST_ID = "rejoinder.request_id"
#: A client that closed the connection got no status; the log and the metrics write this one.
GONE = 499
REFUSALS = frozenset((401, 403, 421, 429))
#: What ends the request or the process.
ENDS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))

_NO_STORE = (b"cache-control", b"no-store")
_NO_SNIFF = (b"x-content-type-options", b"nosniff")
#: An answer of the API is data: a browser that is made to show one as a page finds nothing to run.
_NO_PAGE = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_DEFAULTS = (_NO_STORE, _NO_SNIFF, _NO_PAGE)


class Requests:
    """Stands around everything, and hands ``plain`` routes their requests itself: each layer of the framework that a
    blocked request does not stand in saves half a kibibyte for as long as it waits."""

    def __init__(self, app: ASGIApp, plain: Sequence[Route], node: Node) -> None:
        self.app = app
        self.node = node
        self._plain = plain
        self._hosts = Hosts(node.settings)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return self.app(scope, receive, send)
        return _Exchange(self, scope, receive, send).run()

    def door(self, scope: Scope) -> ASGIApp:
        for route in self._plain:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route.app
        return self.app

    def check(self, scope: Scope) -> None:
        """What is refused before any door is looked for."""
        host = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
        self._hosts.check(host.decode("latin-1"))
        if (content_length(scope) or 0) > LARGE:
            raise too_large(LARGE)


class _Exchange:
    """One request and its response."""

    __slots__ = ("_began", "_body", "_read", "_receive", "_send", "id", "outer", "scope", "status")

    def __init__(self, outer: Requests, scope: Scope, receive: Receive, send: Send) -> None:
        self.outer = outer
        self.scope = scope
        self.status: int | None = None
        self.id = os.urandom(8).hex()
        self._receive = receive
        self._send = send
        self._began = time.perf_counter()
        self._read = 0
        scope[REQUEST_ID] = self.id

    async def run(self) -> None:
        self.scope[NODE] = self.outer.node
        try:
            self.outer.check(self.scope)
            await self.outer.door(self.scope)(self.scope, self.receive, self.send)
        except CallerGoneError:
            self._finish(GONE if self.status is None else self.status)
            return
        except ENDS:
            # The server stops; what stands around this says so to the client.
            self._finish(503 if self.status is None else self.status)
            raise
        except BaseException as error:
            # Also what is no Exception, such as the panic of a library that is written in Rust.
            await self._failed(error)
        self._finish(self.status or 500)

    async def receive(self) -> Message:
        """A body without a length is counted as it comes in, for doors that do not count themselves."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > LARGE:
                raise too_large(LARGE)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            headers += [header for header in _DEFAULTS if header[0] not in names]
            headers.append((b"x-request-id", self.id.encode()))
            message = {**message, "headers": headers}
        await self._send(message)

    async def _failed(self, error: BaseException) -> None:
        problem = problem_of(error, self.id)
        if problem is None or self.status is not None:
            log.error("a request failed", request_id=self.id, exc_info=error)
        if self.status is not None:
            # The response has begun: cut it off, so that nobody takes a part for the whole.
            raise _CutOff() from None
        page = page_of(error, self.scope, self.outer.node.settings.rejoinder_language)
        status, headers, content = page or render(problem or internal(self.id))
        if self.scope["method"] == "HEAD":
            content = b""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})
        if status in REFUSALS:
            log.warning(
                "refused",
                method=self._method(),
                route=route_template(self.scope),
                status=status,
                reason=error.code if isinstance(error, RejoinderError) else "refused",
                identity=self._identity(),
                request_id=self.id,
            )

    def _finish(self, status: int) -> None:
        seconds = time.perf_counter() - self._began
        method, route = self._method(), route_template(self.scope)
        metrics.requests.labels(method, route, str(status)).observe(seconds)
        if _lines.isEnabledFor(logging.INFO):
            log.info(
                "request",
                method=method,
                route=route,
                status=status,
                ms=round(seconds * 1000, 2),
                identity=self._identity(),
                request_id=self.id,
            )

    def _method(self) -> str:
        method: str = self.scope["method"]
        return method if method in METHODS else "OTHER"

    def _identity(self) -> str | None:
        caller = self.scope.get(CALLER)
        return caller.identity.name if caller is not None else None


_lines = logging.getLogger("rejoinder.requests")


class _CutOff(Exception):
    """Ends a response that had begun when its door failed; the reason is in the log already."""
