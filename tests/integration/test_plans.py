"""What must be read in the order of an index is: a sort would read all that is left, each time, however much it is."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rejoinder.store.database import Database
from rejoinder.store.questions import FIRST
from rejoinder.store.schedules import KINDS
from rejoinder.store.sql import sql

QUERIES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "events.since": (sql("events").since, ("0", 0, 500)),
    "events.unseen": (sql("events").unseen, ("0", 0)),
    "questions.page": (sql("questions").page.replace("{columns}", "*"), (*FIRST, None, 50, 0)),
    "questions.page_of": (sql("questions").page_of.replace("{columns}", "*"), (*FIRST, "ann", 50, 0)),
    "questions.count": (sql("questions").count, (10_000,)),
    "questions.count_of": (sql("questions").count_of, (10_000, "ann")),
    "questions.next_deadline": (sql("questions").next_deadline, ()),
}
for _kind in KINDS.values():
    _due = sql("schedules").due.replace("{columns}", "*").replace("{kind}", _kind)
    QUERIES[f"schedules.due, {_kind}"] = (_due, (datetime(2030, 1, 1, tzinfo=UTC), ["a"], 0, 1000))
    QUERIES[f"schedules.next_in, {_kind}"] = (sql("schedules").next_in.replace("{kind}", _kind), (["a"],))


AGE = timedelta(days=1)
#: What is looked at every minute, with the index that it is to follow up to the moment that counts, and no further.
PRUNING: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "events": (sql("events").prune, (AGE,), "event_at"),
    "questions": (sql("events").prune_questions, (AGE,), "question_closed"),
    "runs": (sql("runs").prune, (AGE,), "run_finished"),
    "results": (sql("runs").prune_results, (AGE,), "run_results"),
    "deliveries": (sql("deliveries").prune, (AGE, AGE), "delivery_received"),
    "notifications": (sql("notifications").prune, (AGE,), "notification_newest"),
    "hits": (sql("flood").prune, (), "flood_ends"),
    "tickets": (sql("tickets").prune, (), "seen_delivery_expires"),
    "legs": (sql("legs").prune, (AGE,), "leg_created"),
    "slots": (sql("schedules").prune, (AGE,), "schedule_slot_old"),
    "orders": (sql("schedules").prune, (AGE,), "schedule_over"),
    "checkpoints": (sql("steps").sweepable, (AGE, 100), "run_unswept"),
}


@pytest.mark.parametrize("name", PRUNING)
async def test_a_chore_reads_no_more_than_is_over(database: Database, name: str) -> None:
    query, arguments, index = PRUNING[name]
    async with database.transaction() as connection:
        # As where most of a table is of interest, or none of it: a small table would be read whole.
        await connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {query}", *arguments))
    assert re.search(rf"using {index} .*\n +Index Cond: ", plan), plan


@pytest.mark.parametrize("name", QUERIES)
async def test_it_follows_an_index(database: Database, name: str) -> None:
    query, arguments = QUERIES[name]
    async with database.transaction() as connection:
        # An empty table would be read whole. A sort that the index cannot spare is planned all the same.
        await connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {query}", *arguments))
    assert "Sort" not in plan, plan
    index = "schedule_due_evaluated" if "IS NOT NULL" in name else "schedule_due_plain"
    if not name.startswith("schedules."):
        index = "(event_order|question_pending)"
    assert re.search(rf"Index (Only )?Scan using {index}", plan), plan
