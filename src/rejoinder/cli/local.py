"""The commands that run or mend something on this machine. What they start is imported inside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rejoinder.cli.arguments import UsageError
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote

if TYPE_CHECKING:
    from rejoinder.launch.embedded import EmbeddedServer

Data = Annotated[
    Path | None,
    Parameter(help="The folder that keeps the database and the owner's key.", env_var="REJOINDER_DATA"),
]
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
    data: Data = None,
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


def mcp(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """Serve the tools of a running server to an MCP client on standard input and output.

    The client starts this command itself; its manual says where to write it down. Without --server it passes on to
    the `rejoinder up` of this machine, whenever that runs.
    """
    from rejoinder.mcp.stdio import Target, main

    if remote.api_key_stdin:
        raise UsageError(
            "--api-key-stdin cannot be used here: standard input is the client's. Set REJOINDER_API_KEY.",
            field="--api-key-stdin",
        )
    main(lambda: Target(*remote.target()))


def doctor(
    *,
    data: Data = None,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print JSON instead of lines.")
    ] = False,
) -> int:
    """Look at this machine, the database and what runs on it, and say what is wrong and how to mend it.

    It looks at the Postgres that REJOINDER_DATABASE_URL names, else at the embedded one. Exits with 1 if a check fails.
    """
    from rejoinder.cli.serving import look_at_presets
    from rejoinder.launch.doctor import examine, print_findings
    from rejoinder.launch.stopping import run

    return print_findings([*run(examine(data)), *look_at_presets(data)], as_json=as_json)


def backup(
    file: Annotated[Path, Parameter(help="The file to write; it must not exist yet.")],
    /,
    *,
    data: Data = None,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the file if it exists.")] = False,
) -> None:
    """Write everything in the embedded store to a file, as of one moment, while it goes on serving.

    A Postgres of your own is backed up with its own tools.
    """
    from rejoinder.launch.backup import backup as write

    with _embedded(data) as server:
        done = write(server, file, overwrite=overwrite)
    print(f"Written: {done.file} ({done.size / 1024:,.0f} KiB)")


def restore(
    file: Annotated[Path, Parameter(help="A file that rejoinder backup wrote.")],
    /,
    *,
    data: Data = None,
    force: Annotated[bool, Parameter(negative="", help="Replace a store that is not empty.")] = False,
) -> None:
    """Put a backup in the place of what the embedded store holds. Stop `rejoinder up` first.

    Everything goes back to that moment: questions answered since are open again, keys revoked since are valid again.
    """
    from rejoinder.launch.backup import restore as put_back

    with _embedded(data) as server:
        found = put_back(server, file, force=force)
    last = (
        f"; the last thing in it happened {found.last_event_at:%Y-%m-%d %H:%M} UTC"
        if found.last_event_at
        else ""
    )
    print(
        f"Restored: {found.questions} questions ({found.open_questions} open), {found.runs} runs "
        f"({found.parked_runs} parked), {found.keys} keys{last}."
    )


def _embedded(data: Path | None) -> EmbeddedServer:
    """The embedded server of a data folder that has one."""
    from rejoinder.contract.errors import BadInputError
    from rejoinder.launch.embedded import EmbeddedServer
    from rejoinder.launch.paths import DataFolder, found_folder

    folder = DataFolder.choose(data) if data is not None else found_folder()
    if not folder.root.is_dir():
        raise BadInputError(f"There is no data folder {folder.root}. Name one with --data.", field="data")
    return EmbeddedServer(folder)


def owner_key() -> None:
    """Make an admin key in the Postgres that REJOINDER_DATABASE_URL names, and print it. It is shown this once.

    A deployment with `rejoinder serve` gets its first key so; the others are made with `rejoinder keys create`.
    """
    from rejoinder.launch.owner import new_owner_key
    from rejoinder.launch.stopping import run

    print(run(new_owner_key()))


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    print(installed("rejoinder"))
