"""Presets over HTTP: made, called, saved, rolled back, renamed, deleted and refused."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from tests.integration.doors.edge import Edge, edge
from tests.integration.presets.tools import ALL

PAY: dict[str, Any] = {
    "name": "pay_rent",
    "base_tool": "pay",
    "description": "Pay the rent.",
    "fixed_kwargs": {"note": "rent", "currency": "CHF"},
}


async def create(one: Edge, **changes: Any) -> dict[str, Any]:
    response = await one.owner.post("/api/presets", json=PAY | changes)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()["data"]
    return made


async def run(
    one: Edge, tool: str, who: httpx2.AsyncClient | None = None, **arguments: Any
) -> httpx2.Response:
    return await (who or one.owner).post("/api/run-tool", json={"tool_name": tool, "arguments": arguments})


async def refused(response: httpx2.Response, status: int, **body: str) -> str:
    assert response.status_code == status, response.text
    problem = response.json()
    assert {name: problem.get(name) for name in body} == body, problem
    return str(problem["error"])


async def test_a_preset_is_a_tool_that_hides_what_it_fixes(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        made = await create(one)
        assert (made["version"], made["locked"], made["quarantine"]) == (1, True, None)
        tools = {t["name"]: t for t in (await one.owner.get("/api/tools")).json()["data"]["items"]}
        shown = tools["pay_rent"]
        assert list(shown["input_schema"]["properties"]) == ["amount", "options"]
        assert shown["input_schema"]["required"] == ["amount"]
        assert (shown["description"], shown["read_only"], shown["idempotent"]) == (
            "Pay the rent.",
            True,
            True,
        )
        ran = await run(one, "pay_rent", amount=7)
        assert ran.json()["data"]["result"] == {
            "amount": 7,
            "currency": "CHF",
            "note": "rent",
            "options": None,
        }


async def test_giving_a_fixed_argument_is_refused_whatever_its_value(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await create(one)
        for value in ("CHF", "EUR", None):
            await refused(await run(one, "pay_rent", amount=7, currency=value), 400, field="currency")


#: What differs from a good creation, the status that it is refused with, and the field that is named.
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"extensions": []}, 400, "extensions"),
    ({"description": "  "}, 400, "description"),
    ({"base_tool": "nothing"}, 400, "base_tool"),
    ({"base_tool": "confirm_action"}, 400, "base_tool"),
    ({"name": "pay"}, 409, "name"),
    ({"name": "check_run"}, 409, "name"),
    ({"name": "pay rent"}, 400, "name"),
    ({"fixed_kwargs": {"amount": "seven"}}, 400, "fixed_kwargs.amount"),
    ({"fixed_kwargs": {"iban": "x"}}, 400, "fixed_kwargs.iban"),
    ({"fixed_kwargs": {"note": "!ENV ${PATH}"}}, 400, "fixed_kwargs.note"),
    ({"fixed_kwargs": {"options": {"a": ["!ENV nothing"]}}}, 400, "fixed_kwargs.options.a.0"),
    ({"extensions": ["ask_external"]}, 400, "extensions"),
    ({"input_map": "."}, 400, "input_map"),
    ({"output_map": ".["}, 400, "output_map"),
    ({"output_map": "env"}, 400, "output_map"),
    ({"tags": ["two words"]}, 400, "tags"),
    ({"input_schema": {"type": "object", "properties": {"iban": {}}}}, 400, "input_schema"),
    ({"input_schema": {"type": "object", "properties": {"note": {}}}}, 400, "input_schema"),
    ({"input_schema": {"type": "object", "properties": {"amount": {}}}}, 400, "input_schema"),
    ({"output_schema": {"type": "number"}}, 400, "output_schema"),
    ({"colour": "red"}, 400, "colour"),
]


async def test_what_cannot_be_created_is_refused_by_a_trial_too(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        for change, status, field in REFUSED:
            for path in ("/api/presets", "/api/presets/validate"):
                told = await refused(await one.owner.post(path, json=PAY | change), status, field=field)
                # The field is named in front of what is wrong with it, and there once.
                assert not re.match(rf"{re.escape(field)}:? (argument )?({re.escape(field)}|\w+:)", told), (
                    told
                )
        assert (await one.owner.get("/api/presets")).json()["data"]["items"] == []


async def test_a_preset_is_no_base_for_another_and_its_name_is_its_own(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await create(one)
        await refused(await one.owner.post("/api/presets", json=PAY), 409, code="preset-exists")
        other = PAY | {"name": "other", "base_tool": "pay_rent", "fixed_kwargs": {}}
        await refused(await one.owner.post("/api/presets", json=other), 400, field="base_tool")


async def test_a_saving_replaces_what_it_gives_and_numbers_rise_after_a_rollback(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await create(one)
        url = "/api/presets/pay_rent"
        await refused(await one.owner.post(f"{url}/versions", json={}), 400, field="body")
        second = await one.owner.post(f"{url}/versions", json={"fixed_kwargs": {"currency": "USD"}})
        assert (second.status_code, second.json()["data"]["version"]) == (201, 2)
        assert second.json()["data"]["fixed_kwargs"] == {"currency": "USD"}
        assert second.json()["data"]["description"] == "Pay the rent."
        assert (await run(one, "pay_rent", amount=1)).json()["data"]["result"]["note"] is None

        await refused(await one.owner.post(f"{url}/rollback", json={"version": 9}), 404, field="version")
        back = await one.owner.post(f"{url}/rollback", json={"version": 1})
        assert (back.json()["data"]["version"], back.json()["data"]["last_version"]) == (1, 2)
        assert (await run(one, "pay_rent", amount=1)).json()["data"]["result"]["note"] == "rent"
        third = await one.owner.post(f"{url}/versions", json={"extensions": [], "tags": ["rent"]})
        assert third.json()["data"]["version"] == 3
        listed = (await one.owner.get(f"{url}/versions", params={"limit": 2})).json()["data"]
        assert ([v["version"] for v in listed["items"]], listed["next_before"]) == ([3, 2], 2)
        assert (await one.owner.get(f"{url}/versions/2")).json()["data"]["fixed_kwargs"] == {
            "currency": "USD"
        }
        await refused(await one.owner.get(f"{url}/versions/4"), 404, code="preset-version-not-found")
        await refused(await one.owner.get(f"{url}/versions/x"), 404, code="preset-version-not-found")


async def test_a_saving_that_saw_another_version_is_refused(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await create(one)
        url = "/api/presets/pay_rent/versions"
        saved = await one.owner.post(url, json={"description": "Two.", "expected_version": 1})
        assert saved.status_code == 201
        late = await one.owner.post(url, json={"description": "Too late.", "expected_version": 1})
        await refused(late, 409, code="preset-moved", field="expected_version")


async def test_tags_name_one_version_each(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await create(one)
        url = "/api/presets/pay_rent"
        await one.owner.post(f"{url}/versions", json={"description": "Two."})
        await one.owner.put(f"{url}/version-tags/reviewed", json={"version": 1})
        moved = await one.owner.put(f"{url}/version-tags/reviewed", json={"version": 2})
        assert moved.json()["data"]["version_tags"] == {"reviewed": 2}
        assert (await one.owner.get(f"{url}/versions/1")).json()["data"]["version_tags"] == []
        await refused(await one.owner.put(f"{url}/version-tags/x", json={"version": 7}), 404, field="version")
        gone = await one.owner.delete(f"{url}/version-tags/reviewed")
        assert gone.json()["data"]["version_tags"] == {}
        await refused(await one.owner.delete(f"{url}/version-tags/reviewed"), 404, field="tag")


async def test_only_an_admin_changes_what_a_preset_that_fixes_arguments_does(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        writer = await one.client("writer", "read", "write")
        made = await writer.post("/api/presets", json=PAY | {"fixed_kwargs": {"note": "s3cret-value"}})
        assert made.status_code == 201
        url = "/api/presets/pay_rent"
        attempts = [
            await writer.post(f"{url}/versions", json={"fixed_kwargs": {}}),
            await writer.post(f"{url}/versions", json={"base_tool": "wire", "fixed_kwargs": {}}),
            await writer.post(f"{url}/versions", json={"output_map": ".note"}),
            await writer.post(f"{url}/rename", json={"new_name": "mine"}),
            await writer.delete(url),
        ]
        for response in attempts:
            await refused(response, 403, code="preset-locked")
        free = await writer.post(f"{url}/versions", json={"description": "Better words.", "tags": ["a"]})
        assert free.status_code == 201
        assert (await one.owner.post(f"{url}/versions", json={"fixed_kwargs": {}})).status_code == 201
        # To fix nothing any more was the admin's word; to fix it again is not the writer's.
        assert (await writer.post(f"{url}/rollback", json={"version": 1})).status_code == 200
        await refused(await writer.post(f"{url}/rollback", json={"version": 3}), 403, code="preset-locked")

        events = (await one.owner.get("/api/audit", params={"kind": "preset"})).json()["data"]["items"]
        told = [(e["kind"], e["actor"], (e["detail"] or {}).get("changed")) for e in reversed(events)]
        assert told == [
            ("preset.created", "writer", None),
            ("preset.saved", "writer", ["description", "tags"]),
            ("preset.saved", "owner", ["fixed_kwargs.note"]),
            ("preset.rolled_back", "writer", ["description", "fixed_kwargs.note", "tags"]),
        ]
        trail = (await one.owner.get("/api/audit")).text
        assert "preset locked" in trail
        assert "s3cret-value" not in trail


async def test_a_restricted_key_changes_no_preset(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await one.client("boss", "read", "write")
        owned = await one.client("owned", "read", "write", owner="boss")
        assert (await owned.post("/api/presets", json=PAY)).status_code == 403


async def test_a_renamed_preset_leaves_its_name_and_a_deleted_one_too(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await create(one)
        await create(one, name="other")
        await refused(
            await one.owner.post("/api/presets/pay_rent/rename", json={"new_name": "other"}),
            409,
            field="new_name",
        )
        await refused(
            await one.owner.post("/api/presets/pay_rent/rename", json={"new_name": "pay"}),
            409,
            field="new_name",
        )
        renamed = await one.owner.post("/api/presets/pay_rent/rename", json={"new_name": "rent"})
        assert renamed.json()["data"]["name"] == "rent"
        assert (await run(one, "rent", amount=1)).status_code == 200
        assert (await run(one, "pay_rent", amount=1)).status_code == 404
        await create(one)
        assert (await one.owner.delete("/api/presets/pay_rent")).status_code == 200
        await refused(await one.owner.get("/api/presets/pay_rent"), 404, code="preset-not-found")
        await refused(await one.owner.get("/api/presets/no%00name"), 404, code="preset-not-found")
        assert (await create(one))["version"] == 1


async def test_schemas_narrow_and_expressions_map(database_url: str) -> None:
    async with edge(database_url, *ALL) as one:
        await create(
            one,
            name="small",
            input_schema={
                "type": "object",
                "properties": {"amount": {"type": "integer", "maximum": 10}},
                "required": ["amount"],
            },
        )
        assert (await run(one, "small", amount=10)).status_code == 200
        await refused(await run(one, "small", amount=11), 400, field="amount")
        await refused(await run(one, "small", amount=1, options={}), 400)
        await create(
            one,
            name="mapped",
            fixed_kwargs={"note": "n"},
            input_schema={
                "type": "object",
                "properties": {"cents": {"type": "integer"}, "also": {"type": "string"}},
                "required": ["cents"],
            },
            input_map='{amount: (.cents / 100 | floor)} + (if .also then {(.also): "x"} else {} end)',
            output_map="{paid: .amount, note}",
            output_schema={"type": "object", "properties": {"paid": {"maximum": 5}}},
        )
        assert (await run(one, "mapped", cents=420)).json()["data"]["result"] == {"paid": 4, "note": "n"}
        await refused(await run(one, "mapped", cents=420, also="note"), 400, field="note")
        await refused(await run(one, "mapped", cents=420, also="iban"), 400, field="iban")
        await refused(await run(one, "mapped", amount=1), 400)
        await refused(await run(one, "mapped", cents=900), 500, code="tool-failed")


async def test_references_are_followed_on_the_way_in_and_shown_as_written(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RENT_NOTE", "hidden-note")
    async with edge(database_url, *ALL, rejoinder_preset_variables="RENT_NOTE") as one:
        made = await create(one, fixed_kwargs={"note": "!ENV flat ${RENT_NOTE}!"})
        assert made["fixed_kwargs"] == {"note": "!ENV flat ${RENT_NOTE}!"}
        ran = await run(one, "pay_rent", amount=1)
        assert ran.json()["data"]["result"]["note"] == "flat hidden-note!"
        everything = await one.node.database.rows("SELECT document::text FROM rejoinder.preset_version")
        assert "hidden-note" not in str(everything)
        monkeypatch.delenv("RENT_NOTE")
        await refused(await run(one, "pay_rent", amount=1), 500, code="tool-failed")
        await refused(
            await one.owner.post(
                "/api/presets", json=PAY | {"name": "b", "fixed_kwargs": {"note": "!ENV ${RENT_NOTE}"}}
            ),
            400,
            field="fixed_kwargs.note",
        )
