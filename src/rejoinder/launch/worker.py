"""``rejoinder worker``: runs background runs and resumes parked ones. As many as wanted, on any machine."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.contract.settings import Settings
from rejoinder.launch.exposed import chosen_manifest, registry_of
from rejoinder.launch.serve import bind, open_files, serving
from rejoinder.launch.stopping import Stop
from rejoinder.observe.export import exporting
from rejoinder.observe.logs import configure, get_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from rejoinder.node import Node

log = get_logger("worker")


async def work(manifest: Path | None, health_host: str, health_port: int | None) -> None:
    """Work against REJOINDER_DATABASE_URL until told to stop. Writes the log line ``worker ready``."""
    settings = Settings.load()
    configure(settings.rejoinder_log_level, settings.rejoinder_log_format)
    with exporting():
        await _work(settings, manifest, health_host, health_port)


async def _work(settings: Settings, manifest: Path | None, health_host: str, health_port: int | None) -> None:
    open_files()
    chosen = chosen_manifest(manifest)
    registry = registry_of(chosen)
    if chosen is None:
        log.warning("this worker knows no tools: name a manifest with --manifest or REJOINDER_MANIFEST")
    address = bind(health_host, health_port) if health_port is not None else None
    from rejoinder.node import Node

    node = Node(settings, registry, "worker")
    stop = Stop()
    await node.start(worker=True)
    try:
        async with AsyncExitStack() as stack:
            if address is not None:
                await stack.enter_async_context(serving(health(node), address, grace=0))
            log.info("worker ready", tools=len(registry), health=address.url if address else None)
            await stop.wait()
            log.info("worker stopping")
    finally:
        await node.stop()
    log.info("worker stopped")


def health(node: Node) -> ASGIApp:
    """``/health``, ``/ready`` and ``/metrics`` and nothing else."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        status, kind, body = 404, b"application/json", b'{"error":"Not Found","code":"not-found"}'
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            if scope["path"] == "/health":
                status, body = 200, b'{"status":"ok"}'
            elif scope["path"] == "/ready":
                checks = await node.ready()
                good = all(checks.values())
                status = 200 if good else 503
                body = json.dumps({"status": "ready" if good else "not ready", "checks": checks}).encode()
            elif scope["path"] == "/metrics":
                from rejoinder.observe.metrics import metrics

                status, kind, body = 200, b"text/plain; version=0.0.4; charset=utf-8", metrics.render()
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return app


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
