"""Where agents' checkpoints are kept, how long, and whether a run on them may park."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from rejoinder.asks.horizon import Horizon
from rejoinder.contract.errors import ConfigurationError
from rejoinder.contract.settings import Settings
from rejoinder.store.steps import Steps

DURABLE = ("postgres", "redis")
#: Runs whose checkpoints are deleted in one go.
BATCH = 100


class Checkpoints:
    """The deployment's checkpointer, opened when the first agent is driven."""

    def __init__(self, settings: Settings, steps: Steps) -> None:
        self._settings = settings
        self._steps = steps
        self.provider = settings.llm_provider_checkpoint
        self._saver: Any = None
        self._opening = asyncio.Lock()

    @property
    def durable(self) -> bool:
        """Whether another process can carry a run on."""
        return self.provider in DURABLE

    @property
    def why_not_park(self) -> str | None:
        if self.durable:
            return None
        return (
            f"agents' checkpoints are kept in {self.provider} (LLM_PROVIDER_CHECKPOINT), which no other worker could "
            'resume a run from; use postgres or redis, or ask with mode="sync"'
            if self.provider != "off"
            else "agents keep no checkpoints (LLM_PROVIDER_CHECKPOINT is off), so a parked run could not be resumed; "
            'use postgres or redis, or ask with mode="sync"'
        )

    @property
    def horizon(self) -> Horizon | None:
        if not self.durable:
            return None
        return Horizon(
            self._settings.llm_provider_checkpoint_retention_waiting_minutes * 60,
            self._settings.interactions_idle_ttl_seconds,
        )

    async def open(self) -> Any:
        """The checkpointer, None where none is wanted. Raises ConfigurationError."""
        async with self._opening:
            if self._saver is None and self.provider != "off":
                try:
                    self._saver = await self._open()
                except ImportError as error:
                    raise ConfigurationError(
                        f"agents need what is not installed here ({error.name}): pip install 'rejoinder[agents]'"
                    ) from None
            return self._saver

    async def _open(self) -> Any:
        settings = self._settings
        if self.provider == "postgres":
            from rejoinder.agents.savers import open_postgres

            own, named = settings.rejoinder_database_url, settings.llm_provider_checkpoint_conn_string
            url = named or own
            assert url is not None
            hold = None if url == own else self._steps.hold
            return await open_postgres(
                url,
                size=settings.rejoinder_database_pool,
                hold=hold,
                within=settings.rejoinder_statement_timeout_seconds,
            )
        if self.provider == "redis":
            if settings.llm_provider_checkpoint_conn_string is None:
                raise ConfigurationError(
                    "LLM_PROVIDER_CHECKPOINT is redis, so LLM_PROVIDER_CHECKPOINT_CONN_STRING must name one"
                )
            from rejoinder.agents.redis_saver import FencedRedisSaver

            return FencedRedisSaver(settings.llm_provider_checkpoint_conn_string, self._steps.hold)
        if self.provider == "memory":
            from langgraph.checkpoint.memory import InMemorySaver

            return InMemorySaver()
        raise ConfigurationError(f"LLM_PROVIDER_CHECKPOINT={self.provider} is not served by this version")

    async def close(self) -> None:
        saver, self._saver = self._saver, None
        if saver is not None and self.durable:
            await saver.aclose()

    async def sweep(self) -> int:
        """Delete the checkpoints of runs that ended longer ago than they are kept. Returns of how many runs."""
        kept = self._settings.llm_provider_checkpoint_retention_finished_minutes * 60
        total = 0
        while runs := await self._steps.sweepable(kept, BATCH):
            saver = await self.open()
            if self.provider == "postgres":
                await saver.aprune([str(one) for one in runs], strategy="delete")
            else:
                for one in runs:
                    await saver.adelete_thread(str(one))
            await self._steps.swept(runs)
            total += len(runs)
        return total

    async def stranded(self) -> list[UUID]:
        """Open questions of runs that wait longer than their checkpoints are kept."""
        kept = self._settings.llm_provider_checkpoint_retention_waiting_minutes * 60
        return await self._steps.stranded(kept, BATCH)
