"""What people do with presets: list, try, create, save, roll back, rename, delete and tag them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from rejoinder.contract import pause
from rejoinder.contract.errors import BadInputError, ForbiddenError
from rejoinder.contract.identity import Identity
from rejoinder.presets.book import PresetBook
from rejoinder.presets.building import PresetFault, build
from rejoinder.presets.document import (
    FREE,
    NAME,
    Document,
    changed_document,
    checked_name,
    checked_tag,
    new_document,
)
from rejoinder.presets.faults import (
    PresetExistsError,
    PresetInUseError,
    PresetLockedError,
    PresetMovedError,
    PresetNotFoundError,
    PresetVersionNotFoundError,
)
from rejoinder.presets.shown import Preset, Version, version_of
from rejoinder.presets.tool import PresetTool
from rejoinder.runs.manifest import Registry
from rejoinder.store import signals as s
from rejoinder.store.events import Events
from rejoinder.store.presets import PresetRow, PresetStore, Status, VersionRow
from rejoinder.store.signals import Signals

#: Names that doors give a meaning of their own.
RESERVED = frozenset(("check_run",))
MAX_REFEREES = 200
#: How often a change is tried again that another one came before, where its writer named no version.
TRIES = 10


class Presets:
    def __init__(
        self, store: PresetStore, book: PresetBook, registry: Registry, signals: Signals, events: Events
    ) -> None:
        self._store = store
        self._book = book
        self._registry = registry
        self._signals = signals
        self._events = events

    async def page(self, *, after: str | None = None, limit: int | None = None) -> list[Preset]:
        """By name, those after ``after``."""
        rows = await self._store.page(after, limit)
        documents = await self._store.documents([row.version_id for row in rows])
        tags = await self._store.tags([row.id for row in rows])
        return [self._preset(row, documents[row.version_id], tags[row.id]) for row in rows]

    async def get(self, name: str) -> Preset:
        """Raises PresetNotFoundError."""
        row = await self._row(name)
        documents = await self._store.documents([row.version_id])
        return self._preset(row, documents[row.version_id], (await self._store.tags([row.id]))[row.id])

    async def try_out(self, body: Mapping[str, Any]) -> PresetTool:
        """The tool that a creation with this body would make; nothing is kept. Raises as ``create``."""
        name = checked_name(body.get("name"))
        document = new_document(body)
        await self._check_free(name)
        return await self._tried(name, document, 1)

    async def create(self, body: Mapping[str, Any], *, by: Identity) -> Preset:
        """Raises BadInputError naming the field, and PresetExistsError."""
        await self._unrestricted(by)
        name = (await self.try_out(body)).name
        document = new_document(body)
        await self._check_base(name, document, by)
        status = await self._store.create(
            uuid4(), uuid4(), name, document.as_json(), pins=document.pins, by=by.name
        )
        if status == "exists":
            raise PresetExistsError(field="name")
        await self._told()
        return await self.get(name)

    async def save(self, name: str, body: Mapping[str, Any], *, by: Identity) -> Preset:
        """A new version, with what ``body`` leaves out as it was. Raises BadInputError naming the field,
        PresetMovedError where ``expected_version`` is no longer the current one, and PresetLockedError."""
        expected = _number(body.get("expected_version"), "expected_version", needed=False)
        await self._unrestricted(by)
        identifier = uuid4()
        for _ in range(TRIES):
            row, before = await self._seen(name, expected)
            document = changed_document(body, before)
            await self._tried(name, document, row.last + 1)
            await self._check_base(name, document, by)
            changed = document.changed(before)
            status = await self._store.save(
                row,
                identifier,
                document.as_json(),
                pins=document.pins,
                changed=changed,
                free=by.may("admin") or FREE.issuperset(changed),
                by=by.name,
            )
            if await self._settled(status, name, changed, expected, by):
                return await self.get(name)
        raise PresetMovedError()

    async def roll_back(self, name: str, body: Mapping[str, Any], *, by: Identity) -> Preset:
        """An earlier version counts again. Raises PresetVersionNotFoundError, and as ``save``."""
        number = _number(body.get("version"), "version")
        expected = _number(body.get("expected_version"), "expected_version", needed=False)
        await self._unrestricted(by)
        for _ in range(TRIES):
            row, before = await self._seen(name, expected)
            version = await self._version(row, number)
            document = Document.of_json(version.document)
            await self._tried(name, document, number)
            await self._check_base(name, document, by)
            changed = document.changed(before)
            free = by.may("admin") or FREE.issuperset(changed)
            status = await self._store.roll_back(row, number, changed=changed, free=free, by=by.name)
            if await self._settled(status, name, changed, expected, by):
                return await self.get(name)
        raise PresetMovedError()

    async def rename(self, name: str, body: Mapping[str, Any], *, by: Identity) -> Preset:
        """Runs that began under the old name are carried on. Raises PresetExistsError, PresetInUseError, and as
        ``save``."""
        new = checked_name(body.get("new_name"), "new_name")
        await self._unrestricted(by)
        for _ in range(TRIES):
            row, _ = await self._seen(name, None)
            await self._check_free(new, "new_name")
            await self._check_unused(name)
            status = await self._store.rename(row, new, free=by.may("admin"), by=by.name)
            if status == "exists":
                raise PresetExistsError(field="new_name")
            if await self._settled(status, name, ["name"], None, by):
                return await self.get(new)
        raise PresetMovedError()

    async def delete(self, name: str, *, by: Identity) -> None:
        """Runs that began with it are carried on; its name is free. Raises PresetInUseError, and as ``save``."""
        await self._unrestricted(by)
        for _ in range(TRIES):
            row, _ = await self._seen(name, None)
            await self._check_unused(name)
            status = await self._store.delete(row, free=by.may("admin"), by=by.name)
            if await self._settled(status, name, ["deleted"], None, by):
                return
        raise PresetMovedError()

    async def versions(self, name: str, *, before: int | None = None, limit: int = 50) -> list[Version]:
        """Newest first."""
        row = await self._row(name)
        tags = (await self._store.tags([row.id]))[row.id]
        found = await self._store.versions(row.id, before=before, limit=limit)
        return [version_of(one, tags) for one in found]

    async def version(self, name: str, number: int) -> Version:
        """Raises PresetVersionNotFoundError."""
        row = await self._row(name)
        return version_of(await self._version(row, number), (await self._store.tags([row.id]))[row.id])

    async def tag(self, name: str, tag: object, number: object, *, by: Identity) -> Preset:
        """Make ``tag`` a word for a version, and for no other one any more."""
        word, wanted = checked_tag(tag), _number(number, "version")
        await self._unrestricted(by)
        row = await self._row(name)
        if not await self._store.tag(row.id, word, wanted, by=by.name):
            raise PresetVersionNotFoundError(field="version")
        return await self.get(name)

    async def untag(self, name: str, tag: object, *, by: Identity) -> Preset:
        word = checked_tag(tag)
        await self._unrestricted(by)
        row = await self._row(name)
        if not await self._store.tag(row.id, word, None, by=by.name):
            raise PresetVersionNotFoundError(field="tag")
        return await self.get(name)

    async def referees(self, name: str) -> list[tuple[str, str]]:
        """``(kind, name)`` of the hooks, schedules and agents that name this preset."""
        await self._row(name)
        return await self._named_by(name)

    async def _named_by(self, name: str) -> list[tuple[str, str]]:
        agents = [("agent", one.name) for one in self._registry.agents() if name in one.named_presets()]
        return agents + await self._store.referees(name, MAX_REFEREES)

    async def _row(self, name: str) -> PresetRow:
        row = await self._store.by_name(name) if NAME.fullmatch(name) else None
        if row is None:
            raise PresetNotFoundError(field="name")
        return row

    async def _version(self, row: PresetRow, number: int) -> VersionRow:
        found = await self._store.version(row.id, number)
        if found is None:
            raise PresetVersionNotFoundError(field="version")
        return found

    async def _seen(self, name: str, expected: int | None) -> tuple[PresetRow, Document]:
        row = await self._row(name)
        if expected is not None and row.current != expected:
            raise PresetMovedError(
                f"Version {row.current} counts by now, not {expected}; look at it again.",
                field="expected_version",
            )
        documents = await self._store.documents([row.version_id])
        await pause.here("preset.seen")
        return row, Document.of_json(documents[row.version_id].document)

    async def _tried(self, name: str, document: Document, number: int) -> PresetTool:
        try:
            return await build(self._book.trial_shop, name, uuid4(), number, document)
        except PresetFault as fault:
            raise BadInputError(fault.sentence, field=fault.field) from None

    async def _check_free(self, name: str, field: str = "name") -> None:
        if name in RESERVED or self._registry.manifested(name) is not None:
            raise PresetExistsError(field=field)
        if await self._store.by_name(name) is not None:
            raise PresetExistsError(field=field)

    async def _check_unused(self, name: str) -> None:
        found = await self._named_by(name)
        if found:
            kind, other = found[0]
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            raise PresetInUseError(f"The {kind} {other}{more} names this preset; change that first.")

    async def _unrestricted(self, by: Identity) -> None:
        if by.restricted:
            raise ForbiddenError("A restricted key may not change presets.")

    async def _check_base(self, name: str, document: Document, by: Identity) -> None:
        """What of a tool that is only run pinned is pinned, is an admin's to say. Raises PresetLockedError."""
        base = self._registry.manifested(document.base_tool)
        if base is None or not base.only_pinned or by.may("admin"):
            return
        await self._events.add(
            "access.refused",
            actor=by.name,
            reason="preset of a tool that is only run pinned",
            detail={"preset": name},
        )
        raise PresetLockedError(
            f"{document.base_tool} is run with fixed arguments only, so only an admin makes presets of it.",
            field="base_tool",
        )

    async def _settled(
        self, status: Status, name: str, changed: list[str], expected: int | None, by: Identity
    ) -> bool:
        """Whether the change is done; False where it is to be tried once more."""
        match status:
            case "absent":
                raise PresetNotFoundError(field="name")
            case "locked":
                await self._events.add(
                    "access.refused",
                    actor=by.name,
                    reason="preset locked",
                    detail={"preset": name, "changed": changed},
                )
                raise PresetLockedError()
            case "moved":
                if expected is not None:
                    raise PresetMovedError(field="expected_version")
                return False
        await pause.here("preset.written")
        await self._told()
        return True

    async def _told(self) -> None:
        self._signals.tell(s.PRESETS)
        await self._book.refresh()

    def _preset(self, row: PresetRow, version: VersionRow, tags: dict[str, int]) -> Preset:
        standing = self._book.standing(row.name)
        known = standing is not None and standing.row.version_id == row.version_id
        return Preset(
            row=row,
            version=version_of(version, tags),
            version_tags=tags,
            quarantine=standing.fault.reason if known and standing and standing.fault else None,
            input_schema=standing.tool.input_schema if known and standing and standing.tool else None,
        )


def _number(value: object, field: str, *, needed: bool = True) -> int:
    if value is None and not needed:
        return None  # type: ignore[return-value]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise BadInputError(f"{field} must be the number of a version", field=field)
    return value
