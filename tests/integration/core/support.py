"""What the tests of the core share: the invariants of the whole database, and raw steps that crash half-way."""

from __future__ import annotations

import glob
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from rejoinder.contract.questions import Question
from rejoinder.node import Node
from rejoinder.store.database import Database
from tests.integration.nodes import ANN
from tests.support import assert_eventually

#: Each query names rows that must not exist, whenever no transaction is under way.
INVARIANTS = {
    "a question has exactly one add event": """
        SELECT q.id FROM rejoinder.question q
         WHERE (SELECT count(*) FROM rejoinder.event e
                 WHERE e.interaction_id = q.id AND e.kind = 'interaction.add') <> 1""",
    "an open question has no end event, a closed one exactly one of the right kind": """
        SELECT q.id, q.state FROM rejoinder.question q
         WHERE (SELECT array_agg(e.kind) FROM rejoinder.event e
                 WHERE e.interaction_id = q.id AND e.kind IN ('interaction.answered', 'interaction.removed'))
               IS DISTINCT FROM CASE q.state WHEN 'pending' THEN NULL
                                             WHEN 'answered' THEN ARRAY['interaction.answered']
                                             ELSE ARRAY['interaction.removed'] END""",
    "an event belongs to a question that exists": """
        SELECT e.seq FROM rejoinder.event e
         WHERE e.interaction_id IS NOT NULL
           AND NOT EXISTS (SELECT FROM rejoinder.question q WHERE q.id = e.interaction_id)""",
    "no answer at or after the deadline": """
        SELECT q.id FROM rejoinder.question q WHERE q.state = 'answered' AND q.closed_at >= q.timeout_at""",
    "no lapse before the deadline": """
        SELECT q.id FROM rejoinder.question q WHERE q.state = 'expired' AND q.closed_at < q.timeout_at""",
    "an answered question keeps its answer": """
        SELECT q.id FROM rejoinder.question q
         WHERE (q.state = 'answered' AND NOT q.sensitive AND q.answer IS NULL)
            OR (q.state <> 'answered' AND q.answer IS NOT NULL)""",
    "a delivery that has counted answered a question": """
        SELECT d.question_id FROM rejoinder.seen_delivery d
         WHERE d.question_id IS NOT NULL AND NOT EXISTS (SELECT FROM rejoinder.question q WHERE q.id = d.question_id AND q.state = 'answered')""",
    "an open external question has a ticket": """
        SELECT q.id FROM rejoinder.question q
         WHERE q.state = 'pending' AND q.answer_format = 'external'
           AND NOT EXISTS (SELECT FROM rejoinder.ticket t WHERE t.question_id = q.id)""",
    "a taken place is an open question's": """
        SELECT s.n FROM rejoinder.slot s
         WHERE s.question_id IS NOT NULL
           AND NOT EXISTS (SELECT FROM rejoinder.question q
                            WHERE q.id = s.question_id AND q.state = 'pending' AND q.slot = s.n)""",
    "an open question holds its place": """
        SELECT q.id FROM rejoinder.question q
         WHERE q.state = 'pending' AND q.slot IS NOT NULL
           AND NOT EXISTS (SELECT FROM rejoinder.slot s WHERE s.n = q.slot AND s.question_id = q.id)""",
    "a park's counts are its questions'": """
        SELECT p.id, p.open, p.members FROM rejoinder.park p
         WHERE p.open <> (SELECT count(*) FROM rejoinder.question q WHERE q.park_id = p.id AND q.state = 'pending')
            OR p.members <> (SELECT count(*) FROM rejoinder.question q WHERE q.park_id = p.id)""",
    "a park is complete exactly when it is sealed, not killed and nothing of it is open": """
        SELECT p.id FROM rejoinder.park p
         WHERE (p.completed_at IS NOT NULL)
               <> (p.sealed_at IS NOT NULL AND p.killed_at IS NULL AND p.open = 0)""",
    "no partial set resumes: every member was answered or lapsed under resume": """
        SELECT p.id FROM rejoinder.park p JOIN rejoinder.question q ON q.park_id = p.id
         WHERE p.completed_at IS NOT NULL
           AND NOT (q.state = 'answered' OR (q.state = 'expired' AND q.on_expiry = 'resume'))""",
    "a park has a resumption exactly when it is complete": """
        SELECT p.id FROM rejoinder.park p
         WHERE (p.completed_at IS NOT NULL)
               <> EXISTS (SELECT FROM rejoinder.resume s WHERE s.park_id = p.id)""",
    "a killed park has nothing open": """
        SELECT p.id FROM rejoinder.park p WHERE p.killed_at IS NOT NULL AND p.open > 0""",
    "no open question of a run that has ended": """
        SELECT q.id, r.state FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.run_id
         WHERE q.state = 'pending' AND r.state NOT IN ('running', 'parked')""",
    "no open question without a run": """
        SELECT q.id FROM rejoinder.question q
         WHERE q.state = 'pending' AND NOT EXISTS (SELECT FROM rejoinder.run r WHERE r.id = q.run_id)""",
    "no open question of a process that has ended": """
        SELECT q.id FROM rejoinder.question q JOIN rejoinder.process p ON p.id = q.owner_process
         WHERE q.state = 'pending' AND p.ended_at IS NOT NULL""",
    "a parked run waits for its latest park": """
        SELECT r.id FROM rejoinder.run r
         WHERE r.state = 'parked'
           AND NOT EXISTS (
               SELECT FROM rejoinder.park p LEFT JOIN rejoinder.resume s ON s.park_id = p.id
                WHERE p.run_id = r.id AND p.sealed_at IS NOT NULL AND p.killed_at IS NULL
                  AND (p.open > 0 OR s.finished_at IS NULL))""",
    "a resumption that is not finished has its job, or its run somebody who drives it": """
        SELECT s.park_id FROM rejoinder.resume s JOIN rejoinder.run r ON r.id = s.run_id
         WHERE s.finished_at IS NULL
           AND NOT EXISTS (SELECT FROM rejoinder.process p WHERE p.id = r.owner_process AND p.ended_at IS NULL)
           AND NOT EXISTS (SELECT FROM rejoinder.pgqueuer j
                            WHERE j.entrypoint = 'resume' AND convert_from(j.payload, 'UTF8') = s.park_id::text
                              AND j.status IN ('queued', 'picked'))""",
    "a run that a worker must start has its job, or somebody who drives it": """
        SELECT r.id, r.phase FROM rejoinder.run r
         WHERE r.state = 'running' AND r.phase = 'start' AND r.door = 'tool-runs'
           AND NOT EXISTS (SELECT FROM rejoinder.process p WHERE p.id = r.owner_process AND p.ended_at IS NULL)
           AND NOT EXISTS (SELECT FROM rejoinder.pgqueuer j
                            WHERE j.entrypoint = 'run' AND convert_from(j.payload, 'UTF8') = r.id::text
                              AND j.status IN ('queued', 'picked'))""",
    "a going run that no job carries has a process": """
        SELECT r.id FROM rejoinder.run r
         WHERE r.state = 'running' AND r.door <> 'tool-runs' AND r.phase = 'start'
           AND NOT EXISTS (SELECT FROM rejoinder.process p WHERE p.id = r.owner_process AND p.ended_at IS NULL)""",
    "a run that has ended says when, a going one does not": """
        SELECT r.id, r.state FROM rejoinder.run r
         WHERE (r.finished_at IS NOT NULL) <> (r.state NOT IN ('running', 'parked'))""",
    "a held run has ended": """
        SELECT r.id FROM rejoinder.run r WHERE r.held AND r.state IN ('running', 'parked')""",
    "one park of a run is under way at a time": """
        SELECT p.run_id FROM rejoinder.park p LEFT JOIN rejoinder.resume s ON s.park_id = p.id
         WHERE p.sealed_at IS NOT NULL AND p.killed_at IS NULL AND (p.completed_at IS NULL OR s.finished_at IS NULL)
         GROUP BY p.run_id HAVING count(*) > 1""",
    "a wait for a run is open only while that run may still end, or its end is being carried on": """
        SELECT q.id, r.state FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.nested_run_id
         WHERE q.to_kind = 'run' AND q.state = 'pending' AND r.state NOT IN ('running', 'parked') AND NOT r.held
           AND NOT EXISTS (SELECT FROM rejoinder.pgqueuer j
                            WHERE j.entrypoint = 'chain' AND convert_from(j.payload, 'UTF8') = r.id::text
                              AND j.status IN ('queued', 'picked'))""",
    "a called run goes on only under a caller that does, or its end is being carried on": """
        SELECT c.id, p.state FROM rejoinder.run c JOIN rejoinder.run p ON p.id = c.parent_run_id
         WHERE c.state IN ('running', 'parked') AND p.state NOT IN ('running', 'parked')
           AND NOT EXISTS (SELECT FROM rejoinder.pgqueuer j
                            WHERE j.entrypoint = 'chain' AND convert_from(j.payload, 'UTF8') = p.id::text
                              AND j.status IN ('queued', 'picked'))""",
}


async def broken(connection: Any) -> dict[str, list[Any]]:
    """The invariants that do not hold, with the rows that break them."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        found = {name: [tuple(r) for r in await connection.fetch(q)] for name, q in INVARIANTS.items()}
    return {name: rows for name, rows in found.items() if rows}


async def assert_sound(url: str) -> None:
    """Every invariant holds, once what is under way has settled."""
    connection = await asyncpg.connect(url)
    last: dict[str, list[Any]] = {}

    async def sound() -> bool:
        nonlocal last
        last = await broken(connection)
        return not last

    try:
        await assert_eventually(sound, "the database is not sound")
    except AssertionError:
        raise AssertionError(f"broken: {last}") from None
    finally:
        await connection.close()


async def open_questions(node: Node, count: int = 1) -> list[Question]:
    """At least so many open questions, oldest deadline first."""

    async def found() -> list[Question] | None:
        page = await node.asks.page(by=ANN, limit=500)
        return page if len(page) >= count else None

    page = await assert_eventually(found, f"fewer than {count} questions were asked")
    assert page is not None
    return page


async def the_question(node: Node) -> Question:
    [question] = await open_questions(node)
    return question


async def run_reaches(node: Node, run_id: UUID, *states: str) -> str:
    """Wait until the run is in one of these states, and say which."""

    async def reached() -> str | None:
        run = await node.runs.by_id(run_id)
        return run.state if run is not None and run.state in states else None

    state = await assert_eventually(reached, f"the run did not become {' or '.join(states)}")
    assert state is not None
    return state


async def events_of(database: Database, interaction_id: UUID) -> list[tuple[str, str | None, str | None]]:
    """``(kind, actor, reason)`` of each event of a question, in order."""
    rows = await database.rows(
        "SELECT kind, actor, reason FROM rejoinder.event WHERE interaction_id = $1 ORDER BY seq",
        interaction_id,
    )
    return [(r["kind"], r["actor"], r["reason"]) for r in rows]


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def deadlocks_of(postgres_url: str) -> str:
    """What the server's log tells of deadlocks, for the message of a failure."""
    host = re.search(r"host=([^&]+)", postgres_url)
    told = ""
    for name in glob.glob(f"{host[1]}/log/*") if host else []:
        with open(name, errors="replace") as log:
            text = log.read()
        place = text.find("deadlock detected")
        if place >= 0:
            told += text[place : place + 4000]
    return told
