"""Images that came with questions. They live as long as their question is shown, and are served by id alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.media import MAX_PICTURES, Picture
from rejoinder.store.database import Database, PoolConnection
from rejoinder.store.sql import sql

_sql = sql("media")
LOOKED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Stored:
    """``content`` is None where only its ``size`` in bytes was asked for. ``remaining`` is whole seconds."""

    content_type: str
    content: bytes | None
    size: int
    remaining: int


async def store_pictures(connection: PoolConnection, question_id: UUID, pictures: Sequence[Picture]) -> None:
    """In the transaction that recorded the question. Raises AskArgumentError where an image to be copied is not kept
    any more, or all together are too large; the transaction must then be given up."""
    copied = [one for one in pictures if one.source is not None]
    sizes = {one.id: len(one.content) for one in pictures if one.source is None}
    if copied:
        rows = await connection.fetch(
            _sql.copy, [one.id for one in copied], [one.source for one in copied], question_id
        )
        sizes |= {row["id"]: row["size"] for row in rows}
    for one in pictures:
        if one.id not in sizes:
            raise AskArgumentError(f"{one.where} names an image that is not kept any more", field=one.where)
    if sum(sizes.values()) > MAX_PICTURES:
        raise AskArgumentError(f"the images in media are over {MAX_PICTURES} bytes together", field="media")
    await connection.executemany(
        _sql.add,
        [(one.id, question_id, one.content_type, one.content) for one in pictures if one.source is None],
    )


class Media:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def find(self, media_id: str, *, kept: float, whole: bool = True) -> Stored | None:
        """The image of this id. ``kept`` is how many seconds a closed question is still shown. None where there is
        none, or its question is shown no more."""
        row = await self._db.row(_sql.find, media_id, timedelta(seconds=kept), whole)
        if row is None:
            return None
        return Stored(row["content_type"], row["content"], row["size"], int(row["remaining"]))

    async def prune(self, *, after: str, kept: float) -> tuple[str, int]:
        """Take away images whose question is shown no more, among the next ones ``after`` this id. Returns the id to go
        on after, empty at the end, and how many went."""
        row = await self._db.row(_sql.prune, after, timedelta(seconds=kept), LOOKED_AT_ONCE)
        assert row is not None
        return ("" if row["looked"] < LOOKED_AT_ONCE else row["last"]), row["gone"]
