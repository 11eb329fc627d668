"""What a finished message gets besides its words: the agent's files, lines about the session, and the chat's title.

It comes after the message is finished and written, so that none of it keeps a reply waiting, and whatever goes wrong
with it leaves the message as it is. Done twice it does the same once: a file's id follows from the message and the file.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, TypeVar

from rejoinder.openclaw.artifacts import Artifact, Content, NoFile, fetch, list_artifacts, workspace_file
from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.errors import CallFailed, GatewayError
from rejoinder.openclaw.standing import Limit, Standing, read_limits, read_standing
from rejoinder.openwebui import facts, title
from rejoinder.openwebui.host import Host
from rejoinder.turns.finish import Final
from rejoinder.turns.identity import ChatKey, parse_key
from rejoinder.turns.signals import Run

log = logging.getLogger("rejoinder.openwebui")

#: Files of one reply that are put into the chat.
MOST_FILES = 20
#: How long the Gateway's word that a run is settled is waited for (some runs have none), and the facts about it.
SETTLED_SECONDS, FACTS_SECONDS = 10.0, 5.0
_KEPT = 500
T = TypeVar("T")
_DRAWN = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"))


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is wanted. title_agent: the agent that names chats, None for nobody. facts: lines above a reply."""

    title_agent: str | None = None
    facts: bool = True


@dataclass(frozen=True, slots=True)
class _Ended:
    key: str
    run_ids: tuple[str, ...]
    own: bool
    final: Final


class Afterwards:
    """The extras of one bridge.

    settled: waits until nothing of a run is left to do. spawn: runs work beside.
    """

    def __init__(
        self,
        host: Host,
        client: GatewayClient,
        *,
        settled: Callable[[str], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.wishes = Wishes()
        self._host, self._client = host, client
        self._settled, self._spawn = settled, spawn
        self._ended: OrderedDict[str, _Ended] = OrderedDict()

    def ended(self, run: Run, final: Final) -> None:
        """A run is over; its message will be written."""
        message_id = run.message_id
        if message_id is None or not final.visible:
            return
        runs = (*(source.run_id for source in run.sources), run.run_id)
        own = any(run_id.startswith("msg-") for run_id in runs)
        self._ended[message_id] = _Ended(run.key, runs, own, final)
        while len(self._ended) > _KEPT:
            self._ended.popitem(last=False)

    def finished(self, message_id: str) -> None:
        """The message is written."""
        ended = self._ended.pop(message_id, None)
        chat = parse_key(ended.key) if ended is not None else None
        if ended is not None and chat is not None:
            self._spawn(self._add(chat, message_id, ended))

    async def _add(self, chat: ChatKey, message_id: str, ended: _Ended) -> None:
        try:
            await asyncio.wait_for(self._settled(ended.run_ids[-1]), SETTLED_SECONDS)
        except TimeoutError:
            pass
        work = [self._files(chat, message_id, ended)]
        if self.wishes.facts:
            work.append(self._facts(chat, message_id, ended))
        if ended.own and self.wishes.title_agent:
            work.append(self._title(chat, message_id, self.wishes.title_agent))
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, GatewayError):
                log.info("Something was not added to the message %s: %s", message_id, result)
            elif isinstance(result, Exception):
                log.error("Something could not be added to the message %s.", message_id, exc_info=result)

    # The agent's files.

    async def _files(self, chat: ChatKey, message_id: str, ended: _Ended) -> None:
        artifacts = [one for run_id in ended.run_ids for one in await self._artifacts(ended.key, run_id)]
        there = {one.name for one in artifacts}
        paths = [path for path in ended.final.files if PurePosixPath(path).name not in there]
        client = self._client
        wanted: list[tuple[str, str, Callable[[], Awaitable[Content]]]] = [
            (one.id, one.name, partial(fetch, client, client.access, ended.key, one)) for one in artifacts
        ]
        wanted += [
            (path, PurePosixPath(path).name or path, partial(workspace_file, client, chat.agent, path))
            for path in paths
        ]
        entries, troubles = [], []
        for place, (mark, name, content) in enumerate(wanted):
            try:
                if place >= MOST_FILES:
                    raise NoFile(f"a reply shows {MOST_FILES} files at most")
                entries.append(await self._entry(chat, message_id, mark, await content()))
            except GatewayError as error:
                troubles.append(f"The file {name} is not shown: {error.message}")
        if entries:
            await self._put(chat, message_id, "files", entries, _files_told)
        await self._lines(chat, message_id, troubles)

    async def _artifacts(self, key: str, run_id: str) -> list[Artifact]:
        try:
            return await list_artifacts(self._client, key, run_id)
        except CallFailed as error:
            log.info("The Gateway lists no files of a run: %s", error)
            return []

    async def _entry(self, chat: ChatKey, message_id: str, mark: str, content: Content) -> dict[str, Any]:
        if not content.data:
            raise NoFile("it is empty")
        file_id = str(uuid.uuid5(uuid.UUID(message_id), mark))
        await self._host.save_file(chat.user, file_id, content.name, content.kind, content.data)
        image = content.kind in _DRAWN
        return {
            "type": "image" if image else "file",
            "id": file_id,
            "url": f"/api/v1/files/{file_id}/content" if image else file_id,
            "name": content.name,
            "size": len(content.data),
            "content_type": content.kind,
        }

    # Lines about the session.

    async def _facts(self, chat: ChatKey, message_id: str, ended: _Ended) -> None:
        standing, limits = await asyncio.gather(
            _soon(partial(read_standing, self._client, ended.key)),
            _soon(partial(read_limits, self._client)),
            return_exceptions=True,
        )
        told = facts.lines(standing if isinstance(standing, Standing) else None, _limits(limits), time.time())
        await self._lines(chat, message_id, told)

    async def _lines(self, chat: ChatKey, message_id: str, told: Iterable[str]) -> None:
        entries = [{"description": line, "done": True} for line in told]
        if entries:
            await self._put(chat, message_id, "statusHistory", entries, _lines_told)

    # The chat's title.

    async def _title(self, chat: ChatKey, message_id: str, agent: str) -> None:
        async with self._host.edit(chat.chat) as edit:
            said = title.exchange(edit.messages) if edit is not None else None
            if edit is None or said is None or edit.user_id != chat.user:
                return
            if not title.made_up(edit.title, said[0]):
                return
        found = await title.ask_safely(self._client, agent, *said)
        if not found:
            return
        async with self._host.edit(chat.chat) as edit:
            if edit is None or not title.made_up(edit.title, said[0]):
                return
            edit.rename(found)
        emit = await self._host.emitter(chat.user, chat.chat, message_id)
        await emit({"type": "chat:title", "data": found})

    async def _put(
        self,
        chat: ChatKey,
        message_id: str,
        field: str,
        entries: list[dict[str, Any]],
        told: Callable[[list[Any], list[dict[str, Any]]], Iterable[Mapping[str, Any]]],
    ) -> None:
        async with self._host.edit(chat.chat) as edit:
            message = edit.messages.get(message_id) if edit is not None else None
            if edit is None or message is None or edit.user_id != chat.user:
                return
            before = message.get(field)
            before = before if isinstance(before, list) else []
            known = {one.get("id", one.get("description")) for one in before if isinstance(one, dict)}
            new = [one for one in entries if one.get("id", one.get("description")) not in known]
            if not new:
                return
            whole = [*before, *new]
            await edit.put(message_id, {field: whole})
        emit = await self._host.emitter(chat.user, chat.chat, message_id)
        for event in told(whole, new):
            await emit(event)


def _files_told(whole: list[Any], new: list[dict[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return [{"type": "files", "data": {"files": whole}}]


def _lines_told(whole: list[Any], new: list[dict[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return [{"type": "status", "data": one} for one in new]


async def _soon(call: Callable[[], Awaitable[T]]) -> T:
    # Called here and not before: a task that is cancelled before its first step would leave it uncalled.
    async with asyncio.timeout(FACTS_SECONDS):
        return await call()


def _limits(found: list[Limit] | BaseException) -> list[Limit]:
    return found if isinstance(found, list) else []
