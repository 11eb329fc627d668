"""A real OpenClaw Gateway on loopback, with a state folder of its own and the scripted model behind it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from rejoinder.openclaw.client import GatewayClient, Listener
from rejoinder.openclaw.handshake import Access
from rejoinder.openclaw.opening import Tap
from tests.live.rig import places
from tests.live.rig.model import Model
from tests.live.rig.process import Running
from tests.support import free_port

TOKEN = "live-token-0123456789abcdef"
_START_SECONDS = 90.0


class Gateway(Running):
    """The process. ``url`` and ``token`` are what a client needs; both stay the same over restarts."""

    token = TOKEN

    def __init__(self, state: Path, model: Model, *, version: str | None = None) -> None:
        self.state = state
        self.version = version or places.gateway_version()
        self.port = free_port()
        self.url = f"ws://127.0.0.1:{self.port}"
        (state / "home").mkdir(parents=True, exist_ok=True)
        settings = state / "openclaw.json"
        settings.write_text(json.dumps(_settings(self.port, model.url, state), indent=2))
        command = [str(places.node()), str(places.gateway_script(self.version)), "gateway", "run"]
        super().__init__("the Gateway", command, _environment(state, settings), state, state / "gateway.log")

    def start(self) -> Gateway:
        """Start it and wait until it says hello."""
        self.spawn()
        deadline = time.monotonic() + _START_SECONDS
        while not self._greets():
            self.check(deadline)
        return self

    def restart(self) -> Gateway:
        """kill -9, and start it again on the same state."""
        self.kill()
        return self.start()

    def request_restart(self) -> None:
        """What ``openclaw gateway restart --force`` does to a running Gateway: it cuts the runs and starts anew.

        2026.9.3 does so in the same process; 2026.9.6 ends, and whoever supervises it must start it.
        """
        with contextlib.closing(sqlite3.connect(self.state / "state" / "openclaw.sqlite", timeout=10)) as db:
            now = int(time.time() * 1000)
            db.execute(
                "INSERT OR REPLACE INTO gateway_restart_intent (intent_key, kind, pid, created_at, reason, force, "
                "wait_ms, updated_at_ms) VALUES ('gateway-restart', 'gateway-restart', ?, ?, NULL, 1, NULL, ?)",
                (self.pid, now, now),
            )
            db.commit()
        self.signal(signal.SIGTERM)

    def access(self, **given: Any) -> Access:
        """What a client connects with."""
        return Access(**{"url": self.url, "token": self.token, **given})

    @contextlib.asynccontextmanager
    async def client(
        self, listener: Listener | None = None, *, tap: Tap | None = None
    ) -> AsyncIterator[GatewayClient]:
        """A connected client of the product."""
        async with GatewayClient(self.access(), listener, tap=tap) as client:
            await client.ready(60)
            yield client

    def _greets(self) -> bool:
        client = {"id": "gateway-client", "version": "0", "platform": "linux", "mode": "backend"}
        params = {"minProtocol": 4, "maxProtocol": 4, "client": client, "role": "operator"}
        params |= {"scopes": ["operator.read"], "auth": {"token": self.token}}
        try:
            with connect(self.url, open_timeout=5, close_timeout=1, proxy=None) as socket:
                socket.recv(5)
                socket.send(json.dumps({"type": "req", "id": "1", "method": "connect", "params": params}))
                return json.loads(socket.recv(5)).get("ok") is True
        except (OSError, EOFError, WebSocketException):
            return False


def _settings(port: int, model_url: str, state: Path) -> Mapping[str, Any]:
    costs = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    model = {"cost": costs, "contextWindow": 128_000, "maxTokens": 8_000, "input": ["text", "image"]}
    models = [
        {"id": "scripted", "name": "Scripted", "reasoning": False, **model},
        {
            "id": "thinking",
            "name": "Thinking",
            "reasoning": True,
            # What a level becomes in the request is what the scripted model can see of it.
            "compat": {"supportsReasoningEffort": True},
            **model,
        },
    ]
    provider = {"baseUrl": model_url, "apiKey": "none", "api": "openai-completions", "models": models}
    return {
        "gateway": {
            "mode": "local",
            "port": port,
            "bind": "loopback",
            "auth": {"mode": "token", "token": TOKEN},
            "controlUi": {"enabled": False},
            "reload": {"mode": "off"},
        },
        "update": {"checkOnStart": False},
        "discovery": {"mdns": {"mode": "off"}},
        "plugins": {"enabled": False},
        "logging": {"file": str(state / "openclaw.log"), "level": "debug"},
        "models": {"mode": "replace", "catalogRefresh": {"enabled": False}, "providers": {"live": provider}},
        "agents": {
            "defaults": {
                "model": {"primary": "live/scripted"},
                "workspace": str(state / "workspace"),
                "skipBootstrap": True,
                "heartbeat": {"every": "0m"},
            },
            # The second one names chats.
            "entries": {"main": {"default": True}, "title-gen": {}},
        },
        # Newer ones hide most tools behind a search for tools; the scripted model names those it wants.
        "tools": {"exec": {"mode": "full"}, "toolSearch": False},
    }


def _environment(state: Path, settings: Path) -> dict[str, str]:
    """Nothing of this process' own: a developer's settings and proxies are no part of a test."""
    return {
        "PATH": os.pathsep.join([str(places.node().parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(state / "home"),
        "LANG": "C.UTF-8",
        "OPENCLAW_STATE_DIR": str(state),
        "OPENCLAW_CONFIG_PATH": str(settings),
        "OPENCLAW_DISABLE_BONJOUR": "1",
        "OPENCLAW_EXEC_SHELL_SNAPSHOT": "0",
        "OPENCLAW_NO_RESPAWN": "1",
        "OPENCLAW_SKIP_CHANNELS": "1",
        "OPENCLAW_NO_AUTO_UPDATE": "1",
        "DO_NOT_TRACK": "1",
        "NODE_OPTIONS": "--max-old-space-size=768",
        "NODE_COMPILE_CACHE": str(places.cache() / "compiled"),
        # With a compile cache its launcher would start it a second time, and a signal would reach the launcher only.
        "OPENCLAW_PACKAGED_COMPILE_CACHE_RESPAWNED": "1",
    }
