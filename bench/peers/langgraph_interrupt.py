"""A LangGraph graph that stops at ``interrupt`` and is resumed from its Postgres checkpoint.

From the call with ``Command(resume=...)`` to the first line after the interrupt. Somebody has to make that call for
each answer, and only once: LangGraph neither waits nor claims.

``python -m bench.peers.langgraph_interrupt URL ONE BURST PARKED``
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.stats import spread

ANSWER = {"approve": True, "amount": 120.5, "currency": "EUR", "note": "checked"}
#: When the code after each interrupt ran, by thread.
RESUMED: dict[str, float] = {}


class State(TypedDict, total=False):
    refund: str
    answer: Any


def decide(state: State) -> State:
    answer = interrupt({"question": f"Refund {state['refund']}?"})
    RESUMED[state["refund"]] = time.perf_counter()
    assert answer == ANSWER
    return {"answer": answer}


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


async def main(url: str, one: int, burst: int, parked: int) -> dict[str, Any]:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url,
        min_size=8,
        max_size=8,
        open=False,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
    )
    await pool.open(wait=True)
    saver = AsyncPostgresSaver(pool)
    await saver.setup()
    builder = StateGraph(State)
    builder.add_node("decide", decide)
    builder.add_edge(START, "decide")
    builder.add_edge("decide", END)
    graph = builder.compile(checkpointer=saver)

    async def park(name: str) -> None:
        # The last step must be on disk before anybody is asked.
        await graph.ainvoke({"refund": name}, thread(name), durability="sync")

    async def resume(name: str) -> tuple[float, float]:
        """Until the code after the interrupt ran, and until the caller had the result with its checkpoint written."""
        began = time.perf_counter()
        await graph.ainvoke(Command(resume=ANSWER), thread(name), durability="sync")
        return RESUMED[name] - began, time.perf_counter() - began

    async def cycle(name: str) -> tuple[float, float]:
        await park(name)
        return await resume(name)

    for i in range(5):
        await cycle(f"warm-{i}")
    cpu = time.process_time()
    alone = [await cycle(f"one-{i}") for i in range(one)]
    cpu_alone = (time.process_time() - cpu) / one

    names = [f"burst-{i}" for i in range(burst)]
    for name in names:
        await park(name)
    began = time.perf_counter()
    ended = await asyncio.gather(*(resume(name) for name in names), return_exceptions=True)
    answered = time.perf_counter() - began
    woken = [one[1] for one in ended if not isinstance(one, BaseException)]
    result: dict[str, Any] = {
        "one": spread(ran for ran, _ in alone),
        "one_returned": spread(returned for _, returned in alone),
        "cpu_ms": round(cpu_alone * 1000, 3),
        "burst": {
            "woken": spread(woken),
            "answers_per_s": round(burst / answered, 1),
            "errors": sum(isinstance(r, BaseException) for r in ended),
        },
    }
    if parked:
        before = await size(pool)
        for i in range(parked):
            await park(f"parked-{i}")
        result["parked"] = {"n": parked, "bytes_each": round((await size(pool) - before) / parked)}
    await pool.close()
    return result


async def size(pool: Any) -> int:
    async with pool.connection() as connection:
        row = await (
            await connection.execute("SELECT pg_database_size(current_database()) AS bytes")
        ).fetchone()
        return int(row["bytes"])


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))))
