"""Many parked agents at once: the rows of one that really parked, written again and again under ids of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

BATCH = 5_000
_COLUMNS = """
SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
 WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
"""


async def copy_parked(url: str, run_id: Any, tables: Sequence[str], first: int, last: int) -> None:
    """Copies of that run's rows in these tables, so many. tables: each one after those that it refers to.

    An id is that of the original hashed with the copy's number, the same in every table.
    """
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET synchronous_commit = off")
        run = str(run_id)
        ids = [run]
        for table in ("park", "question", "step"):
            rows = await connection.fetch(f"SELECT id::text FROM rejoinder.{table} WHERE run_id = $1", run_id)
            ids += [row["id"] for row in rows]
        new = "to_jsonb(o)::text"
        for place in range(len(ids)):
            old = f"($1::text[])[{place + 1}]"
            new = f"replace({new}, {old}, md5({old} || n)::uuid::text)"
        for table in tables:
            columns = await connection.fetchval(_COLUMNS, table)
            given = ", ".join(f"p.{column}" for column in columns.split(", "))
            await connection.execute(
                "DROP TABLE IF EXISTS own; CREATE TEMPORARY TABLE own AS"
                f" SELECT * FROM {table} t WHERE strpos(to_jsonb(t)::text, '{run}') > 0"
            )
            for begin in range(first, last + 1, BATCH):
                await connection.execute(
                    f"INSERT INTO {table} ({columns}) SELECT {given}"
                    " FROM generate_series($2::int, $3::int) n CROSS JOIN own o"
                    f" CROSS JOIN LATERAL jsonb_populate_record(NULL::{table}, {new}::jsonb) p",
                    ids,
                    begin,
                    min(begin + BATCH - 1, last),
                )
            await connection.execute(f"VACUUM (ANALYZE) {table}")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
