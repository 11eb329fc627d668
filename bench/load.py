"""Many parked questions at once, written as the product writes them: a run, its park, its question and four events."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import orjson

from bench.tools import SCHEMA

BATCH = 50_000
INDEXES = """
SELECT format('DROP INDEX rejoinder.%I', c.relname) AS drop, pg_get_indexdef(c.oid) AS make
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
  JOIN pg_namespace n ON n.oid = t.relnamespace
 WHERE n.nspname = 'rejoinder' AND t.relname IN ('run', 'park', 'question', 'event')
   AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = c.oid)
"""
STATEMENT = """
WITH ids AS MATERIALIZED (
    SELECT gen_random_uuid() AS run, gen_random_uuid() AS park, gen_random_uuid() AS question, g AS n
      FROM generate_series($1::int, $2::int) AS g
), runs AS (
    INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, epoch, starts, idempotent, entered_at)
    SELECT run, 'park', jsonb_build_object('refund', 'loaded-' || n), 'tool-runs', 'parked', 'bench', 1, 1, true,
           clock_timestamp() FROM ids
), parks AS (
    INSERT INTO rejoinder.park (id, run_id, round, members, open, sealed_at)
    SELECT park, run, 1, 1, 1, clock_timestamp() FROM ids
), questions AS (
    INSERT INTO rejoinder.question (id, run_id, park_id, ordinal, group_id, mode, answer_format, question,
                                    format_payload, on_expiry, tool, asked_by, created_at, timeout_at)
    SELECT question, run, park, 0, 'loaded-' || n, 'async', 'form', 'Refund loaded-' || n || '?', $3::jsonb, 'resume',
           'park', 'bench', clock_timestamp(), $4::timestamptz + n * interval '1 microsecond' FROM ids
)
INSERT INTO rejoinder.event (kind, interaction_id, group_id, run_id, actor, via, detail)
SELECT k.kind, CASE WHEN k.asks THEN i.question END, CASE WHEN k.asks THEN 'loaded-' || i.n END, i.run, 'bench',
       CASE WHEN k.kind = 'run.started' THEN 'tool-runs' END, k.detail
  FROM ids i CROSS JOIN (VALUES
      ('run.started', false, '{"tool": "park"}'::jsonb),
      ('run.entered', false, '{"epoch": 1, "process": "00000000-0000-0000-0000-000000000000"}'),
      ('interaction.add', true, NULL),
      ('run.parked', false, NULL)) AS k (kind, asks, detail)
"""


async def parked(url: str, first: int, last: int, due_in: timedelta) -> None:
    """Write the questions numbered so, all due in the same second. Their runs wait as if a worker had parked them."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET synchronous_commit = off; SET maintenance_work_mem = '256MB'")
        due = await connection.fetchval("SELECT rejoinder.clock() + $1::interval", due_in)
        # Rebuilt afterwards: a million rows through ten indexes is most of the time.
        indexes = await connection.fetch(INDEXES) if last - first > 2 * BATCH else []
        for index in indexes:
            await connection.execute(index["drop"])
        payload = orjson.dumps({"schema": SCHEMA}).decode()
        for begin in range(first, last + 1, BATCH):
            await connection.execute(STATEMENT, begin, min(begin + BATCH - 1, last), payload, due)
        for index in indexes:
            await connection.execute(index["make"])
        await connection.execute(
            "VACUUM (ANALYZE) rejoinder.run, rejoinder.park, rejoinder.question, rejoinder.event"
        )
        # What was loaded is on disk before anything is measured: not the load is.
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


async def bytes_stored(url: str) -> int:
    """Of our tables with their indexes."""
    connection = await asyncpg.connect(url)
    try:
        size: int = await connection.fetchval(
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'rejoinder' AND c.relkind = 'r'"
        )
        return size
    finally:
        await connection.close()


async def open_ids(url: str, count: int) -> list[str]:
    """Some of the loaded questions."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT id::text FROM rejoinder.question WHERE state = 'pending' ORDER BY id LIMIT $1", count
        )
        return [row["id"] for row in rows]
    finally:
        await connection.close()
