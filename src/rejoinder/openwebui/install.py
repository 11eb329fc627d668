"""Installing the Functions into a running Open WebUI over its API, and taking them out again.

Nothing is changed before what is there was written to a backup. Valves are kept as they are, but for those that are
given. A deploy that does not work is rolled back to what was there before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from rejoinder.openwebui.bundle import FUNCTIONS, Function, build, build_of

PIPE = "openclaw_gateway"
MODEL = f"{PIPE}.default"
#: What the pipe says to a message without words once the Gateway took the connection.
_CONNECTED = "The message is empty"
_APPROVE = re.compile(r"openclaw devices approve ([\w.-]+)")


class InstallError(Exception):
    """It did not work. The text says what to do, and whether everything is as it was before."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One Function as it is installed. build: None if it is not there, or not built by this program."""

    function: Function
    installed: bool
    active: bool = False
    build: str | None = None
    current: bool = False


@dataclass(slots=True)
class Report:
    """What was done, in sentences, and where the backup is."""

    steps: list[str] = field(default_factory=list)
    backup: Path | None = None


class OpenWebUI:
    """An administrator's way to a running Open WebUI. `token`: an API key or a session's token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._client = httpx2.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {token}"},
            timeout=60,
            follow_redirects=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call. Raises InstallError for anything but an answer."""
        try:
            reply = self._client.request(method, path, json=body)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise InstallError(f"No Open WebUI answers at {self.url} ({type(error).__name__}).") from error
        if reply.status_code in (401, 403):
            raise InstallError(
                "Open WebUI does not accept the token for this. It must be an administrator's API key or session "
                "token; API keys must be enabled in its settings."
            )
        if reply.status_code >= 400:
            raise InstallError(
                f"Open WebUI answered {method} {path} with {reply.status_code}: {_detail(reply)}"
            )
        try:
            return reply.json()
        except ValueError:
            raise InstallError(f"{self.url} does not answer as Open WebUI does.") from None

    def functions(self) -> dict[str, dict[str, Any]]:
        """Every Function that is installed, whole, by its id."""
        listed = self.call("GET", "/api/v1/functions/export")
        if not isinstance(listed, list):
            raise InstallError(f"{self.url} does not answer as Open WebUI does.")
        return {str(one["id"]): one for one in listed if isinstance(one, dict) and "id" in one}

    def valves(self, function_id: str) -> dict[str, Any]:
        """The values that are set."""
        found = self.call("GET", f"/api/v1/functions/id/{function_id}/valves")
        return dict(found) if isinstance(found, dict) else {}

    def set_valves(self, function_id: str, values: Mapping[str, Any]) -> None:
        """Set all values of a Function."""
        self.call("POST", f"/api/v1/functions/id/{function_id}/valves/update", dict(values))

    def put(self, function_id: str, name: str, content: str, about: str, *, known: bool) -> None:
        """Install a Function, or new content in its place."""
        body = {
            "id": function_id,
            "name": name,
            "content": content,
            "meta": {"description": about, "manifest": {}},
        }
        path = f"/api/v1/functions/id/{function_id}/update" if known else "/api/v1/functions/create"
        self.call("POST", path, body)

    def switch(self, function_id: str) -> None:
        """Switch a Function on, or off."""
        self.call("POST", f"/api/v1/functions/id/{function_id}/toggle")

    def offer(self, function_id: str) -> None:
        """Offer a Function with every model, or only with those that choose it."""
        self.call("POST", f"/api/v1/functions/id/{function_id}/toggle/global")

    def delete(self, function_id: str) -> None:
        """Remove a Function with its valves."""
        self.call("DELETE", f"/api/v1/functions/id/{function_id}/delete")

    def models(self) -> list[str]:
        """The ids of all models. Asking brings a pipe to life."""
        found = self.call("GET", "/api/models?refresh=true")
        rows = found.get("data") if isinstance(found, dict) else None
        return [str(one.get("id")) for one in rows or [] if isinstance(one, dict)]

    def says(self, model: str) -> str:
        """What a model answers to a message without words: ours says how it stands with the Gateway."""
        body = {"model": model, "stream": False, "messages": [{"role": "user", "content": " "}]}
        try:
            reply = self._client.post("/api/chat/completions", json=body)
        except httpx2.TransportError as error:
            raise InstallError(f"No Open WebUI answers at {self.url} ({type(error).__name__}).") from error
        return reply.text


def standings(server: OpenWebUI) -> list[Standing]:
    """How every Function of ours stands."""
    known, built = server.functions(), build()
    found = []
    for function in FUNCTIONS:
        one = known.get(function.id)
        if one is None:
            found.append(Standing(function, installed=False))
            continue
        content = str(one.get("content") or "")
        found.append(
            Standing(
                function,
                installed=True,
                active=bool(one.get("is_active")),
                build=build_of(content),
                current=build_of(content) == build_of(built[function.id]),
            )
        )
    return found


def connection(server: OpenWebUI) -> str | None:
    """Why the pipe is not connected to its Gateway, in words; None if it is."""
    said = server.says(MODEL)
    return None if _CONNECTED in said else _plain(said)


def install(server: OpenWebUI, backups: Path, valves: Mapping[str, Any], *, approve: bool = False) -> Report:
    """Deploy this build: back up, put in place, switch on, try it, and roll back if it does not work.

    valves: values of the pipe to set. approve: whether to approve this device's pairing with the `openclaw` command
    of this machine. Raises InstallError.
    """
    report = Report()
    known = server.functions()
    report.backup = back_up(server, known, backups)
    if report.backup is not None:
        report.steps.append(f"What was installed before is kept in {report.backup}.")
    try:
        for function, content in zip(FUNCTIONS, build().values(), strict=True):
            before = known.get(function.id)
            server.put(function.id, function.name, content, function.about, known=before is not None)
            if before is None or not before.get("is_active"):
                server.switch(function.id)
            if before is None and function.everywhere:
                server.offer(function.id)
            report.steps.append(f"{function.name} ({function.id}) is {'updated' if before else 'installed'}.")
        if valves:
            server.set_valves(PIPE, {**server.valves(PIPE), **valves})
        if MODEL not in server.models():
            raise InstallError(f"Open WebUI does not list the model {MODEL}; its log says why.")
    except InstallError as error:
        undone = roll_back(server, known, report.backup)
        raise InstallError(f"{error} {undone}") from error
    report.steps.append(_smoke(server, approve=approve))
    return report


def _smoke(server: OpenWebUI, *, approve: bool) -> str:
    said = server.says(MODEL)
    asked = _APPROVE.search(said)
    trouble = ""
    if asked and approve:
        trouble = _approve(asked[1])
        said = said if trouble else server.says(MODEL)
    if _CONNECTED in said:
        return "The pipe is connected to the Gateway."
    return f"The pipe is installed, but it is not connected yet: {trouble}{_plain(said)}"


def _approve(request: str) -> str:
    """Have the `openclaw` command of this machine approve the pairing. Returns why it did not, or nothing."""
    program = shutil.which("openclaw")
    if program is None:
        return "this machine has no openclaw command to approve the pairing with. "
    try:
        # The id was matched to be one word, and no shell sees it.
        done = subprocess.run(  # noqa: S603
            [program, "devices", "approve", request], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the openclaw command of this machine did not approve the pairing ({type(error).__name__}). "
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        return f"the openclaw command of this machine did not approve the pairing: {said} "
    return ""


def back_up(server: OpenWebUI, known: Mapping[str, dict[str, Any]], backups: Path) -> Path | None:
    """Write what is installed of ours, with its valves, into a new file that only its owner can read. None if there is
    nothing. The file holds secrets."""
    ours = [known[function.id] for function in FUNCTIONS if function.id in known]
    if not ours:
        return None
    kept = [{**one, "valves": server.valves(str(one["id"]))} for one in ours]
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    handle, name = tempfile.mkstemp(prefix=f"functions-{stamp}-", suffix=".json", dir=backups)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
    return Path(name)


def roll_back(server: OpenWebUI, known: Mapping[str, dict[str, Any]], backup: Path | None) -> str:
    """Put back what was there. Returns a sentence that says whether it worked."""
    try:
        now = server.functions()
        for function in FUNCTIONS:
            before = known.get(function.id)
            if before is not None:
                _put_back(server, before, now)
            elif function.id in now:
                server.delete(function.id)
        if backup is not None:
            for one in json.loads(backup.read_text(encoding="utf-8")):
                if one.get("valves"):
                    server.set_valves(str(one["id"]), one["valves"])
    except InstallError as error:
        where = f" What was there is in {backup}." if backup else ""
        return f"Putting back what was there failed as well: {error}{where}"
    return "Everything is as it was before."


def restore(server: OpenWebUI, backup: Path, backups: Path) -> Report:
    """Put back what a backup holds. Raises InstallError."""
    try:
        kept = json.loads(backup.read_text(encoding="utf-8"))
        wanted = {str(one["id"]): one for one in kept}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InstallError(f"{backup} is not a backup of Functions that can be read.") from error
    now = server.functions()
    report = Report(backup=back_up(server, now, backups))
    for function_id, one in wanted.items():
        _put_back(server, one, now)
        if one.get("valves"):
            server.set_valves(function_id, one["valves"])
        report.steps.append(f"{one.get('name') or function_id} ({function_id}) is as it was.")
    server.models()
    return report


def uninstall(server: OpenWebUI, backups: Path) -> Report:
    """Remove the Functions; a backup is kept. Chats stay as they are."""
    known = server.functions()
    report = Report(backup=back_up(server, known, backups))
    if report.backup is not None:
        report.steps.append(f"What was installed is kept in {report.backup}.")
    for function in FUNCTIONS:
        if function.id in known:
            server.delete(function.id)
            report.steps.append(f"{function.name} ({function.id}) is removed.")
    return report


def _put_back(server: OpenWebUI, one: Mapping[str, Any], now: Mapping[str, dict[str, Any]]) -> None:
    function_id = str(one["id"])
    meta = one.get("meta")
    about = str(meta.get("description") or "") if isinstance(meta, dict) else ""
    known = now.get(function_id)
    name = str(one.get("name") or function_id)
    server.put(function_id, name, str(one["content"]), about, known=known is not None)
    if _is(known, "is_active") != _is(one, "is_active"):
        server.switch(function_id)
    if _is(known, "is_global") != _is(one, "is_global"):
        server.offer(function_id)


def _is(function: Mapping[str, Any] | None, what: str) -> bool:
    return bool(function and function.get(what))


def _plain(said: str) -> str:
    try:
        told = json.loads(said)
        error = told.get("error") or told.get("detail") or told
        found = error.get("detail") or error.get("message") if isinstance(error, dict) else error
        return str(found)[:500]
    except (ValueError, AttributeError):
        return said[:500]


def _detail(reply: httpx2.Response) -> str:
    return _plain(reply.text)
