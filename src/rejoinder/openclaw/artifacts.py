"""The files of an agent: those that its replies have in the transcript, and those that lie in its workspace.

A file of the transcript is fetched over HTTP from the Gateway's own address, with a ticket for this one file; nothing
is ever fetched from anywhere else. Of a workspace the Gateway hands out texts and images only.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import http.client
import mimetypes
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit, urlunsplit

from rejoinder.openclaw.errors import CallFailed, GatewayError
from rejoinder.openclaw.frames import mapping, rows
from rejoinder.openclaw.handshake import Access
from rejoinder.openclaw.sessions import Caller

#: What is taken of one file, and how long it may take.
MOST_BYTES = 25 * 1024 * 1024
FETCH_SECONDS = 60.0
_PLAIN = "application/octet-stream"


class NoFile(GatewayError):
    """The file cannot be had. The message says why, for a person."""

    def __init__(self, why: str) -> None:
        super().__init__(why, code="NO_FILE")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file in a transcript. id: the Gateway's; name: as a person knows it; kind: its MIME type."""

    id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Content:
    """A file itself."""

    name: str
    kind: str
    data: bytes


async def list_artifacts(caller: Caller, key: str, run_id: str) -> list[Artifact]:
    """The files that a run's answers have in the transcript. Raises what a call raises."""
    reply = mapping(await caller.call("artifacts.list", {"sessionKey": key, "runId": run_id}))
    found = []
    for item in rows(reply.get("artifacts")):
        if isinstance(item.get("id"), str) and item["id"]:
            name = str(item.get("title") or "file")
            found.append(Artifact(item["id"], name, _kind(item.get("mimeType"), name)))
    return found


async def fetch(caller: Caller, access: Access, key: str, artifact: Artifact) -> Content:
    """A file of the transcript. Raises NoFile, and what a call raises."""
    try:
        reply = mapping(
            await caller.call("artifacts.download", {"sessionKey": key, "artifactId": artifact.id})
        )
    except CallFailed as error:
        raise NoFile(error.message) from error
    told = mapping(reply.get("artifact"))
    data = reply.get("data", told.get("data"))
    if isinstance(data, str) and data:
        return Content(artifact.name, artifact.kind, _decoded(data))
    url = reply.get("url")
    if not isinstance(url, str) or not url.startswith("/") or url.startswith("//"):
        raise NoFile("it does not lie on the Gateway")
    parts = urlsplit(access.url)
    scheme = "https" if parts.scheme == "wss" else "http"
    address = urlunsplit((scheme, parts.netloc, "", "", "")) + url
    try:
        body = await asyncio.to_thread(_get, address, direct=access.loopback)
    except (OSError, http.client.HTTPException, urllib.error.URLError) as error:
        # The address has a ticket in it: it is not repeated.
        raise NoFile(f"it could not be fetched ({type(error).__name__})") from None
    return Content(artifact.name, artifact.kind, body)


async def workspace_file(caller: Caller, agent: str, path: str) -> Content:
    """A file of an agent's workspace. path: as the agent wrote it, absolute or from the workspace. Raises NoFile, and
    what a call raises."""
    if "://" in path:
        raise NoFile("it does not lie on the Gateway")
    inside = path
    if path.startswith(("/", "~")):
        inside = _within(path, await _workspace(caller, agent))
    try:
        reply = mapping(await caller.call("agents.workspace.get", {"agentId": agent, "path": inside}))
    except CallFailed as error:
        raise NoFile(error.message) from error
    file = mapping(reply.get("file"))
    content = file.get("content")
    if not isinstance(content, str):
        raise NoFile("the Gateway does not hand it out")
    name = str(file.get("name") or PurePosixPath(path).name or "file")
    data = _decoded(content) if file.get("encoding") == "base64" else content.encode()
    return Content(name, _kind(file.get("mimeType"), name), data)


async def _workspace(caller: Caller, agent: str) -> str:
    for item in rows(mapping(await caller.call("agents.list", {})).get("agents")):
        if item.get("id") == agent:
            return str(item.get("workspace") or "")
    return ""


def _within(path: str, workspace: str) -> str:
    try:
        return str(PurePosixPath(path).relative_to(workspace)) if workspace else path
    except ValueError:
        raise NoFile("it lies outside of the agent's workspace") from None


def _get(address: str, *, direct: bool) -> bytes:
    # A proxy from the environment is meant for the world outside.
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if direct:
        handlers.append(urllib.request.ProxyHandler({}))
    with urllib.request.build_opener(*handlers).open(address, timeout=FETCH_SECONDS) as reply:
        body: bytes = reply.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise NoFile(f"it is larger than {MOST_BYTES // 1024 // 1024} MB")
    return body


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The Gateway serves its files itself; whoever sends elsewhere is not followed."""

    def redirect_request(self, *_: object) -> None:
        return None


def _decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError):
        raise NoFile("the Gateway sent it broken") from None
    if len(data) > MOST_BYTES:
        raise NoFile(f"it is larger than {MOST_BYTES // 1024 // 1024} MB")
    return data


def _kind(told: object, name: str) -> str:
    if isinstance(told, str) and "/" in told:
        return told.partition(";")[0].strip().lower()
    return mimetypes.guess_type(name)[0] or _PLAIN
