"""A preset over a tool that waits for an outside system: nobody who calls it can point it at another reference."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder import tool
from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.extensions import Attachments
from rejoinder.tools import ask_external
from rejoinder.tools.ask_external import ask_external as extension
from rejoinder.verifiers.registry import Verifiers
from tests.integration.doors.edge import Edge, edge
from tests.integration.external.outside import BASE, DOOR, SHARED, UNLIMITED, proof, result
from tests.integration.external.outside import secret as secret

made: list[tuple[str, str, str]] = []


@tool
async def request_confirmation(reference: str, return_url: str, callback_url: str) -> str:
    """Make the page where the other side confirms."""
    made.append((reference, return_url, callback_url))
    return f"https://outside.example/confirm/{reference}"


REFERENCE = "order-17"
FIXED: dict[str, Any] = {
    "reference": REFERENCE,
    "return_url": "https://shop.example/thanks",
    "answer_schema": {
        "type": "object",
        "required": ["reference", "decision"],
        "properties": {"reference": {"const": REFERENCE}, "decision": {"const": "confirmed"}},
    },
}
PRESET: dict[str, Any] = {
    "name": "confirm_order_17",
    "base_tool": "request_confirmation_ask_external",
    "description": "Have order 17 confirmed.",
    "fixed_kwargs": FIXED,
}
SETTINGS: dict[str, Any] = {"interactions_public_base_url": BASE, "tai_rate_limit_families": UNLIMITED}


async def flow(one: Edge, **headers: str) -> None:
    """Ask; a forged answer leaves the ticket as it was, the right one is taken."""
    asked = await one.call("confirm_order_17", {"question": "Confirm order 17."})
    assert made[-1][:2] == (REFERENCE, "https://shop.example/thanks")
    door = DOOR + made[-1][2].rpartition("/")[2]
    outside = one.anonymous(**headers)
    for wrong in (
        {"reference": "order-18", "decision": "confirmed"},
        {"reference": REFERENCE, "decision": "declined"},
        {"decision": "confirmed"},
    ):
        assert (await outside.post(door, json=wrong)).status_code == 400
    good = {"reference": REFERENCE, "decision": "confirmed"}
    assert (await outside.post(door, json=good)).status_code == 200
    assert await result(asked) == good


async def test_reference_return_and_schema_are_out_of_every_callers_reach(
    database_url: str, secret: None
) -> None:
    composed = extension.compose(request_confirmation, {"verifier": SHARED}, Verifiers())
    async with edge(database_url, composed, **SETTINGS) as one:
        created = await one.owner.post("/api/presets", json=PRESET)
        assert created.status_code == 201, created.text
        assert list(created.json()["data"]["exposed_schema"]["properties"]) == ["question", "timeout"]
        for name, value in FIXED.items():
            body = {"tool_name": "confirm_order_17", "arguments": {"question": "?", name: value}}
            for path in ("/api/run-tool", "/api/tool-runs"):
                refused = await one.owner.post(path, json=body)
                assert (refused.status_code, refused.json()["field"]) == (400, name)
        await flow(one, **proof())


async def test_an_extension_around_the_base_is_pinned_as_well(database_url: str) -> None:
    async with edge(database_url, request_confirmation, **SETTINGS) as one:
        attachments = Attachments(one.node.registry.verifiers, ConfigurationError)
        attachments.load("extensions_modules[0]", ask_external)
        one.node.registry.attachments = attachments
        body = PRESET | {"base_tool": "request_confirmation", "extensions": ["ask_external"]}
        created = await one.owner.post("/api/presets", json=body)
        assert created.status_code == 201, created.text
        await flow(one)
        none = await one.owner.post("/api/presets/confirm_order_17/versions", json={"extensions": []})
        # Without it the base tool takes no answer_schema.
        assert (none.status_code, none.json()["field"]) == (400, "fixed_kwargs.answer_schema")


@pytest.mark.parametrize("wrong", ["nothing", {"name": "ask_external", "config": {"x": 1}}, 7])
async def test_an_extension_that_cannot_be_used_is_named(database_url: str, wrong: Any) -> None:
    async with edge(database_url, request_confirmation, **SETTINGS) as one:
        attachments = Attachments(
            one.node.registry.verifiers, lambda text: ConfigurationError(f"/secret/path {text}")
        )
        attachments.load("extensions_modules[0]", ask_external)
        one.node.registry.attachments = attachments
        body = PRESET | {"base_tool": "request_confirmation", "extensions": [wrong], "fixed_kwargs": {}}
        refused = await one.owner.post("/api/presets", json=body)
        assert (refused.status_code, refused.json()["field"]) == (400, "extensions")
        assert "/secret/path" not in refused.text
