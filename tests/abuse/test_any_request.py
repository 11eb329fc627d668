"""Requests of every shape that the OpenAPI document knows, and of shapes that it forbids, to every operation in it.

Each answer is held against the document: its status, its type, its body. None is a fault of ours.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.runs.tools import tool
from tests.abuse.generator import fit
from tests.integration.doors.edge import Edge, served

#: Requests to all operations together, half of them as the document wants and half not; and the fewest to one operation.
REQUESTS = 600
FEWEST = 4
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
#: It has no end; what it takes is sent to it in test_stream and test_queries.
ENDLESS = "/api/interactions/stream"
#: Statuses of 5xx that say something of the request rather than of a fault, and are documented.
FAULTLESS = frozenset((501, 502, 503, 504))
ASKS: list[dict[str, Any]] = [
    {"answer_format": "text"},
    {"answer_format": "confirm"},
    {"answer_format": "select", "options": ["a", "b"]},
    {"answer_format": "form", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
]


@tool
def echo(value: Any = None) -> Any:
    """Give back what was given."""
    return value


@dataclass
class Target:
    """A server with things in it that a request can be about."""

    base: str
    key: str
    document: dict[str, Any]
    known: dict[str, list[str]] = field(default_factory=dict)
    """Ids and names that exist, by the name of the parameter."""


@contextmanager
def running_apart(url: str) -> Iterator[Target]:
    """Serve on a loop of another thread: what generates the requests is not async."""
    ready: list[Target | BaseException] = []
    up, over = threading.Event(), threading.Event()

    async def serve() -> None:
        budget = {"limit": 10**6, "burst": 10**6}
        families = [
            "health",
            "ready",
            "interactions_media",
            "interactions_callback",
            "universal_webhook",
            "trigger",
        ]
        async with served(
            url,
            echo,
            worker=True,
            interactions_answer_timeout_seconds=0.05,
            tai_rate_limit_default_limit=10**6,
            tai_rate_limit_default_burst=10**6,
            tai_rate_limit_families=dict.fromkeys(families, budget),
        ) as e:
            ready.append(await _filled(e))
            up.set()
            await asyncio.to_thread(over.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            ready.append(error)
            up.set()
            raise

    thread = threading.Thread(target=run, name="target")
    thread.start()
    try:
        up.wait(60)
        target = ready[0]
        assert isinstance(target, Target), target
        yield target
    finally:
        over.set()
        thread.join()


async def _filled(e: Edge) -> Target:
    key = e.owner.headers["authorization"].removeprefix("Bearer ")
    known: dict[str, list[str]] = {"name": ["spare", "echo"], "tool_name": ["echo", "ask", "list_parked"]}
    await e.node.access.create_key(name="spare", grants=["read"], by=LOCAL_OWNER)
    known["topic"] = ["orders"]
    for pattern in ("/universal_webhook/*", "/trigger/*"):
        await e.node.public_routes.pin(pattern, by=LOCAL_OWNER)
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for number in range(40):
        arguments = {"question": f"{number}?", "mode": "async", "expiry_at": until} | ASKS[number % len(ASKS)]
        reply = await e.owner.post("/api/run-tool", json={"tool_name": "ask", "arguments": arguments})
        assert reply.status_code == 200, reply.text
    rows = await e.node.database.rows("SELECT id, run_id FROM rejoinder.question ORDER BY created_at")
    known["interaction_id"] = [str(row["id"]) for row in rows]
    known["run_id"] = [str(row["run_id"]) for row in rows]
    return Target(e.base, key, e.app.openapi(), known)


def about(case: Case[Any], target: Target, chance: random.Random) -> None:
    """Half of the cases are about something that exists."""
    for name, values in target.known.items():
        if name in case.path_parameters and chance.random() < 0.5:
            case.path_parameters[name] = chance.choice(values)
        if isinstance(case.body, dict) and name in case.body and chance.random() < 0.5:
            case.body[name] = chance.choice(values)


@pytest.mark.timeout(600)
# The server's thread draws numbers at random while requests are made up in this one, which looks like a mistake there.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
def test_every_operation_takes_any_request(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(monkeypatch)
    with running_apart(database_url) as target, requests.Session() as session:
        session.trust_env = False
        schema = schemathesis.openapi.from_dict(target.document)
        failures: list[str] = []
        tried = 0

        def try_it(operation: Any, mode: GenerationMode) -> None:
            @given(operation.as_strategy(generation_mode=mode), st.randoms(use_true_random=False))
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def run(case: Case[Any], chance: random.Random) -> None:
                nonlocal tried
                tried += 1
                about(case, target, chance)
                response = case.call(
                    base_url=target.base,
                    session=session,
                    headers={"Authorization": f"Bearer {target.key}"},
                    timeout=20,
                )
                checks = [
                    check
                    for check in CHECKS
                    if check is not not_a_server_error or response.status_code not in FAULTLESS
                ]
                case.validate_response(response, checks=checks)

            try:
                run()
            except Unsatisfiable:
                # Nothing of it can be wrong: it takes no parameter and no body.
                assert mode is GenerationMode.NEGATIVE, operation.label
            except (Failure, FailureGroup) as failure:
                failures.append(f"{operation.label} ({mode.value}): {_told(failure)}")

        operations: list[Any] = [cast(Any, found).ok() for found in schema.get_all_operations()]
        assert len(operations) > 20
        examples = max(FEWEST, REQUESTS // (2 * len(operations)))
        for operation in operations:
            if operation.path != ENDLESS:
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    try_it(operation, mode)
        assert tried > len(operations) * FEWEST
        assert not failures, "\n\n".join(failures)


def _told(failure: BaseException) -> str:
    inner = failure.exceptions if isinstance(failure, BaseExceptionGroup) else [failure]
    return "\n".join(f"{type(one).__name__} {one}"[:1_500] for one in inner)
