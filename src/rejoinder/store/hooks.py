"""Topics, hooks and trigger links in the store. Each change and its event in the audit trail are one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from rejoinder.contract.verifiers import Binding
from rejoinder.store.database import Database, Row
from rejoinder.store.sql import sql

_sql = sql("hooks")

LinkStatus = Literal["live", "expired", "out_of_service", "key_gone"]


@dataclass(frozen=True, slots=True)
class Hook:
    """``key_id`` is the fingerprint of the key that its runs are under, ``by_admin`` whether an admin wrote it last,
    ``internal`` whether nobody but hooks runs its tool."""

    name: str
    topic: str
    tool: str
    execution_key: str | None
    key_id: UUID | None
    tool_kwargs: dict[str, Any]
    condition: str | None
    start_expr: str | None
    cancel_expr: str | None
    resume_expr: str | None
    extras_expr: str | None
    subject: str | None
    state_binding: Any
    by_admin: bool
    internal: bool
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "topic": self.topic,
            "tool": self.tool,
            "execution_key": self.execution_key,
            "tool_kwargs": self.tool_kwargs,
            "condition": self.condition,
            "start_expr": self.start_expr,
            "internal": self.internal,
            "created_at": self.created_at.isoformat(),
            "created_by": self.created_by,
            "updated_at": self.updated_at.isoformat(),
            "updated_by": self.updated_by,
        }


@dataclass(frozen=True, slots=True)
class Topic:
    """``verifier`` None: the topic is open, and whoever knows its name may send it events. ``hooks`` and ``links`` count
    those on it."""

    topic: str
    verifier: str | None
    config: dict[str, Any] | None
    bound_at: datetime | None
    bound_by: str | None
    hooks: int
    links: int

    def as_json(self) -> dict[str, Any]:
        return self.binding_as_json() | {
            "open": self.verifier is None,
            "hooks": self.hooks,
            "links": self.links,
        }

    def binding_as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "verifier": self.verifier,
            "config": self.config,
            "bound_at": None if self.bound_at is None else self.bound_at.isoformat(),
            "bound_by": self.bound_by,
        }


@dataclass(frozen=True, slots=True)
class Link:
    """A trigger link without its token, which nobody knows any more."""

    name: str
    topic: str
    execution_key: str
    tool_kwargs: dict[str, Any]
    require_api_key: bool
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    status: LinkStatus

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "topic": self.topic,
            "execution_key": self.execution_key,
            "tool_kwargs": self.tool_kwargs,
            "require_api_key": self.require_api_key,
            "created_at": self.created_at.isoformat(),
            "created_by": self.created_by,
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
            "status": self.status,
        }


@dataclass(frozen=True, slots=True)
class LiveLink:
    name: str
    topic: str
    require_api_key: bool


@dataclass(frozen=True, slots=True)
class NewHook:
    """What a hook is written from. ``key_id`` is the execution key's."""

    name: str
    topic: str
    tool: str
    execution_key: str
    key_id: UUID
    tool_kwargs: dict[str, Any]
    condition: str | None
    start_expr: str | None


class HookStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    # Topics

    async def bind(self, topic: str, binding: Binding, *, by: str) -> None:
        """Put a verifier before a topic, in the place of the one that is there."""
        await self._db.value(_sql.bind, topic, binding.verifier, dict(binding.config), by)

    async def unbind(
        self, topic: str, *, by: str
    ) -> tuple[Literal["unbound", "absent", "hooked"], list[str]]:
        """``hooked``: hooks live on the topic, so it stays bound; the first of their names come with it."""
        row = await self._db.row(_sql.unbind, topic, by)
        assert row is not None
        return row["status"], list(row["hooks"] or ())

    async def topic(self, topic: str) -> Topic | None:
        """The binding of a topic, or None where it is open; without counts."""
        row = await self._db.row(_sql.topic, topic)
        return None if row is None else Topic(*row)

    async def topics(self, *, after: str | None, limit: int) -> list[Topic]:
        return [Topic(*row) for row in await self._db.rows(_sql.topics, after, limit)]

    # Hooks

    async def register(
        self, hook: NewHook, *, internal: list[str], admin: bool, by: str
    ) -> Literal["created", "replaced", "fenced", "open"]:
        """Write a hook by its name. ``internal`` names the tools that only hooks run. ``fenced``: such a tool is in it,
        before or after, and the writer is no admin; ``open``: its topic has no verifier."""
        status: Literal["created", "replaced", "fenced", "open"] = await self._db.value(
            _sql.register,
            hook.name,
            hook.topic,
            hook.tool,
            hook.execution_key,
            hook.key_id,
            hook.tool_kwargs,
            hook.condition,
            hook.start_expr,
            None,
            None,
            None,
            None,
            None,
            internal,
            admin,
            by,
        )
        return status

    async def delete(
        self, name: str, *, internal: list[str], admin: bool, by: str
    ) -> Literal["deleted", "absent", "fenced"]:
        status: Literal["deleted", "absent", "fenced"] = await self._db.value(
            _sql.delete, name, internal, admin, by
        )
        return status

    async def hook(self, name: str) -> Hook | None:
        row = await self._db.row(_hooks(_sql.hook), name)
        return None if row is None else _hook(row)

    async def hooks(self, *, topic: str | None, after: str | None, limit: int) -> list[Hook]:
        return [_hook(row) for row in await self._db.rows(_hooks(_sql.hooks), topic, after, limit)]

    # Trigger links

    async def mint(
        self,
        *,
        name: str,
        digest: bytes,
        topic: str,
        execution_key: str,
        key_id: UUID,
        tool_kwargs: dict[str, Any],
        require_api_key: bool,
        lives: timedelta | None,
        by: str,
    ) -> Literal["minted", "bound", "exists"]:
        """``bound``: a verifier stands before the topic; ``exists``: a link of this name was not revoked."""
        status: Literal["minted", "bound", "exists"] = await self._db.value(
            _sql.mint,
            uuid4(),
            name,
            digest,
            topic,
            execution_key,
            key_id,
            tool_kwargs,
            require_api_key,
            lives,
            by,
        )
        return status

    async def revoke(self, name: str, *, by: str) -> bool:
        """Whether there was such a link. Its digest is kept for ever."""
        return bool(await self._db.value(_sql.revoke, name, by))

    async def links(
        self, *, topic: str | None = None, after: str | None = None, name: str | None = None, limit: int
    ) -> list[Link]:
        """Those that were not revoked."""
        return [Link(*row) for row in await self._db.rows(_sql.links, topic, after, name, limit)]

    async def live_link(self, digest: bytes) -> LiveLink | None:
        """The link that counts now, by its token's digest."""
        row = await self._db.row(_sql.live_link, digest)
        return None if row is None else LiveLink(*row)


def _hooks(text: str) -> str:
    return text.replace("{columns}", _sql.hook_columns)


def _hook(row: Row) -> Hook:
    return Hook(*row)
