"""The Redis checkpointer behind our fence. Imports LangGraph, so it is imported only where an agent is driven."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph_checkpoint_plainredis import AsyncRedisSaver

from rejoinder.agents.bridge import current_drive
from rejoinder.contract import pause

Hold = Callable[[UUID, int], Awaitable[None]]
#: What our keys begin with.
PREFIX = "rejoinder:checkpoint"


class FencedRedisSaver(AsyncRedisSaver):
    """Checkpoints in a Redis. It shares no transaction with our rows: the run's epoch is checked right before each
    write, so a worker that is paused between the two may still write one that nobody reads."""

    def __init__(self, url: str, hold: Hold) -> None:
        super().__init__(url=url, prefix=PREFIX)
        self._hold = hold

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await self._check()
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._check()
        await super().aput_writes(config, writes, task_id, task_path)

    async def _check(self) -> None:
        drive = current_drive()
        await pause.here("checkpoint.writing")
        await self._hold(drive.run_id, drive.epoch)
