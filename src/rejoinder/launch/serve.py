"""``rejoinder serve``: the doors on one address. The same server also carries ``rejoinder up``."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import socket
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.access.gate import refuse_open_gate
from rejoinder.contract.errors import ConfigurationError
from rejoinder.contract.settings import Settings
from rejoinder.launch.drain import Drain
from rejoinder.launch.exposed import chosen_manifest, registry_of
from rejoinder.launch.limits import ENOUGH, raise_open_files
from rejoinder.launch.stopping import Stop
from rejoinder.observe.export import exporting
from rejoinder.observe.logs import configure, get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = get_logger("serve")

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8642
#: Connections that wait to be accepted. 500 callers may arrive at once.
BACKLOG = 8192


@dataclass(frozen=True)
class Address:
    """A bound socket, and the URL by which this machine reaches it."""

    socket: socket.socket
    host: str
    port: int

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def bind(host: str, port: int) -> Address:
    """Take the address, before anything else is started. Raises ConfigurationError naming ``--host`` or ``--port``."""
    if not 0 <= port <= 65535:
        raise ConfigurationError(f"--port must be between 0 and 65535, not {port}.", field="port")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise ConfigurationError(
            f"--host {host} is not an address of this machine and no name for one.", field="host"
        ) from None
    family, kind, protocol, _, place = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        # Listening decides whether the port is ours; a connection is accepted only once the server runs.
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise _not_bound(error, host, port) from None
    return Address(bound, host, int(bound.getsockname()[1]))


def _not_bound(error: OSError, host: str, port: int) -> ConfigurationError:
    if error.errno == errno.EADDRINUSE:
        return ConfigurationError(
            f"Port {port} on {host} is taken by another program. Choose another one with --port, such as "
            f"--port {port + 1 if port < 65535 else port - 1}.",
            field="port",
        )
    if error.errno == errno.EACCES:
        return ConfigurationError(
            f"This user may not use port {port}. Choose one above 1023 with --port.", field="port"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigurationError(
            f"--host {host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for every network.",
            field="host",
        )
    return ConfigurationError(
        f"{host}:{port} cannot be served: {os.strerror(error.errno or 0)}.", field="port"
    )


def open_files() -> None:
    """Raise the limit of open files, and say so where it stays low."""
    limit = raise_open_files()
    if limit is not None and limit < ENOUGH:
        log.warning(
            "few files may be open at once; each blocked caller needs one. Raise it with ulimit -n or LimitNOFILE",
            limit=limit,
        )


@asynccontextmanager
async def serving(
    app: Any,
    address: Address,
    *,
    grace: float,
    forwarded_allow_ips: str | None = None,
    head_patience: float = 30.0,
) -> AsyncIterator[None]:
    """Serve ``app`` while the block runs. On leaving: take no more connections, end the streams, give other requests
    ``grace`` seconds, then answer them with a 503. Proxies' headers are believed only from ``forwarded_allow_ips``.
    A request's head may take ``head_patience`` seconds.
    """
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are this process' own affair, not its server's

    drain = Drain(app)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    server = Server(
        uvicorn.Config(
            drain,
            http=_protocol(head_patience),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            proxy_headers=forwarded_allow_ips is not None,
            forwarded_allow_ips=forwarded_allow_ips,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=math.ceil(grace) + 5,
            lifespan="on",
        )
    )
    running = asyncio.create_task(server.serve(sockets=[address.socket]), name="serve")
    try:
        while not server.started:
            if running.done():
                running.result()
                raise ConfigurationError("The server did not start; the log says why.")
            await asyncio.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        await drain.stop(grace)
        await running


def _protocol(patience: float) -> Any:
    if os.name != "posix":
        return "auto"  # h11, which bounds a head's bytes itself
    from rejoinder.launch.heads import BoundedHeads

    return partial(BoundedHeads, patience=patience)


async def serve(host: str, port: int, manifest: Path | None, forwarded_allow_ips: str | None) -> None:
    """Run the doors against REJOINDER_DATABASE_URL until told to stop."""
    settings = Settings.load()
    configure(settings.rejoinder_log_level, settings.rejoinder_log_format)
    with exporting():
        await _serve(settings, host, port, manifest, forwarded_allow_ips)


async def _serve(
    settings: Settings, host: str, port: int, manifest: Path | None, forwarded_allow_ips: str | None
) -> None:
    refuse_open_gate(settings, host)
    open_files()
    chosen = chosen_manifest(manifest)
    registry = registry_of(chosen)
    if chosen is None:
        log.warning("no tools are exposed: name a manifest with --manifest or REJOINDER_MANIFEST")
    address = bind(host, port)
    from rejoinder.doors.app import create_app
    from rejoinder.node import Node

    node = Node(settings, registry, "server")
    stop = Stop()
    await node.start()
    try:
        async with serving(
            create_app(node),
            address,
            grace=settings.tai_tool_runs_shutdown_drain_seconds,
            forwarded_allow_ips=forwarded_allow_ips,
        ):
            log.info("server ready", url=address.url, tools=len(registry))
            await stop.wait()
            log.info("server stopping")
    finally:
        await node.stop()
    log.info("server stopped")
