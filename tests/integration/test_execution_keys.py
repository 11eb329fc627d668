"""Whose key may be bound to work that runs later, and what becomes of it when the key goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rejoinder.access.keys import Key
from rejoinder.contract.errors import BadInputError, ForbiddenError
from rejoinder.contract.identity import LOCAL_OWNER, Identity
from rejoinder.node import Node
from tests.integration.nodes import running


async def _key(
    node: Node,
    name: str,
    *grants: str,
    identity: str | None = None,
    owner: str | None = None,
    expires_at: datetime | None = None,
) -> Identity:
    _, secret = await node.access.create_key(
        name=name, grants=list(grants), identity=identity, owner=owner, expires_at=expires_at, by=LOCAL_OWNER
    )
    return await node.access.identify(secret)


async def _refused(node: Node, name: str, by: Identity) -> str:
    with pytest.raises(ForbiddenError) as refusal:
        await node.access.execution_key(name, by=by)
    return str(refusal.value.field)


async def test_own_and_owned_keys_may_be_bound_and_no_other(database_url: str) -> None:
    async with running(database_url) as node:
        ann = await _key(node, "ann", "read", "write")
        bot = await _key(node, "bot", "write", owner="ann")
        await _key(node, "reader", "read", identity="ann")
        await _key(node, "chief", "admin", identity="ann")
        bob = await _key(node, "bob", "read", "write")
        boss = await _key(node, "boss", "admin")

        async def bound(name: str, by: Identity) -> Key:
            return await node.access.execution_key(name, by=by)

        assert (await bound("ann", ann)).id == ann.key_id
        assert (await bound("bot", ann)).id == bot.key_id
        assert (await bound("bot", bot)).id == bot.key_id
        assert (await bound("reader", ann)).identity == "ann"
        assert (await bound("chief", boss)).name == "chief"
        assert (await bound("bot", LOCAL_OWNER)).owner == "ann"
        for name, by in (("chief", ann), ("bob", ann), ("bot", bob), ("ann", bot), ("boss", bob)):
            assert await _refused(node, name, by) == "execution_key", (name, by.name)

        noted = await node.database.rows(
            "SELECT actor, detail FROM rejoinder.event WHERE kind = 'access.refused' ORDER BY seq"
        )
        assert [(row["actor"], row["detail"]["key"]) for row in noted][:2] == [
            ("ann", "chief"),
            ("ann", "bob"),
        ]


async def test_a_restricted_key_binds_no_freer_one_of_its_identity(database_url: str) -> None:
    async with running(database_url) as node:
        await _key(node, "ann", "read", "write")
        owned = await _key(node, "owned", "read", "write", identity="desk", owner="ann")
        await _key(node, "free", "read", identity="desk")
        twin = await _key(node, "twin", "write", identity="desk", owner="ann")
        owned_admin = await _key(node, "owned-admin", "admin", identity="desk", owner="ann")

        assert (await node.access.execution_key("twin", by=owned)).id == twin.key_id
        await _refused(node, "free", owned)
        # Its owner is no admin, so neither is it.
        await _refused(node, "ann", owned_admin)


async def test_only_a_live_key_is_found(database_url: str) -> None:
    async with running(database_url) as node:
        ann = await _key(node, "ann", "read", "write")
        await _key(node, "gone", "read", identity="ann")
        await node.access.revoke_key("gone", by=LOCAL_OWNER)
        past = datetime.now(UTC) - timedelta(hours=1)
        _, _ = await node.access.create_key(
            name="late", grants=["read"], identity="ann", expires_at=past, by=LOCAL_OWNER
        )
        for name in ("gone", "late", "nobody", "", 7, None, ["ann"], "a\x00b"):
            with pytest.raises(BadInputError) as refusal:
                await node.access.execution_key(name, by=ann, field="key")
            assert refusal.value.field == "key", name


async def test_a_key_made_again_under_the_name_is_another_one(database_url: str) -> None:
    async with running(database_url) as node:
        boss = await _key(node, "boss", "admin")
        await _key(node, "nightly", "write")
        first = await node.access.execution_key("nightly", by=boss)
        await node.access.revoke_key("nightly", by=LOCAL_OWNER)
        await _key(node, "nightly", "write")
        second = await node.access.execution_key("nightly", by=boss)
        assert second.id != first.id
        assert await node.access.identity_of_key(first.id) is None
        assert (await node.access.identity_of_key(second.id)) is not None
