"""A Gateway for tests: a real WebSocket server that greets, answers and tells as the recorded one does, and fails on demand.

    async with FakeGateway() as gateway:
        gateway.sessions = [{"key": "agent:main:a", "hasActiveRun": False}]
        ...                                   # connect a client to gateway.url
        connection = await gateway.connected()
        connection.tell("chat", {...})        # numbered as the Gateway numbers events
        connection.skip()                     # a number is spent on an event that never comes
        await connection.drop(1008, "slow consumer")
        await gateway.restart()               # the same address, another boot

`tests.playing_gateway.PlayingGateway` tells what a recording holds instead.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.support import WITHIN

TOKEN = "a-token-of-the-tests"
CLIENTS = frozenset(("gateway-client", "cli", "test", "webchat", "webchat-ui", "openclaw-probe"))
Payload = Mapping[str, Any]
Handler = Callable[[dict[str, Any]], Any]
"""Answers a method: a payload, a Fault, NEVER, or a Twice for a call with two answers."""


class Never:
    """A call that is not answered."""


NEVER = Never()


@dataclass(frozen=True)
class Fault:
    """An error response; with a close code it is a refusal, after which the connection is closed."""

    error: Payload
    close: int | None = None
    reason: str = ""


@dataclass
class Twice:
    """A call answered at once and again when `done` is set to its last payload or Fault."""

    first: Payload
    done: asyncio.Future[Any]


STARTING = Fault(
    {
        "code": "UNAVAILABLE",
        "message": "gateway starting; retry shortly",
        "retryable": True,
        "retryAfterMs": 500,
        "details": {"reason": "startup-sidecars"},
    },
    1013,
    "gateway starting",
)
TOKEN_MISMATCH = Fault(
    {
        "code": "INVALID_REQUEST",
        "message": "unauthorized: gateway token mismatch (provide gateway auth token)",
        "details": {
            "code": "AUTH_TOKEN_MISMATCH",
            "authReason": "token_mismatch",
            "canRetryWithDeviceToken": False,
            "recommendedNextStep": "update_auth_credentials",
        },
    },
    1008,
    "unauthorized: gateway token mismatch (provide gateway auth token)",
)
UNKNOWN_CLIENT = Fault(
    {
        "code": "INVALID_REQUEST",
        "message": "invalid connect params: at /client/id: must be equal to one of the allowed values",
    },
    1008,
    "invalid connect params: at /client/id: must be equal to one of the allowed values",
)
ORIGIN = Fault(
    {
        "code": "INVALID_REQUEST",
        "message": "origin not allowed (open the Control UI from the gateway host)",
        "details": {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": "origin missing or invalid"},
    },
    1008,
    "origin not allowed",
)
BAD_SIGNATURE = Fault(
    {
        "code": "INVALID_REQUEST",
        "message": "device signature invalid",
        "details": {"code": "DEVICE_AUTH_SIGNATURE_INVALID", "reason": "device-signature"},
    },
    1008,
    "device signature invalid",
)
RESTARTING = Fault(
    {
        "code": "UNAVAILABLE",
        "message": "gateway restarting; retry shortly",
        "retryable": True,
        "retryAfterMs": 1000,
        "details": {"reason": "gateway-restarting", "phase": "accepting"},
    }
)


def not_paired(reason: str = "not-paired", request_id: str = "req-1") -> Fault:
    """The refusal of a device that nobody approved (with these scopes) yet."""
    return Fault(
        {
            "code": "NOT_PAIRED",
            "message": f"pairing required: device is not approved yet (requestId: {request_id})",
            "details": {"code": "PAIRING_REQUIRED", "reason": reason, "requestId": request_id},
        },
        1008,
        f"pairing required (requestId: {request_id})",
    )


@dataclass(eq=False)
class FakeConnection:
    """One connection that said hello, as the server sees it."""

    socket: ServerConnection
    gateway: FakeGateway
    connect: dict[str, Any]
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    subscribed: asyncio.Event = field(default_factory=asyncio.Event)
    _seq: int = 0
    _out: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)

    def tell(self, event: str, payload: Payload, *, numbered: bool = True) -> dict[str, Any]:
        """Send an event; the order of calls is the order of frames. Returns the frame."""
        frame: dict[str, Any] = {"type": "event", "event": event, "payload": payload}
        if numbered:
            self._seq += 1
            frame["seq"] = self._seq
        self._out.put_nowait(frame)
        return frame

    def again(self, frame: dict[str, Any]) -> None:
        """Send a frame once more as it was."""
        self._out.put_nowait(frame)

    def skip(self) -> None:
        """Spend a number on an event that never comes."""
        self._seq += 1

    async def flushed(self) -> None:
        """Wait until everything told so far was handed to the socket."""
        await self._out.join()

    async def drop(self, code: int = 1012, reason: str = "service restart") -> None:
        """Close after what was told: in good order, or with 1006 by cutting the line."""
        await self.flushed()
        if code == 1006:
            self.socket.transport.close()
        else:
            await self.socket.close(code, reason)

    def abort(self) -> None:
        """Cut the line: the client sees 1006."""
        self.socket.transport.abort()

    async def pump(self) -> None:
        while True:
            frame = await self._out.get()
            try:
                await self.socket.send(json.dumps(frame))
            except ConnectionClosed:
                return
            finally:
                self._out.task_done()

    def answer(self, frame: dict[str, Any]) -> None:
        self._out.put_nowait(frame)


class FakeGateway:
    """See the module. `refusals` are used up one a connection before any other check."""

    def __init__(self, *, token: str | None = TOKEN, version: str = "2026.9.3") -> None:
        self.token = token
        self.version = version
        self.boot_id = str(uuid.uuid4())
        self.sessions: list[dict[str, Any]] = []
        self.page_rows: int | None = None
        self.histories: dict[str, dict[str, Any]] = {}
        self.refusals: deque[Fault] = deque()
        self.silent_connects = 0
        self.attempts: list[dict[str, Any]] = []
        self.device_token: str | None = None
        self.draining = False
        self.handlers: dict[str, Handler] = {}
        #: What a plain GET of these paths is answered with.
        self.files: dict[str, bytes] = {}
        self.connections: list[FakeConnection] = []
        self._greeted = 0
        self._changed = asyncio.Condition()
        self._server: Server | None = None
        self._port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    @property
    def live(self) -> list[FakeConnection]:
        """The connections that are open."""
        return [one for one in self.connections if one.socket.close_code is None]

    async def start(self) -> None:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self._port,
            process_request=self._upgrade,
            ping_interval=None,
            compression=None,
            max_size=None,
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self, code: int = 1012) -> None:
        """End it as a stopped Gateway ends; nobody answers at the address any more."""
        if self._server is not None:
            self._server.close(code=code, reason="service restart")
            await self._server.wait_closed()
            self._server = None

    async def kill(self) -> None:
        """End it as a killed one: every line is cut."""
        for connection in self.live:
            connection.abort()
        await self.stop()

    async def restart(self) -> None:
        """Stop, and start with another boot id at the same address."""
        await self.stop()
        self.boot_id = str(uuid.uuid4())
        await self.start()

    async def connected(self, count: int = 1, *, subscribed: bool = True) -> FakeConnection:
        """The `count`-th connection that said hello, once it has subscribed."""
        async with asyncio.timeout(WITHIN), self._changed:
            await self._changed.wait_for(lambda: len(self.connections) >= count)
        connection = self.connections[count - 1]
        if subscribed:
            async with asyncio.timeout(WITHIN):
                await connection.subscribed.wait()
        return connection

    def broadcast(self, event: str, payload: Payload) -> None:
        for connection in self.live:
            connection.tell(event, payload)

    def hello(self) -> dict[str, Any]:
        return {
            "type": "hello-ok",
            "protocol": 4,
            "server": {"version": self.version, "bootId": self.boot_id, "connId": str(uuid.uuid4())},
            "policy": {"maxPayload": 26214400, "tickIntervalMs": 30000},
        }

    def _upgrade(self, socket: ServerConnection, request: Request) -> Response | None:
        if request.path in self.files:
            headers = Headers({"Content-Length": str(len(self.files[request.path])), "Connection": "close"})
            return Response(200, "OK", headers, self.files[request.path])
        if "Upgrade" not in request.headers:
            return socket.respond(404, "nothing is here\n")
        return socket.respond(503, "draining\n") if self.draining else None

    async def _serve(self, socket: ServerConnection) -> None:
        nonce = str(uuid.uuid4())
        challenge = {"nonce": nonce, "ts": 1796005184521}
        try:
            await socket.send(
                json.dumps({"type": "event", "event": "connect.challenge", "payload": challenge})
            )
            request = json.loads(await socket.recv())
            self.attempts.append(request["params"])
            if self.silent_connects:
                self.silent_connects -= 1
                await socket.wait_closed()
                return
            fault = self._check(request, challenge)
            if fault is not None:
                await _send(socket, request["id"], fault)
                await socket.close(fault.close or 1008, fault.reason)
                return
            await self._talk(socket, request)
        except ConnectionClosed:
            pass

    def _check(self, request: dict[str, Any], challenge: Payload) -> Fault | None:
        if self.refusals:
            return self.refusals.popleft()
        params = request["params"]
        if request["method"] != "connect" or params["client"]["id"] not in CLIENTS:
            return UNKNOWN_CLIENT
        if params["client"]["mode"] == "webchat":
            return ORIGIN
        token = (params.get("auth") or {}).get("token", "")
        if self.token is not None and token not in (self.token, self.device_token):
            return TOKEN_MISMATCH
        if "device" in params and not signature_holds(params, challenge):
            return BAD_SIGNATURE
        return None

    async def _talk(self, socket: ServerConnection, request: dict[str, Any]) -> None:
        params = request["params"]
        scopes = [] if params["client"]["mode"] == "test" else params["scopes"]
        auth: dict[str, Any] = {"role": params["role"], "scopes": scopes}
        if "device" in params and self.device_token:
            auth["deviceToken"] = self.device_token
        connection = FakeConnection(socket, self, params)
        pump = asyncio.get_running_loop().create_task(connection.pump())
        connection.answer(
            {"type": "res", "id": request["id"], "ok": True, "payload": {**self.hello(), "auth": auth}}
        )
        self.connections.append(connection)
        async with self._changed:
            self._changed.notify_all()
        try:
            async for raw in socket:
                frame = json.loads(raw)
                self._answer(connection, frame["id"], frame["method"], frame.get("params") or {})
        finally:
            pump.cancel()

    def _answer(
        self, connection: FakeConnection, request_id: str, method: str, params: dict[str, Any]
    ) -> None:
        connection.requests.append((method, params))
        result: Any = RESTARTING if self.draining else self.reply(method, params)
        if isinstance(result, Never):
            return
        if isinstance(result, Twice):
            connection.answer({"type": "res", "id": request_id, "ok": True, "payload": result.first})
            result.done.add_done_callback(
                lambda done: connection.answer(_response(request_id, done.result()))
            )
            return
        connection.answer(_response(request_id, result))
        if method == "sessions.subscribe":
            connection.subscribed.set()

    def reply(self, method: str, params: dict[str, Any]) -> Any:
        """The answer to a call."""
        if method in self.handlers:
            return self.handlers[method](params)
        if method == "sessions.subscribe":
            listing = {"list": self._list(params)} if params else {}
            return {"subscribed": True, **listing}
        if method == "sessions.list":
            return self._list(params)
        if method == "chat.history":
            empty = {"sessionKey": params["sessionKey"], "messages": []}
            return self.histories.get(params["sessionKey"], empty)
        return Fault({"code": "INVALID_REQUEST", "message": f"unknown method: {method}"})

    def _list(self, params: Payload) -> dict[str, Any]:
        start = int(params.get("offset", 0))
        size = self.page_rows or int(params.get("limit", 100))
        rows = self.sessions[start : start + size]
        more = start + size < len(self.sessions)
        return {"sessions": rows, "hasMore": more, "nextOffset": start + size if more else None}


def signature_holds(params: Payload, challenge: Payload) -> bool:
    """Whether a connect request's device block signs this challenge (version 3)."""
    device, client = params["device"], params["client"]
    public = base64.urlsafe_b64decode(device["publicKey"] + "==")
    if hashlib.sha256(public).hexdigest() != device["id"] or device["nonce"] != challenge["nonce"]:
        return False
    text = "|".join(
        (
            "v3",
            device["id"],
            client["id"],
            client["mode"],
            params["role"],
            ",".join(params["scopes"]),
            str(challenge["ts"]),
            (params.get("auth") or {}).get("token", ""),
            str(challenge["nonce"]),
            client["platform"].lower(),
            client.get("deviceFamily", "").lower(),
        )
    )
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(
            base64.urlsafe_b64decode(device["signature"] + "=="), text.encode()
        )
    except InvalidSignature:
        return False
    return True


def _response(request_id: str, result: Any) -> dict[str, Any]:
    if isinstance(result, Fault):
        return {"type": "res", "id": request_id, "ok": False, "error": dict(result.error)}
    return {"type": "res", "id": request_id, "ok": True, "payload": result}


async def _send(socket: ServerConnection, request_id: str, result: Any) -> None:
    await socket.send(json.dumps(_response(request_id, result)))


class HandClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, future))
        await future

    @property
    def pauses(self) -> list[float]:
        """How much longer each sleeper sleeps, shortest first."""
        return sorted(round(due - self._now, 6) for due, future in self._sleepers if not future.done())

    def advance(self, seconds: float) -> None:
        """Move on: whoever is due wakes."""
        self._now += seconds
        for due, future in self._sleepers:
            if due <= self._now and not future.done():
                future.set_result(None)
        self._sleepers = [(due, future) for due, future in self._sleepers if not future.done()]
