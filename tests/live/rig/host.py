"""A real Open WebUI on loopback, with a data folder of its own, and its API as an administrator uses it.

It is the Host of the chats: slim, offline, without any model but what its Functions bring.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.live.rig import places
from tests.live.rig.process import Running
from tests.live.rig.tabs import Tab
from tests.support import assert_eventually, free_port

EMAIL, PASSWORD = "admin@example.test", "Live-test-password-1"
_START_SECONDS = 120.0


class Host(Running):
    """The process and its API. ``url`` stays the same over restarts, and so does who is signed in.

    The API's functions are async and raise AssertionError, with the Host's words, for an answer of 400 or above.
    """

    def __init__(self, data: Path, *, environment: Mapping[str, str] | None = None) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        self.user_id = ""
        command = [str(places.host_program()), "serve", "--host", "127.0.0.1", "--port", str(self.port)]
        given = {**_environment(data, self.url), **(environment or {})}
        super().__init__("Open WebUI", command, given, data, data / "host.log")

    def start(self) -> Host:
        """Start it, wait until it answers, and sign in."""
        self.spawn()
        deadline = time.monotonic() + _START_SECONDS
        while not self._healthy():
            self.check(deadline)
        signed = httpx2.post(
            f"{self.url}/api/v1/auths/signin",
            json={"email": EMAIL, "password": PASSWORD},
            timeout=30,
            trust_env=False,
        ).json()
        self.token, self.user_id = signed["token"], signed["id"]
        # Else a window with news covers the page.
        settings = {"ui": {"showChangelog": False}}
        httpx2.post(
            f"{self.url}/api/v1/users/user/settings/update",
            json=settings,
            headers=self._headers,
            timeout=30,
            trust_env=False,
        ).raise_for_status()
        return self

    def restart(self) -> Host:
        """kill -9, and start it again on the same data."""
        self.kill()
        return self.start()

    def tail(self, lines: int = 60) -> str:
        """The end of its output, without the line of every request that went well."""
        kept = [line for line in super().tail(5_000).splitlines() if not line.endswith('HTTP/1.1" 200')]
        return "\n".join(kept[-lines:])

    async def call(self, method: str, path: str, body: Any = None, *, seconds: float = 60) -> Any:
        """One call of the API; the answer as JSON."""
        async with httpx2.AsyncClient(timeout=seconds, trust_env=False) as client:
            reply = await client.request(method, self.url + path, json=body, headers=self._headers)
        assert reply.status_code < 400, f"{method} {path}: {reply.status_code} {reply.text[:800]}"
        return reply.json()

    async def install(
        self, function_id: str, source: str, valves: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Install a Function, switched on; or put a new version in its place. Returns all models' ids."""
        meta = {"description": "live test", "manifest": {}}
        body = {"id": function_id, "name": function_id, "content": source, "meta": meta}
        known = {one["id"]: one for one in await self.call("GET", "/api/v1/functions/")}
        if function_id in known:
            await self.call("POST", f"/api/v1/functions/id/{function_id}/update", body)
        else:
            known[function_id] = await self.call("POST", "/api/v1/functions/create", body)
        if not known[function_id].get("is_active"):
            await self.call("POST", f"/api/v1/functions/id/{function_id}/toggle")
        if valves is not None:
            await self.call("POST", f"/api/v1/functions/id/{function_id}/valves/update", dict(valves))
        return await self.models()

    async def fetch(self, path: str) -> bytes:
        """What a GET answers, as it is."""
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            reply = await client.get(self.url + path, headers=self._headers)
        assert reply.status_code == 200, f"{path}: {reply.status_code}"
        return reply.content

    async def remove(self, function_id: str) -> None:
        await self.call("DELETE", f"/api/v1/functions/id/{function_id}/delete")

    async def models(self) -> list[str]:
        """The models' ids. Asking for them also brings a pipe to life after a start."""
        return [one["id"] for one in (await self.call("GET", "/api/models?refresh=true"))["data"]]

    async def new_chat(self, model: str) -> str:
        """An empty chat of the administrator's; its id."""
        history: dict[str, Any] = {"messages": {}, "currentId": None}
        chat = {"title": "New Chat", "models": [model], "history": history, "messages": []}
        return str((await self.call("POST", "/api/v1/chats/new", {"chat": chat}))["id"])

    async def chat(self, chat_id: str) -> dict[str, Any]:
        """The chat as the API shows it."""
        found: dict[str, Any] = await self.call("GET", f"/api/v1/chats/{chat_id}")
        return found

    async def history(self, chat_id: str) -> dict[str, Any]:
        """``{messages: {id: message}, currentId}`` of the chat."""
        found: dict[str, Any] = (await self.chat(chat_id))["chat"]["history"]
        return found

    async def thread(self, chat_id: str) -> list[dict[str, Any]]:
        """The messages from the first to the current one, each the parent of the next."""
        history = await self.history(chat_id)
        found: list[dict[str, Any]] = []
        at = history["currentId"]
        while at is not None:
            found.insert(0, history["messages"][at])
            at = history["messages"][at]["parentId"]
        return found

    async def send(
        self,
        chat_id: str,
        model: str,
        text: str,
        *,
        parent: str | None = None,
        session: str = "api",
        **more: Any,
    ) -> tuple[str, str]:
        """A user's message, sent as the page sends it; the ids of the message and of the reply to come.

        ``parent``: the message it follows; by default the chat's current one. ``more``: further fields of the request.
        """
        if parent is None:
            parent = (await self.history(chat_id))["currentId"]
        user, reply = str(uuid.uuid4()), str(uuid.uuid4())
        message = {"id": user, "parentId": parent, "childrenIds": [reply], "role": "user", "content": text}
        body = {
            "stream": True,
            "model": model,
            "messages": [{"role": "user", "content": text}],
            "params": {},
            "features": {},
            "session_id": session,
            "chat_id": chat_id,
            "id": reply,
            "parent_id": parent,
            "user_message": {**message, "timestamp": int(time.time()), "models": [model]},
            "background_tasks": {},
            **more,
        }
        await self.call("POST", "/api/chat/completions", body)
        return user, reply

    async def ask(self, model: str, text: str) -> str:
        """A plain call of the API, without a chat."""
        body = {"model": model, "stream": False, "messages": [{"role": "user", "content": text}]}
        answer = await self.call("POST", "/api/chat/completions", body)
        return str(answer["choices"][0]["message"]["content"])

    async def finished(self, chat_id: str, message_id: str, within: float = 60) -> dict[str, Any]:
        """Until the message is done; the message."""

        async def done() -> dict[str, Any] | None:
            found = (await self.history(chat_id))["messages"].get(message_id)
            return (
                found if found is not None and found.get("done") and not await self.tasks(chat_id) else None
            )

        shown: dict[str, Any] | None = await assert_eventually(
            done, f"message {message_id} was not done", within
        )
        assert shown is not None
        return shown

    async def tasks(self, chat_id: str) -> Sequence[str]:
        """The tasks that are registered for the chat."""
        found: Sequence[str] = (await self.call("GET", f"/api/tasks/chat/{chat_id}"))["task_ids"]
        return found

    async def stop_chat(self, chat_id: str) -> Any:
        """What the page's Stop does."""
        return await self.call("POST", f"/api/tasks/chat/{chat_id}/stop")

    async def active(self, chat_id: str) -> bool:
        """Whether the list of chats shows the chat as generating."""
        rows = await self.call("GET", "/api/v1/chats/?page=1")
        return any(row["id"] == chat_id and row.get("active") for row in rows)

    @asynccontextmanager
    async def tab(self, *chats: str) -> AsyncIterator[Tab]:
        """A browser's tab without a page: it hears what a page would hear that shows these chats."""
        async with asyncio.timeout(300):
            async with Tab.open(self.url, self.token) as tab:
                for chat_id in chats:
                    await tab.join(chat_id)
                yield tab

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def _healthy(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/health", timeout=5, trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False


def _environment(data: Path, url: str) -> dict[str, str]:
    """Nothing of this process' own but where programs are."""
    off = (
        "ENABLE_VERSION_UPDATE_CHECK ENABLE_OLLAMA_API ENABLE_OPENAI_API ENABLE_TITLE_GENERATION ANONYMIZED_TELEMETRY "
        "ENABLE_TAGS_GENERATION ENABLE_FOLLOW_UP_GENERATION ENABLE_AUTOCOMPLETE_GENERATION ENABLE_CHANNELS "
        "ENABLE_EVALUATION_ARENA_MODELS ENABLE_PIP_INSTALL_FRONTMATTER_REQUIREMENTS ENABLE_PERSISTENT_CONFIG"
    )
    return {
        **dict.fromkeys(off.split(), "false"),
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(data),
        "LANG": "C.UTF-8",
        # Slim: without this it imports what is not installed.
        "USE_SLIM_DOCKER": "true",
        "DATA_DIR": str(data),
        # Else it empties the folder of its installation and fills it again.
        "STATIC_DIR": str(data / "static"),
        "WEBUI_SECRET_KEY": secrets.token_hex(32),
        "WEBUI_ADMIN_EMAIL": EMAIL,
        "WEBUI_ADMIN_PASSWORD": PASSWORD,
        "WEBUI_ADMIN_NAME": "Admin",
        "CORS_ALLOW_ORIGIN": url,
        "OFFLINE_MODE": "true",
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "true",
        "SCARF_NO_ANALYTICS": "true",
        "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_OPENAI_API_BASE_URL": "http://127.0.0.1:9/v1",
    }
