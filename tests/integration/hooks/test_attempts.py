"""What a hook makes of an event: it acts once, or is tried again, or is held and said to be."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID, uuid5

import pytest
from pydantic import AfterValidator

from rejoinder import RunTerminalFailed, Tool, ask, current_delivery, tool
from rejoinder.contract import pause
from rejoinder.contract.errors import NotReadyError
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.node import Node
from tests.integration.doors.edge import Edge
from tests.integration.hooks.events import becomes, bind, event, hook, hook_runs, outside, send
from tests.support import MovableClock, assert_eventually

TOPIC = "orders"


class Shop:
    """A tool of the test's own: what it was given, and what it does the next times."""

    def __init__(self, **options: Any) -> None:
        self.given: list[dict[str, Any]] = []
        self.verifiers: list[str | None] = []
        self.faults: list[Exception] = []

        async def ship(item: str = "nothing", n: int = 0) -> str:
            delivery = current_delivery()
            assert delivery is not None
            self.given.append({"item": item, "n": n, "event": delivery.payload})
            self.verifiers.append(delivery.verifier)
            if self.faults:
                raise self.faults.pop(0)
            return "shipped"

        self.tool: Tool = tool(name="ship", **options)(ship)


async def run_of(node: Node, hook_run: dict[str, Any]) -> dict[str, Any]:
    row = await node.database.row("SELECT * FROM rejoinder.run WHERE id = $1", hook_run["run_id"])
    assert row is not None
    return dict(row)


async def started(made: Edge, **registered: Any) -> None:
    """A bound topic with one hook on it, and a signed event that was accepted."""
    await bind(made.node, TOPIC)
    await hook(made.node, "bridge", TOPIC, "ship", **registered)
    assert (await send(made.anonymous(), TOPIC, event(item="lamp"))).json()["status"] == "accepted"


async def test_it_acts_once_as_its_keys_identity_and_its_tool_reads_the_kept_event(
    database_url: str, secret: str
) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:
        await started(made, start_expr="{item, n: 1}", tool_kwargs={"n": 2})
        [acted] = await becomes(made.node, "acted")
        run = await run_of(made.node, acted)
        assert (run["door"], run["identity"], run["state"]) == ("hooks", "owner", "succeeded")
        assert run["id"] == uuid5(acted["id"], "1")
        assert (acted["attempts"], acted["acted"], acted["acted_ids"]) == (1, True, [run["id"]])
        [given] = shop.given
        # The hook's own arguments are the strongest.
        assert (given["item"], given["n"], given["event"]["item"]) == ("lamp", 2, "lamp")
        assert shop.verifiers == ["stripe"]


async def test_without_a_start_expr_the_tool_is_passed_nothing(database_url: str, secret: str) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:
        await started(made)
        await becomes(made.node, "acted")
        assert shop.given[0]["item"] == "nothing"


RAISED = (RuntimeError("the author's own"), SystemExit("the author's own"), asyncio.CancelledError())


def _unchecked(value: int) -> int:
    raise RAISED[value]


@tool(name="ship")
async def unfit(n: Annotated[int, AfterValidator(_unchecked)]) -> str:
    return "shipped"


@pytest.mark.parametrize("n", range(len(RAISED)))
async def test_what_cannot_be_begun_for_a_fault_of_the_authors_is_counted_and_held(
    database_url: str, secret: str, n: int
) -> None:
    async with outside(
        database_url, unfit, hooks_run_max_attempts=2, hooks_run_retry_base_seconds=0.05
    ) as made:
        await started(made, tool_kwargs={"n": n})
        [held] = await becomes(made.node, "failed")
        assert (held["attempts"], held["last_error_kind"], held["run_id"]) == (2, "internal", None)
        assert "author" not in held["last_error"]


@pytest.mark.parametrize(
    "registered",
    [
        {"condition": '.type == "other"'},
        {"condition": ".absent"},
        {"condition": "empty"},
        {"start_expr": "null"},
        {"start_expr": "empty"},
        {"condition": '.type == "other"', "start_expr": "error"},
    ],
    ids=str,
)
async def test_a_hook_may_start_nothing(database_url: str, secret: str, registered: dict[str, str]) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:
        await started(made, **registered)
        [skipped] = await becomes(made.node, "skipped")
        assert (skipped["acted"], skipped["run_id"], shop.given) == (False, None, [])


@pytest.mark.parametrize(
    ("registered", "kind"),
    [
        ({"start_expr": "[1]"}, "bad_input"),
        ({"start_expr": '{n: "many"}'}, "bad_input"),
        ({"start_expr": ".type.x"}, "bad_input"),
        ({"condition": "error(1)"}, "bad_input"),
        ({"tool_kwargs": {"unknown": 1}}, "bad_input"),
    ],
    ids=str,
)
async def test_what_would_come_to_the_same_again_is_held_at_once(
    database_url: str, secret: str, registered: dict[str, Any], kind: str
) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:
        await started(made, **registered)
        [failed] = await becomes(made.node, "failed")
        assert (failed["last_error_kind"], failed["attempts"], failed["acted"]) == (kind, 1, False)
        assert shop.given == []
        told = (await made.owner.get("/api/notifications?unresolved=true")).json()["data"]["items"]
        assert [(one["kind"], one["about"]) for one in told] == [("hooks_run_failed", str(failed["id"]))]
        trail = (await made.owner.get("/api/audit?kind=hook.failed")).json()["data"]["items"]
        assert [(one["reason"], one["detail"]["hook_run"]) for one in trail] == [(kind, str(failed["id"]))]


async def test_an_unknown_tool_and_a_key_that_is_gone_fail_their_own_hook_only(
    database_url: str, secret: str
) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:
        await bind(made.node, TOPIC)
        key, _ = await made.node.access.create_key(name="gone", grants=["write"], by=LOCAL_OWNER)
        await hook(made.node, "a-revoked", TOPIC, "ship", key_id=key.id)
        await made.node.access.revoke_key("gone", by=LOCAL_OWNER)
        # A key of the same name is not the key that the hook was bound to.
        await made.node.access.create_key(name="gone", grants=["write"], by=LOCAL_OWNER)
        await hook(made.node, "b-unknown", TOPIC, "nobodys_tool")
        await hook(made.node, "c-good", TOPIC, "ship")
        await send(made.anonymous(), TOPIC, event())
        await becomes(made.node, "acted")
        failed = await becomes(made.node, "failed", 2)
        assert [(one["hook"], one["last_error_kind"]) for one in failed] == [
            ("a-revoked", "unauthorized"),
            ("b-unknown", "not_found"),
        ]
        assert len(shop.given) == 1


async def test_a_hook_without_a_key_runs_nothing(database_url: str, secret: str) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:

        async def keyless() -> None:
            # Such as one that came back from an old backup.
            await made.node.database.execute("UPDATE rejoinder.hook SET key_id = NULL, execution_key = NULL")

        pause.arm("hook.taken", keyless)
        await started(made)
        [failed] = await becomes(made.node, "failed")
        assert (failed["last_error_kind"], shop.given) == ("unauthorized", [])


async def test_the_ladder_of_attempts(database_url: str, secret: str, clock: MovableClock) -> None:
    shop = Shop()
    shop.faults = [ValueError("down")] * 9
    async with outside(database_url, shop.tool) as made:
        now = await clock.hold()
        await bind(made.node, TOPIC)
        await hook(made.node, "bridge", TOPIC, "ship")
        await send(made.anonymous(), TOPIC, event(), at=int(now.timestamp()))
        for attempt, delay in enumerate((10, 20, 40, 80), 1):

            async def waits(attempt: int = attempt) -> dict[str, Any] | None:
                [one] = await hook_runs(made.node)
                ready = one["attempts"] == attempt and one["run_id"] is None
                return one if ready and one["claimed_by"] is None else None

            one = await assert_eventually(waits, f"attempt {attempt} did not fail")
            assert one is not None
            assert len(shop.given) == attempt
            assert one["last_error_kind"] == "internal"
            assert (one["next_attempt_at"] - await clock.now()).total_seconds() == delay
            await clock.advance(delay)
        [failed] = await becomes(made.node, "failed")
        assert (failed["attempts"], len(failed["acted_ids"]), len(shop.given)) == (5, 5, 5)
        assert "ValueError" in failed["last_error"]
        assert "down" not in failed["last_error"]
        # An operator mends the tool and lets it try: the ladder begins anew.
        shop.faults = [ValueError("still")]
        answer = await made.owner.post(f"/api/hook-runs/{failed['id']}/retry")
        assert answer.status_code == 200

        async def tried() -> bool:
            [one] = await hook_runs(made.node)
            return one["attempts"] == 6 and one["run_id"] is None and one["claimed_by"] is None

        await assert_eventually(tried)
        await clock.advance(10)
        [acted] = await becomes(made.node, "acted")
        assert (acted["attempts"], acted["last_error"]) == (7, None)
        left = (await made.owner.get("/api/notifications?unresolved=true")).json()["data"]["items"]
        assert left == []


async def test_a_tool_that_means_its_failure_is_not_tried_again(database_url: str, secret: str) -> None:
    shop = Shop()
    shop.faults = [RunTerminalFailed("the order was cancelled")]
    async with outside(database_url, shop.tool) as made:
        await started(made)
        [failed] = await becomes(made.node, "failed")
        assert (failed["last_error_kind"], failed["last_error"]) == ("failed", "the order was cancelled")
        assert len(shop.given) == 1


async def test_a_run_that_parks_has_acted_and_goes_on_as_any_other(database_url: str, secret: str) -> None:
    seen: list[str] = []

    @tool
    async def approve() -> Any:
        from datetime import UTC, datetime, timedelta

        return await ask(
            "Ship it?",
            answer_format="confirm",
            mode="async",
            expiry_at=datetime.now(UTC) + timedelta(hours=1),
        )

    @approve.continuation
    async def go_on(ask_result: Any) -> str:
        delivery = current_delivery()
        seen.append("" if delivery is None else delivery.topic)
        return f"answered {ask_result.answer}"

    async with outside(database_url, approve) as made:
        await bind(made.node, TOPIC)
        await hook(made.node, "bridge", TOPIC, "approve")
        await send(made.anonymous(), TOPIC, event())

        async def parked() -> dict[str, Any] | None:
            found = await hook_runs(made.node)
            return found[0] if found and found[0]["acted"] else None

        one = await assert_eventually(parked)
        assert one is not None
        assert (one["status"], one["next_attempt_at"]) == ("outstanding", None)
        [question] = await made.open_ids()
        answer = await made.owner.post(f"/api/interactions/{question}/answer", json={"answer": True})
        assert answer.status_code == 200
        await becomes(made.node, "acted")
        assert seen == [TOPIC]


async def test_a_run_whose_question_is_withdrawn_is_held(database_url: str, secret: str) -> None:
    @tool
    async def approve() -> Any:
        from datetime import UTC, datetime, timedelta

        return await ask(
            "Ship it?",
            answer_format="confirm",
            mode="async",
            expiry_at=datetime.now(UTC) + timedelta(hours=1),
        )

    @approve.continuation
    async def go_on(ask_result: Any) -> None: ...

    async with outside(database_url, approve) as made:
        await bind(made.node, TOPIC)
        await hook(made.node, "bridge", TOPIC, "approve")
        await send(made.anonymous(), TOPIC, event())
        await assert_eventually(made.open_ids)

        async def parked() -> bool:
            return bool((await hook_runs(made.node))[0]["acted"])

        await assert_eventually(parked)
        [question] = await made.open_ids()
        assert (await made.owner.post(f"/api/interactions/{question}/cancel")).status_code == 200
        [failed] = await becomes(made.node, "failed")
        assert (failed["last_error_kind"], failed["acted"]) == ("cancelled", True)


async def test_a_resumed_run_that_fails_can_only_be_discarded_here(database_url: str, secret: str) -> None:
    @tool
    async def approve() -> Any:
        from datetime import UTC, datetime, timedelta

        return await ask(
            "Ship it?",
            answer_format="confirm",
            mode="async",
            expiry_at=datetime.now(UTC) + timedelta(hours=1),
        )

    broken = True

    @approve.continuation
    async def go_on(ask_result: Any) -> str:
        if broken:
            raise ValueError("half done")
        return "done"

    async with outside(database_url, approve) as made:
        await bind(made.node, TOPIC)
        for name in ("one", "two"):
            await hook(made.node, name, TOPIC, "approve")
        await send(made.anonymous(), TOPIC, event())

        async def both() -> bool:
            rows = await made.node.database.rows("SELECT FROM rejoinder.run WHERE state = 'parked'")
            return len(rows) == 2

        await assert_eventually(both)
        for question in await made.open_ids():
            await made.owner.post(f"/api/interactions/{question}/answer", json={"answer": True})
        first, second = await becomes(made.node, "failed", 2)
        assert {one["claim_intent"] for one in (first, second)} == {"resume"}
        refused = await made.owner.post(f"/api/hook-runs/{first['id']}/retry")
        assert refused.status_code == 409
        # Its run is held too. Who retries that takes the hook run along.
        broken = False
        assert (await made.owner.post(f"/api/tool-runs/{first['run_id']}/retry")).status_code == 200
        await becomes(made.node, "acted")
        assert (await made.owner.delete(f"/api/hook-runs/{second['id']}")).status_code == 200
        await becomes(made.node, "discarded")
        assert not (await run_of(made.node, second))["held"]


async def test_a_hook_that_is_deleted_or_moved_meanwhile_starts_nothing(
    database_url: str, secret: str
) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:

        async def rewritten() -> None:
            pause.disarm("hook.evaluated")
            await made.node.database.execute("DELETE FROM rejoinder.hook")

        pause.arm("hook.evaluated", rewritten)
        await started(made)
        await becomes(made.node, "skipped")
        assert shop.given == []


async def test_a_hook_that_is_rewritten_meanwhile_is_looked_at_again(database_url: str, secret: str) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:

        async def rewritten() -> None:
            pause.disarm("hook.evaluated")
            await hook(made.node, "bridge", TOPIC, "ship", tool_kwargs={"item": "new"})

        pause.arm("hook.evaluated", rewritten)
        await started(made, tool_kwargs={"item": "old"})
        await becomes(made.node, "acted")
        assert [one["item"] for one in shop.given] == ["new"]


async def test_two_that_look_at_one_hook_run_start_it_once(database_url: str, secret: str) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:
        both = asyncio.Barrier(2)

        async def together() -> None:
            # Whoever took it is slow, and another one takes it too.
            await made.node.database.execute(
                "UPDATE rejoinder.hook_run SET next_attempt_at = rejoinder.clock()"
            )
            await both.wait()

        pause.arm("hook.evaluated", together)
        await started(made)
        [acted] = await becomes(made.node, "acted")
        assert (acted["attempts"], len(shop.given)) == (1, 1)


@pytest.mark.parametrize("point", ["hook.taken", "hook.evaluated", "hook.started", "hook.judging"])
async def test_a_fault_at_any_point_loses_and_doubles_nothing(
    database_url: str, secret: str, point: str
) -> None:
    shop = Shop()
    shop.faults = [ValueError("once")]
    async with outside(
        database_url, shop.tool, hooks_run_lease_seconds=0.2, hooks_run_retry_base_seconds=0.1
    ) as made:

        async def away() -> None:
            pause.disarm(point)
            raise NotReadyError("gone")

        pause.arm(point, away)
        await started(made)
        [acted] = await becomes(made.node, "acted")
        assert (acted["attempts"], len(shop.given)) == (2, 2)


async def test_only_those_who_see_the_deployment_see_its_hook_runs(database_url: str, secret: str) -> None:
    shop = Shop()
    shop.faults = [RunTerminalFailed("no")]
    async with outside(database_url, shop.tool) as made:
        await started(made)
        [failed] = await becomes(made.node, "failed")
        reader = await made.client("reader", "read")
        owned = await made.client("owned", "read", "write", owner="owner")
        page = (await reader.get("/api/hook-runs?status=failed")).json()["data"]
        assert (page["failed"], page["outstanding"], page["next_cursor"]) == (1, 0, None)
        assert page["items"][0]["id"] == str(failed["id"])
        assert "lamp" not in str(page)
        for path in ("/api/hook-runs", "/api/notifications"):
            assert (await owned.get(path)).status_code == 403
        assert (await reader.post(f"/api/hook-runs/{failed['id']}/retry")).status_code == 403
        assert (await made.owner.delete(f"/api/hook-runs/{failed['id']}")).status_code == 200
        for act in (
            made.owner.delete(f"/api/hook-runs/{failed['id']}"),
            made.owner.post(f"/api/hook-runs/{failed['id']}/retry"),
        ):
            assert (await act).status_code == 409
        assert (await made.owner.delete(f"/api/hook-runs/{UUID(int=1)}")).status_code == 404


async def test_the_list_is_paged(database_url: str, secret: str) -> None:
    async with outside(database_url, worker=False) as made:
        await bind(made.node, TOPIC)
        for n in range(5):
            await hook(made.node, f"h{n}", TOPIC, "ship")
        await send(made.anonymous(), TOPIC, event())
        names: list[str] = []
        cursor = ""
        while True:
            page = (await made.owner.get(f"/api/hook-runs?limit=2{cursor}")).json()["data"]
            names += [one["hook"] for one in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert sorted(names) == [f"h{n}" for n in range(5)]
        bad = await made.owner.get("/api/hook-runs?cursor=nonsense")
        assert (bad.status_code, bad.json()["field"]) == (400, "cursor")


async def test_what_is_done_is_forgotten_in_time_and_what_is_not_stays(
    database_url: str, secret: str, clock: MovableClock
) -> None:
    shop = Shop()
    async with outside(database_url, shop.tool) as made:
        await started(made)
        await hook(made.node, "open", "open", "ship")
        await hook(made.node, "held", "held", "ship", start_expr="1")
        for topic in ("open", "held"):
            await made.anonymous().post(f"/universal_webhook/{topic}", content=b"{}")
        await becomes(made.node, "acted", 2)
        [held] = await becomes(made.node, "failed")

        async def left() -> list[str]:
            await made.node.kept.prune(verified=7 * 86_400, open_ones=86_400)
            return [one["hook"] for one in await hook_runs(made.node)]

        assert await left() == ["bridge", "held", "open"] or len(await left()) == 3
        await clock.advance(2 * 86_400)
        assert sorted(await left()) == ["bridge", "held"]
        await clock.advance(6 * 86_400)
        assert await left() == ["held"]
        await made.owner.delete(f"/api/hook-runs/{held['id']}")
        assert await left() == []
