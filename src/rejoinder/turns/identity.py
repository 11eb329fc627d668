"""Which message of a chat belongs to a run: a pure function of the ids, so that any process gives one answer.

    message_id(key, R) = M                          R = "msg-<chat36>-<M36>-<suffix>", of this key's chat
                       = None                       R starts with "owui-action-"
                       = uuid5(NS, "<key>:<R>")     any other run
    message_id(key, R, I) = uuid5(NS, "<key>:<R>:<I>")   a run whose id is its session's id

Recorded facts this stands on (Gateway 2026.9.3):

- Two scheduled turns aimed at one existing session both have the session's id as their run id
  (t01_cron_twice). Their input rows differ: `38c452a9-...:user` and `4227ba44-...:user`. The input row is
  pushed live before the run's first output and stays in the history, so it is the discriminator: a process
  that was there and one that reads the history afterwards name the same message. The start's time would tell
  them apart too, but no history row has it.
- A message sent into a busy session is answered by a run with a new uuid whose input row is the sent
  message's, `msg-<chat>-<M>-<t>:user` (s10_queue): M is that run's message.
- An announce (a sub-agent's end) has no input row at all: its id alone names it (s11_subagent).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

NAMESPACE = uuid.UUID("6f1ad6c1-3a0e-5c0b-9f0a-0d5b8d0d7a11")
"""The namespace of the ids of messages nobody asked for. It never changes: ids are kept by chats."""

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_OWN = re.compile(rf"msg-({_UUID})-({_UUID})-(.+)", re.DOTALL)
_KEY = re.compile(rf"agent:([^:]+):openwebui-({_UUID})-({_UUID})", re.DOTALL)
_RESUME = re.compile(r"resume-.+", re.DOTALL)
_INPUT = ":user"
_ACTION = "owui-action-"


@dataclass(frozen=True, slots=True)
class ChatKey:
    """A session key of one chat of one user: `agent:<agent>:openwebui-<user36>-<chat36>`."""

    agent: str
    user: str
    chat: str

    def __str__(self) -> str:
        return f"agent:{self.agent}:openwebui-{self.user}-{self.chat}"


@dataclass(frozen=True, slots=True)
class OwnRun:
    """A run id that carries the message it is the reply in: `msg-<chat36>-<M36>-<suffix>`."""

    chat: str
    message: str
    suffix: str

    @property
    def resumes(self) -> bool:
        """Whether this run goes on with a message that was cut."""
        return _RESUME.fullmatch(self.suffix) is not None

    def __str__(self) -> str:
        return f"msg-{self.chat}-{self.message}-{self.suffix}"


def parse_key(key: str) -> ChatKey | None:
    """The chat a session key names, or None for any key that is not a chat's."""
    found = _KEY.fullmatch(key)
    return ChatKey(*found.groups()) if found else None


def parse_run(run_id: str) -> OwnRun | None:
    """What a run id of ours carries, or None for a run somebody else started."""
    found = _OWN.fullmatch(run_id)
    return OwnRun(*found.groups()) if found else None


def is_action(run_id: str) -> bool:
    """Whether the run belongs to a button rather than to the conversation: it never gets a message."""
    return run_id.startswith(_ACTION)


def input_id(idempotency_key: str | None) -> str | None:
    """`<id>` of an input row's key `<id>:user`, or None if the row is not an input."""
    if idempotency_key and idempotency_key.endswith(_INPUT) and len(idempotency_key) > len(_INPUT):
        return idempotency_key[: -len(_INPUT)]
    return None


def is_child_key(key: str) -> bool:
    """Whether the key is a sub-agent's own session, `agent:<agent>:subagent:<uuid>`: it shows nothing.

    What the child found reaches the chat through the parent's announce run.
    """
    parts = key.split(":")
    return len(parts) > 3 and parts[0] == "agent" and "subagent" in parts[2:-1]


def chat_key(key: str) -> bool:
    """Whether the key is a chat's own session."""
    return parse_key(key) is not None


def any_key(key: str) -> bool:
    """Whether the key may stand for a chat at all: every session but a sub-agent's own."""
    return bool(key) and not is_child_key(key)


def shares_id(run_id: str, session_id: str | None) -> bool:
    """Whether other runs of the session may have this very id (a scheduled turn's is its session's id)."""
    return bool(session_id) and run_id == session_id


def message_id(
    key: str, run_id: str, input_run: str | None = None, *, session_id: str | None = None
) -> str | None:
    """The id of the one message of run `run_id` on session `key`; None if the run never gets one.

    input_run: `<id>` of the run's input row, where it is known. It decides for a run that answers a queued
        message, and for a run whose id is the session's (`session_id`).
    """
    if is_action(run_id):
        return None
    own = _of_this_chat(key, run_id) or (_of_this_chat(key, input_run) if input_run else None)
    if own is not None:
        return own.message
    name = f"{key}:{run_id}"
    if input_run and input_run != run_id and shares_id(run_id, session_id):
        name = f"{name}:{input_run}"
    return str(uuid.uuid5(NAMESPACE, name))


def _of_this_chat(key: str, run_id: str) -> OwnRun | None:
    # An id that names a message of another chat must never be followed there.
    own = parse_run(run_id)
    if own is None:
        return None
    chat = parse_key(key)
    return own if chat is None or chat.chat.lower() == own.chat.lower() else None
