"""Presets and their versions as people are shown them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rejoinder.presets.document import Document
from rejoinder.store.presets import PresetRow, VersionRow


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a preset. ``tags`` are the words for it."""

    number: int
    document: Document
    created_at: datetime
    created_by: str
    tags: list[str]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self.number,
            **self.document.as_json(),
            "created_at": self.created_at.isoformat(),
            "created_by": self.created_by,
            "version_tags": self.tags,
        }


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset and the version of it that counts. ``quarantine`` is why there is no tool of it in this process."""

    row: PresetRow
    version: Version
    version_tags: dict[str, int]
    quarantine: str | None
    input_schema: dict[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        document = self.version.document
        return {
            "name": self.row.name,
            "version": self.row.current,
            "last_version": self.row.last,
            **document.as_json(),
            "exposed_schema": self.input_schema,
            "locked": document.pins,
            "quarantine": self.quarantine,
            "version_tags": self.version_tags,
            "created_at": self.row.created_at.isoformat(),
            "created_by": self.row.created_by,
            "updated_at": self.row.updated_at.isoformat(),
            "updated_by": self.row.updated_by,
        }


def version_of(row: VersionRow, tags: dict[str, int]) -> Version:
    return Version(
        number=row.number,
        document=Document.of_json(row.document),
        created_at=row.created_at,
        created_by=row.created_by,
        tags=[tag for tag, number in tags.items() if number == row.number],
    )
