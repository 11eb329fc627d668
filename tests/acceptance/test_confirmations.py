"""Confirmations through a real outside system, with its process, a server's and a worker's; and every way they can fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.acceptance.front import Front
from tests.integration.core.support import assert_sound
from tests.support import (
    Process,
    Processes,
    assert_eventually,
    clean_environment,
    client,
    free_port,
    running_processes,
    wait_until,
)

pytestmark = pytest.mark.timeout(200)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "confirmations"
TOPIC, PRESET = "confirmations", "confirm_order_7"
CONFIRMED = {"reference": "order-7", "decision": "confirmed"}
UNLIMITED = {"limit": 100_000, "burst": 100_000}
BRIDGES_SECRET = "only the door and the bridge know it"
ENVIRONMENT = {
    "REJOINDER_BEAT_SECONDS": "0.3",
    "REJOINDER_STALE_SECONDS": "1",
    "REJOINDER_POLL_SECONDS": "0.5",
    "REJOINDER_JOB_HEARTBEAT_TIMEOUT_SECONDS": "2",
    "REJOINDER_RUN_RETRY_BASE_SECONDS": "0.1",
    "HOOKS_RUN_SWEEP_SECONDS": "0.5",
    "HOOKS_RUN_LEASE_SECONDS": "3",
    "HOOKS_RUN_RETRY_BASE_SECONDS": "0.1",
    "HOOKS_RUN_MAX_ATTEMPTS": "2",
    "TAI_RATE_LIMIT_FAMILIES": json.dumps(
        {"universal_webhook": UNLIMITED, "interactions_callback": UNLIMITED}
    ),
    "TAI_BRIDGE_CALLBACK_SECRET": BRIDGES_SECRET,
    "CONFIRM_API_KEY": "the outside system's key",
    "CONFIRM_SIGNING_SECRET": "what its webhooks are signed with",
    "CONFIRM_RECONCILE_ANSWER_INTERVAL_SECONDS": "0",
}


class Deployment:
    """A server and a worker of ours, the outside system, and what an operator has set up between them."""

    def __init__(self, processes: Processes, database_url: str, folder: Path) -> None:
        self._processes = processes
        self.database_url = database_url
        self.folder = folder
        self.port, self.outside_port = free_port(), free_port()
        self.url, self.outside_url = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.outside_port}"
        self.front = Front(self.url)
        self.environment = ENVIRONMENT | {
            "INTERACTIONS_PUBLIC_BASE_URL": self.front.url,
            "CONFIRM_API_BASE": self.outside_url,
        }
        self.server: Process
        self.worker: Process
        self.keys: dict[str, str] = {}
        self.admin: httpx2.AsyncClient
        self.agent: httpx2.AsyncClient
        self.outside: httpx2.AsyncClient
        self._calls: list[asyncio.Task[httpx2.Response]] = []
        #: Hook runs of earlier tests, and the pages of this one.
        self._before = 0
        self._known: set[str] = set()

    def start(self, command: str, *, pause: str | None = None, **changed: str) -> Process:
        port = self.port if command == "serve" else None
        arguments = ["--manifest", str(EXAMPLE / "manifest.yaml")] if command in ("serve", "worker") else []
        return self._processes.start(
            command,
            *arguments,
            database_url=self.database_url,
            port=port,
            pause=pause,
            env={name: value for name, value in (self.environment | changed).items() if value},
        )

    async def new_worker(self, *, pause: str | None = None, **changed: str) -> None:
        """In the place of the one that goes, which is killed."""
        if hasattr(self, "worker"):
            self.worker.kill()
        self.worker = self.start("worker", pause=pause, **changed)

    async def new_server(self, **changed: str) -> None:
        """The same."""
        self.server.kill()
        self.server = self.start("serve", **changed)
        await self.server.wait_ready()

    async def set_up(self) -> None:
        """Bind, register, bake, schedule: the operator's order."""

        async def put(method: str, path: str, body: Any) -> Any:
            reply = await self.admin.request(method, path, json=body)
            assert reply.status_code in (200, 201), reply.text
            return reply.json()["data"]

        await put("PUT", "/api/scopes/public", {"pattern": f"/universal_webhook/{TOPIC}"})
        config = json.loads((EXAMPLE / "verifier.json").read_text())
        await put("PUT", f"/api/hooks/topics/{TOPIC}/verifier", {"verifier": "stripe", "config": config})
        await put("POST", "/api/keys", {"name": "bridge", "grants": ["read"]})
        key = await put("POST", "/api/keys", {"name": "agent", "grants": ["read", "write"]})
        self.keys["agent"] = key["secret"]
        await put("POST", "/api/hooks", json.loads((EXAMPLE / "hook.json").read_text()))
        await put("POST", "/api/presets", json.loads((EXAMPLE / "preset.json").read_text()))
        await put("POST", "/api/schedules", json.loads((EXAMPLE / "schedule.json").read_text()))

    # The agent's side

    async def ask(self, name: str = PRESET, **arguments: Any) -> Asked:
        """Call the tool, and wait until its page is there."""
        body = {"tool_name": name, "arguments": {"question": "Confirmed?"} | arguments}
        call = asyncio.create_task(self.agent.post("/api/run-tool", json=body))
        self._calls.append(call)
        return await self._asked(call)

    async def start_run(self) -> tuple[Asked, str]:
        """As ``ask``, by a run of the worker's, which no end of the server touches; and the run's id."""
        body = {"tool_name": PRESET, "arguments": {"question": "Confirmed?"}}
        call = asyncio.create_task(self.agent.post("/api/tool-runs", json=body))
        started = await call
        assert started.status_code == 202, started.text
        return await self._asked(call), str(started.json()["data"]["run_id"])

    async def _asked(self, call: asyncio.Task[httpx2.Response]) -> Asked:
        async def made() -> Any:
            assert not call.done() or call.result().status_code == 202, call.result().text
            fresh = [one for one in await self.confirmations() if one["id"] not in self._known]
            return fresh[0] if fresh else None

        confirmation = await assert_eventually(made, "no page was made", 30)
        self._known.add(confirmation["id"])

        async def recorded() -> Any:
            return len(await self.rows("SELECT 1 FROM rejoinder.question WHERE state = 'pending'"))

        await assert_eventually(recorded, "nothing was asked", 30)
        return Asked(str(confirmation["id"]), confirmation["metadata"]["tai_callback_url"], call)

    # The outside system's side

    async def confirmations(self) -> list[dict[str, Any]]:
        return list((await self.outside.get("/control")).json()["confirmations"])

    async def order(self, **orders: Any) -> None:
        assert (await self.outside.post("/control", json=orders)).status_code == 200

    async def press(self, asked: Asked, decision: str = "confirmed") -> None:
        """As the party does, in a browser."""
        page = await self.outside.get(f"/c/{asked.id}")
        assert f'value="{decision}"' in page.text
        reply = await self.outside.post(f"/c/{asked.id}", data={"decision": decision})
        assert (reply.status_code, reply.headers["location"]) == (303, "https://shop.example/thanks")

    # What is to be seen of it

    async def rows(self, query: str, *args: Any) -> list[Any]:
        connection = await asyncpg.connect(self.database_url)
        try:
            return list(await connection.fetch(query, *args))
        finally:
            await connection.close()

    async def hook_runs(self) -> list[Any]:
        return await self.rows(
            "SELECT id::text, status, last_error, last_error_kind FROM rejoinder.hook_run ORDER BY created_at "
            "OFFSET $1",
            self._before,
        )

    async def settled(self, count: int) -> list[str]:
        """The statuses of all hook runs once there are so many, and none is outstanding."""

        async def over() -> list[str] | None:
            found = [one["status"] for one in await self.hook_runs()]
            return found if len(found) == count and "outstanding" not in found else None

        found: list[str] | None = await assert_eventually(over, "the hook runs did not come to an end", 60)
        assert found is not None
        return found

    async def reconcile(self, **arguments: Any) -> Any:
        body = {"tool_name": "reconcile_confirmations", "arguments": arguments}
        reply = await self.admin.post("/api/run-tool", json=body)
        return reply.json()["data"]["result"] if reply.status_code == 200 else reply.json()

    async def posts(self) -> int:
        text = (await self.admin.get("/metrics")).text
        return sum(
            int(float(line.rpartition(" ")[2]))
            for line in text.splitlines()
            if line.startswith("rejoinder_callbacks_total")
        )

    async def give_up(self, asked: Asked) -> None:
        """The agent goes away, and with it its question."""
        asked.call.cancel()
        await asyncio.gather(asked.call, return_exceptions=True)

        async def withdrawn() -> bool:
            return not await self.rows("SELECT 1 FROM rejoinder.question WHERE state = 'pending'")

        await assert_eventually(withdrawn, "the question stayed open", 30)

    @asynccontextmanager
    async def used(self) -> AsyncIterator[Deployment]:
        """By one test, with an outside system that has no past."""
        self._before = 0
        self._before = len(await self.hook_runs())
        self._known.clear()
        self.front.dead = False
        async with (
            client(self.url, self.keys["owner"], timeout=60) as self.admin,
            client(self.url, self.keys.get("agent"), timeout=120) as self.agent,
            client(self.outside_url, ENVIRONMENT["CONFIRM_API_KEY"]) as self.outside,
        ):
            with self._outside_system():
                await assert_eventually(self._up, "the outside system did not start", 60)
                yield self
                for call in self._calls:
                    call.cancel()
                await asyncio.gather(*self._calls, return_exceptions=True)
                self._calls.clear()

    @contextmanager
    def _outside_system(self) -> Iterator[None]:
        webhook = f"{self.url}/universal_webhook/{TOPIC}"
        words = ["--port", str(self.outside_port), "--webhook", webhook]
        with (self.folder / "outside.log").open("ab") as log:
            system = subprocess.Popen(
                [sys.executable, str(EXAMPLE / "outside.py"), *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=clean_environment(self.environment),
            )
        try:
            yield
        finally:
            system.kill()
            system.wait()

    async def _up(self) -> bool:
        try:
            return (await self.outside.get("/control")).status_code == 200
        except httpx2.TransportError:
            return False


class Asked:
    def __init__(self, identifier: str, callback_url: str, call: asyncio.Task[httpx2.Response]) -> None:
        self.id = identifier
        self.callback_url = callback_url
        self.call = call

    @property
    def ticket(self) -> str:
        return self.callback_url.rpartition("/")[2]

    async def result(self) -> Any:
        reply = await asyncio.wait_for(asyncio.shield(self.call), 60)
        assert reply.status_code == 200, reply.text
        return reply.json()["data"]["result"]


@pytest.fixture(scope="module")
def standing(fleet_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("confirmations")
    with running_processes(folder) as processes:
        here = Deployment(processes, fleet_database, folder)
        owner = here.start("owner-key")
        here.server = here.start("serve")
        here.worker = here.start("worker")
        wait_until(lambda: owner.returncode is not None, "no owner's key was made", 60)
        here.keys["owner"] = owner.output().split()[-1]
        wait_until(here.server.ready, "the server did not start", 60)

        async def set_up() -> None:
            async with client(here.url, here.keys["owner"]) as here.admin:
                await here.set_up()

        asyncio.run(set_up())
        with here.front.standing():
            yield here


@pytest.fixture
async def here(standing: Deployment) -> AsyncIterator[Deployment]:
    async with standing.used():
        yield standing


async def test_a_confirmation_reaches_the_agent_once_whatever_the_webhooks_do(here: Deployment) -> None:
    # As it should be.
    asked = await here.ask()
    await here.press(asked)
    assert await asked.result() == CONFIRMED
    assert await here.settled(1) == ["acted"]

    # Nothing that is shown of it holds the ticket.
    for path in ("/api/tool-runs", "/api/hook-runs", "/api/audit", "/api/hooks", "/api/notifications"):
        assert asked.ticket not in (await here.admin.get(path)).text
    assert not await here.rows(
        "SELECT 1 FROM rejoinder.run WHERE tool = 'confirm_action' AND (arguments::text || COALESCE(result::text, '')) "
        "LIKE '%' || $1 || '%'",
        asked.ticket,
    )
    logs = "".join(one.read_text(errors="replace") for one in here.folder.glob("*.log"))
    assert asked.ticket not in logs
    assert ENVIRONMENT["TAI_BRIDGE_CALLBACK_SECRET"] not in logs

    # Twice, and in the wrong order.
    await here.order(hold=True, duplicate=2)
    first, second = await here.ask(), await here.ask()
    await here.press(first)
    await here.press(second)
    await here.order(hold=False)
    assert await first.result() == await second.result() == CONFIRMED
    assert await here.settled(3) == ["acted"] * 3

    # Captured, and sent again.
    replayed = await here.outside.get("/control")
    event = replayed.json()["heard"][0][0]
    await here.order(replay=event)
    assert (await here.outside.get("/control")).json()["heard"][-1] == [event, 200]
    assert await here.settled(3) == ["acted"] * 3

    # What the agent may not choose, it may not give; nor may it take the tool that would let it.
    for argument in ("reference", "return_url", "answer_schema"):
        body = {"tool_name": PRESET, "arguments": {"question": "?", argument: "mine"}}
        reply = await here.agent.post("/api/run-tool", json=body)
        assert (reply.status_code, reply.json()["field"]) == (400, argument)
    for tool in ("confirm_action", "reconcile_confirmations"):
        reply = await here.agent.post("/api/run-tool", json={"tool_name": tool, "arguments": {}})
        assert (reply.status_code, reply.json()["code"]) == (403, "tool-internal")
    for tool, status in (("request_confirmation", 404), ("request_confirmation_ask_external", 403)):
        reply = await here.agent.post("/api/run-tool", json={"tool_name": tool, "arguments": {}})
        assert reply.status_code == status
    await assert_sound(here.database_url)


async def test_what_is_no_confirmation_answers_nothing(here: Deployment) -> None:
    # The party declines: another type of event, which the hook's condition passes over.
    asked = await here.ask()
    await here.press(asked, "declined")
    assert await here.settled(1) == ["skipped"]
    assert (await here.reconcile())["selected"] == 0
    assert not asked.call.done()
    await here.give_up(asked)

    # An event of the right type with another decision is refused aloud, and held.
    await here.order(say="partial")
    asked = await here.ask()
    await here.press(asked)
    assert await here.settled(2) == ["skipped", "failed"]
    assert "only the decision confirmed" in (await here.hook_runs())[1]["last_error"]
    assert not asked.call.done()
    await here.order(say=None)

    # What the list says counts: a signed event is one way to learn of it, the list another.
    assert (await here.reconcile())["answered"] == 1
    assert await asked.result() == CONFIRMED

    # The pin has drifted from the request: a verdict on this one alone, and the question is as it was.
    drifted = json.loads((EXAMPLE / "preset.json").read_text()) | {"name": "drifted"}
    drifted["fixed_kwargs"]["answer_schema"]["properties"]["reference"]["const"] = "order-8"
    assert (await here.admin.post("/api/presets", json=drifted)).status_code == 201
    asked = await here.ask("drifted")
    await here.press(asked)
    assert (await here.settled(3))[2] == "failed"
    assert "answered 400" in (await here.hook_runs())[2]["last_error"]
    summary = await here.reconcile()
    assert (summary["selected"], summary["already_answered"], summary["rejected"]) == (2, 1, [asked.id])
    assert not asked.call.done()

    # Nobody waits any more: confirmed outside, and the agent never learns of it.
    await here.give_up(asked)
    summary = await here.reconcile()
    assert (summary["expired"], summary["rejected"]) == (1, [])
    shown = (await here.admin.get("/api/hook-runs", params={"status": "failed"})).json()["data"]["items"]
    held = [one["id"] for one in await here.hook_runs() if one["status"] == "failed"]
    assert len(held) == 2
    assert set(held) <= {one["id"] for one in shown}


async def test_what_no_event_told_is_found_in_the_list(here: Deployment) -> None:
    # An event that never comes.
    await here.order(drop=1)
    asked = await here.ask()
    await here.press(asked)
    assert (await here.outside.get("/control")).json()["heard"] == []
    # The outside system is slow to answer, and then it does.
    await here.order(throttle=2)
    assert await here.reconcile() == {
        "selected": 1,
        "answered": 1,
        "already_answered": 0,
        "expired": 0,
        "rejected": [],
        "failed": [],
    }
    assert await asked.result() == CONFIRMED

    # Again: one look at the database, and no post.
    before = await here.posts()
    assert (await here.reconcile())["already_answered"] == 1
    assert await here.posts() == before

    # An outage longer than the look-back: it has left every window, and a longer look finds it.
    await here.order(drop=1, backdate=30)
    asked = await here.ask()
    await here.press(asked)
    assert (await here.reconcile())["selected"] == 1
    assert not asked.call.done()
    assert (await here.reconcile(lookback_hours=48))["answered"] == 1
    assert await asked.result() == CONFIRMED
    for hours in (0, 169):
        refused = await here.reconcile(lookback_hours=hours)
        assert (refused["code"], refused["field"]) == ("bad-input", "lookback_hours")

    # While it is away nothing is decided about anything.
    await here.order(outage=True)
    failed = await here.reconcile()
    assert failed["code"] == "outside-refused"


async def test_a_bridge_with_another_secret_is_held_and_one_that_dies_answers_once(here: Deployment) -> None:
    await here.new_worker(TAI_BRIDGE_CALLBACK_SECRET="another one")
    asked = await here.ask()
    await here.press(asked)
    assert await here.settled(1) == ["failed"]
    [held] = await here.hook_runs()
    assert "the callback door answered 401" in held["last_error"]
    assert not asked.call.done()

    # Mended, and killed when the door has its answer and nobody knows it.
    await here.new_worker(pause="run.returned=kill")
    retried = await here.admin.post(f"/api/hook-runs/{held['id']}/retry")
    assert retried.status_code == 200, retried.text
    assert await asked.result() == CONFIRMED
    assert await here.worker.wait_ended(60) == -9

    # The next one finds the answer there, and that the hook has acted.
    await here.new_worker()
    assert await here.settled(1) == ["acted"]
    answers = await here.rows(
        "SELECT count(*) FROM rejoinder.event WHERE kind = 'interaction.answered' GROUP BY interaction_id"
    )
    assert {one["count"] for one in answers} == {1}
    await assert_sound(here.database_url)


async def test_a_dead_callback_route_shows_in_the_summary_and_to_the_doctor(here: Deployment) -> None:
    here.front.dead = True
    asked = await here.ask()
    await here.press(asked)
    # A route that is gone says 404, as a ticket does that is over: a verdict, and held at once.
    assert await here.settled(1) == ["failed"]
    [held] = await here.hook_runs()
    assert (held["last_error_kind"], "answered 404" in held["last_error"]) == ("conflict", True)
    # All of them expired, and none failed.
    summary = await here.reconcile()
    assert (summary["selected"], summary["expired"], summary["failed"]) == (1, 1, [])
    # What the dead route said back of the request is told to nobody.
    for path in ("/api/hook-runs?status=failed", "/api/tool-runs", "/api/notifications"):
        text = (await here.admin.get(path)).text
        assert not [one for one in (asked.ticket, BRIDGES_SECRET) if one in text]
    logs = "".join(one.read_text(errors="replace") for one in here.folder.glob("*.log"))
    assert not [one for one in (asked.ticket, BRIDGES_SECRET) if one in logs]

    # The doctor tells the one 404 from the other.
    doctor = here.start("doctor")
    assert await doctor.wait_ended(60) == 1
    assert "answered with 404, but not by a door of this" in " ".join(doctor.output().split())

    here.front.dead = False
    doctor = here.start("doctor")
    await doctor.wait_ended(60)
    assert "Callbacks at the public address reach a door" in " ".join(doctor.output().split())
    assert (await here.admin.post(f"/api/hook-runs/{held['id']}/retry")).status_code == 200
    assert await asked.result() == CONFIRMED
    assert await here.settled(1) == ["acted"]


async def test_a_server_without_the_bridges_secret_loses_no_confirmation(here: Deployment) -> None:
    await here.new_worker(HOOKS_RUN_MAX_ATTEMPTS="1")
    await here.new_server(TAI_BRIDGE_CALLBACK_SECRET="")
    asked, run_id = await here.start_run()
    await here.press(asked)
    # It cannot tell who asks, so it says neither yes nor no: the bridge tries as often as it does, then it is held.
    assert await here.settled(1) == ["failed"]
    [held] = await here.hook_runs()
    assert held["last_error_kind"] == "unavailable"
    assert "the callback door answered 500 each of 5 times" in held["last_error"]
    assert await here.posts() == 5
    assert "TAI_BRIDGE_CALLBACK_SECRET" in here.server.output()
    assert len(await here.rows("SELECT 1 FROM rejoinder.question WHERE state = 'pending'")) == 1

    # The operator sets it, and retries what is held.
    await here.new_server()
    assert (await here.admin.post(f"/api/hook-runs/{held['id']}/retry")).status_code == 200
    assert await here.settled(1) == ["acted"]

    async def ended() -> Any:
        run = (await here.admin.get(f"/api/tool-runs/{run_id}")).json()["data"]
        return run["status"] == "succeeded" and run["result"]

    assert await assert_eventually(ended, "the run did not go on", 60) == CONFIRMED
    await assert_sound(here.database_url)
