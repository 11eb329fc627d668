"""``rejoinder doctor``: what is wrong with an installation, and how to mend it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from rejoinder.contract.errors import RejoinderError
from rejoinder.contract.public import is_loopback, wrong_with
from rejoinder.contract.settings import Settings
from rejoinder.contract.terminal import clean
from rejoinder.launch.checkup import look_at_database
from rejoinder.launch.findings import Finding, Level
from rejoinder.launch.limits import ENOUGH, raise_open_files
from rejoinder.launch.paths import DataFolder, found_folder
from rejoinder.observe.logs import mask

GIB = 1024**3
LOW_SPACE, NO_SPACE = 1 * GIB, 100 * 1024**2


async def examine(data: Path | None) -> list[Finding]:
    """Every check that can be made from here, in the order in which to mend."""
    folder = DataFolder.choose(data) if data is not None else found_folder()
    try:
        settings = Settings.load()
    except RejoinderError as error:
        return [Finding("settings", "fail", error.message, "Correct the variable, or unset it.")]
    findings = [*_settings(settings), *_machine(), *_folder(folder, settings)]
    url = settings.rejoinder_database_url
    if url is not None:
        return [*findings, *_url(url), *await look_at_database(url, settings)]
    return [*findings, *await _embedded(folder, settings)]


async def _embedded(folder: DataFolder, settings: Settings) -> list[Finding]:
    from rejoinder.launch.embedded import EmbeddedServer

    server = EmbeddedServer(folder)
    if not folder.postgres.exists() or not await asyncio.to_thread(server.running):
        return [
            Finding(
                "database",
                "warn",
                f"REJOINDER_DATABASE_URL is not set, and no database runs on the data folder {folder.root}.",
                "Start one with: rejoinder up. Or name your own Postgres in REJOINDER_DATABASE_URL.",
            )
        ]
    url = await asyncio.to_thread(server.start)
    try:
        return await look_at_database(url, settings)
    finally:
        await asyncio.to_thread(server.stop)


def _settings(settings: Settings) -> Iterator[Finding]:
    if settings.access_control_enable:
        yield Finding("access", "ok", "Access control is on.")
    else:
        yield Finding(
            "access",
            "warn",
            "Access control is off: every program on this machine acts as the owner.",
            "Unset ACCESS_CONTROL_ENABLE, unless that is meant.",
        )
    public = settings.interactions_public_base_url
    if public is None:
        yield Finding(
            "public address",
            "ok",
            "INTERACTIONS_PUBLIC_BASE_URL is not set; links name the address that is asked.",
        )
        return
    wrong = wrong_with(public)
    if wrong is None:
        yield Finding("public address", "ok", f"Links begin with {mask(public)}.")
    else:
        yield Finding(
            "public address",
            "fail",
            f"INTERACTIONS_PUBLIC_BASE_URL is {mask(public)!r}: {wrong}.",
            "Set it to the https address at which people reach the inbox, such as https://ask.example.org.",
        )


def _machine() -> Iterator[Finding]:
    limit = raise_open_files()
    if limit is not None and limit < ENOUGH:
        yield Finding(
            "open files",
            "warn",
            f"A process may open {limit} files here, and every blocked caller needs one.",
            "Raise the hard limit: ulimit -Hn 65536, or LimitNOFILE=65536 in a systemd unit.",
        )
    else:
        shown = "any number of" if limit is None else str(limit)
        yield Finding("open files", "ok", f"A process may open {shown} files.")


def _folder(folder: DataFolder, settings: Settings) -> Iterator[Finding]:
    root = folder.root
    if not root.is_dir():
        if settings.rejoinder_database_url is None:
            yield Finding("data folder", "ok", f"{root} does not exist yet; rejoinder up makes it.")
        return
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "data folder",
            "fail",
            f"This user may not use {root}.",
            "Choose another one with REJOINDER_DATA or --data.",
        )
        return
    free = shutil.disk_usage(root).free
    level: Level = "fail" if free < NO_SPACE else "warn" if free < LOW_SPACE else "ok"
    yield Finding(
        "disk space",
        level,
        f"{free / GIB:.1f} GiB are free for {root}.",
        None if level == "ok" else "Make room, or move the folder to another disk.",
    )
    yield from _key(folder, settings)


def _key(folder: DataFolder, settings: Settings) -> Iterator[Finding]:
    if not settings.access_control_enable:
        return
    if not folder.owner_key.exists():
        yield Finding("owner key", "ok", f"{folder.root} holds no owner key yet; rejoinder up makes one.")
    elif folder.read_owner_key() is None:
        yield Finding(
            "owner key",
            "warn",
            f"This user may not read {folder.owner_key}, or it is empty; commands here have no key.",
            "Run the command as the user who runs rejoinder up, or set REJOINDER_API_KEY.",
        )
    elif stat.S_IMODE(folder.owner_key.stat().st_mode) & 0o077:
        yield Finding(
            "owner key",
            "fail",
            f"Other users of this machine may read {folder.owner_key}.",
            f"chmod 600 {folder.owner_key}, then revoke that key and start rejoinder up again for a new one.",
        )
    else:
        yield Finding("owner key", "ok", "The owner's key is readable for this user alone.")


def _url(url: str) -> Iterator[Finding]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return
    if not host or is_loopback(host) or "host=/" in parts.query:
        return
    mode = dict(pair.partition("=")[::2] for pair in parts.query.split("&")).get("sslmode")
    if mode in ("require", "verify-ca", "verify-full"):
        yield Finding("database connection", "ok", f"The connection is encrypted (sslmode={mode}).")
    else:
        yield Finding(
            "database connection",
            "warn",
            "REJOINDER_DATABASE_URL does not insist on an encrypted connection to another machine.",
            "Add ?sslmode=verify-full to it, or sslmode=require where the server has no certificate of a known authority.",
        )


def print_findings(findings: list[Finding], *, as_json: bool) -> int:
    """Print them, and return the exit code: 1 where a check failed."""
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        print(json.dumps({"ok": not failed, "checks": [asdict(finding) for finding in findings]}, indent=2))
        return int(failed)
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        print(f"{finding.level:<4}  {finding.check:<{width}}  {clean(finding.what)}")
        if finding.mend is not None:
            print(f"{'':<4}  {'':<{width}}  -> {clean(finding.mend)}")
    return int(failed)
