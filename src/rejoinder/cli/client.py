"""Talking to a running server. On the standard library's client: the full one takes half of a command's time to load."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from rejoinder.cli.arguments import UsageError
from rejoinder.cli.moments import local
from rejoinder.contract.errors import RejoinderError

TIMEOUT = 30.0


class ServerError(RejoinderError):
    """The server refused, or did not answer. ``status`` is None where nothing was heard from it."""

    code = "server"

    def __init__(
        self, message: str, *, heard: int | None = None, problem: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.heard = heard
        self.problem = problem or {}


class Client:
    """One server. ``timeout`` is the seconds that one answer may take; None waits for ever."""

    def __init__(self, url: str, key: str | None, *, timeout: float | None = TIMEOUT) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise UsageError(
                f"{url} is not the address of a server, such as http://127.0.0.1:8642.", field="--server"
            )
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = port
        self._prefix = parts.path.rstrip("/")
        self.key = key
        self._timeout = timeout

    def get(self, path: str, **query: Any) -> Any:
        """The ``data`` of the answer. A parameter that is None is left out."""
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any = None) -> Any:
        return self.call("POST", path, body={} if body is None else body)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)

    def call(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Raises ServerError."""
        with self._talking():
            connection, response = self._send(method, path, query, body, {})
            try:
                content = response.read()
            finally:
                connection.close()
            return _content(response.status, content)

    def events(
        self, path: str, last_event_id: str | None = None, *, body: Any = None
    ) -> Iterator[tuple[str | None, str, str]]:
        """``(id, event, data)`` of each frame, as it arrives, until the server ends the stream. A POST where there is a
        body. Raises ServerError, also where the connection has been silent for longer than a live one is."""
        headers = {"accept": "text/event-stream"} | (
            {"last-event-id": last_event_id} if last_event_id else {}
        )
        with self._talking():
            method = "GET" if body is None else "POST"
            connection, response = self._send(method, path, None, body, headers)
            try:
                if response.status != 200:
                    _content(response.status, response.read())
                yield from _frames(response)
            finally:
                connection.close()

    def _send(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, headers: dict[str, str]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        headers = {"accept": "application/json", **headers}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key}"
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        words = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        target = self._prefix + path + (f"?{urlencode(words)}" if words else "")
        try:
            connection.request(method, target, body=content, headers=headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            waited = "" if self._timeout is None else f" within {self._timeout:g} seconds"
            raise ServerError(f"The server at {self.url} did not answer{waited}.") from None
        except ConnectionRefusedError:
            raise ServerError(
                f"No server answers at {self.url}. Start one with: rejoinder up. Or name another one with --server."
            ) from None
        except socket.gaierror:
            raise ServerError(f"The name of the server in {self.url} is not known here.") from None
        except (http.client.HTTPException, OSError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise ServerError(f"The connection to {self.url} broke: {reason}.") from None
        except UnicodeError:
            raise UsageError("The API key or the address holds a character that cannot be sent.") from None


def segment(text: str) -> str:
    """A value as one part of a path."""
    return quote(text, safe="")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _content(status: int, content: bytes) -> Any:
    try:
        body = json.loads(content) if content else None
    except ValueError:
        raise ServerError(
            f"What answers there with {status} is no Rejoinder server, or one behind a proxy that failed.",
            heard=status,
        ) from None
    if 200 <= status < 300:
        return body["data"] if isinstance(body, dict) and set(body) == {"data"} else body
    problem = body if isinstance(body, dict) else {}
    raise ServerError(_explained(status, problem), heard=status, problem=problem)


def _explained(status: int, problem: Mapping[str, Any]) -> str:
    text = str(problem.get("error") or f"The server answered with {status}.")
    field = problem.get("field")
    # Most refusals name the field themselves, some by its last part alone.
    if isinstance(field, str) and field and not re.search(rf"(?<!\w){re.escape(_last(field))}(?!\w)", text):
        text = f"{field}: {text}"
    if problem.get("state") == "answered" and problem.get("answered_by"):
        text += f" by {problem['answered_by']}"
        text += f", {local(problem['closed_at'])}" if problem.get("closed_at") else ""
        text += f": {json.dumps(problem['answer'], ensure_ascii=False)}" if "answer" in problem else ""
    if text[-1:] not in ".!?":
        text += "."
    faults = problem.get("errors")
    if isinstance(faults, dict) and len(faults) > 1:
        text += " " + " ".join(f"{name}: {fault}." for name, fault in faults.items())
    if status == 401:
        text += " Set REJOINDER_API_KEY, or give the key with --api-key-stdin."
    if problem.get("id"):
        text += f" The server's log has it under {problem['id']}."
    return text


def _last(field: str) -> str:
    return field.rpartition(".")[2]


def _frames(response: http.client.HTTPResponse) -> Iterator[tuple[str | None, str, str]]:
    identifier: str | None = None
    event = "message"
    data: list[str] = []
    while line := response.readline():
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield identifier, event, "\n".join(data)
            event, data = "message", []
            continue
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            identifier = value
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
