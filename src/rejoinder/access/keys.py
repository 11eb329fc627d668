"""API keys, sign-in links and browser sessions. A secret is shown once; the database holds its SHA-256.

The secrets are 256 random bits, so a plain digest cannot be guessed back and needs no salt or slow hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import asyncpg

from rejoinder.access.execution import may_bind
from rejoinder.contract.errors import (
    AuthenticationError,
    BadInputError,
    ForbiddenError,
    RejoinderError,
)
from rejoinder.contract.identity import GRANTS, LOCAL_OWNER, OUTSIDE, Grant, Identity
from rejoinder.contract.settings import Settings
from rejoinder.contract.text import unstorable_text
from rejoinder.store import signals as s
from rejoinder.store.database import Database, Row
from rejoinder.store.events import Events
from rejoinder.store.signals import Signals
from rejoinder.store.sql import sql

_sql = sql("access")

KEY_PREFIX = "rjk_"
SIGN_IN_PREFIX = "rjs_"
SESSION_PREFIX = "rjc_"
SIGN_IN_SECONDS = 3600
#: How long a look-up may be believed. A revocation is told to every process at once; this is the floor.
CACHE_SECONDS = 1.0
CACHE_SIZE = 10_000


class KeyNotFoundError(RejoinderError):
    """No key of this name is live."""

    code = "key-not-found"
    status = 404


class KeyExistsError(RejoinderError):
    """A key of this name is live; revoke it first, or choose another name."""

    code = "key-exists"
    status = 409


@dataclass(frozen=True, slots=True)
class Key:
    id: UUID
    name: str
    identity: str
    grants: tuple[Grant, ...]
    owner: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "name": self.name,
            "identity": self.identity,
            "grants": list(self.grants),
            "owner": self.owner,
            "created_at": self.created_at.isoformat(),
            "created_by": self.created_by,
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "revoked_at": self.revoked_at.isoformat() if self.revoked_at else None,
        }


def _query(text: str) -> str:
    return text.replace("{columns}", _sql.key_columns)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Access:
    def __init__(self, database: Database, events: Events, signals: Signals, settings: Settings) -> None:
        self._db = database
        self._events = events
        self._signals = signals
        self._settings = settings
        self._cache: OrderedDict[bytes | UUID, tuple[float, Identity | None]] = OrderedDict()
        self._asking: dict[bytes | UUID, asyncio.Task[Identity | None]] = {}
        signals.hear(s.KEYS, lambda _id: self._forget())

    @property
    def enabled(self) -> bool:
        return self._settings.access_control_enable

    # Who is it

    async def identify(self, secret: str) -> Identity:
        """The identity behind an API key. Raises AuthenticationError; never says whether a key exists."""
        if not secret.startswith(KEY_PREFIX) or len(secret) > 200:
            raise AuthenticationError()
        identity = await self._cached(_digest(secret), _query(_sql.key_by_digest), _digest(secret))
        if identity is None:
            raise AuthenticationError()
        return identity

    async def identity_of_key(self, key_id: UUID) -> Identity | None:
        """The identity of a stored key as it stands now, or None where it was revoked or has expired."""
        return _identity(await self._db.row(_query(_sql.key_by_id), key_id))

    async def identify_session(self, cookie: str) -> Identity:
        """The identity behind a browser session. Raises AuthenticationError."""
        if not cookie.startswith(SESSION_PREFIX) or len(cookie) > 200:
            raise AuthenticationError()
        row = await self._db.row(_sql.session_key, _digest(cookie))
        if row is None:
            raise AuthenticationError()
        if row["key_id"] is None:
            if self.enabled:
                raise AuthenticationError()
            return LOCAL_OWNER
        identity = await self._cached(row["key_id"], _query(_sql.key_by_id), row["key_id"])
        if identity is None:
            raise AuthenticationError()
        return identity

    async def _cached(self, key: bytes | UUID, query: str, argument: object) -> Identity | None:
        now = time.monotonic()
        hit = self._cache.get(key)
        # Without the notification connection a revocation could not reach us: ask every time.
        if hit is not None and hit[0] > now and self._signals.connected:
            return hit[1]
        if not self._signals.connected:
            return _identity(await self._db.row(query, argument))
        # Five hundred requests at once with one key are one look-up.
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._look_up(key, query, argument))
            asking.add_done_callback(lambda done: self._looked_up(key, done))
        return await asyncio.shield(asking)

    async def _look_up(self, key: bytes | UUID, query: str, argument: object) -> Identity | None:
        return _identity(await self._db.row(query, argument))

    def _looked_up(self, key: bytes | UUID, done: asyncio.Task[Identity | None]) -> None:
        # Forgotten meanwhile: what it read may be from before a revocation.
        current = self._asking.get(key) is done
        if current:
            del self._asking[key]
        if done.cancelled() or done.exception() is not None or not current:
            return
        self._cache[key] = (time.monotonic() + CACHE_SECONDS, done.result())
        self._cache.move_to_end(key)
        if len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)

    def _forget(self) -> None:
        self._cache.clear()
        self._asking.clear()

    # Keys

    async def create_key(
        self,
        *,
        name: object,
        grants: object,
        identity: object = None,
        owner: object = None,
        expires_at: datetime | None = None,
        by: Identity,
    ) -> tuple[Key, str]:
        """``(key, secret)``; the secret is never shown again. ``owner`` names a live key: the new one is then
        restricted to questions addressed to its own identity, and has at most its owner's grants."""
        key_name = _name(name, "name")
        key_identity = key_name if identity is None else _name(identity, "identity")
        if key_identity.startswith("system:") or key_identity == OUTSIDE:
            raise BadInputError(
                f"identity must not be {OUTSIDE}, and not begin with system:", field="identity"
            )
        chosen = _grants(grants)
        if expires_at is not None and expires_at.tzinfo is None:
            raise BadInputError("expires_at has no time zone", field="expires_at")
        owner_id = None if owner is None else (await self._live_by_name(_name(owner, "owner")))["id"]
        if by.restricted or not by.may("admin"):
            raise ForbiddenError("Only an admin may create keys.")
        secret = KEY_PREFIX + secrets.token_urlsafe(32)
        key_id = uuid4()
        try:
            await self._db.execute(
                _sql.add_key,
                key_id,
                key_name,
                key_identity,
                list(chosen),
                owner_id,
                _digest(secret),
                by.name,
                expires_at,
            )
        except asyncpg.UniqueViolationError:
            raise KeyExistsError(field="name") from None
        await self._events.add(
            "key.created",
            actor=by.name,
            detail={"name": key_name, "identity": key_identity, "grants": list(chosen)},
        )
        row = await self._db.row(_query(_sql.key_by_id), key_id)
        assert row is not None
        return _key(row), secret

    async def keys(self, *, revoked: bool = False) -> list[Key]:
        return [_key(row) for row in await self._db.rows(_query(_sql.keys), revoked)]

    async def revoke_key(self, name: str, *, by: Identity) -> list[str]:
        """Revoke a key and the keys it owns, at once everywhere. Returns their names."""
        row = await self._live_by_name(name)
        gone = await self._db.rows(_sql.revoke_key, row["id"], by.name)
        self._forget()
        self._signals.tell(s.KEYS)
        for one in gone:
            await self._events.add("key.revoked", actor=by.name, detail={"name": one["name"]})
        return [one["name"] for one in gone]

    async def execution_key(self, name: object, *, by: Identity, field: str = "execution_key") -> Key:
        """The live key ``name``, for work that runs later under its identity; store its ``id``, and ask
        ``identity_of_key`` for its rights when the work runs. Raises BadInputError naming ``field`` where no such key
        is live, and ForbiddenError, noted in the audit trail, where ``by`` may not hand its rights on."""
        key_name = _name(name, field)
        row = await self._db.row(_query(_sql.key_by_name), key_name)
        bound = _identity(row)
        if row is None or bound is None:
            raise BadInputError(f"{field} names no key that is live", field=field)
        if not may_bind(bound, row["owner_id"], by):
            await self._events.add(
                "access.refused", actor=by.name, reason="may not bind this key", detail={"key": key_name}
            )
            raise ForbiddenError(f"You may not let work run under the key {key_name}.", field=field)
        return _key(row)

    async def ensure_owner_key(self) -> str | None:
        """On the first start: an admin key named ``owner``. Returns its secret, or None where an admin key exists."""
        if await self._db.value(_sql.any_admin):
            return None
        name = "owner"
        if await self._db.row(_query(_sql.key_by_name), name) is not None:
            name = f"owner-{secrets.token_hex(3)}"
        _, secret = await self.create_key(name=name, identity="owner", grants=list(GRANTS), by=LOCAL_OWNER)
        return secret

    async def _live_by_name(self, name: str) -> Row:
        row = await self._db.row(_query(_sql.key_by_name), name)
        if row is None:
            raise KeyNotFoundError(field="name")
        return row

    # Browsers

    async def create_sign_in(self, identity: Identity) -> str:
        """A token for a one-time link into the inbox, good for an hour."""
        token = SIGN_IN_PREFIX + secrets.token_urlsafe(32)
        await self._db.execute(
            _sql.add_sign_in, _digest(token), identity.key_id, timedelta(seconds=SIGN_IN_SECONDS)
        )
        return token

    async def sign_in(self, token: str) -> tuple[str, Identity]:
        """Use a one-time token (or an API key) for a session. Returns ``(cookie value, identity)``.
        Raises AuthenticationError."""
        if token.startswith(KEY_PREFIX):
            identity = await self.identify(token)
            key_id = identity.key_id
        else:
            row = await self._db.row(_sql.use_sign_in, _digest(token))
            if row is None:
                raise AuthenticationError("This sign-in link was used already or has expired.")
            key_id = row["key_id"]
            found = LOCAL_OWNER if key_id is None and not self.enabled else None
            if key_id is not None:
                found = await self.identity_of_key(key_id)
            if found is None:
                raise AuthenticationError()
            identity = found
        cookie = SESSION_PREFIX + secrets.token_urlsafe(32)
        await self._db.execute(
            _sql.add_session,
            _digest(cookie),
            key_id,
            timedelta(seconds=self._settings.rejoinder_session_seconds),
        )
        await self._events.add("session.opened", actor=identity.name)
        return cookie, identity

    async def sign_out(self, cookie: str) -> None:
        await self._db.execute(_sql.end_session, _digest(cookie))

    async def prune(self) -> None:
        await self._db.execute(_sql.prune)


def _identity(row: Row | None) -> Identity | None:
    if row is None or not row["live"]:
        return None
    grants = frozenset(cast("list[Grant]", row["grants"]))
    if row["owner_id"] is not None:
        owned = frozenset(cast("list[Grant]", row["owner_grants"]))
        grants = grants & (frozenset(GRANTS) if "admin" in owned else owned)
    return Identity(
        name=row["identity"], grants=grants, key_id=row["id"], restricted=row["owner_id"] is not None
    )


def _key(row: Row) -> Key:
    return Key(
        id=row["id"],
        name=row["name"],
        identity=row["identity"],
        grants=tuple(row["grants"]),
        owner=row["owner"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 120 or unstorable_text(value):
        raise BadInputError(f"{field} must be text of 1 to 120 characters", field=field)
    return value.strip()


def _grants(value: object) -> tuple[Grant, ...]:
    if not isinstance(value, list | tuple) or not value or any(g not in GRANTS for g in value):
        raise BadInputError(f"grants must be a list of {', '.join(GRANTS)}", field="grants")
    return tuple(g for g in GRANTS if g in value)
