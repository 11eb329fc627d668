"""The Redis checkpointer behind our fence. Imports LangGraph, so it is imported only where an agent is driven."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph_checkpoint_plainredis import AsyncRedisSaver
from redis.exceptions import RedisError

from rejoinder.agents.bridge import current_drive
from rejoinder.contract import pause
from rejoinder.contract.errors import NotReadyError

T = TypeVar("T")
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
        return await self._written(
            lambda: AsyncRedisSaver.aput(self, config, checkpoint, metadata, new_versions)
        )

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._written(lambda: AsyncRedisSaver.aput_writes(self, config, writes, task_id, task_path))

    async def _written(self, write: Callable[[], Awaitable[T]]) -> T:
        drive = current_drive()
        await pause.here("checkpoint.writing")
        drive.check()
        try:
            await self._hold(drive.run_id, drive.epoch)
            return await write()
        except RedisError as error:
            told = NotReadyError(f"the Redis of the checkpoints does not answer ({type(error).__name__})")
            drive.end(told)
            raise told from error
        except Exception as error:
            drive.end(error)
            raise
