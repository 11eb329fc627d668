"""An outside system answers by a signed callback, one at a time; beside it the same server's answer door."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import time
from urllib.parse import unquote, urlsplit

import orjson

from bench.client import Connection, Reply, expect
from bench.desk import Cpu, Desk
from bench.lines import Line, spread_text
from bench.machine import Bed
from bench.stats import spread
from bench.tools import SIGNATURE_SECRET

PUBLIC = "https://ask.example.org"
ANSWER = orjson.dumps({"decision": "confirmed"})


async def measure(bed: Bed) -> list[Line]:
    key = os.urandom(32)
    settings = {
        "INTERACTIONS_PUBLIC_BASE_URL": PUBLIC,
        SIGNATURE_SECRET: f"whsec_{base64.b64encode(key).decode()}",
    }
    async with (
        bed.database() as url,
        bed.server(url, **settings) as (server, owner),
        Desk.at(server.port, owner) as desk,
    ):
        caller, person = await desk.connections(2)
        outside = Outside(await desk.connection(), server.port, key)
        for i in range(30):
            await cycle(desk, caller, person, outside, f"warm-{i}")
            await desk.cycle(caller, person, f"warm-door-{i}")
        count = bed.size(500, 150)
        # In turn, so that whatever else the machine does meets both.
        called, door = [], []
        cpu = Cpu(server, bed.postmaster)
        for i in range(count):
            called.append(await cycle(desk, caller, person, outside, f"called-{i}"))
            door.append(await desk.cycle(caller, person, f"door-{i}"))
        spent = cpu.per(count)
    return [
        Line(
            "blocked ask, answered by a signed callback: sent → the caller has it (ms, p50 / p90 / p99 / max)",
            spread_text(spread(called)),
            raw={"wake": spread(called), "cpu_of_both": spent},
        ),
        Line("the same server's answer door, in turn with it (ms)", spread_text(spread(door))),
    ]


class Outside:
    """An outside system: it has no key of ours, and signs what it sends."""

    def __init__(self, connection: Connection, port: int, key: bytes) -> None:
        self._connection = connection
        self._host = f"127.0.0.1:{port}"
        self._key = key

    def call(self, path: str) -> asyncio.Future[Reply]:
        identifier, at = os.urandom(8).hex(), str(int(time.time()))
        made = hmac.new(self._key, f"{identifier}.{at}.".encode() + ANSWER, hashlib.sha256).digest()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"webhook-id: {identifier}\r\nwebhook-timestamp: {at}\r\n"
            f"webhook-signature: v1,{base64.b64encode(made).decode()}\r\ncontent-length: {len(ANSWER)}\r\n\r\n"
        )
        return self._connection.send_bytes(head.encode() + ANSWER)


async def cycle(desk: Desk, caller: Connection, person: Connection, outside: Outside, refund: str) -> float:
    """Ask, call back, be woken; returns the seconds from writing the callback to holding the answer."""
    blocked = caller.post("/api/run-tool", {"tool_name": "sign", "arguments": {"refund": refund}})
    identifier = await desk.asked(refund)
    opened = expect(await person.post(f"/api/interactions/{identifier}/open", {})).data()["data"]["url"]
    path = urlsplit(unquote(opened.partition("back=")[2])).path
    began = time.perf_counter()
    answered = outside.call(path)
    woken = expect(await blocked)
    expect(await answered)
    return woken.at - began
