"""What a finished message gets besides its words: the agent's files, lines about the session, and the chat's title.

A chat is one row, which is written whole: the lines of a message that a writer of ours ends are part of that last
write, which waits for them half a second and does without what is not there by then. Everything else comes after the
message is finished, in one more write, so that none of it keeps a reply waiting. Whatever goes wrong with it leaves the
message as it is. Done twice it does the same once: a file's id follows from the message and the file.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
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
#: How long the last write of a message waits for its lines.
LINES_SECONDS = 0.5
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
    lines: asyncio.Future[list[str]] | None


class Afterwards:
    """The extras of one bridge.

    settled: waits until nothing of a run is left to do. idle: waits until the session is told to be idle, at least.
    spawn: runs work beside.
    """

    def __init__(
        self,
        host: Host,
        client: GatewayClient,
        *,
        settled: Callable[[str], Coroutine[Any, Any, None]],
        idle: Callable[[str, str], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.wishes = Wishes()
        self._host, self._client = host, client
        self._settled, self._idle, self._spawn = settled, idle, spawn
        self._limits: list[Limit] = []
        self._ended: OrderedDict[str, _Ended] = OrderedDict()

    def ended(self, run: Run, final: Final) -> None:
        """A run is over; its message will be written."""
        message_id = run.message_id
        if message_id is None or not final.visible:
            return
        runs = (*(source.run_id for source in run.sources), run.run_id)
        own = any(run_id.startswith("msg-") for run_id in runs)
        lines: asyncio.Future[list[str]] | None = None
        if self.wishes.facts:
            lines = asyncio.get_running_loop().create_future()
            self._spawn(self._read_lines(run.key, run.run_id, lines))
        self._ended.pop(message_id, None)
        self._ended[message_id] = _Ended(run.key, runs, own, final, lines)
        while len(self._ended) > _KEPT:
            self._ended.popitem(last=False)

    async def lines(self, message_id: str) -> list[str]:
        """The lines of a message whose run is over, as far as they are known soon. Asked for once."""
        ended = self._ended.get(message_id)
        if ended is None or ended.lines is None:
            return []
        self._ended[message_id] = replace(ended, lines=None)
        await asyncio.wait((ended.lines,), timeout=LINES_SECONDS)
        return ended.lines.result() if ended.lines.done() and not ended.lines.cancelled() else []

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
        work: list[Coroutine[Any, Any, None]] = [self._files_and_lines(chat, message_id, ended)]
        if ended.own and self.wishes.title_agent:
            work.append(self._title(chat, message_id, self.wishes.title_agent))
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, GatewayError):
                log.info("Something was not added to the message %s: %s", message_id, result)
            elif isinstance(result, Exception):
                log.error("Something could not be added to the message %s.", message_id, exc_info=result)

    # The agent's files, and the lines that no other write had.

    async def _files_and_lines(self, chat: ChatKey, message_id: str, ended: _Ended) -> None:
        entries, told = await self._files(chat, message_id, ended)
        if ended.lines is not None:
            told += await ended.lines
        await self._put(chat, message_id, entries, told)

    async def _files(
        self, chat: ChatKey, message_id: str, ended: _Ended
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """The files as a message has them, and what is to be said of those that cannot be had."""
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
        return entries, troubles

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

    async def _read_lines(self, key: str, run_id: str, lines: asyncio.Future[list[str]]) -> None:
        try:
            lines.set_result(await self._facts(key, run_id))
        finally:
            if not lines.done():
                lines.cancel()

    async def _facts(self, key: str, run_id: str) -> list[str]:
        """What is known by the time the session is idle; the limits may be those of the run before."""

        async def standing() -> Standing | None:
            await self._idle(key, run_id)
            return await read_standing(self._client, key)

        found, limits = await asyncio.gather(
            _soon(standing), _soon(partial(read_limits, self._client)), return_exceptions=True
        )
        if isinstance(limits, list):
            self._limits = limits
        return facts.lines(found if isinstance(found, Standing) else None, self._limits, time.time())

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
        self, chat: ChatKey, message_id: str, files: list[dict[str, Any]], told: list[str]
    ) -> None:
        """Add files and lines that the message does not have yet, in one write."""
        if not files and not told:
            return
        async with self._host.edit(chat.chat) as edit:
            message = edit.messages.get(message_id) if edit is not None else None
            if edit is None or message is None or edit.user_id != chat.user:
                return
            fields = facts.with_lines(message, told)
            before = message.get("files")
            before = before if isinstance(before, list) else []
            known = {one.get("id") for one in before if isinstance(one, dict)}
            new = [one for one in files if one["id"] not in known]
            if new:
                fields["files"] = [*before, *new]
            if not fields:
                return
            lines = facts.new_lines(message, told)
            await edit.put(message_id, fields)
        emit = await self._host.emitter(chat.user, chat.chat, message_id)
        if new:
            await emit({"type": "files", "data": {"files": fields["files"]}})
        for one in lines:
            await emit({"type": "status", "data": one})


async def _soon(call: Callable[[], Awaitable[T]]) -> T:
    # Called here and not before: a task that is cancelled before its first step would leave it uncalled.
    async with asyncio.timeout(FACTS_SECONDS):
        return await call()
