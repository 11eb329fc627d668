"""The main job over HTTP: a blocked call, and the door that answers it."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.doors.edge import Asked, Edge, edge
from tests.support import MovableClock

FORM = {
    "answer_format": "form",
    "schema": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
}


async def test_a_blocked_call_gets_the_answer(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(answer_format="confirm")
        done = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": True})
        assert done.status_code == 200
        assert done.json() == {"data": {"interaction_id": asked.id, "status": "answered"}}
        result = await asked.call
        assert result.status_code == 200
        assert result.json() == {
            "data": {"kind": "result", "result": {"answer": True, "reply_to": None, "params": None}}
        }
        run = await e.node.database.value("SELECT run_id FROM rejoinder.question")
        assert result.headers["x-rejoinder-run-id"] == str(run)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({}, "  text as it was typed \U0001f600 "),
        ({"answer_format": "select", "options": ["a", "b"]}, "b"),
        ({"answer_format": "confirm"}, False),
        (FORM, {"count": 10**40}),
        (FORM, {"count": -(2**63) - 1}),
    ],
)
async def test_the_answer_comes_back_as_it_was_given(
    database_url: str, arguments: dict[str, Any], answer: Any
) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(**arguments)
        done = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": answer})
        assert done.status_code == 200, done.text
        assert (await asked.call).json()["data"]["result"]["answer"] == answer
        shown = (await e.owner.get(f"/api/interactions/{asked.id}")).json()["data"]
        assert (shown["status"], shown["answer"], shown["closed_by"], shown["closed_via"]) == (
            "answered",
            answer,
            "owner",
            "http",
        )


@pytest.mark.parametrize(
    ("arguments", "body", "text", "field"),
    [
        ({}, {"answer": 1}, "answer must be a string", None),
        ({"answer_format": "confirm"}, {"answer": "yes"}, "answer must be a boolean", None),
        ({"answer_format": "select", "options": ["a", "b"]}, {"answer": "c"}, "answer must be one of", None),
        (FORM, {"answer": [1]}, "answer must be an object", None),
        (FORM, {"answer": {"count": "many"}}, "count", "count"),
        (FORM, {"answer": {}}, "count", "count"),
        ({}, {}, "body must contain 'answer'", "answer"),
        ({}, [], "the body must be a JSON object", "body"),
        ({}, {"answer": "x", "comment": "but only on Monday"}, "a key that is not known", "comment"),
        ({}, {"answer": "a\x00b"}, "NUL", None),
        ({}, {"answer": "\ud800"}, "surrogate", None),
    ],
)
async def test_a_wrong_answer_says_what_is_wrong_and_leaves_the_question_open(
    database_url: str, arguments: dict[str, Any], body: Any, text: str, field: str | None
) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(**arguments)
        refused = await e.owner.post(f"/api/interactions/{asked.id}/answer", content=json.dumps(body))
        assert refused.status_code == 400
        assert text in refused.json()["error"]
        assert refused.json().get("field") == field
        assert await e.state(asked.id) == "pending"
        assert not asked.call.done()
        await asked.end()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nul",
        b"\xff\xfe{\x00",
        b'{"answer": NaN}',
        b'{"answer": -Infinity}',
        b'{"answer": 1e999}',
        b'{"answer": "a", "answer": "b"}',
        b'{"answer": ' + b"9" * 5000 + b"}",
        b'{"answer": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b'{"answer": ' + b'{"a":' * 80 + b"1" + b"}" * 80 + b"}",
        "\ufeff{}".encode(),
    ],
)
async def test_what_is_no_json_is_refused(database_url: str, body: bytes) -> None:
    async with edge(database_url) as e:
        asked = await e.ask()
        refused = await e.owner.post(f"/api/interactions/{asked.id}/answer", content=body)
        assert refused.status_code == 400, refused.text
        assert await e.state(asked.id) == "pending"
        await asked.end()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_cap_is_refused(database_url: str, chunked: bool) -> None:
    async def pieces() -> Any:
        yield b'{"answer": "'
        for _ in range(70):
            yield b"x" * 1024
        yield b'"}'

    async with edge(database_url) as e:
        asked = await e.ask()
        content = pieces() if chunked else b'{"answer": "' + b"x" * 65_536 + b'"}'
        refused = await e.owner.post(f"/api/interactions/{asked.id}/answer", content=content)
        assert refused.status_code == 413
        assert refused.json()["code"] == "too-large"
        just = b'{"answer": "' + b"x" * (65_536 - 14) + b'"}'
        assert len(just) == 65_536
        taken = await e.owner.post(f"/api/interactions/{asked.id}/answer", content=just)
        assert taken.status_code == 200, taken.text
        await asked.call


async def test_an_unknown_question_is_not_found(database_url: str) -> None:
    unknown = uuid4()
    spellings = (
        str(unknown),
        "1",
        f"{{{unknown}}}",
        unknown.hex,
        f"urn:uuid:{unknown}",
        "%00",
        "%ff",
        "a" * 5000,
    )
    async with edge(database_url) as e:
        for identifier in spellings:
            path = f"/api/interactions/{identifier}"
            for refused in (
                await e.owner.get(path),
                await e.owner.post(f"{path}/answer", json={"answer": "x"}),
                await e.owner.post(f"{path}/cancel"),
            ):
                assert refused.status_code == 404, (identifier, refused.text)
                assert refused.json()["error"] == "Interaction not found"


async def test_one_of_racing_answers_wins_and_the_rest_learn_who_did(database_url: str) -> None:
    async with edge(database_url) as e:
        people = [await e.client(f"person{i}", "read", "write") for i in range(20)]
        asked = await e.ask(answer_format="confirm")
        replies = await asyncio.gather(
            *(
                person.post(f"/api/interactions/{asked.id}/answer", json={"answer": i % 2 == 0})
                for i, person in enumerate(people)
            )
        )
        won = [i for i, reply in enumerate(replies) if reply.status_code == 200]
        assert len(won) == 1
        for i, reply in enumerate(replies):
            if i == won[0]:
                continue
            assert reply.status_code == 409
            body = reply.json()
            assert body["error"] == "Interaction already answered"
            assert body["answered_by"] == f"person{won[0]}"
            assert body["answer"] is (won[0] % 2 == 0)
            assert body["closed_at"]
        assert (await asked.call).json()["data"]["result"]["answer"] is (won[0] % 2 == 0)


async def test_the_same_answer_once_more_is_told_that_it_was_recorded(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask()
        for _ in range(2):
            done = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "once"})
            assert done.status_code == 200
        other = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "twice"})
        assert other.status_code == 409
        await asked.call


async def test_an_answer_after_the_deadline_is_gone(database_url: str, clock: MovableClock) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(timeout=600)
        await clock.advance(600)
        late = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "late"})
        assert late.status_code == 410
        assert late.json()["code"] == "interaction-expired"
        e.node.deadlines.look()
        assert (await asked.call).status_code == 504


async def test_a_sensitive_answer_is_shown_to_nobody(database_url: str) -> None:
    async with edge(database_url) as e:
        identifier = await _sensitive(e)
        shown = await e.owner.get(f"/api/interactions/{identifier.id}")
        assert shown.json()["data"]["sensitive"] is True
        done = await e.owner.post(f"/api/interactions/{identifier.id}/answer", json={"answer": "hunter2"})
        assert done.status_code == 200
        assert (await identifier.call).json()["data"]["result"] == "ok"
        for path in (f"/api/interactions/{identifier.id}", "/api/audit", "/api/interactions"):
            assert "hunter2" not in (await e.owner.get(path)).text
        again = await e.owner.post(f"/api/interactions/{identifier.id}/answer", json={"answer": "other"})
        assert again.status_code == 409
        assert "hunter2" not in again.text


async def _sensitive(e: Edge) -> Asked:
    from rejoinder.runs.ask import ask
    from rejoinder.runs.tools import tool

    @tool
    async def login() -> str:
        answer = (await ask("Password?", sensitive=True)).answer
        return "ok" if answer.reveal() == "hunter2" else "wrong"

    e.node.registry.add(login)
    return await e.call("login", {})


async def test_a_withdrawn_question_wakes_its_caller(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask()
        done = await e.owner.post(f"/api/interactions/{asked.id}/cancel")
        assert done.json() == {"data": {"interaction_id": asked.id, "status": "cancelled"}}
        ended = await asked.call
        assert (ended.status_code, ended.json()["code"]) == (409, "interaction-cancelled")
        for door, body in (("cancel", None), ("answer", {"answer": "x"})):
            refused = await e.owner.post(f"/api/interactions/{asked.id}/{door}", json=body)
            assert refused.status_code == 409
            assert refused.json()["state"] == "cancelled"


async def test_restricted_keys_answer_only_what_is_addressed_to_them(database_url: str) -> None:
    async with edge(database_url) as e:
        sue = await e.client("sue", "read", "write", owner="owner")
        tom = await e.client("tom", "read", "write", owner="owner")
        ann = await e.client("ann", "read", "write")
        open_to_all, for_sue = await e.ask(), await e.ask(audience="sue")
        for who, asked, status in (
            (sue, open_to_all, 403),
            (tom, for_sue, 403),
            (sue, for_sue, 200),
            (ann, open_to_all, 200),
        ):
            reply = await who.post(f"/api/interactions/{asked.id}/answer", json={"answer": "x"})
            assert reply.status_code == status
        refusals = (await e.owner.get("/api/audit", params={"kind": "answer.refused"})).json()["data"][
            "items"
        ]
        assert {(one["actor"], one["reason"]) for one in refusals} == {
            ("sue", "wrong-audience"),
            ("tom", "wrong-audience"),
        }
        await open_to_all.call
        await for_sue.call


async def test_with_the_gate_off_the_answerer_is_named_so(database_url: str) -> None:
    async with edge(database_url, access_control_enable=False) as e:
        anybody = e.anonymous()
        asked = await e.ask(anybody)
        done = await anybody.post(f"/api/interactions/{asked.id}/answer", json={"answer": "x"})
        assert done.status_code == 200
        await asked.call
        shown = (await anybody.get(f"/api/interactions/{asked.id}")).json()["data"]
        assert shown["closed_by"] == "system:no-auth"
