"""Two servers and a worker on one database: races, lost connections, callers that leave, a worker that wakes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
from rejoinder.store.database import Database
from rejoinder.store.migrate import migrate
from tests.acceptance.conftest import Fleet
from tests.integration.core.support import assert_sound
from tests.support import assert_eventually, client, execute, running_processes

pytestmark = pytest.mark.timeout(120)


async def parked_question(fleet: Fleet, tool: str = "once") -> tuple[str, str]:
    run_id = await fleet.start_run(tool)
    await fleet.reaches(run_id, "parked")
    return run_id, await fleet.question_of(run_id)


async def test_fifty_racing_answers_over_two_servers(fleet: Fleet) -> None:
    run_id, question = await parked_question(fleet)
    async with client(fleet.servers[0].url) as one, client(fleet.servers[1].url) as two:
        answers = await asyncio.gather(
            *(
                (one, two)[i % 2].post(
                    f"/api/interactions/{question}/answer", json={"answer": bool(i // 2 % 2)}
                )
                for i in range(50)
            )
        )
    codes = Counter(a.status_code for a in answers)
    winner = await fleet.value("SELECT answer FROM rejoinder.question WHERE id = $1::uuid", question)
    # Without access control everybody is one person, so whoever gave the winning answer again is told that it stands.
    assert codes == Counter(200 if str(bool(i // 2 % 2)).lower() == winner else 409 for i in range(50))
    for i, answer in enumerate(answers):
        assert (answer.status_code == 200) == (str(bool(i // 2 % 2)).lower() == winner)
        if answer.status_code == 409:
            body = answer.json()
            assert body["code"] == "interaction-already-answered"
            assert body["answered_by"] == "system:no-auth"
            assert body["closed_at"]
    assert (
        await fleet.value(
            "SELECT count(*) FROM rejoinder.event WHERE interaction_id = $1::uuid AND kind = 'interaction.answered'",
            question,
        )
        == 1
    )
    await fleet.reaches(run_id, "succeeded")
    assert await fleet.effects(run_id) == {"start": 1, "resume": 1}


async def test_a_wrong_answer_is_refused_and_the_caller_stays_blocked(fleet: Fleet) -> None:
    call = asyncio.create_task(fleet.call(fleet.servers[0], "blocked"))
    [question] = await fleet.new_question(set())
    refused = await fleet.answer(fleet.servers[1], question, "yes")
    assert refused.status_code == 400
    assert not call.done()
    assert (await fleet.answer(fleet.servers[1], question, False)).status_code == 200
    answer = await call
    assert answer.json()["data"] == {"kind": "result", "result": False}


async def test_a_caller_that_leaves_takes_its_question_along(fleet: Fleet) -> None:
    call = asyncio.create_task(fleet.call(fleet.servers[0], "blocked"))
    [question] = await fleet.new_question(set())
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    async def withdrawn() -> Any:
        return await fleet.value(
            "SELECT reason FROM rejoinder.question WHERE id = $1::uuid AND state = 'cancelled'", question
        )

    assert await assert_eventually(withdrawn, "it was not withdrawn") == "asker gone"
    assert (await fleet.answer(fleet.servers[1], question)).status_code == 409


async def test_a_live_server_is_never_found_dead(fleet: Fleet) -> None:
    """Its notification connection is cut again and again; its question stays, and the answer reaches its caller."""
    call = asyncio.create_task(fleet.call(fleet.servers[0], "blocked"))
    [question] = await fleet.new_question(set())
    cut = 0
    for _ in range(12):

        async def listening() -> list[Any]:
            return await fleet.rows(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)"
            )

        for row in await assert_eventually(listening, "nobody listens"):
            cut += await fleet.value("SELECT pg_terminate_backend($1)::int", row["pid"])
        assert await fleet.value("SELECT state FROM rejoinder.question WHERE id = $1::uuid", question) == (
            "pending"
        )
    assert cut >= 12
    assert (await fleet.answer(fleet.servers[1], question)).status_code == 200
    assert (await call).json()["data"]["result"] is True
    assert await fleet.value("SELECT count(*) FROM rejoinder.process WHERE ended_at IS NOT NULL") == 0


async def test_the_answer_arrives_although_its_notification_is_lost(fleet: Fleet) -> None:
    """The caller's connection is cut between the answer's commit and its notification: the server re-reads."""
    call = asyncio.create_task(fleet.call(fleet.servers[0], "blocked"))
    [question] = await fleet.new_question(set())
    await fleet.rows(
        "SELECT rejoinder.close_questions_v1(ARRAY[$1::uuid], 'answered', 'nobody', NULL, NULL, 'true', NULL, NULL)",
        question,
    )
    assert (await call).json()["data"]["result"] is True


async def test_a_worker_that_wakes_writes_nothing(fleet: Fleet) -> None:
    """Stopped after its code returned; another worker takes the run over; then it goes on."""
    assert fleet.worker is not None
    run_id, question = await parked_question(fleet, "again")
    sleeper = fleet.start("worker", pause="resume.returned=stop")
    await fleet.joined(sleeper)
    fleet.worker.pause()
    try:
        assert (await fleet.answer(fleet.servers[0], question)).status_code == 200
        await sleeper.wait_paused()
    finally:
        fleet.worker.resume()
    await fleet.reaches(run_id, "succeeded")
    [before] = await fleet.rows("SELECT * FROM rejoinder.run WHERE id = $1::uuid", run_id)
    sleeper.resume()
    await sleeper.wait_output("another worker drives this run")
    [after] = await fleet.rows("SELECT * FROM rejoinder.run WHERE id = $1::uuid", run_id)
    assert tuple(before) == tuple(after)
    assert (await fleet.effects(run_id))["resume"] == 2  # it is idempotent: that is what being so means
    sleeper.kill()
    await assert_sound(fleet.database_url)


async def test_a_killed_server_s_questions_are_withdrawn_and_only_they(fleet: Fleet) -> None:
    kept = asyncio.create_task(fleet.call(fleet.servers[0], "blocked"))
    [mine] = await fleet.new_question(set())
    other = fleet.start("serve")
    await other.wait_ready()
    calls = [asyncio.create_task(fleet.call(other, "blocked")) for _ in range(20)]
    questions = await fleet.new_question({mine}, 20)
    other.kill()
    await asyncio.gather(*calls, return_exceptions=True)

    async def withdrawn() -> bool:
        rows = await fleet.rows("SELECT id::text FROM rejoinder.question WHERE state = 'pending'")
        return [r[0] for r in rows] == [mine]

    await assert_eventually(withdrawn, "they were not withdrawn")
    reasons = await fleet.rows(
        "SELECT DISTINCT state, reason FROM rejoinder.question WHERE id = ANY ($1::uuid[])", questions
    )
    assert [tuple(r) for r in reasons] == [("cancelled", "asker gone")]
    assert (await fleet.answer(fleet.servers[1], mine)).status_code == 200
    assert (await kept).json()["data"]["result"] is True
    await assert_sound(fleet.database_url)


@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_postgres_restarts_under_blocked_callers(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "pg"
    folder.mkdir(mode=0o711)
    for parent in (folder, *folder.parents):
        if str(parent).startswith("/tmp/") and parent.stat().st_uid == os.getuid():
            parent.chmod(0o711)
    server = EmbeddedServer(DataFolder(folder))
    url = server.start()
    try:
        await migrate(Database(url))
        await execute(url, "CREATE TABLE effect (run_id uuid NOT NULL, name text NOT NULL)")
        manifest = tmp_path / "manifest.yaml"
        tools = Path(__file__).with_name("tools_under_test.py")
        manifest.write_text(f"tools:\n  - module: {tools}\n", encoding="utf-8")
        with running_processes(tmp_path) as processes:
            fleet = Fleet(url, processes, manifest, [], None)
            fleet.servers = [fleet.start("serve"), fleet.start("serve")]
            for one in fleet.servers:
                await one.wait_ready()
            async with client(fleet.servers[0].url, timeout=100) as http:
                calls = [
                    asyncio.create_task(
                        http.post("/api/run-tool", json={"tool_name": "blocked", "arguments": {}})
                    )
                    for _ in range(60)
                ]
                questions = await fleet.new_question(set(), 60)
                if how == "fast":
                    server.stop()
                else:
                    pid = server.pid
                    assert pid is not None
                    os.kill(pid, signal.SIGQUIT)
                    await assert_eventually(lambda: server.pid is None, "it did not stop")
                assert server.start() == url

                async def answered(question: str) -> None:
                    async def done() -> bool:
                        answer = await fleet.answer(fleet.servers[1], question)
                        assert answer.status_code in (200, 503), answer.text
                        return bool(answer.status_code == 200)

                    await assert_eventually(done, "it cannot be answered")

                await asyncio.gather(*(answered(q) for q in questions))
                results = await asyncio.gather(*calls)
            assert [r.json().get("data") for r in results] == [{"kind": "result", "result": True}] * 60
            await assert_sound(url)
    finally:
        server.stop()
