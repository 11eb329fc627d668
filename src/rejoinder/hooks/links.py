"""Trigger links: addresses that post to an open topic for whoever holds them.

A link is a secret. Its token is shown when it is made and never again, since only its SHA-256 is kept. It goes out of
service when a verifier is put before its topic, and when the key that it was made with is gone.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rejoinder.access.keys import Access
from rejoinder.contract.errors import BadInputError, ForbiddenError, RejoinderError
from rejoinder.contract.identity import Identity
from rejoinder.hooks.fields import kwargs_of, name_of, truth_of
from rejoinder.store.hooks import HookStore, Link, LiveLink

#: What a link is made from. ``ttl_seconds`` must be there, so that nobody makes a permanent one by forgetting it.
KEYS = frozenset(("topic", "execution_key", "name", "ttl_seconds", "tool_kwargs", "require_api_key"))
PREFIX = "trg-"
_TOKEN = re.compile(r"trg-[A-Za-z0-9_-]{43}", re.ASCII)
MOST_NAME = 64
#: Seconds: a hundred years. Longer is permanent.
MOST_TTL = 100 * 366 * 86_400


class LinkNotFoundError(RejoinderError):
    """There is no trigger link of this name."""

    code = "trigger-link-not-found"
    status = 404


class LinkExistsError(RejoinderError):
    """There is a trigger link of this name; delete it first, or choose another name."""

    code = "trigger-link-exists"
    status = 409


class TopicBoundError(BadInputError):
    """A verifier stands before this topic: only what it vouches for may get in, so no link leads there."""

    code = "topic-bound"


class LinkGoneError(RejoinderError):
    """not found"""

    code = "not-found"
    status = 404


class LinkNeedsKeyError(ForbiddenError):
    """This link counts together with an API key that may write."""

    code = "api-key-required"


class TriggerLinks:
    def __init__(self, store: HookStore, access: Access) -> None:
        self._store = store
        self._access = access

    async def mint(self, body: Mapping[str, Any], *, by: Identity) -> tuple[Link, str]:
        """``(link, token)``; the token is shown this once. Raises BadInputError naming the field, TopicBoundError,
        LinkExistsError, ForbiddenError."""
        if by.restricted:
            raise ForbiddenError("A restricted key may not make trigger links.")
        topic = name_of(body.get("topic"), "topic")
        lives = _ttl(body)
        given = body.get("name")
        name = f"link-{secrets.token_hex(6)}" if given is None else name_of(given, "name", MOST_NAME)
        kwargs = kwargs_of(body.get("tool_kwargs"))
        require = truth_of(body.get("require_api_key"), "require_api_key")
        key = await self._access.execution_key(body.get("execution_key"), by=by)
        token = PREFIX + secrets.token_urlsafe(32)
        status = await self._store.mint(
            name=name,
            digest=digest_of(token),
            topic=topic,
            execution_key=key.name,
            key_id=key.id,
            tool_kwargs=kwargs,
            require_api_key=require,
            lives=lives,
            by=by.name,
        )
        if status == "bound":
            raise TopicBoundError(field="topic")
        if status == "exists":
            raise LinkExistsError(field="name")
        found = await self._store.links(name=name, limit=1)
        if not found:
            # Somebody revoked it at this moment.
            raise LinkNotFoundError(field="name")
        return found[0], token

    async def revoke(self, name: str, *, by: Identity) -> None:
        """Raises LinkNotFoundError. The token counts nowhere from then on."""
        if by.restricted:
            raise ForbiddenError("A restricted key may not revoke trigger links.")
        if not await self._store.revoke(name_of(name, "name", MOST_NAME), by=by.name):
            raise LinkNotFoundError(field="name")

    async def find(self, token: str) -> tuple[LiveLink, bytes]:
        """The link behind a token, and its digest. Raises LinkGoneError, the same for whatever is not live."""
        if _TOKEN.fullmatch(token) is None:
            raise LinkGoneError()
        digest = digest_of(token)
        link = await self._store.live_link(digest)
        if link is None:
            raise LinkGoneError()
        return link, digest


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _ttl(body: Mapping[str, Any]) -> timedelta | None:
    if "ttl_seconds" not in body:
        raise BadInputError(
            "ttl_seconds must be there: a number of seconds, or null for a permanent link",
            field="ttl_seconds",
        )
    value = body["ttl_seconds"]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_TTL:
        raise BadInputError(
            f"ttl_seconds must be a whole number of seconds from 1 to {MOST_TTL}, or null",
            field="ttl_seconds",
        )
    return timedelta(seconds=value)
