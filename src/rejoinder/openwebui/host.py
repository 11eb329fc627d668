"""Open WebUI as the rest of the package sees it: the only module that knows its names.

Its inner functions have no promise of stability, so every one that is needed is looked up when the adapter is made,
and an Open WebUI that lacks one, or whose function wants other arguments, is refused with a sentence that says so.

Known to work: 0.12.0 to 0.12.4. `save_response_stream` takes the message's text up to 0.12.2 and not after.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

log = logging.getLogger("rejoinder.openwebui")

Message = dict[str, Any]
Emit = Callable[[Mapping[str, Any]], Awaitable[None]]

TESTED = "0.12.0 to 0.12.4"
#: How often a busy database is asked for the lock of a chat; each time it waits for it some seconds.
_LOCKS = 6
_CHATS, _ROWS = "open_webui.models.chats", "open_webui.models.chat_messages"
_FILES = "open_webui.models.files"
_SOCKET, _TASKS = "open_webui.socket.main", "open_webui.tasks"
#: Module, name within it, and the arguments it must take.
_NEEDED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (_CHATS, "Chats._chat_transaction", ("id",)),
    (_CHATS, "Chats.upsert_message_to_history", ("history", "message_id", "message")),
    (_CHATS, "Chats.get_accessible_chat_by_id", ("id", "user", "permission")),
    (_CHATS, "Chat", ()),
    (_ROWS, "ChatMessages.upsert_message", ("message_id", "chat_id", "user_id", "data", "db")),
    (_ROWS, "ChatMessage", ()),
    ("open_webui.models.users", "Users.get_user_by_id", ("id",)),
    (_SOCKET, "get_event_emitter", ("request_info", "update_db")),
    (_SOCKET, "get_event_call", ("request_info",)),
    (_SOCKET, "get_session_ids_from_room", ("room",)),
    (_TASKS, "create_task", ("redis", "coroutine", "id", "task_id")),
    (_TASKS, "cleanup_task", ("redis", "task_id", "id")),
    (_TASKS, "list_task_ids_by_item_id", ("redis", "id")),
    (_TASKS, "save_response_stream", ("redis", "task_id", "chat_id", "message_id", "output")),
    (_FILES, "Files.insert_new_file", ("user_id", "form_data")),
    (_FILES, "Files.get_file_by_id", ("id",)),
    (_FILES, "FileForm", ()),
    ("open_webui.storage.provider", "Storage.upload_file", ("file", "filename", "tags")),
    ("open_webui.models.functions", "Functions.get_function_valves_by_id", ("id",)),
    ("open_webui.internal.db", "get_async_db", ()),
    ("sqlalchemy.orm.attributes", "flag_modified", ("instance", "key")),
)


class UnknownHost(Exception):
    """This Open WebUI is not one that is known here. The text says what is missing, for an administrator."""


class Edit:
    """One chat under its lock. What `put` wrote is kept when the block ends without an error."""

    def __init__(self, host: Host, session: Any, chat: Any) -> None:
        self._host, self._session, self._chat = host, session, chat
        found = (chat.chat or {}).get("history")
        self._history: dict[str, Any] = copy.deepcopy(found) if isinstance(found, dict) else {}
        if not isinstance(self._history.get("messages"), dict):
            self._history["messages"] = {}
        self._history.setdefault("currentId", None)

    @property
    def user_id(self) -> str:
        """The chat's owner."""
        return str(self._chat.user_id)

    @property
    def updated_at(self) -> int:
        """When the conversation last changed, in seconds."""
        return int(self._chat.updated_at or 0)

    @property
    def models(self) -> list[str]:
        """The models chosen in the chat."""
        found = (self._chat.chat or {}).get("models")
        return [str(model) for model in found] if isinstance(found, list) else []

    @property
    def messages(self) -> dict[str, Message]:
        """Every message by its id. To be read only."""
        found: dict[str, Message] = self._history["messages"]
        return found

    @property
    def current(self) -> str | None:
        """The message the page shows last."""
        found = self._history["currentId"]
        return str(found) if found else None

    @property
    def title(self) -> str:
        """The chat's title."""
        return str(getattr(self._chat, "title", None) or (self._chat.chat or {}).get("title") or "")

    def rename(self, title: str) -> None:
        """Give the chat another title."""
        self._chat.title = title
        self._chat.chat = {**(self._chat.chat or {}), "title": title}
        self._host.changed(self._chat)

    async def put(self, message_id: str, fields: Mapping[str, Any]) -> Message:
        """Write fields of a message, or a new one, into both of the Host's stores."""
        stored: Message = self._host.chats.upsert_message_to_history(self._history, message_id, dict(fields))
        self._chat.chat = {**(self._chat.chat or {}), "history": self._history}
        self._host.changed(self._chat)
        self._chat.current_message_id = self._history["currentId"]
        self._chat.updated_at = int(time.time())
        # The Host adds tokens that are told anew to those that it knows.
        told = {name: value for name, value in stored.items() if name != "usage" or name in fields}
        author = str(stored.get("user_id") or self.user_id)
        await self._host.rows.upsert_message(message_id, self._chat.id, author, told, db=self._session)
        return stored


class Host:
    """One Open WebUI. Make it by `probe`."""

    def __init__(self, names: Mapping[str, Any], app: Any) -> None:
        self._names = names
        self._app = app
        self.chats = names["Chats"]
        self.rows = names["ChatMessages"]
        self._stream_has_text = "content" in inspect.signature(names["save_response_stream"]).parameters

    @classmethod
    def probe(cls, app: Any = None) -> Host:
        """The Host this process is. `app`: its web application, if it is at hand. Raises UnknownHost."""
        names: dict[str, Any] = {}
        for module, path, arguments in _NEEDED:
            found: Any
            try:
                found = import_module(module)
                for step in path.split("."):
                    owner, found = found, getattr(found, step)
            except (ImportError, AttributeError):
                raise UnknownHost(
                    f"This Open WebUI ({_version()}) has no {module}.{path}, which is needed to write messages into "
                    f"its chats. Tested are versions {TESTED}."
                ) from None
            missing = _missing(found, arguments)
            if missing:
                raise UnknownHost(
                    f"This Open WebUI ({_version()}) changed {module}.{path}: it takes no {', '.join(missing)}. "
                    f"Tested are versions {TESTED}."
                )
            names[path.partition(".")[0]] = owner if "." in path else found
        return cls(names, app)

    @property
    def version(self) -> str:
        """Open WebUI's version."""
        return _version()

    @property
    def anchor(self) -> Any:
        """A module of the Host's that outlives every Function: what all deploys of this process share is kept on it."""
        return sys.modules[_SOCKET]

    @property
    def redis(self) -> Any:
        """What the Host's task functions want first: its Redis, or None."""
        app = self._app or getattr(sys.modules.get("open_webui.main"), "app", None)
        return getattr(getattr(app, "state", None), "redis", None)

    def changed(self, chat: Any) -> None:
        """Tell the database layer that a chat's JSON changed."""
        self._names["flag_modified"](chat, "chat")

    @asynccontextmanager
    async def edit(self, chat_id: str) -> AsyncIterator[Edit | None]:
        """A chat under its row lock; None if it does not exist (any more)."""
        async with AsyncExitStack() as stack:
            session, chat = await self._locked(stack, chat_id)
            yield None if chat is None else Edit(self, session, chat)

    async def _locked(self, stack: AsyncExitStack, chat_id: str) -> tuple[Any, Any]:
        for _ in range(_LOCKS - 1):
            try:
                return await self._lock(stack, chat_id)
            except Exception as error:
                # SQLite has one lock for all writers, and gives up after some seconds of a crowd.
                if "database is locked" not in str(error):
                    raise
                log.info("The database of chats is busy; its lock is asked for again.")
        return await self._lock(stack, chat_id)

    async def _lock(self, stack: AsyncExitStack, chat_id: str) -> tuple[Any, Any]:
        found: tuple[Any, Any] = await stack.enter_async_context(self.chats._chat_transaction(chat_id))
        return found

    async def may_write(self, user_id: str, chat_id: str) -> bool:
        """Whether a user may write into a chat that is not theirs, such as one that was shared to be continued."""
        user = await self._names["Users"].get_user_by_id(user_id)
        if user is None:
            return False
        return await self.chats.get_accessible_chat_by_id(chat_id, user, permission="write") is not None

    async def emitter(self, user_id: str, chat_id: str, message_id: str) -> Emit:
        """The way to every open page of a message. Keep one for each message: it remembers what it told."""
        emit: Emit = await self._names["get_event_emitter"](
            {"user_id": user_id, "chat_id": chat_id, "message_id": message_id}, update_db=False
        )
        return emit

    async def start_task(self, chat_id: str, task_id: str, work: Coroutine[Any, Any, None]) -> Any:
        """Run work as a task of the chat: the page shows Stop, which cancels it."""
        _, task = await self._names["create_task"](self.redis, work, id=chat_id, task_id=task_id)
        return task

    async def end_task(self, chat_id: str, task_id: str) -> bool:
        """Forget a task. Returns whether the chat has no other."""
        await self._names["cleanup_task"](self.redis, task_id, chat_id)
        return not await self.tasks(chat_id)

    async def tasks(self, chat_id: str) -> list[str]:
        """The ids of the chat's running tasks."""
        return list(await self._names["list_task_ids_by_item_id"](self.redis, chat_id))

    async def save_stream(
        self, chat_id: str, message_id: str, task_id: str, text: str, output: Sequence[Mapping[str, Any]]
    ) -> None:
        """Keep what a message shows so far where a page that opens now looks for it."""
        told = (text, list(output)) if self._stream_has_text else (list(output),)
        await self._names["save_response_stream"](self.redis, task_id, chat_id, message_id, *told)

    def pages(self, chat_id: str) -> list[str]:
        """The sessions of the pages that show this chat now."""
        return list(self._names["get_session_ids_from_room"](f"chat:{chat_id}"))

    async def ask_page(
        self, user_id: str, chat_id: str, message_id: str, session_id: str, code: str
    ) -> object:
        """What a script answers in a page. It may never answer: bound the wait."""
        call = await self._names["get_event_call"](
            {"user_id": user_id, "chat_id": chat_id, "message_id": message_id, "session_id": session_id}
        )
        answer: object = await call({"type": "execute", "data": {"code": code}})
        return answer

    async def standings(self, chat_ids: Iterable[str]) -> dict[str, tuple[int, list[str]]]:
        """For each chat that exists: when it last changed, in seconds, and its unfinished replies."""
        ids = list(chat_ids)
        if not ids:
            return {}
        select = import_module("sqlalchemy").select
        chat, row = self._names["Chat"], self._names["ChatMessage"]
        found: dict[str, tuple[int, list[str]]] = {}
        async with self._names["get_async_db"]() as session:
            for start in range(0, len(ids), 200):
                some = ids[start : start + 200]
                for one, when in await session.execute(
                    select(chat.id, chat.updated_at).where(chat.id.in_(some))
                ):
                    found[str(one)] = (int(when or 0), [])
                unfinished = await session.execute(
                    select(row.chat_id, row.id)
                    .where(row.chat_id.in_(some))
                    .where(row.role == "assistant")
                    .where(row.done.is_(False))
                )
                for one, composite in unfinished:
                    if str(one) in found:
                        found[str(one)][1].append(str(composite).removeprefix(f"{one}-"))
        return found

    async def save_file(self, user_id: str, file_id: str, name: str, kind: str, data: bytes) -> None:
        """Keep a file of a user's; nothing is done where the id is there already. kind: its MIME type."""
        files, storage = self._names["Files"], self._names["Storage"]
        if await files.get_file_by_id(file_id) is not None:
            return
        shown = (
            "".join(letter for letter in PurePosixPath(name).name if letter.isprintable())[-200:] or "file"
        )
        suffix = PurePosixPath(shown).suffix
        stored = file_id + (suffix if suffix[1:].isalnum() and suffix.isascii() else "")
        tags = {"OpenWebUI-User-Id": user_id, "OpenWebUI-File-Id": file_id}
        _, path = await asyncio.to_thread(storage.upload_file, BytesIO(data), stored, tags)
        meta = {"name": shown, "content_type": kind, "size": len(data), "data": {}}
        form = self._names["FileForm"](
            id=file_id, hash=sha256(data).hexdigest(), filename=shown, path=path, data={}, meta=meta
        )
        await files.insert_new_file(user_id, form)

    async def valves(self, function_id: str) -> dict[str, Any]:
        """The values an administrator set for a Function."""
        found = await self._names["Functions"].get_function_valves_by_id(function_id)
        return dict(found or {})


def _version() -> str:
    return str(getattr(sys.modules.get("open_webui.env"), "VERSION", "of unknown version"))


def _missing(function: Any, arguments: Sequence[str]) -> list[str]:
    if not arguments:
        return []
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in arguments if name not in taken]
