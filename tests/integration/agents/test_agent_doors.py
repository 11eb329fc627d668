"""Agents over HTTP: listed, run while they tell what they do, left alone, asked for by those who may not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx2
import pytest

from rejoinder.doors import blocking
from rejoinder.runs.agent import Agent, ModelSpec
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from rejoinder.tools.interactions import ask_tool
from tests.integration.agents.support import agent, asking, subagent
from tests.integration.core.support import assert_sound, in_an_hour, run_reaches, the_question
from tests.integration.doors.edge import Edge, edge, served
from tests.integration.nodes import ANN
from tests.live.rig.model import Model, fail, hold, prompt, say
from tests.live.rig.model import tool as call
from tests.support import assert_eventually

Frame = tuple[str, dict[str, Any]]


async def frames(response: httpx2.Response) -> AsyncIterator[Frame]:
    event = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            event = line[7:]
        elif line.startswith("data: "):
            yield event, json.loads(line[6:])


async def told(
    e: Edge, name: str, message: str, who: httpx2.AsyncClient | None = None, **more: Any
) -> list[Frame]:
    """Everything that a run tells until the stream ends."""
    path = f"/api/agents/{name}/run"
    async with (who or e.owner).stream("POST", path, json={"message": message, **more}) as response:
        if response.status_code != 200:
            raise AssertionError((await response.aread()).decode())
        assert response.headers["content-type"].startswith("text/event-stream")
        found = [frame async for frame in frames(response)]
    assert {body["run_id"] for _, body in found} == {response.headers["x-rejoinder-run-id"]}
    return found


@tool
async def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


async def test_what_it_does_is_told_as_it_happens(database_url: str, model: Model) -> None:
    said = prompt(say("Let me see.", tools=[call("double", number=4)]), say("It ", "is 8."))
    async with served(database_url, agent(double, name="adder")) as e:
        found = await told(e, "adder", said)
        kinds = [kind for kind, _ in found]
        assert kinds[0] == "started"
        assert kinds[-1] == "final"
        assert "".join(body["text"] for kind, body in found if kind == "text") == "Let me see.It is 8."
        [made] = [body for kind, body in found if kind == "tool_call"]
        [done] = [body for kind, body in found if kind == "tool_result"]
        assert (made["name"], made["arguments"], made["depth"]) == ("double", {"number": 4}, 0)
        assert (done["id"], done["content"], done["failed"]) == (made["id"], "8", False)
        assert found[-1][1] == {"run_id": found[0][1]["run_id"], "kind": "result", "result": "It is 8."}
        shown = (await e.owner.get(f"/api/tool-runs/{found[0][1]['run_id']}")).json()["data"]
        assert (shown["status"], shown["result"], shown["tool_name"]) == ("succeeded", "It is 8.", "adder")


async def test_it_ends_where_it_waits_and_the_run_goes_on(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[asking("Ship it?", answer_format="confirm")]), say("Shipped."))
    async with served(database_url, agent(ask_tool), worker=True) as e:
        found = await told(e, "helper", said)
        kind, waits = found[-1]
        assert kind == "suspended"
        assert [q["question"] for q in waits["questions"]] == ["Ship it?"]
        [identifier] = waits["tai42:suspended_interaction"]["interaction_ids"]
        answered = await e.owner.post(f"/api/interactions/{identifier}/answer", json={"answer": True})
        assert answered.status_code == 200
        await run_reaches(e.node, UUID(waits["run_id"]), "succeeded")
        await assert_sound(database_url)


async def test_who_follows_sees_it_go_on_elsewhere(database_url: str, model: Model) -> None:
    """The stream is at a server; the run is carried on by a worker, twice."""
    said = prompt(say(tools=[asking("First?")]), say(tools=[asking("Second?")]), say("Both told."))
    async with served(database_url, agent(ask_tool), worker=True) as e:
        body = {"message": said, "follow": True}
        seen: list[str] = []
        async with e.owner.stream("POST", "/api/agents/helper/runs", json=body) as response:
            async for kind, frame in frames(response):
                if kind == "suspended":
                    [question] = frame["questions"]
                    seen.append(question["question"])
                    path = f"/api/interactions/{question['interaction_id']}/answer"
                    assert (await e.owner.post(path, json={"answer": "x"})).status_code == 200
                last = kind, frame
        assert seen == ["First?", "Second?"]
        assert (last[0], last[1]["result"]) == ("final", "Both told.")


async def test_the_authored_ones_have_a_door_of_their_own(database_url: str, model: Model) -> None:
    """What is a graph of its own code is none of them; what is no agent is found at neither."""
    coded = Agent("coded", graph=lambda: None)
    async with served(database_url, agent(double), coded, double) as e:
        listed = (await e.owner.get("/api/agents/spec-runnable")).json()["data"]["items"]
        assert {one["name"]: one["authored"] for one in listed} == {"helper": True, "coded": False}
        path = "/api/agents/authored/helper/runs"
        async with e.owner.stream("POST", path, json={"message": prompt(say("Done."))}) as response:
            assert response.status_code == 200
            assert [frame async for frame in frames(response)][-1][1]["result"] == "Done."
        for name in ("coded", "double", "nobody"):
            refused = await e.owner.post(f"/api/agents/authored/{name}/runs", json={"message": "go"})
            assert (refused.status_code, refused.json()["code"]) == (404, "agent-not-found")
        wrong = await e.owner.post(path, json={"message": 1})
        assert (wrong.status_code, wrong.json()["field"]) == (400, "message")


async def test_what_it_asks_its_caller_is_told_and_resumed(database_url: str, model: Model) -> None:
    @tool
    async def look_up(what: str) -> Any:
        """Ask whoever called for a fact."""
        return await ask(
            to="caller", mode="async", payload={"fact": what}, answer_format="free", expiry_at=in_an_hour()
        )

    said = prompt(say(tools=[call("look_up", what="size"), call("look_up", what="colour")]), say("Known."))
    async with served(database_url, agent(look_up), worker=True) as e:
        kind, waits = (await told(e, "helper", said))[-1]
        assert (kind, waits["questions"]) == ("suspended", [])
        by_fact = {one["payload"]["fact"]: one["interaction_id"] for one in waits["asks"]}
        resumed = await e.owner.post(
            f"/api/tool-runs/{waits['run_id']}/resume",
            json={"answers": {by_fact["size"]: "L", by_fact["colour"]: {"hex": "f00"}}, "wait_seconds": 60},
        )
        assert resumed.json()["data"] == {"kind": "result", "result": "Known."}
        given = [m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"]
        assert ['"L"' in given[0], '"f00"' in given[1]] == [True, True]


async def test_who_leaves_cancels_what_is_going(database_url: str, model: Model) -> None:
    async with served(database_url, agent(double)) as e:

        async def listen() -> None:
            await told(e, "helper", prompt(say("One ", hold("middle"), "two.")))

        going = asyncio.create_task(listen())
        await model.held("middle")
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)

        async def cancelled() -> bool:
            return [run.state for run in await e.node.run_service.newest(by=ANN)] == ["cancelled"]

        await assert_eventually(cancelled, "the run was left")
        model.release("middle")


async def test_whose_key_is_revoked_is_told_no_more(
    database_url: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "LOOK_AGAIN", 0.05)
    async with served(database_url, agent(double)) as e, await e.client("sue", "write") as sue:
        telling = asyncio.create_task(told(e, "helper", prompt(say("One ", hold("middle"), "two.")), sue))
        await model.held("middle")
        assert (await e.owner.delete("/api/keys/sue")).status_code == 200
        kind, body = (await telling)[-1]
        assert (kind, body["code"]) == ("error", "unauthenticated")
        assert [run.state for run in await e.node.run_service.newest(by=ANN)] == ["cancelled"]
        model.release("middle")


async def test_a_failure_is_told_without_its_insides(database_url: str, model: Model) -> None:
    async with served(database_url, agent(double)) as e:
        found = await told(e, "helper", prompt(fail(500, "the model's own secret words")))
        kind, body = found[-1]
        assert kind == "error"
        assert body["code"] == "tool-failed"
        assert "secret words" not in json.dumps(found)


async def test_they_are_listed(database_url: str, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Agent("lacking", model=ModelSpec("openai:x", api_key_env="NO_SUCH_KEY"))
    deep = agent(double, name="chief", subagents=(subagent("clerk", ask_tool),))
    async with edge(database_url, double, deep, lacking) as e:
        listed = {one["name"]: one for one in (await e.owner.get("/api/agents")).json()["data"]["items"]}
        assert set(listed) == {"chief", "lacking"}
        assert listed["chief"]["kind"] == "deep"
        assert listed["chief"]["tools"] == ["double"]
        assert [(s["name"], s["tools"]) for s in listed["chief"]["subagents"]] == [("clerk", ["ask"])]
        found = (await e.owner.get("/api/agents/spec-runnable")).json()["data"]["items"]
        assert found == [
            {"name": "chief", "runnable": True, "lacking": None, "authored": True},
            {
                "name": "lacking",
                "runnable": False,
                "lacking": "the environment variable NO_SUCH_KEY is not set",
                "authored": True,
            },
        ]
        refused = await e.owner.post("/api/agents/lacking/run", json={"message": "go"})
        assert (refused.status_code, refused.json()["code"]) == (501, "agent-not-runnable")


@pytest.mark.parametrize(
    ("name", "body", "status", "field"),
    [
        ("nobody", {"message": "go"}, 404, None),
        ("double", {"message": "go"}, 404, None),
        ("helper", {}, 400, "message"),
        ("helper", {"message": ""}, 400, "message"),
        ("helper", {"message": 1}, 400, "message"),
        ("helper", {"message": "go", "follow": "yes"}, 400, "follow"),
        ("helper", {"message": "go", "tools": []}, 400, "tools"),
        ("helper", [], 400, None),
    ],
)
async def test_what_cannot_be_run_is_refused_before_anything_is_told(
    database_url: str, model: Model, name: str, body: Any, status: int, field: str | None
) -> None:
    async with edge(database_url, double, agent(double)) as e:
        refused = await e.owner.post(f"/api/agents/{name}/run", json=body)
        assert refused.status_code == status, refused.text
        if field is not None:
            assert refused.json()["field"] == field
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.run") == 0
        assert model.asked == []


async def test_it_takes_the_grants_that_tools_take(database_url: str, model: Model) -> None:
    async with edge(database_url, agent(ask_tool), worker=True) as e:
        reader, owned = (
            await e.client("reader", "read"),
            await e.client("owned", "read", "write", owner="owner"),
        )
        async with reader, owned:
            for who, status in ((reader, 403), (e.anonymous(), 401)):
                refused = await who.post("/api/agents/helper/run", json={"message": "go"})
                assert refused.status_code == status
            assert (await reader.get("/api/agents")).status_code == 200
            # An owned key's agent asks that key alone.
            said = prompt(say(tools=[asking("Mine?")]), say("Told."))
            _, waits = (await told(e, "helper", said, owned))[-1]
            question = await the_question(e.node)
            assert question.audience == "owned"
            assert [q["interaction_id"] for q in waits["questions"]] == [str(question.id)]
