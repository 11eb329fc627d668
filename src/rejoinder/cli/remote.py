"""Which server a command talks to, with which key, and how it prints: the options that every remote command has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from cyclopts import Group, Parameter

from rejoinder.cli.arguments import UsageError, standard_input
from rejoinder.cli.client import TIMEOUT, Client
from rejoinder.cli.output import note
from rejoinder.launch.paths import found_folder

ANYWHERE = Group("Server and output", sort_key=1)


@Parameter(name="*", group=ANYWHERE)
@dataclass(frozen=True)
class Remote:
    """Taken by every command that talks to a server."""

    json: Annotated[bool, Parameter(help="Print JSON instead of a table.")] = False
    server: Annotated[
        str | None,
        Parameter(
            help="The server's address. Without it: the one that rejoinder up runs here.",
            env_var="REJOINDER_SERVER",
        ),
    ] = None
    api_key_stdin: Annotated[
        bool,
        Parameter(
            negative="",
            help="Read the API key from standard input. Without it: REJOINDER_API_KEY, or the owner's key of this machine.",
        ),
    ] = False
    timeout: Annotated[float | None, Parameter(help="Seconds to wait for the server. [default: 30]")] = None

    def client(self, *, patient: bool = False) -> Client:
        """``patient``: without --timeout, wait as long as it takes."""
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError("--timeout must be more than 0 seconds.", field="--timeout")
        url, key = self.target()
        timeout = self.timeout if self.timeout is not None else None if patient else TIMEOUT
        return Client(url, key, timeout=timeout)

    def target(self) -> tuple[str, str | None]:
        """``(the server's URL, the key or None)``. Raises UsageError where no server is known."""
        key = (
            standard_input.line("--api-key-stdin")
            if self.api_key_stdin
            else os.environ.get("REJOINDER_API_KEY")
        )
        if self.api_key_stdin and not key:
            raise UsageError("--api-key-stdin: standard input holds no key.", field="--api-key-stdin")
        data = found_folder()
        local = data.read_endpoint()
        url = self.server or local
        if url is None:
            raise UsageError(
                f"No server is running on the data folder {data.root}. Start one with: rejoinder up. A server "
                "elsewhere is named with --server or REJOINDER_SERVER, a data folder with REJOINDER_DATA.",
                field="--server",
            )
        # The owner's key goes to the server that it belongs to and to nobody else.
        if not key and local is not None and url.rstrip("/") == local.rstrip("/"):
            key = data.read_owner_key()
        if key and _in_the_open(url):
            note(f"Note: {url} is not https; the API key can be read on its way.")
        return url, key or None


ON_THIS_MACHINE = Remote()


def items_of(answer: Any) -> list[dict[str, Any]]:
    found = answer.get("items") if isinstance(answer, dict) else answer
    return [item for item in found or [] if isinstance(item, dict)]


def _in_the_open(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "http" and host not in ("localhost", "::1") and not host.startswith("127.")
