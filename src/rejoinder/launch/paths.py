"""The data folder: where one installation keeps its database, its owner key and the address its command line uses.

pg/             the embedded Postgres (as root: a link, see ``rejoinder.launch.cluster``)
lock, users     who starts or stops the server, and who uses it
owner-key       the owner's API key, readable by its owner alone; the command line finds it
up              held by the ``rejoinder up`` that runs on this folder
endpoint.json   ``{"url": ...}``, written by ``rejoinder up``: what the command line talks to
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rejoinder.contract.errors import ConfigurationError

VARIABLE = "REJOINDER_DATA"
#: What root uses: its server runs as another system user, who must be able to pass through every parent.
ROOT_FOLDER = Path("/var/lib/rejoinder")
#: What ``make up`` uses, in the folder of the project.
PROJECT_FOLDER = ".data"


def default_folder() -> Path:
    """``/var/lib/rejoinder`` for root, else ``$XDG_DATA_HOME/rejoinder`` (``~/.local/share/rejoinder``)."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return ROOT_FOLDER
    base = os.environ.get("XDG_DATA_HOME", "")
    # A relative value is to be ignored, says the XDG base directory specification.
    if os.path.isabs(base):
        return Path(base) / "rejoinder"
    return Path.home() / ".local" / "share" / "rejoinder"


def found_folder() -> DataFolder:
    """The data folder that the command line talks to: REJOINDER_DATA, else the ``.data`` of the project that we stand
    in where an ``up`` made one for this user, else the default one."""
    if os.environ.get(VARIABLE):
        return DataFolder.choose()
    here = Path.cwd()
    for folder in (here, *here.parents):
        key = folder / PROJECT_FOLDER / "owner-key"
        try:
            # Somebody else's folder must not decide whom we talk to.
            if key.stat().st_uid == os.getuid():
                return DataFolder(key.parent)
        except (OSError, AttributeError):
            continue
    return DataFolder.choose()


@dataclass(frozen=True)
class DataFolder:
    """The files of one data folder. Nothing is created before it is needed."""

    root: Path

    @classmethod
    def choose(cls, given: str | os.PathLike[str] | None = None) -> DataFolder:
        """The folder named by ``given`` (``--data``), else by REJOINDER_DATA, else the default one."""
        chosen = given or os.environ.get(VARIABLE) or default_folder()
        try:
            # absolute, not resolved: a folder that is a link stays reachable by the name the user gave.
            return cls(Path(os.path.abspath(Path(chosen).expanduser())))
        except RuntimeError:
            raise ConfigurationError(
                f"{chosen} names a home folder that does not exist.", field="data"
            ) from None

    def create(self) -> DataFolder:
        """Make the folder if it is missing. Raises ConfigurationError where that is not possible."""
        root_runs = hasattr(os, "geteuid") and os.geteuid() == 0
        try:
            # Only its owner may look inside; as root, the server's own user must be able to pass through.
            self.root.mkdir(mode=0o711 if root_runs else 0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise ConfigurationError(
                f"{self.root} is a file; the data folder must be a folder.", field="data"
            ) from None
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {self.root} cannot be made: {error.strerror}.", field="data"
            ) from None
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise ConfigurationError(
                f"The data folder {self.root} is not writable by this user.", field="data"
            )
        return self

    @property
    def postgres(self) -> Path:
        return self.root / "pg"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def users(self) -> Path:
        return self.root / "users"

    @property
    def owner_key(self) -> Path:
        return self.root / "owner-key"

    @property
    def endpoint(self) -> Path:
        return self.root / "endpoint.json"

    def read_owner_key(self) -> str | None:
        """The owner's API key, or None where there is none or this user may not read it."""
        return _read(self.owner_key)

    def write_owner_key(self, key: str) -> None:
        write_private(self.owner_key, f"{key}\n".encode())

    def read_endpoint(self) -> str | None:
        """The URL of the server that ``rejoinder up`` last announced here, or None."""
        text = _read(self.endpoint)
        try:
            url = json.loads(text)["url"] if text else None
        except (ValueError, TypeError, KeyError):
            return None
        return url if isinstance(url, str) else None

    def write_endpoint(self, url: str) -> None:
        write_private(self.endpoint, json.dumps({"url": url}).encode() + b"\n")

    def clear_endpoint(self, url: str) -> None:
        """Forget the address, if it is still ``url``: another server may have written its own since."""
        if self.read_endpoint() == url:
            self.endpoint.unlink(missing_ok=True)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def write_private(path: Path, content: bytes) -> None:
    """Put a file in place whole or not at all, readable and writable by its owner alone."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a loss of power."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
