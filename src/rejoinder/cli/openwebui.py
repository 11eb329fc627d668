"""``rejoinder openwebui``: build the Functions for Open WebUI, and install, check and remove them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from rejoinder.cli.output import note, print_json, print_table
from rejoinder.contract.errors import RejoinderError

if TYPE_CHECKING:
    from rejoinder.openwebui.install import OpenWebUI, Report

app = App(
    name="openwebui",
    help="Connect an OpenClaw Gateway with Open WebUI: build, install and check the Functions.",
)

URL_VARIABLE, TOKEN_VARIABLE = "OPENWEBUI_URL", "OPENWEBUI_TOKEN"
GATEWAY_VARIABLE, GATEWAY_TOKEN_VARIABLE = "OPENCLAW_GATEWAY_URL", "OPENCLAW_GATEWAY_TOKEN"
DEFAULT_URL = "http://127.0.0.1:8080"

Url = Annotated[str | None, Parameter(help=f"Open WebUI's address. [{URL_VARIABLE} or {DEFAULT_URL}]")]
Token = Annotated[
    str | None,
    Parameter(
        help="An administrator's API key or session token; others on this machine may see it, so better set "
        f"{TOKEN_VARIABLE}."
    ),
]
Data = Annotated[
    str | None,
    Parameter(help="The data folder, in which backups are kept. [REJOINDER_DATA or the default one]"),
]


class OpenWebUIError(RejoinderError):
    """It did not work with Open WebUI."""

    code = "openwebui"
    status = 502


@app.command
def bundle(
    folder: Annotated[Path, Parameter(help="Where to write the files; made if missing.")] = Path("dist"),
    /,
) -> None:
    """Write each Function as one file, to be pasted into Open WebUI by hand. The same sources give the same bytes."""
    from rejoinder.openwebui.bundle import build, build_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for function_id, content in build().items():
            path = folder / f"{function_id}.py"
            path.write_text(content, encoding="utf-8")
            print(f"{path}  build {build_of(content)}")
    except OSError as error:
        raise OpenWebUIError(f"The files cannot be written to {folder}: {error.strerror}.") from error


@app.command
def sources(
    file: Annotated[Path, Parameter(help="A Function's file.")],
    folder: Annotated[Path, Parameter(help="Where to write its sources; made if missing.")],
    /,
) -> None:
    """Write out the sources that a Function's file carries, to read what runs."""
    from rejoinder.openwebui.bundle import BundleError, sources_of

    try:
        for name, source in sources_of(file.read_text(encoding="utf-8")).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
            print(path)
    except BundleError as error:
        raise OpenWebUIError(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise OpenWebUIError(f"{file} cannot be read or {folder} cannot be written.") from error


@app.command
def install(
    *,
    url: Url = None,
    token: Token = None,
    gateway_url: Annotated[
        str | None, Parameter(help=f"Set the Gateway's address. [{GATEWAY_VARIABLE}]")
    ] = None,
    gateway_token: Annotated[
        str | None, Parameter(help=f"Set the Gateway's token. [{GATEWAY_TOKEN_VARIABLE}]")
    ] = None,
    agent: Annotated[str | None, Parameter(help="Set the agent that answers.")] = None,
    approve_pairing: Annotated[
        bool,
        Parameter(
            negative="", help="Approve this device's pairing with the openclaw command of this machine."
        ),
    ] = False,
    data: Data = None,
) -> None:
    """Install or update the Functions. What is there is backed up first, and put back if it does not work. Settings
    that are not given stay as they are.
    """
    from rejoinder.openwebui.install import install as deploy

    valves: dict[str, Any] = {
        "GATEWAY_URL": gateway_url or os.environ.get(GATEWAY_VARIABLE),
        "GATEWAY_TOKEN": gateway_token or os.environ.get(GATEWAY_TOKEN_VARIABLE),
        "AGENT_ID": agent,
    }
    given = {name: value for name, value in valves.items() if value}
    _with_server(url, token, lambda server: deploy(server, _backups(data), given, approve=approve_pairing))


@app.command
def repair(*, url: Url = None, token: Token = None, data: Data = None) -> None:
    """Put this version's Functions back in place and switch them on. Settings stay as they are."""
    from rejoinder.openwebui.install import install as deploy

    _with_server(url, token, lambda server: deploy(server, _backups(data), {}))


@app.command
def status(
    *,
    url: Url = None,
    token: Token = None,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for programs.")] = False,
) -> int:
    """Show which Functions are installed, whether they are this version's, and whether the Gateway is connected. The
    exit code is 1 if something is not as it should be.
    """
    from rejoinder.openwebui.install import InstallError, connection, standings

    try:
        with _server(url, token) as server:
            rows = [
                {
                    "id": one.function.id,
                    "installed": one.installed,
                    "active": one.active,
                    "build": one.build,
                    "current": one.current,
                }
                for one in standings(server)
            ]
            there = all(row["installed"] and row["active"] for row in rows)
            trouble = connection(server) if there else "The Functions are not all installed and active."
    except InstallError as error:
        raise OpenWebUIError(str(error)) from error
    well = trouble is None and all(row["current"] for row in rows)
    if json:
        print_json({"functions": rows, "connected": trouble is None, "trouble": trouble})
        return 0 if well else 1
    columns = [("id", "FUNCTION"), ("installed", "INSTALLED"), ("active", "ACTIVE"), ("build", "BUILD")]
    print_table([*columns, ("current", "THIS VERSION")], rows)
    note("The pipe is connected to the Gateway." if trouble is None else trouble)
    if trouble is None and not well:
        note("Bring the Functions to this version with: rejoinder openwebui repair")
    return 0 if well else 1


@app.command
def uninstall(*, url: Url = None, token: Token = None, data: Data = None) -> None:
    """Remove the Functions. A backup is kept, and the chats stay as they are."""
    from rejoinder.openwebui.install import uninstall as remove

    _with_server(url, token, lambda server: remove(server, _backups(data)))


@app.command
def rollback(
    backup: Annotated[Path, Parameter(help="A backup that an earlier command wrote.")],
    /,
    *,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Put back the Functions and settings of a backup."""
    from rejoinder.openwebui.install import restore

    _with_server(url, token, lambda server: restore(server, backup, _backups(data)))


def _with_server(url: str | None, token: str | None, work: Any) -> None:
    from rejoinder.openwebui.install import InstallError

    try:
        with _server(url, token) as server:
            report: Report = work(server)
    except InstallError as error:
        raise OpenWebUIError(str(error)) from error
    for step in report.steps or ["There is nothing to do."]:
        note(step)


def _server(url: str | None, token: str | None) -> OpenWebUI:
    from rejoinder.openwebui.install import OpenWebUI

    secret = token or os.environ.get(TOKEN_VARIABLE, "")
    if not secret:
        raise OpenWebUIError(
            f"An administrator's API key or session token for Open WebUI is needed: set {TOKEN_VARIABLE}."
        )
    return OpenWebUI(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL, secret)


def _backups(data: str | None) -> Path:
    from rejoinder.launch.paths import DataFolder

    return DataFolder.choose(data).root / "open-webui-backups"
