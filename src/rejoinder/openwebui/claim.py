"""Claiming a run's message: a row in the Host's own database, written under the chat's lock.

nothing there               the message is put at the chat's true tail and is ours
ours or somebody's, alive   it is left alone
its writer is dead          it is taken over where it stands
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rejoinder.openwebui.facts import with_lines
from rejoinder.openwebui.host import Edit, Host, Message
from rejoinder.openwebui.registry import Registry

log = logging.getLogger("rejoinder.openwebui")

WRITER, RUN, TASK = "openclaw_writer", "openclaw_run", "task_id"


Missing = Literal["put", "doubt", "leave"]


@dataclass(frozen=True, slots=True)
class Place:
    """A message that is ours to write. `user_id`: who it is for, the chat's owner or one it is shared with.
    `turn`: what an open page must be told of it."""

    chat_id: str
    user_id: str
    message_id: str
    task_id: str
    meta: Mapping[str, Any]
    turn: Mapping[str, Any]
    taken_over: bool


def deepest_leaf(messages: Mapping[str, Message], current: str | None) -> str | None:
    """The end of the branch the page shows: from `current` to its newest child, and so on. A chat without a current
    message ends with its newest one. Whatever is broken in the chat, this ends."""
    at = current if current in messages else None
    if at is None:
        newest = max(messages.items(), key=lambda pair: _when(pair[1]), default=None)
        at = newest[0] if newest else None
    seen: set[str] = set()
    while at is not None and at not in seen:
        seen.add(at)
        children = [
            child
            for child in messages[at].get("childrenIds") or ()
            if child in messages and child not in seen
        ]
        if not children:
            return at
        at = children[-1]
    return at


def _when(message: Message) -> float:
    stamp = message.get("timestamp")
    return float(stamp) if isinstance(stamp, (int, float)) else 0.0


def model_at(messages: Mapping[str, Message], leaf: str | None, chosen: list[str]) -> str:
    """The model a new reply belongs to: that of the nearest reply above, or the one asked by the user's message."""
    at, seen = leaf, set()
    while at is not None and at in messages and at not in seen:
        seen.add(at)
        message = messages[at]
        if message.get("model"):
            return str(message["model"])
        asked = message.get("models")
        if isinstance(asked, list) and asked:
            return str(asked[0])
        at = message.get("parentId")
    return chosen[0] if chosen else ""


async def claim(
    host: Host,
    registry: Registry,
    writer_id: str,
    *,
    user_id: str,
    chat_id: str,
    message_id: str,
    run_id: str,
    own: bool = False,
    finished: Mapping[str, Any] | None = None,
    lines: Sequence[str] = (),
    missing: Missing = "put",
) -> Place | None:
    """Make the message ours, or None: it is somebody else's, finished, or the chat is gone or not the user's to write.

    user_id: whose session the run is in. A session's key names a user and a chat, and whoever may talk to the Gateway
        may make one up: nothing is written into a chat that this user could not write into in the Host's own page.
    own: this process streamed it itself until now and its request is over, so it is taken whatever it says.
    finished: the whole message, for a run that is over: it is written at once and never taken from `done`.
    lines: what stands above it besides.
    missing: what is done where the message is not there: `put` it in; `doubt`, put it in unless the chat's last reply
        says the same already (another program showed it); `leave` it so (a person deleted it).
    """
    busy = await host.tasks(chat_id)
    async with host.edit(chat_id) as chat:
        if chat is None:
            return None
        if chat.user_id != user_id and not await host.may_write(user_id, chat_id):
            log.warning(
                "A run of the user %s may not write into the chat %s, which is not theirs.", user_id, chat_id
            )
            return None
        task_id = str(uuid.uuid4())
        meta = {TASK: task_id, RUN: run_id, WRITER: writer_id}
        known = chat.messages.get(message_id)
        if known is not None:
            if known.get("role") != "assistant":
                return None
            if not own and (_owned(registry, known, busy) or (finished is not None and known.get("done"))):
                return None
            fields: dict[str, Any] = {
                "done": False,
                "meta": meta,
                **(finished or {}),
                **with_lines(known, lines),
            }
            if known.get("error"):
                fields.setdefault("error", None)  # what was said while its run was thought to be lost
            message = await chat.put(message_id, fields)
            return _place(chat, user_id, chat_id, message, meta, known.get("parentId"), taken_over=True)
        leaf = deepest_leaf(chat.messages, chat.current)
        if missing == "leave" or (missing == "doubt" and _says(chat.messages.get(leaf or ""), finished)):
            return None
        fields = {
            "id": message_id,
            "parentId": leaf,
            "childrenIds": [],
            "role": "assistant",
            "content": "",
            "output": [],
            "done": False,
            "model": model_at(chat.messages, leaf, chat.models),
            "timestamp": int(time.time()),
            "user_id": user_id,
            "meta": meta,
            **(finished or {}),
            **with_lines({}, lines),
        }
        message = await chat.put(message_id, fields)
        return _place(chat, user_id, chat_id, message, meta, leaf, taken_over=False)


def _owned(registry: Registry, message: Message, busy: list[str]) -> bool:
    notes = message.get("meta")
    notes = notes if isinstance(notes, dict) else {}
    writer = notes.get(WRITER)
    if writer and registry.alive(str(writer)):
        return True
    if message.get("done") and registry.known(str(message.get("id"))):
        return True
    # A request of the Host's still streams into it.
    return registry.held(str(message.get("id"))) or notes.get(TASK) in busy


def _says(message: Message | None, finished: Mapping[str, Any] | None) -> bool:
    if message is None or finished is None or message.get("role") != "assistant":
        return False
    text = str(finished.get("content") or "").strip()
    return bool(text) and str(message.get("content") or "").strip() == text


def _place(
    chat: Edit,
    user_id: str,
    chat_id: str,
    message: Message,
    meta: Mapping[str, Any],
    leaf: str | None,
    *,
    taken_over: bool,
) -> Place:
    told = {str(message["id"]): {key: value for key, value in message.items() if key != "meta"}}
    if leaf and leaf in chat.messages:
        told[leaf] = chat.messages[leaf]
    return Place(
        chat_id=chat_id,
        user_id=user_id,
        message_id=str(message["id"]),
        task_id=str(meta[TASK]),
        meta=meta,
        turn={"messages": told, "currentId": chat.current},
        taken_over=taken_over,
    )
