"""Open WebUI for tests: its real chats, tasks and emitter in this process where it is installed, else a small stand-in
that keeps to the same words. Both are reached through the same adapter.
"""

from __future__ import annotations

import asyncio
import copy
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from rejoinder.openwebui.host import Edit, Host

REAL = find_spec("open_webui") is not None


@dataclass
class Told:
    """One event that the pages got: to a room (`user:<id>` or `chat:<id>`), about a message."""

    room: str
    message_id: str
    type: str
    data: Any


@dataclass
class World:
    """A Host and what its pages saw. `answers`: what a page answers to a script, by chat."""

    host: Host
    user: str
    told: list[Told] = field(default_factory=list)
    answers: dict[str, Callable[[str], Any]] = field(default_factory=dict)
    make: Any = None
    read: Any = None
    stored: Any = None
    title: Any = None
    another: Any = None
    #: The chats whose rows were written, once for each write.
    written: list[str] = field(default_factory=list)

    def count_writes(self) -> None:
        """From here on each write of a chat's row by the adapter is noted in `written`."""
        edit, changed = self.host.edit, self.host.changed
        touched: set[str] = set()

        def note(chat: Any) -> None:
            touched.add(chat.id)
            changed(chat)

        @asynccontextmanager
        async def counted(chat_id: str) -> AsyncIterator[Edit | None]:
            async with edit(chat_id) as chat:
                touched.discard(chat_id)
                yield chat
                if chat_id in touched:
                    self.written.append(chat_id)

        self.host.changed = note  # type: ignore[method-assign]
        self.host.edit = counted  # type: ignore[method-assign]

    async def another_user(self, shared_with: str | None = None) -> str:
        """A second user's id. shared_with: the chat that was shared with them, to be continued."""
        return str(await self.another(shared_with))

    async def chat(self, *messages: Mapping[str, Any], current: str | None = None, at: int = 0) -> str:
        """A chat with these messages, each the child of the one before. `at`: when it last changed."""
        known: dict[str, Any] = {}
        last = None
        for message in messages:
            one = {"parentId": last, "childrenIds": [], "done": True, "content": "", **message}
            known[one["id"]] = one
            if last is not None:
                known[last]["childrenIds"].append(one["id"])
            last = one["id"]
        chat_id = str(uuid.uuid4())
        await self.make(chat_id, {"messages": known, "currentId": current or last}, at)
        return chat_id

    async def history(self, chat_id: str) -> dict[str, Any]:
        """The chat as its page reads it."""
        found: dict[str, Any] = await self.read(chat_id)
        return found

    async def replies(self, chat_id: str) -> list[dict[str, Any]]:
        """The assistant messages along the shown branch, oldest first."""
        history = await self.history(chat_id)
        chain, at = [], history["currentId"]
        while at is not None:
            message = history["messages"][at]
            chain.append(message)
            at = message.get("parentId")
        return [message for message in reversed(chain) if message["role"] == "assistant"]

    def seen(self, chat_id: str, message_id: str) -> list[Told]:
        """What a page of the chat was told of a message, in order."""
        return [one for one in self.told if one.room == f"chat:{chat_id}" and one.message_id == message_id]


def key_of(world: World, chat_id: str) -> str:
    return f"agent:main:openwebui-{world.user}-{chat_id}"


class _Rows:
    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    async def upsert_message(
        self, message_id: str, chat_id: str, user_id: str, data: Any, db: Any = None
    ) -> None:
        self.known[f"{chat_id}-{message_id}"] = copy.deepcopy(data)


class _Chats:
    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.get_accessible_chat_by_id: Any = None
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def _chat_transaction(self, id: str) -> AsyncIterator[tuple[Any, Any]]:
        async with self._locks.setdefault(id, asyncio.Lock()):
            found = self.known.get(id)
            working = copy.deepcopy(found) if found is not None else None
            await asyncio.sleep(0)
            yield None, working
            if working is not None:
                self.known[id] = working

    @staticmethod
    def upsert_message_to_history(history: Any, message_id: str, message: Any) -> Any:
        messages = history["messages"]
        if message_id in messages:
            old = messages[message_id].get("meta") or {}
            if isinstance(message.get("meta"), dict):
                kept = {key: old[key] for key in ("voice", "task_id") if key in old}
                message = {**message, "meta": {**kept, **message["meta"]}}
            messages[message_id] = {**messages[message_id], **message}
        else:
            messages[message_id] = dict(message)
            history["currentId"] = message_id
        parent = messages.get(messages[message_id].get("parentId") or "")
        if parent is not None and message_id not in parent["childrenIds"]:
            parent["childrenIds"].append(message_id)
        return messages[message_id]


class _StandIn(Host):
    """The adapter over the stand-in."""

    def __init__(self, names: Mapping[str, Any], anchor: Any) -> None:
        super().__init__(names, None)
        self._anchor = anchor

    @property
    def anchor(self) -> Any:
        return self._anchor

    async def standings(self, chat_ids: Iterable[str]) -> dict[str, tuple[int, list[str]]]:
        found = {}
        for one in chat_ids:
            chat = self.chats.known.get(one)
            if chat is not None:
                rows = Edit(self, None, chat).messages.values()
                open_ones = [row["id"] for row in rows if row["role"] == "assistant" and not row["done"]]
                found[one] = (int(chat.updated_at), open_ones)
        return found


def stand_in() -> World:
    chats, rows = _Chats(), _Rows()
    tasks: dict[str, dict[str, asyncio.Task[Any]]] = {}
    streams: dict[str, Any] = {}
    world: World

    async def get_event_emitter(request_info: Any, update_db: bool = True) -> Any:
        chat, message = request_info["chat_id"], request_info["message_id"]

        async def emit(event: Any) -> None:
            await asyncio.sleep(0)
            if event["type"] != "chat:messages":
                world.told.append(
                    Told(f"user:{request_info['user_id']}", message, event["type"], event["data"])
                )
            world.told.append(Told(f"chat:{chat}", message, event["type"], event["data"]))

        return emit

    async def get_event_call(request_info: Any) -> Any:
        async def call(event: Any) -> Any:
            return world.answers[request_info["chat_id"]](event["data"]["code"])

        return call

    async def create_task(redis: Any, coroutine: Any, id: Any = None, task_id: Any = None) -> Any:
        task = asyncio.get_running_loop().create_task(coroutine)
        tasks.setdefault(id, {})[task_id] = task
        task.add_done_callback(lambda _: tasks[id].pop(task_id, None))
        return task_id, task

    async def cleanup_task(redis: Any, task_id: str, id: Any = None) -> None:
        tasks.get(id, {}).pop(task_id, None)
        streams.pop(task_id, None)

    async def list_task_ids_by_item_id(redis: Any, id: Any) -> list[str]:
        return list(tasks.get(id, {}))

    async def save_response_stream(
        redis: Any, task_id: str, chat_id: str, message_id: str, content: str, output: Any
    ) -> None:
        streams[task_id] = (content, output)

    files: dict[str, Any] = {}
    contents: dict[str, bytes] = {}

    async def get_file_by_id(id: str) -> Any:
        return files.get(id)

    async def insert_new_file(user_id: str, form_data: Any) -> Any:
        files[form_data.id] = form_data
        return form_data

    def upload_file(file: Any, filename: str, tags: Any) -> Any:
        contents[filename] = file.read()
        return contents[filename], filename

    shared: set[tuple[str, str]] = set()

    async def get_user_by_id(id: str) -> Any:
        return SimpleNamespace(id=id)

    async def get_accessible_chat_by_id(id: str, user: Any, *, permission: str) -> Any:
        return chats.known.get(id) if (id, user.id) in shared else None

    chats.get_accessible_chat_by_id = get_accessible_chat_by_id
    names = {
        "Chats": chats,
        "Users": SimpleNamespace(get_user_by_id=get_user_by_id),
        "ChatMessages": rows,
        "Files": SimpleNamespace(get_file_by_id=get_file_by_id, insert_new_file=insert_new_file),
        "FileForm": SimpleNamespace,
        "Storage": SimpleNamespace(upload_file=upload_file),
        "get_event_emitter": get_event_emitter,
        "get_event_call": get_event_call,
        "get_session_ids_from_room": lambda room: [
            "page" for chat in world.answers if room == f"chat:{chat}"
        ],
        "create_task": create_task,
        "cleanup_task": cleanup_task,
        "list_task_ids_by_item_id": list_task_ids_by_item_id,
        "save_response_stream": save_response_stream,
        "flag_modified": lambda chat, name: None,
    }
    world = World(_StandIn(names, SimpleNamespace()), str(uuid.uuid4()))

    async def make(chat_id: str, history: Any, at: int) -> None:
        chats.known[chat_id] = SimpleNamespace(
            id=chat_id,
            user_id=world.user,
            title="New Chat",
            chat={"models": ["openclaw_gateway.default"], "history": history},
            current_message_id=history["currentId"],
            updated_at=at,
        )

    async def read(chat_id: str) -> Any:
        found = copy.deepcopy(chats.known[chat_id].chat["history"])
        for message_id, row in rows.known.items():
            if message_id.startswith(chat_id):
                known = found["messages"][message_id[len(chat_id) + 1 :]]
                assert {k: known[k] for k in ("done", "content")} == {k: row[k] for k in ("done", "content")}
        return found

    async def stored(file_id: str) -> tuple[str, str, bytes]:
        form = files[file_id]
        return form.filename, form.meta["content_type"], contents[form.path]

    async def title(chat_id: str) -> str:
        return str(chats.known[chat_id].title)

    async def another(chat_id: str | None) -> str:
        other = str(uuid.uuid4())
        if chat_id is not None:
            shared.add((chat_id, other))
        return other

    world.make, world.read, world.stored, world.title = make, read, stored, title
    world.another = another
    return world


_loaded = False


async def real() -> World:
    """The real classes on a database of their own (one for the process)."""
    global _loaded
    if not _loaded:
        folder = tempfile.mkdtemp(prefix="owui-")
        os.environ.update(
            USE_SLIM_DOCKER="true",
            FROM_INIT_PY="true",
            OFFLINE_MODE="true",
            HF_HUB_OFFLINE="1",
            ENABLE_VERSION_UPDATE_CHECK="false",
            DATA_DIR=folder,
            STATIC_DIR=f"{folder}/static",
            WEBUI_SECRET_KEY="x" * 64,
            CORS_ALLOW_ORIGIN="http://127.0.0.1",
            GLOBAL_LOG_LEVEL="ERROR",
        )
        import open_webui.config  # noqa: F401  it makes the database

        _loaded = True
    import open_webui.socket.main as socket_main
    from open_webui.models.chat_messages import ChatMessages
    from open_webui.models.chats import Chat, ChatForm, Chats
    from open_webui.models.users import Users
    from sqlalchemy import update

    user = await Users.insert_new_user(
        str(uuid.uuid4()), "A", f"{uuid.uuid4()}@example.test", "/u.png", "admin"
    )
    assert user is not None
    if hasattr(socket_main, "_rejoinder_live"):
        delattr(socket_main, "_rejoinder_live")
    world = World(Host.probe(), str(user.id))

    class Sio:
        manager = None

        async def emit(self, _: str, payload: Any, room: str = "", **__: Any) -> None:
            data = copy.deepcopy(payload["data"])
            world.told.append(Told(room, payload["message_id"], data["type"], data.get("data")))

        async def call(self, _: str, payload: Any, **__: Any) -> Any:
            return world.answers[payload["chat_id"]](payload["data"]["data"]["code"])

    socket_main.sio = Sio()
    socket_main.SESSION_POOL["page"] = {"id": world.user}
    names = dict(world.host._names)
    names["get_session_ids_from_room"] = lambda room: [
        "page" for chat in world.answers if room == f"chat:{chat}"
    ]
    world.host._names = names

    async def make(chat_id: str, history: Any, at: int) -> None:
        chat = {"title": "New Chat", "models": ["openclaw_gateway.default"], "history": history}
        await Chats.insert_new_chat(chat_id, world.user, ChatForm(chat=chat))
        for message_id, message in history["messages"].items():
            await ChatMessages.upsert_message(message_id, chat_id, world.user, message)
        from open_webui.internal.db import get_async_db

        async with get_async_db() as session:
            await session.execute(update(Chat).where(Chat.id == chat_id).values(updated_at=at))
            await session.commit()

    async def read(chat_id: str) -> Any:
        async with Chats._chat_transaction(chat_id) as (_, chat):
            rows = await Chats.get_messages_map_by_chat_id(chat_id)
            history = copy.deepcopy(chat.chat["history"])
        for message_id, message in history["messages"].items():
            row = rows[message_id]
            for name in ("content", "done", "parentId"):
                assert row.get(name) == message.get(name), (message_id, name, row, message)
        return history

    async def stored(file_id: str) -> tuple[str, str, bytes]:
        from open_webui.models.files import Files
        from open_webui.storage.provider import Storage

        found = await Files.get_file_by_id(file_id)
        assert found is not None
        with open(Storage.get_file(found.path), "rb") as file:
            return found.filename, found.meta["content_type"], file.read()

    async def title(chat_id: str) -> str:
        async with Chats._chat_transaction(chat_id) as (_, chat):
            assert chat.chat["title"] == chat.title
            return str(chat.title)

    async def another(chat_id: str | None) -> str:
        from open_webui.models.access_grants import AccessGrants
        from open_webui.models.shared_chats import SharedChats

        other = await Users.insert_new_user(
            str(uuid.uuid4()), "B", f"{uuid.uuid4()}@example.test", "/u.png", "user"
        )
        assert other is not None
        if chat_id is not None:
            share = await Chats.insert_shared_chat_by_chat_id(chat_id)
            await SharedChats.set_share_mode(share.share_id, "continue")
            await AccessGrants.grant_access("shared_chat", chat_id, "user", other.id, "read")
        return str(other.id)

    world.make, world.read, world.stored, world.title = make, read, stored, title
    world.another = another
    return world


async def a_world() -> World:
    return await real() if REAL else stand_in()


def user_says(text: str) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "role": "user",
        "content": text,
        "timestamp": int(time.time()),
        "models": ["openclaw_gateway.default"],
    }


def stub(**more: Any) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "role": "assistant",
        "content": "",
        "output": [],
        "done": False,
        "model": "openclaw_gateway.default",
        "timestamp": int(time.time()),
        **more,
    }
