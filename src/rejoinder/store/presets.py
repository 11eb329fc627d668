"""Presets in the store: versions that never change, and which of them counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("presets")
_PAGE, _BY_NAME = (query.replace("{columns}", _sql.columns) for query in (_sql.page, _sql.by_name))

#: What a change of a preset came to. ``moved``: it is no longer as its writer saw it; ``locked``: it fixes arguments,
#: and the writer is no admin; ``exists``: the name is another's.
Status = Literal[
    "created", "saved", "moved_back", "renamed", "deleted", "absent", "moved", "locked", "exists"
]


@dataclass(frozen=True, slots=True)
class PresetRow:
    """``current`` is the number of the version that counts, ``version_id`` its id, ``last`` the highest number."""

    id: UUID
    name: str
    current: int
    last: int
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    version_id: UUID


@dataclass(frozen=True, slots=True)
class VersionRow:
    id: UUID
    preset_id: UUID
    number: int
    document: dict[str, Any]
    created_at: datetime
    created_by: str


class PresetStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def page(self, after: str | None = None, limit: int | None = None) -> list[PresetRow]:
        """Those that are not deleted, by name."""
        return [PresetRow(*row) for row in await self._db.rows(_PAGE, after, limit)]

    async def by_name(self, name: str) -> PresetRow | None:
        row = await self._db.row(_BY_NAME, name)
        return None if row is None else PresetRow(*row)

    async def documents(self, ids: list[UUID]) -> dict[UUID, VersionRow]:
        return {row["id"]: VersionRow(*row) for row in await self._db.rows(_sql.documents, ids)}

    async def versions(self, preset: UUID, *, before: int | None, limit: int) -> list[VersionRow]:
        """Newest first."""
        return [VersionRow(*row) for row in await self._db.rows(_sql.versions, preset, before, limit)]

    async def version(self, preset: UUID, number: int) -> VersionRow | None:
        row = await self._db.row(_sql.version, preset, number)
        return None if row is None else VersionRow(*row)

    async def tags(self, presets: list[UUID]) -> dict[UUID, dict[str, int]]:
        """The words for versions, by preset: ``{tag: number}``."""
        found: dict[UUID, dict[str, int]] = {one: {} for one in presets}
        for row in await self._db.rows(_sql.tags, presets):
            found[row["preset_id"]][row["tag"]] = row["number"]
        return found

    async def create(
        self, identifier: UUID, version: UUID, name: str, document: dict[str, Any], *, pins: bool, by: str
    ) -> Status:
        return await self._status(_sql.create, identifier, version, name, document, pins, by)

    async def save(
        self,
        seen: PresetRow,
        version: UUID,
        document: dict[str, Any],
        *,
        pins: bool,
        changed: list[str],
        free: bool,
        by: str,
    ) -> Status:
        """A new version on top of what the writer saw. ``free``: a preset that fixes arguments takes it from anybody."""
        return await self._status(
            _sql.save, seen.id, version, seen.last, seen.current, free, document, pins, changed, by
        )

    async def roll_back(
        self, seen: PresetRow, number: int, *, changed: list[str], free: bool, by: str
    ) -> Status:
        return await self._status(_sql.roll_back, seen.id, seen.last, seen.current, free, number, changed, by)

    async def rename(self, seen: PresetRow, name: str, *, free: bool, by: str) -> Status:
        return await self._status(_sql.rename, seen.id, seen.last, seen.current, free, name, by)

    async def delete(self, seen: PresetRow, *, free: bool, by: str) -> Status:
        return await self._status(_sql.delete, seen.id, seen.last, seen.current, free, by)

    async def tag(self, preset: UUID, tag: str, number: int | None, *, by: str) -> bool:
        """Set a word for a version; None takes it off. False: there is nothing of the kind."""
        return bool(await self._db.value(_sql.tag, preset, tag, number, by))

    async def referees(self, name: str, limit: int) -> list[tuple[str, str]]:
        """``(kind, name)`` of what names a tool."""
        return [(row["kind"], row["name"]) for row in await self._db.rows(_sql.referees, name, limit)]

    async def _status(self, query: str, *args: Any) -> Status:
        return cast(Status, await self._db.value(query, *args))
