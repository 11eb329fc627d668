"""Backup and restore of the embedded store. A Postgres of your own is backed up with its own tools.

A restore goes back in time as a whole. A question that was answered after the backup is open again and its run goes
on again when it is answered again; a key that was revoked after the backup is valid again and must be revoked again.
Browser sessions and sign-in links do not come back. The owner's key file is not part of a backup.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.contract.errors import BadInputError, RejoinderError
from rejoinder.launch.cluster import StatementRefusedError
from rejoinder.launch.paths import sync_folder
from rejoinder.launch.programs import environment
from rejoinder.store.migrate import available
from rejoinder.store.sql import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rejoinder.launch.embedded import EmbeddedServer

_RESTORED = "rejoinder_restored"
_BEFORE = "rejoinder_before"
#: How long a closed connection may take to disappear.
LEAVING_SECONDS = 2.0


class BackupError(RejoinderError):
    """The backup could not be made or restored. Nothing was changed."""

    code = "backup-failed"


class StoreInUseError(RejoinderError):
    """The store is in use or not empty. Nothing was changed."""

    code = "store-in-use"
    status = 409


@dataclass(frozen=True)
class Contents:
    """What a store holds. ``last_event_at`` is None for one in which nothing ever happened."""

    questions: int
    open_questions: int
    runs: int
    parked_runs: int
    keys: int
    migration: int
    last_event_at: datetime | None

    @property
    def empty(self) -> bool:
        """Whether nothing would be missed: at most the first start's own key is in it."""
        return self.questions == 0 and self.runs == 0 and self.keys <= 1


@dataclass(frozen=True)
class Backup:
    """A backup that was made: where it is and its size in bytes."""

    file: Path
    size: int


def backup(server: EmbeddedServer, file: Path, *, overwrite: bool = False) -> Backup:
    """Write everything that the started ``server`` holds to ``file``, as of one moment, while it goes on serving.

    The file appears whole or not at all, readable by its owner alone. Raises BadInputError where it exists already
    (unless ``overwrite``) or cannot be written, BackupError where the server refused.
    """
    file = Path(os.path.abspath(file.expanduser()))
    if file.is_dir() or (file.exists() and not overwrite):
        raise BadInputError(f"{file} exists already; name another file.", field="file")
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    except OSError as error:
        raise BadInputError(f"{file} cannot be written: {error.strerror}.", field="file") from None
    try:
        os.close(handle)
        _program(
            server,
            *("pg_dump", "--format=custom", "--no-owner", "--no-privileges"),
            # Who knocked at which door a moment ago is nothing to keep.
            "--no-unlogged-table-data",
            *("--file", name, server.url),
        )
        with open(name, "rb") as written:
            os.fsync(written.fileno())
            size = os.fstat(written.fileno()).st_size
        os.replace(name, file)
    finally:
        Path(name).unlink(missing_ok=True)
    sync_folder(file.parent)
    return Backup(file, size)


def contents(server: EmbeddedServer, *, database: str = "rejoinder") -> Contents | None:
    """What the started ``server`` holds, None where it was never migrated."""
    queries = sql("backup")
    if server.sql(queries.is_ours, database=database) != "t":
        return None
    found = json.loads(server.sql(queries.contents, database=database))
    last = found.pop("last_event_at")
    return Contents(**found, last_event_at=datetime.fromisoformat(last) if last else None)


def restore(server: EmbeddedServer, file: Path, *, force: bool = False) -> Contents:
    """Put what ``file`` holds in the place of what the started ``server`` holds, and say what that is.

    It is loaded beside the present database and takes its place in one step: an error at any point leaves the
    present one as it was. Raises BadInputError where the file is no backup or of a newer version, StoreInUseError
    where the store is not empty (unless ``force``) or another process is connected to it.
    """
    file = Path(os.path.abspath(file.expanduser()))
    _check(server, file)
    present = contents(server)
    if present is not None and not present.empty and not force:
        raise StoreInUseError(
            f"This store is not empty: it holds {present.questions} questions and {present.runs} runs, which a restore "
            "would replace. Back it up first; then force the restore.",
            field="force",
        )
    _alone(server)
    with _beside(server):
        # Two jobs instead of one transaction: what is half loaded is dropped anyway.
        _program(
            server,
            *("pg_restore", "--exit-on-error", "--no-owner", "--no-privileges", "--jobs=2"),
            *("--dbname", server.url_of(_RESTORED), str(file)),
        )
        restored = contents(server, database=_RESTORED)
        if restored is None:
            raise BadInputError(f"{file} is not a backup of Rejoinder.", field="file")
        known = max(number for number, _, _ in available())
        if restored.migration > known:
            raise BadInputError(
                f"{file} was made by a newer version of Rejoinder (its tables are at {restored.migration}, this "
                f"version knows {known}). Restore it with that version.",
                field="file",
            )
        server.sql(sql("backup").end_sessions, database=_RESTORED)
        try:
            server.sql(sql("backup").swap, database="postgres")
        except StatementRefusedError:
            raise StoreInUseError(
                "Another process connected to the store meanwhile. Nothing was changed."
            ) from None
    server.sql(f"DROP DATABASE IF EXISTS {_BEFORE}", database="postgres")
    return restored


def _check(server: EmbeddedServer, file: Path) -> None:
    if not file.is_file():
        raise BadInputError(f"{file} does not exist.", field="file")
    try:
        listing = _program(server, "pg_restore", "--list", str(file))
    except BackupError:
        raise BadInputError(f"{file} is not a backup, or it is damaged.", field="file") from None
    if " SCHEMA - rejoinder " not in listing:
        raise BadInputError(f"{file} is not a backup of Rejoinder.", field="file")


def _alone(server: EmbeddedServer) -> None:
    # A client that has just closed its connection is still counted until its backend has ended.
    deadline = time.monotonic() + LEAVING_SECONDS
    while others := int(server.sql(sql("backup").others)):
        if time.monotonic() > deadline:
            are = (
                "1 connection to this store is" if others == 1 else f"{others} connections to this store are"
            )
            raise StoreInUseError(
                f"{are} open: Rejoinder or another program still runs on it. Stop it first."
            )
        time.sleep(0.05)


@contextmanager
def _beside(server: EmbeddedServer) -> Iterator[None]:
    """An empty database beside the present one, gone at the end if it did not take the other's place."""
    drop = f"DROP DATABASE IF EXISTS {_RESTORED} WITH (FORCE)"
    server.sql(drop, database="postgres")
    server.sql(f"DROP DATABASE IF EXISTS {_BEFORE} WITH (FORCE)", database="postgres")
    server.sql(f"CREATE DATABASE {_RESTORED}", database="postgres")
    try:
        yield
    finally:
        server.sql(drop, database="postgres")


def _program(server: EmbeddedServer, name: str, *arguments: str) -> str:
    done = subprocess.run(
        [server.programs / name, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=environment(),
    )
    if done.returncode != 0:
        # Its first line says what is wrong; the others may quote a row.
        said = next(
            (line for line in done.stderr.splitlines() if "error" in line), f"it ended with {done.returncode}"
        )
        raise BackupError(f"{name} failed: {said[:500]}")
    return done.stdout
