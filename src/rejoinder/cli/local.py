"""The commands that run or mend something on this machine. What they start is imported inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Manifest = Annotated[
    Path | None,
    Parameter(
        help="The YAML file that names the tools to expose.", env_var="REJOINDER_MANIFEST", show_env_var=True
    ),
]


def up(
    *,
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="The port to listen on; 0 takes a free one.")] = 8642,
    data: Annotated[
        Path | None,
        Parameter(help="The folder that keeps the database and the owner's key.", env_var="REJOINDER_DATA"),
    ] = None,
    manifest: Manifest = None,
    demo: Annotated[bool, Parameter(help="Expose the demo's tools, and run them on the first start.")] = True,
    open_browser: Annotated[bool, Parameter(name="--open", help="Open the inbox in a browser.")] = False,
) -> None:
    """Start everything on this machine in one process: a Postgres of its own, the inbox, the doors and a worker.

    The first start makes the owner's key and runs a demo that asks you something. Where REJOINDER_DATABASE_URL is
    set, that Postgres is used instead of the embedded one. Ctrl-C stops it; the next start finds everything again.
    """
    from rejoinder.launch.stopping import run
    from rejoinder.launch.up import Wanted
    from rejoinder.launch.up import up as start

    run(start(Wanted(host, port, data, manifest, demo, open_browser)))


def serve(
    *,
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="The port to listen on; 0 takes a free one.")] = 8642,
    manifest: Manifest = None,
    forwarded_allow_ips: Annotated[
        str | None,
        Parameter(
            help="Addresses of proxies whose X-Forwarded headers are believed, separated by commas.",
            env_var="FORWARDED_ALLOW_IPS",
        ),
    ] = None,
) -> None:
    """Serve the inbox, the HTTP doors and MCP on the Postgres that REJOINDER_DATABASE_URL names.

    Run as many as you like against one database, with at least one `rejoinder worker` beside them.
    """
    from rejoinder.launch.serve import serve as start
    from rejoinder.launch.stopping import run

    run(start(host, port, manifest, forwarded_allow_ips))


def worker(
    *,
    manifest: Manifest = None,
    health_host: Annotated[str, Parameter(help="The address of --health-port.")] = "127.0.0.1",
    health_port: Annotated[
        int | None, Parameter(help="Serve /health, /ready and /metrics here. Without it nothing listens.")
    ] = None,
) -> None:
    """Run background runs and resume parked ones, on the Postgres that REJOINDER_DATABASE_URL names.

    It needs the same manifest as the servers. Run as many as you like; a dead one's work is taken over.
    """
    from rejoinder.launch.stopping import run
    from rejoinder.launch.worker import work

    run(work(manifest, health_host, health_port))


def migrate(
    *,
    check: Annotated[bool, Parameter(help="Change nothing; exit with 1 if something is to be done.")] = False,
) -> int:
    """Bring the database that REJOINDER_DATABASE_URL names to this version. Running it again changes nothing."""
    from rejoinder.launch.migration import bring_up_to_date
    from rejoinder.launch.stopping import run

    return run(bring_up_to_date(check=check))


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    print(installed("rejoinder"))
