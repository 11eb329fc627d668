"""kill -9 around the saving of a preset: it is saved once or not at all, and every other process has what was saved."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from tests.acceptance.conftest import Fleet
from tests.support import assert_eventually, client

pytestmark = pytest.mark.timeout(150)


async def post(url: str, path: str, body: dict[str, Any]) -> httpx2.Response:
    async with client(url) as http:
        return await http.post(path, json=body)


@pytest.mark.parametrize(("point", "saved"), [("preset.seen", 1), ("preset.written", 2)])
async def test_a_server_that_dies_while_it_saves(fleet: Fleet, point: str, saved: int) -> None:
    name = f"expires_{saved}"
    body = {
        "name": name,
        "base_tool": "again",
        "description": "Resumes where nobody answers.",
        "fixed_kwargs": {"on_expiry": "kill"},
    }
    good = fleet.servers[0].url
    assert (await post(good, "/api/presets", body)).status_code == 201
    victim = await fleet.start("serve", pause=f"{point}=kill").wait_ready()
    change = {"fixed_kwargs": {"on_expiry": "resume"}, "expected_version": 1}
    with pytest.raises(httpx2.TransportError):
        await post(victim.url, f"/api/presets/{name}/versions", change)
    assert await victim.wait_ended(40) == -9

    async with client(good) as http:
        preset = (await http.get(f"/api/presets/{name}")).json()["data"]
    assert (preset["version"], preset["last_version"]) == (saved, saved)
    # Sent once more it is one version, and whoever looks can tell.
    again = await post(good, f"/api/presets/{name}/versions", change)
    assert again.status_code == (201 if saved == 1 else 409)

    # The worker has heard, or looks by itself.
    async def parks_to_resume() -> bool:
        run_id = await fleet.start_run(name)
        await fleet.reaches(run_id, "parked")
        on_expiry = await fleet.value(
            "SELECT on_expiry FROM rejoinder.question WHERE run_id = $1::uuid", run_id
        )
        return bool(on_expiry == "resume")

    await asyncio.wait_for(assert_eventually(parks_to_resume), 60)


async def test_a_worker_that_takes_over_uses_the_version_that_the_dead_one_began_with(fleet: Fleet) -> None:
    assert fleet.worker is not None
    good = fleet.servers[0].url
    body = {
        "name": "begun",
        "base_tool": "again",
        "description": "Asks whether to go on.",
        "fixed_kwargs": {"on_expiry": "kill"},
    }
    assert (await post(good, "/api/presets", body)).status_code == 201
    victim = fleet.start("worker", pause="run.entered=kill")
    await fleet.joined(victim)
    fleet.worker.pause()
    try:
        run_id = await fleet.start_run("begun")
        assert await victim.wait_ended(40) == -9
        saved = await post(good, "/api/presets/begun/versions", {"fixed_kwargs": {"on_expiry": "resume"}})
        assert saved.status_code == 201
    finally:
        fleet.worker.resume()
    await fleet.reaches(run_id, "parked")
    asked = "SELECT on_expiry FROM rejoinder.question WHERE run_id = $1::uuid AND state = 'pending'"
    assert await fleet.value(asked, run_id) == "kill"
    # What begins now begins with the new one.
    later = await fleet.start_run("begun")
    await fleet.reaches(later, "parked")
    assert await fleet.value(asked, later) == "resume"
