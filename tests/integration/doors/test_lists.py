"""Open questions, page by page."""

from __future__ import annotations

import pytest

from rejoinder.doors import interactions
from tests.integration.doors.edge import Edge, edge


async def fill(e: Edge, count: int, audience: str | None = None) -> None:
    """Open questions of nobody's, ``count`` of them, a second apart."""
    await e.node.database.execute(
        """
        INSERT INTO rejoinder.question (id, run_id, ordinal, group_id, mode, answer_format, question, audience, tool,
                                        asked_by, created_at, timeout_at)
        SELECT gen_random_uuid(), gen_random_uuid(), 0, 'g' || n, CASE n % 2 WHEN 0 THEN 'sync' ELSE 'async' END, 'text',
               repeat('w', 300), $2, 't', 'a', clock_timestamp(), clock_timestamp() + n / 2 * interval '1 second' + interval '1 hour'
          FROM generate_series(1, $1) AS n
        """,
        count,
        audience,
    )


async def test_pages_by_number_and_by_cursor_hold_every_question_once(database_url: str) -> None:
    async with edge(database_url) as e:
        await fill(e, 23)
        everything = {row["id"] for row in await e.node.database.rows("SELECT id FROM rejoinder.question")}
        for by_cursor in (False, True):
            seen: list[str] = []
            parameters: dict[str, str | int] = {"pageSize": 5}
            while True:
                data = (await e.owner.get("/api/interactions", params=parameters)).json()["data"]
                assert (data["total"], data["truncated"], data["page_size"]) == (23, False, 5)
                seen += [item["interaction_id"] for item in data["items"]]
                if data["next_cursor"] is None:
                    assert data["next_page"] is None
                    break
                if by_cursor:
                    parameters["cursor"] = data["next_cursor"]
                else:
                    parameters["page"] = data["next_page"]
            assert len(seen) == 23
            assert set(seen) == {str(one) for one in everything}


async def test_an_empty_list(database_url: str) -> None:
    async with edge(database_url) as e:
        assert (await e.owner.get("/api/interactions")).json() == {
            "data": {
                "items": [],
                "total": 0,
                "page": 1,
                "page_size": 50,
                "next_page": None,
                "next_cursor": None,
                "truncated": False,
            }
        }


async def test_sizes_are_capped_and_counting_stops(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "COUNT_CAP", 200)
    async with edge(database_url) as e:
        await fill(e, 210)
        data = (await e.owner.get("/api/interactions", params={"pageSize": 100_000})).json()["data"]
        assert (len(data["items"]), data["page_size"], data["next_page"]) == (200, 200, 2)
        assert (data["total"], data["truncated"]) == (200, True)
        last = (await e.owner.get("/api/interactions", params={"page": 1_000_000})).json()["data"]
        assert (last["items"], last["next_page"]) == ([], None)
        for limit, count in ((None, 105), (7, 7), (0, 1), (-5, 1), (5000, 105)):
            parked = await e.owner.get(
                "/api/interactions/pending", params={} if limit is None else {"limit": limit}
            )
            assert parked.json()["data"]["count"] == count
        item = parked.json()["data"]["items"][0]
        assert len(item["question"]) == 200
        assert item["question"].endswith("…")
        assert item["mode"] == "async"


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        *(("", "page", value) for value in ("0", "-1", "1000001", "x", "1.5", "9" * 4000, "", "\u0663\x00")),
        *(("", "pageSize", value) for value in ("0", "-1", "x", "9" * 30)),
        *(("", "cursor", value) for value in ("x", "!!!", "MjAyNnw=", "é", "x" * 500, "\x00")),
        *(("/pending", "limit", value) for value in ("x", "1.5", "9" * 30, "")),
    ],
)
async def test_a_bad_parameter_is_named(database_url: str, path: str, name: str, value: str) -> None:
    async with edge(database_url) as e:
        refused = await e.owner.get(f"/api/interactions{path}", params={name: value})
        assert (refused.status_code, refused.json()["field"]) == (400, name)


async def test_restricted_keys_see_only_what_is_addressed_to_them(database_url: str) -> None:
    async with edge(database_url) as e:
        await fill(e, 4)
        await fill(e, 6, "sue")
        await fill(e, 2, "tom")
        sue = await e.client("sue", "read", owner="owner")
        mine = (await sue.get("/api/interactions")).json()["data"]
        assert mine["total"] == 6
        assert {item["audience"] for item in mine["items"]} == {"sue"}
        assert (await sue.get("/api/interactions/pending")).json()["data"]["count"] == 3
        assert (await e.owner.get("/api/interactions")).json()["data"]["total"] == 12
        for audience, status in (("sue", 200), ("tom", 404), (None, 404)):
            identifier = await e.node.database.value(
                "SELECT id FROM rejoinder.question WHERE audience IS NOT DISTINCT FROM $1 LIMIT 1", audience
            )
            assert (await sue.get(f"/api/interactions/{identifier}")).status_code == status
