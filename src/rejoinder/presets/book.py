"""The presets as this process has bound them: rows are the truth, and the registry follows them.

A signal tells of a change at once; without it every process looks again after a while. What cannot be made into a tool
here is quarantined: it is listed with the reason, its name stays taken, and it comes back by itself once it can.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from rejoinder.contract.errors import NotReadyError, ToolNotFoundError
from rejoinder.contract.settings import Settings
from rejoinder.expressions import Expressions
from rejoinder.observe.logs import get_logger
from rejoinder.presets.building import PresetFault, Workshop, build
from rejoinder.presets.document import Document
from rejoinder.presets.maps import Maps
from rejoinder.presets.tool import PresetTool
from rejoinder.runs.manifest import Exposed, Registry
from rejoinder.runs.tools import Tool
from rejoinder.store import signals as s
from rejoinder.store.presets import PresetRow, PresetStore, VersionRow
from rejoinder.store.signals import Signals

log = get_logger("presets")

GROUP = "Presets"
#: Versions that runs began with and that no longer count, kept made.
KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Bound:
    """How a preset stands in this process: the tool, or why there is none."""

    row: PresetRow
    tool: PresetTool | None
    fault: PresetFault | None


class PresetBook:
    def __init__(
        self,
        store: PresetStore,
        registry: Registry,
        signals: Signals,
        settings: Settings,
        expressions: Expressions,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store
        self._registry = registry
        self._signals = signals
        self._poll = settings.rejoinder_poll_seconds
        maps = Maps(expressions)
        self._shop = Workshop(
            base=registry.manifested,
            extend=lambda elements, tool: registry.attachments.around(elements, tool),
            expression=maps.read,
            variables=frozenset(settings.rejoinder_preset_variables),
            environment=os.environ if environment is None else environment,
            at_version=self.of_version,
        )
        #: For what somebody writes just now.
        self.trial_shop = replace(self._shop, expression=maps.compiled)
        self._bound: dict[str, Bound] = {}
        self._documents: dict[UUID, VersionRow] = {}
        self._made: OrderedDict[tuple[UUID, str], PresetTool] = OrderedDict()
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        registry.versions = self
        signals.hear(s.PRESETS, lambda _id: self._changed.set())
        signals.on_connect(self._reconnected)

    async def start(self) -> None:
        """The presets are bound when this returns; what is wrong with any of them stops nothing."""
        await self.refresh()
        self._task = asyncio.create_task(self._follow(), name="presets.follow")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._registry.bind({})

    def standing(self, name: str) -> Bound | None:
        """How a preset was found at the last look."""
        return self._bound.get(name)

    async def refresh(self) -> None:
        """Read the rows and bind what they say. Raises NotReadyError; what was bound stays then."""
        # One at a time: an older reading must not come after a newer one.
        async with self._reading:
            rows = await self._store.page()
            missing = [row.version_id for row in rows if row.version_id not in self._documents]
            if missing:
                self._documents |= await self._store.documents(missing)
            counted = {row.version_id for row in rows}
            self._documents = {key: one for key, one in self._documents.items() if key in counted}
            self._bound = {row.name: await self._bind(row) for row in rows}
            self._registry.bind(
                {name: Exposed(one.tool, GROUP) for name, one in self._bound.items() if one.tool is not None}
            )

    async def of_version(self, version: UUID, name: str) -> Tool:
        """The tool that a version of a preset is, under the name that it had. Raises ToolNotFoundError where it cannot be
        made here."""
        known = self._made.get((version, name))
        if known is not None:
            self._made.move_to_end((version, name))
            return known
        row = (await self._store.documents([version])).get(version)
        if row is None:
            raise ToolNotFoundError("this version of the preset is not kept", field="tool_name")
        try:
            made = await build(self._shop, name, row.id, row.number, Document.of_json(row.document))
        except PresetFault as fault:
            log.warning("a version of a preset cannot be used here", preset=name, reason=fault.reason)
            raise ToolNotFoundError("the preset cannot be used here", field="tool_name") from None
        self._made[version, name] = made
        if len(self._made) > KEPT:
            self._made.popitem(last=False)
        return made

    async def _bind(self, row: PresetRow) -> Bound:
        before = self._bound.get(row.name)
        if before is not None and before.tool is not None and before.row.version_id == row.version_id:
            # The tools of the manifest do not change while a process runs.
            return Bound(row, before.tool, None)
        try:
            if self._registry.manifested(row.name) is not None:
                raise PresetFault("name", "the manifest exposes a tool of this name")
            document = Document.of_json(self._documents[row.version_id].document)
            return Bound(row, await build(self._shop, row.name, row.version_id, row.current, document), None)
        except PresetFault as fault:
            found = fault
        except NotReadyError:
            raise
        except Exception as error:
            # A row that nobody could have saved: it must not keep the others from being bound.
            log.exception("a preset cannot be read", preset=row.name)
            found = PresetFault("document", f"it cannot be read ({type(error).__name__})")
        if before is None or before.fault is None or before.fault.reason != found.reason:
            log.warning("preset quarantined", preset=row.name, field=found.field, reason=found.reason)
        return Bound(row, None, found)

    async def _reconnected(self) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._poll):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self.refresh()
            except NotReadyError:
                pass
            except Exception:
                log.exception("the presets were not read; they are looked at again")
