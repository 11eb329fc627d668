"""``rejoinder up``: the whole product in one process, on the embedded Postgres of a data folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rejoinder.access.gate import refuse_open_gate
from rejoinder.contract.errors import ConfigurationError, RejoinderError
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.contract.terminal import one_line
from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.exposed import chosen_manifest, registry_of, with_demo
from rejoinder.launch.narrator import Narrator
from rejoinder.launch.owner import owner_of
from rejoinder.launch.paths import DataFolder
from rejoinder.launch.serve import Address, bind, open_files, serving
from rejoinder.launch.stopping import Stop
from rejoinder.node import Node
from rejoinder.observe.export import exporting
from rejoinder.observe.logs import configure
from rejoinder.store.database import Database
from rejoinder.store.migrate import migrate

#: What the first start runs, so that the inbox has something to answer.
FIRST_RUNS: dict[str, dict[str, str]] = {
    "demo_clean_up": {},
    "demo_release_check": {},
    "demo_agent": {"message": "Plan the team's trip to Lisbon."},
}
#: How long running code may go on after Ctrl-C, unless the setting says otherwise.
DRAIN_SECONDS = 1.0
#: How often to look whether the embedded database still runs.
KEEP_SECONDS = 1.0


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    host: str
    port: int
    data: Path | None
    manifest: Path | None
    demo: bool
    open_browser: bool


async def up(wanted: Wanted) -> None:
    """Run until told to stop. Raises RejoinderError with a text for people where it cannot start."""
    given = Settings.load()
    _configure_logs(given)
    with exporting():
        await _up(given, wanted)


async def _up(given: Settings, wanted: Wanted) -> None:
    refuse_open_gate(given, wanted.host)
    chosen = chosen_manifest(wanted.manifest)
    registry = registry_of(chosen)
    if wanted.demo:
        with_demo(registry)
    open_files()
    data = DataFolder.choose(wanted.data).create()
    stop = Stop(announce=True)
    with _only_one(data):
        address = bind(wanted.host, wanted.port)
        server = None if given.rejoinder_database_url else EmbeddedServer(data)
        try:
            url = given.rejoinder_database_url or await _start(server, data)
            await migrate(Database(url))
            node = Node(_settings(url), registry, "up")
            await node.start(worker=True)
            keeper = asyncio.create_task(_keep(server), name="up.database") if server is not None else None
            try:
                owner = await owner_of(node, data)
                await _run(node, wanted, data, address, owner, chosen, stop)
            finally:
                if keeper is not None:
                    keeper.cancel()
                    await asyncio.gather(keeper, return_exceptions=True)
                await node.stop()
        finally:
            if server is not None:
                await asyncio.to_thread(server.stop)
    say("Stopped. Parked questions stay; the next start finds them.")


async def _run(
    node: Node,
    wanted: Wanted,
    data: DataFolder,
    address: Address,
    owner: Identity,
    manifest: Path | None,
    stop: Stop,
) -> None:
    from rejoinder.doors.app import create_app

    grace = node.settings.tai_tool_runs_shutdown_drain_seconds
    async with serving(create_app(node), address, grace=grace):
        data.write_endpoint(address.url)
        try:
            first = await _first_runs(node, owner) if wanted.demo and manifest is None else False
            link = await _link(node, owner, address)
            welcome(node, data, link, manifest, demo=wanted.demo, first=first)
            narrator = Narrator(node, say)
            await narrator.start()
            if wanted.open_browser:
                import webbrowser

                await asyncio.to_thread(webbrowser.open, link)
            await stop.wait()
            await narrator.stop()
        finally:
            data.clear_endpoint(address.url)


async def _start(server: EmbeddedServer | None, data: DataFolder) -> str:
    assert server is not None
    if not data.postgres.exists():
        say(f"Making a database in {data.root}")
    return await asyncio.to_thread(server.start)


async def _keep(server: EmbeddedServer) -> None:
    """Start the database again if it dies under us; everybody who waits for it goes on then."""
    while True:
        await asyncio.sleep(KEEP_SECONDS)
        if server.pid is not None:
            continue
        say("The database has stopped; starting it again.")
        try:
            await asyncio.to_thread(server.start)
        except RejoinderError as error:
            say(f"It does not start: {one_line(error.message)}")


async def _first_runs(node: Node, owner: Identity) -> bool:
    """Start the demo once in a store's life. Returns whether it was started now."""
    started = False
    for name, arguments in FIRST_RUNS.items():
        if name in node.registry and not await node.run_service.newest(by=owner, tool=name, limit=1):
            await node.run_service.start_background(name, arguments, by=owner)
            started = True
    return started


async def _link(node: Node, owner: Identity, address: Address) -> str:
    base = (node.settings.interactions_public_base_url or address.url).rstrip("/")
    if not node.access.enabled:
        return f"{base}/inbox"
    return f"{base}/sign-in?token={quote(await node.access.create_sign_in(owner), safe='')}"


def welcome(
    node: Node, data: DataFolder, link: str, manifest: Path | None, *, demo: bool, first: bool
) -> None:
    """The lines that a newcomer reads."""
    command = _command()
    say("")
    say("Rejoinder is running. Open the inbox:")
    say("")
    say(f"  {link}")
    say("")
    if node.access.enabled:
        say(f"The link signs you in once, within the hour. Another one: {command} sign-in")
    if not _is_found(data):
        say("In other terminals, name the data folder first:")
        say(f"  export REJOINDER_DATA={_quoted(str(data.root))}")
    if first:
        who = "Two demo tools and an agent" if "demo_agent" in node.registry else "Two demo tools"
        say(f"{who} are asking you something. Answer in the inbox, or in another terminal:")
        say(f"  {command} interactions list")
        say(f"  {command} interactions answer ID")
    elif demo:
        say("Answer in the inbox, or in another terminal:")
        say(f"  {command} interactions list")
        say(f"  {command} tools run demo_release_check --background")
    else:
        say(f"In another terminal: {command} interactions list, or {command} tools list")
    if manifest is not None:
        say(f"Tools: {one_line(str(manifest))}")
    elif demo:
        say("To run a tool of your own, begin with a copy of this file:")
        say(f"  {Path(__file__).parent.parent / 'demo' / 'tools.py'}")
        say("and name it in a manifest:")
        say(f"  {command} up --manifest manifest.yaml{_same_folder(data)}")
    say("Ctrl-C stops everything; open questions of parked runs stay. What happens is written here:")
    say("")


def say(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # Nobody reads any more; the product goes on.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _settings(url: str) -> Settings:
    quick = (
        {}
        if os.environ.get("TAI_TOOL_RUNS_SHUTDOWN_DRAIN_SECONDS")
        else {"tai_tool_runs_shutdown_drain_seconds": DRAIN_SECONDS}
    )
    return Settings.load(rejoinder_database_url=url, **quick)


def _configure_logs(given: Settings) -> None:
    """Warnings in words, unless somebody asked for more: what happens is told by the narrator."""
    configure(
        given.rejoinder_log_level if os.environ.get("REJOINDER_LOG_LEVEL") else "warning",
        given.rejoinder_log_format if os.environ.get("REJOINDER_LOG_FORMAT") else "text",
    )


@contextmanager
def _only_one(data: DataFolder) -> Iterator[None]:
    """Hold the folder: two of them would both write its address and its key."""
    if os.name != "posix":
        yield
        return
    import fcntl

    handle = os.open(data.root / "up", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            url = data.read_endpoint()
            raise ConfigurationError(
                f"Another rejoinder up uses the data folder {data.root}"
                + (f" and serves {url}" if url else "")
                + ". Use that one, stop it, or give this one a folder of its own with --data.",
                field="data",
            ) from None
        yield
    finally:
        os.close(handle)


def _is_found(data: DataFolder) -> bool:
    """Whether this machine's command line finds the folder by itself, from where we stand."""
    from rejoinder.launch.paths import found_folder

    return found_folder().root == data.root


def _same_folder(data: DataFolder) -> str:
    """What the next start must be given to find this folder again: nothing, where it would choose it by itself."""
    if DataFolder.choose().root == data.root:
        return ""
    relative = os.path.relpath(data.root)
    return f" --data {_quoted(str(data.root) if relative.startswith('..') else relative)}"


def _command() -> str:
    """How a second terminal calls us: by name where that is this very program."""
    here = Path(sys.argv[0])
    known = shutil.which("rejoinder")
    if known is not None and here.exists() and os.path.samefile(known, here):
        return "rejoinder"
    if here.name != "rejoinder" or not here.exists():
        return "rejoinder"
    relative = os.path.relpath(here)
    return _quoted(str(here) if relative.startswith("..") else relative)


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
