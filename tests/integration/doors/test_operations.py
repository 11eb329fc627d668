"""The trail, the processes, health, metrics, keys, and the line that each request leaves in the log."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from rejoinder.access.keys import Access
from rejoinder.contract.errors import NotReadyError
from rejoinder.runs.tools import tool
from tests.integration.doors.edge import Edge, edge


async def trail(e: Edge, **parameters: Any) -> list[dict[str, Any]]:
    reply = await e.owner.get("/api/audit", params=parameters)
    assert reply.status_code == 200, reply.text
    items: list[dict[str, Any]] = reply.json()["data"]["items"]
    return items


async def test_every_step_of_a_question_is_in_the_trail(database_url: str) -> None:
    async with edge(database_url) as e:
        ann = await e.client("ann", "read", "write")
        asked = await e.ask(answer_format="confirm")
        await ann.post(f"/api/interactions/{asked.id}/answer", json={"answer": "maybe"})
        await ann.post(f"/api/interactions/{asked.id}/answer", json={"answer": True})
        await asked.call
        steps = await trail(e, interaction_id=asked.id)
        assert [(one["kind"], one["actor"]) for one in reversed(steps)] == [
            ("interaction.add", "owner"),
            ("answer.refused", "ann"),
            ("interaction.answered", "ann"),
        ]
        assert steps[0]["via"] == "http"
        for parameters, count in (
            ({"kind": "interaction"}, 2),
            ({"kind": "interaction.add"}, 1),
            ({"actor": "ann"}, 2),
            ({"actor": "nobody"}, 0),
            ({"run_id": steps[0]["run_id"]}, 3),
            ({"since": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}, 0),
            ({"until": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}, 3),
        ):
            assert len(await trail(e, interaction_id=asked.id, **parameters)) == count, parameters


async def test_the_trail_is_paged_newest_first(database_url: str) -> None:
    async with edge(database_url) as e:
        for i in range(7):
            await e.node.events.add("test.made", actor=str(i))
        seen: list[str] = []
        parameters: dict[str, Any] = {"kind": "test", "limit": 3}
        while True:
            data = (await e.owner.get("/api/audit", params=parameters)).json()["data"]
            seen += [one["actor"] for one in data["items"]]
            if data["next_before"] is None:
                break
            parameters["before"] = data["next_before"]
        assert seen == list("6543210")


async def test_a_restricted_key_reads_the_trail_of_its_own_questions(database_url: str) -> None:
    async with edge(database_url) as e:
        sue = await e.client("sue", "read", owner="owner")
        for audience in ("sue", "tom", None):
            asked = await e.ask(audience=audience)
            await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "x"})
            await asked.call
        items = (await sue.get("/api/audit")).json()["data"]["items"]
        assert items
        assert {one["audience"] for one in items} == {"sue"}
        for path in ("/api/processes", "/metrics"):
            assert (await sue.get(path)).status_code == 403


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interaction_id", "x"),
        ("run_id", "\x00"),
        ("kind", "\x00"),
        ("kind", "x" * 201),
        ("actor", "a\x00b"),
        ("since", "yesterday"),
        ("since", "2030-01-01T00:00:00"),
        ("until", "0001-01-01T00:00:00+14:00"),
        ("until", "9999-12-31T23:59:59-14:00"),
        ("before", "x"),
        ("before", "-1"),
        ("before", str(2**63)),
        ("limit", "0"),
        ("limit", "1001"),
    ],
)
async def test_a_bad_filter_is_named(database_url: str, name: str, value: str) -> None:
    async with edge(database_url) as e:
        refused = await e.owner.get("/api/audit", params={name: value})
        assert (refused.status_code, refused.json()["field"]) == (400, name)
        assert "Value error" not in refused.text


async def test_the_processes_that_are_alive(database_url: str) -> None:
    async with edge(database_url) as e:
        (one,) = (await e.owner.get("/api/processes")).json()["data"]["items"]
        assert (one["id"], one["kind"]) == (str(e.node.process.id), "server")


async def test_alive_and_ready(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with edge(database_url) as e:
        nobody = e.anonymous()
        for path in ("/health", "/ready"):
            assert (await nobody.get(path)).status_code == 200
            assert (await nobody.head(path)).status_code == 200
        assert (await nobody.get("/ready")).json() == {
            "status": "ready",
            "checks": {"started": True, "database": True, "notifications": True},
        }
        await e.node.database.close()
        gone = await nobody.get("/ready")
        assert (gone.status_code, gone.json()["checks"]["database"]) == (503, False)
        assert (await nobody.get("/health")).status_code == 200
        away = await e.owner.get("/api/interactions")
        assert (away.status_code, away.json()["code"]) == (503, "not-ready")
        assert away.headers["retry-after"]
        assert "Error" not in away.json()["error"]
        await e.node.database.open()


async def test_metrics_count_requests_by_template(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask()
        await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "x"})
        await asked.call
        await e.owner.request("BREW", "/api/interactions")
        text = (await e.owner.get("/metrics")).text
        assert (
            'rejoinder_http_request_seconds_count{method="POST",route="/api/interactions/{interaction_id}/answer",status="200"}'
            in text
        )
        assert 'method="OTHER"' in text
        assert "BREW" not in text
        assert asked.id not in text


# Keys


async def test_a_key_s_life(database_url: str) -> None:
    async with edge(database_url) as e:
        made = await e.owner.post(
            "/api/keys", json={"name": "bot", "grants": ["read"], "expires_at": "2090-01-01T00:00:00+00:00"}
        )
        assert made.status_code == 201
        secret = made.json()["data"]["secret"]
        bot = e.anonymous(authorization=f"Bearer {secret}")
        assert (await bot.get("/api/interactions")).status_code == 200
        listed = await e.owner.get("/api/keys")
        assert {one["name"] for one in listed.json()["data"]["items"]} == {"owner", "bot"}
        assert secret not in listed.text
        again = await e.owner.post("/api/keys", json={"name": "bot", "grants": ["read"]})
        assert (again.status_code, again.json()["code"]) == (409, "key-exists")
        assert (await e.owner.delete("/api/keys/bot")).status_code == 200
        assert (await e.owner.delete("/api/keys/bot")).status_code == 404
        assert (await bot.get("/api/interactions")).status_code == 401
        assert len((await e.owner.get("/api/keys")).json()["data"]["items"]) == 1
        assert len((await e.owner.get("/api/keys?revoked=true")).json()["data"]["items"]) == 2


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "name"),
        ({"name": "", "grants": ["read"]}, 400, "name"),
        ({"name": "a\x00", "grants": ["read"]}, 400, "name"),
        ({"name": "x" * 121, "grants": ["read"]}, 400, "name"),
        ({"name": "a"}, 400, "grants"),
        ({"name": "a", "grants": []}, 400, "grants"),
        ({"name": "a", "grants": ["root"]}, 400, "grants"),
        ({"name": "a", "grants": [["read"]]}, 400, "grants"),
        ({"name": "a", "grants": [{}]}, 400, "grants"),
        ({"name": "a", "grants": ["read"], "identity": "system:expiry"}, 400, "identity"),
        ({"name": "a", "grants": ["read"], "owner": "absent"}, 404, "name"),
        ({"name": "a", "grants": ["read"], "expires_at": "tomorrow"}, 400, "expires_at"),
        ({"name": "a", "grants": ["read"], "expires_at": "2090-01-01T00:00:00"}, 400, "expires_at"),
        ({"name": "a", "grants": ["read"], "expires_at": "9999-12-31T23:59:59-14:00"}, 400, "expires_at"),
        ({"name": "a", "grants": ["read"], "expires_at": 1}, 400, "expires_at"),
        ({"name": "a", "grants": ["read"], "admin": True}, 400, "admin"),
    ],
)
async def test_a_key_that_cannot_be_made(
    database_url: str, body: dict[str, Any], status: int, field: str
) -> None:
    async with edge(database_url) as e:
        refused = await e.owner.post("/api/keys", json=body)
        assert (refused.status_code, refused.json().get("field")) == (status, field), refused.text
        assert len((await e.owner.get("/api/keys?revoked=true")).json()["data"]["items"]) == 1


async def test_an_owned_key_makes_and_revokes_none(database_url: str) -> None:
    async with edge(database_url) as e:
        sub = await e.client("sub", "admin", owner="owner")
        assert (await sub.post("/api/keys", json={"name": "x", "grants": ["read"]})).status_code == 403
        assert (await sub.delete("/api/keys/owner")).status_code == 403
        assert (await sub.get("/api/keys")).status_code == 403


async def test_a_sign_in_link_is_the_caller_s_and_works_once(database_url: str) -> None:
    async with edge(database_url) as e:
        ann = await e.client("ann", "read")
        made = await ann.post("/api/sign-in-links")
        url = made.json()["data"]["url"]
        assert (made.status_code, url.startswith("http://127.0.0.1/sign-in?token=rjs_")) == (201, True)
        browser = e.anonymous()
        own = {"origin": "http://127.0.0.1"}
        for _ in range(3):
            assert (await browser.get(url)).status_code == 200  # arriving uses nothing up
        done = await browser.post(url, headers=own, data={"go": "1"})
        assert done.status_code == 303, done.text
        assert (await browser.get("/api/interactions")).status_code == 200
        assert (await e.anonymous().post(url, headers=own, data={"go": "1"})).status_code == 401


# The log


@tool
async def leaky(text: str) -> None:
    """Fails with what it was given."""
    raise ValueError(text)


async def test_each_request_leaves_one_line_without_values(database_url: str) -> None:
    async with edge(database_url, leaky) as e:
        asked = await e.ask()
        with capture_logs() as lines:
            reply = await e.owner.post(
                f"/api/interactions/{asked.id}/answer?secret=in-the-query", json={"answer": "in-the-body"}
            )
            await asyncio.gather(asked.call)
            await e.anonymous(authorization="Bearer rjk_in-the-header").get("/api/keys")
            await e.owner.get("/in-the-path")
        requests = [one for one in lines if one["event"] == "request"]
        answer = next(one for one in requests if one["request_id"] == reply.headers["x-request-id"])
        assert answer["route"] == "/api/interactions/{interaction_id}/answer"
        assert (answer["status"], answer["identity"], answer["method"]) == (200, "owner", "POST")
        assert [one["route"] for one in requests].count("unmatched") == 1
        assert len(requests) == 4
        refused = [one for one in lines if one["event"] == "refused"]
        assert [(one["status"], one["route"], one["reason"]) for one in refused] == [
            (401, "/api/keys", "unauthenticated")
        ]
        written = str(lines)
        for value in ("in-the-", asked.id, e.owner.headers["authorization"][12:]):
            assert value not in written


async def test_every_answer_is_guarded(database_url: str) -> None:
    async with edge(database_url) as e:
        for path in ("/api/interactions", "/api/none", "/health", "/openapi.json", "/api/interactions/x"):
            headers = (await e.owner.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert len(headers["x-request-id"]) == 16


async def test_a_fault_of_ours_is_a_number_in_the_answer_and_the_rest_in_the_log(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with edge(database_url) as e:

        async def torn(*_args: object, **_more: object) -> None:
            raise KeyError("the inner detail")

        monkeypatch.setattr(Access, "keys", torn)
        failed = await e.owner.get("/api/keys")
        assert failed.status_code == 500
        assert failed.json() == {
            "error": "Something went wrong here. The log has it under this id.",
            "code": "internal",
            "id": failed.headers["x-request-id"],
        }
        assert failed.headers["x-request-id"] in caplog.text
        assert "the inner detail" in caplog.text

        async def away(*_args: object, **_more: object) -> None:
            raise NotReadyError("ConnectionResetError to 10.0.0.1")

        monkeypatch.setattr(Access, "keys", away)
        gone = await e.owner.get("/api/keys")
        assert (gone.status_code, "10.0.0.1" in gone.text) == (503, False)


async def test_nothing_here_and_no_such_method_have_the_same_shape(database_url: str) -> None:
    async with edge(database_url) as e:
        for method, path, status, code in (
            ("GET", "/api/none", 404, "not-found"),
            ("GET", "/api/run-tool", 405, "method-not-allowed"),
            ("PUT", "/api/interactions", 405, "method-not-allowed"),
            ("GET", "/api/interactions/", 404, "not-found"),
        ):
            reply = await e.owner.request(method, path)
            assert (reply.status_code, reply.json()["code"]) == (status, code)
            if status == 405:
                assert reply.headers["allow"]


async def test_the_document_describes_every_door(database_url: str) -> None:
    async with edge(database_url) as e:
        document = (await e.anonymous().get("/openapi.json")).json()
        assert document["openapi"].startswith("3.1")
        for route in e.app.routes:
            path: str = route.path  # type: ignore[attr-defined]
            if not path.startswith("/api") and path not in ("/health", "/ready", "/metrics"):
                continue
            for method in route.methods - {"HEAD"}:  # type: ignore[attr-defined]
                operation = document["paths"][path][method.lower()]
                assert operation["summary"]
                assert "422" not in operation["responses"]
                names = [one["name"] for one in operation.get("parameters", [])]
                assert len(names) == len(set(names))
        operations = [one["operationId"] for path in document["paths"].values() for one in path.values()]
        assert len(operations) == len(set(operations))
        assert "rjk_" not in str(document).replace("rjk_...", "")
