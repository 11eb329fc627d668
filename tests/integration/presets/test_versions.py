"""Which version a run is carried on with: the one that it began with, whatever was saved, renamed or deleted since."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from rejoinder import call_tool
from rejoinder.contract.errors import ToolArgumentError, ToolNotFoundError
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.node import Node
from rejoinder.presets.tool import PresetTool
from rejoinder.runs.agent import LatePreset
from rejoinder.runs.tools import tool
from tests.integration.agents.support import agent, finished
from tests.integration.core.support import run_reaches, the_question
from tests.integration.nodes import ANN, BOB, running
from tests.integration.presets.tools import ALL
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call
from tests.support import assert_eventually

SIGN: dict[str, Any] = {
    "name": "sign_lease",
    "base_tool": "sign_off",
    "description": "Have the lease signed.",
    "fixed_kwargs": {"reference": "one"},
}


async def create(node: Node, **changes: Any) -> None:
    await node.presets.create(SIGN | changes, by=LOCAL_OWNER)


async def save(node: Node, name: str = "sign_lease", **changes: Any) -> None:
    await node.presets.save(name, changes, by=LOCAL_OWNER)


async def answered(node: Node, run_id: UUID, answer: Any = True) -> Any:
    question = await the_question(node)
    await node.asks.answer(question.id, answer, by=BOB, via="test")
    return await finished(node, run_id)


async def test_a_parked_run_goes_on_with_the_version_that_it_began_with(database_url: str) -> None:
    async with running(database_url, *ALL, worker=True) as node:
        await create(node, output_map="{v: 1, reference}")
        run_id = await node.run_service.start_background("sign_lease", {"document": "lease"}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        await save(node, fixed_kwargs={"reference": "two"}, output_map="{v: 2, reference}")
        assert await answered(node, run_id) == {"v": 1, "reference": "one"}
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.arguments == {"document": "lease"}


async def test_a_run_of_a_call_that_parks_does_too(database_url: str) -> None:
    async with running(database_url, *ALL, worker=True) as node:
        await create(node)
        result = await node.run_service.call("sign_lease", {"document": "lease"}, by=ANN, door="test")
        assert result.kind == "parked"
        await save(node, fixed_kwargs={"reference": "two"})
        done = await answered(node, result.run_id)
        assert done == {"signed": True, "document": "lease", "reference": "one"}


@pytest.mark.parametrize("what", ["renamed", "deleted"])
async def test_a_preset_that_is_gone_still_carries_its_runs_on(database_url: str, what: str) -> None:
    async with running(database_url, *ALL, worker=True) as node:
        await create(node)
        run_id = await node.run_service.start_background("sign_lease", {"document": "lease"}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        if what == "renamed":
            await node.presets.rename("sign_lease", {"new_name": "other"}, by=LOCAL_OWNER)
        else:
            await node.presets.delete("sign_lease", by=LOCAL_OWNER)
            # Another one of the name: it has nothing to do with that run.
            await create(node, fixed_kwargs={"reference": "another"})
        assert (await answered(node, run_id))["reference"] == "one"


async def test_a_run_that_no_worker_has_taken_yet_keeps_the_version_that_was_accepted(
    database_url: str,
) -> None:
    async with running(database_url, *ALL) as node:
        await create(node, name="pay_one", base_tool="pay", fixed_kwargs={"amount": 1})
        run_id = await node.run_service.start_background("pay_one", {}, by=ANN)
        await node.presets.delete("pay_one", by=LOCAL_OWNER)
        # Another one of the name: nobody asked for it.
        await create(node, name="pay_one", base_tool="pay", fixed_kwargs={"amount": 1000})
    async with running(database_url, *ALL, worker=True) as node:
        assert (await finished(node, run_id))["amount"] == 1


async def test_a_worker_that_takes_a_run_over_uses_what_the_first_one_began_with(database_url: str) -> None:
    tried: list[str] = []

    @tool(idempotent=True)
    async def flaky(reference: str) -> str:
        """Fails at first."""
        tried.append(reference)
        if len(tried) == 1:
            await save(node, "flaky_one", fixed_kwargs={"reference": "two"})
            raise RuntimeError("once more")
        return reference

    async with running(database_url, flaky, worker=True) as node:
        await create(node, name="flaky_one", base_tool="flaky")
        run_id = await node.run_service.start_background("flaky_one", {}, by=ANN)
        assert await finished(node, run_id) == "one"
        assert tried == ["one", "one"]
        again = await node.run_service.call("flaky_one", {}, by=ANN, door="test")
        assert again.result == "two"


async def test_every_process_binds_what_one_of_them_saved(database_url: str) -> None:
    async with running(database_url, *ALL) as first, running(database_url, *ALL) as second:
        await create(first)

        def number(node: Node) -> int:
            found = node.registry.get("sign_lease") if "sign_lease" in node.registry else None
            return found.number if isinstance(found, PresetTool) else 0

        await assert_eventually(lambda: number(second) == 1)
        await save(first, description="Two.")
        assert number(first) == 2
        await assert_eventually(lambda: number(second) == 2)
        await first.presets.roll_back("sign_lease", {"version": 1}, by=LOCAL_OWNER)
        await assert_eventually(lambda: number(second) == 1)
        await second.presets.delete("sign_lease", by=LOCAL_OWNER)
        await assert_eventually(lambda: number(first) == 0)


async def test_two_that_save_at_once_make_two_versions(database_url: str) -> None:
    async with running(database_url, *ALL) as first, running(database_url, *ALL) as second:
        await create(first)
        saving = (save(node, description=f"By {i}.") for i, node in enumerate([first, second, first, second]))
        await asyncio.gather(*saving)
        numbers = [one.number for one in await first.presets.versions("sign_lease")]
        assert numbers == [5, 4, 3, 2, 1]


async def test_a_preset_without_its_base_is_quarantined_and_comes_back(database_url: str) -> None:
    async with running(database_url, *ALL) as node:
        await create(node)
        await create(node, name="pay_one", base_tool="pay", fixed_kwargs={"amount": 1})

    @tool
    def taken() -> None:
        """A tool of a later manifest."""

    @tool(name="pay")
    def changed(amount: str) -> str:
        """Its argument is another one by now."""
        return amount

    async with running(database_url, changed) as node:
        listed = {one.row.name: one.quarantine for one in await node.presets.page()}
        assert listed["sign_lease"] == "no tool named sign_off is exposed"
        assert "amount" in str(listed["pay_one"])
        assert "sign_lease" not in node.registry
        with pytest.raises(ToolNotFoundError):
            await node.run_service.call("sign_lease", {"document": "x"}, by=ANN, door="test")
    taken.name = "sign_lease"
    async with running(database_url, *ALL, taken) as node:
        listed = {one.row.name: one.quarantine for one in await node.presets.page()}
        assert listed == {"pay_one": None, "sign_lease": "the manifest exposes a tool of this name"}
        assert node.registry.get("sign_lease") is taken
    async with running(database_url, *ALL) as node:
        assert [one.quarantine for one in await node.presets.page()] == [None, None]
        result = await node.run_service.call("pay_one", {}, by=ANN, door="test")
        assert result.result["amount"] == 1


async def test_a_row_that_nobody_could_have_saved_stops_nothing(database_url: str) -> None:
    async with running(database_url, *ALL) as node:
        await create(node)
        await create(node, name="broken")
        await node.database.execute(
            """UPDATE rejoinder.preset_version v SET document = '{"base_tool": 7}'
               FROM rejoinder.preset p WHERE p.id = v.preset_id AND p.name = 'broken'"""
        )
    async with running(database_url, *ALL) as node:
        assert "sign_lease" in node.registry
        assert "broken" not in node.registry
        with pytest.raises(Exception, match="preset of this name"):
            await create(node, name="broken")


async def test_an_approval_shows_what_is_fixed_and_lets_nobody_change_it(database_url: str) -> None:
    async with running(database_url, *ALL, worker=True) as node:
        await create(node, name="wire_rent", base_tool="wire", fixed_kwargs={"account": "CH12"})
        for edited, end in (({"account": "CH12", "amount": 8}, "succeeded"), (None, "succeeded")):
            run_id = await node.run_service.start_background("wire_rent", {"amount": 7}, by=ANN)
            await run_reaches(node, run_id, "parked", "failed")
            question = await the_question(node)
            payload = question.format_payload
            assert payload is not None
            assert payload["arguments"] == {"amount": 7, "account": "CH12"}
            answer = {"decision": "approve", "digest": payload["digest"]}
            for bad in ({"account": "XX", "amount": 8}, {"amount": 8}):
                with pytest.raises(Exception, match="account"):
                    await node.asks.answer(question.id, answer | {"arguments": bad}, by=BOB, via="test")
            if edited is not None:
                answer["arguments"] = edited
            await node.asks.answer(question.id, answer, by=BOB, via="test")
            assert await run_reaches(node, run_id, "succeeded", "failed") == end
            run = await node.runs.by_id(run_id)
            assert run is not None
            assert run.result == {"account": "CH12", "amount": 8 if edited else 7}


async def test_another_tool_calls_a_preset_and_cannot_give_what_it_fixes(database_url: str) -> None:
    @tool(name="outer_tool")
    async def calling(give: bool) -> Any:
        """Calls the preset."""
        return await call_tool("pay_one", {"amount": 2} if give else {})

    async with running(database_url, *ALL, calling) as node:
        await create(node, name="pay_one", base_tool="pay", fixed_kwargs={"amount": 1})
        good = await node.run_service.call("outer_tool", {"give": False}, by=ANN, door="test")
        assert good.result["amount"] == 1
        with pytest.raises(ToolArgumentError, match="fixed"):
            await node.run_service.call("outer_tool", {"give": True}, by=ANN, door="test")


async def test_an_agent_is_given_the_version_that_counts_and_its_calls_keep_theirs(
    database_url: str, model: Model
) -> None:
    said = prompt(say(tools=[call("sign_lease", document="lease")]), say("Done."))
    helper = agent(LatePreset("sign_lease"))
    async with running(database_url, helper, *ALL, worker=True) as node:
        missing = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        assert await run_reaches(node, missing, "failed", "succeeded") == "failed"
        await create(node)
        assert await node.presets.referees("sign_lease") == [("agent", "helper")]
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        await save(node, fixed_kwargs={"reference": "two"})
        assert await answered(node, run_id) == "Done."
        assert '"reference": "one"' in model.asked[-1].body["messages"][-1]["content"]
        offered = model.asked[-1].body["tools"][0]["function"]
        assert list(offered["parameters"]["properties"]) == ["document"]


async def test_what_an_agent_or_a_hook_names_is_neither_renamed_nor_deleted(database_url: str) -> None:
    async with running(database_url, agent(LatePreset("sign_lease")), *ALL) as node:
        await create(node)
        with pytest.raises(Exception, match="agent helper"):
            await node.presets.delete("sign_lease", by=LOCAL_OWNER)
        await create(node, name="pay_one", base_tool="pay", fixed_kwargs={})
        await node.database.execute(
            """INSERT INTO rejoinder.hook (name, topic, tool, created_at, created_by, updated_at, updated_by)
               VALUES ('rent', 'rent', 'pay_one', now(), 'x', now(), 'x')"""
        )
        assert await node.presets.referees("pay_one") == [("hook", "rent")]
        with pytest.raises(Exception, match="hook rent"):
            await node.presets.rename("pay_one", {"new_name": "other"}, by=LOCAL_OWNER)
