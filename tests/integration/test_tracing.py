"""Spans across the wait: the resumption, days later on another worker, is linked to the run that parked."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from rejoinder.contract.answers import AskAnswer, SuspendedInteraction
from rejoinder.node import Node
from rejoinder.observe import tracing
from rejoinder.observe.export import exporting
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.nodes import ANN, BOB, running
from tests.support import assert_eventually

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _forget_provider() -> None:
    # The API takes one provider a process, and there is no public way back; a test must leave none behind.
    trace._TRACER_PROVIDER = None
    trace._TRACER_PROVIDER_SET_ONCE = Once()
    tracing._tracer = trace.get_tracer("rejoinder")


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    tracing._tracer = trace.get_tracer("rejoinder")
    yield exporter
    provider.shutdown()
    _forget_provider()


@tool
async def park() -> SuspendedInteraction:
    return await ask("Go on?", mode="async", expiry_at=datetime.now(UTC) + timedelta(hours=1))


@park.continuation
async def _go_on(ask_result: AskAnswer[Any]) -> str:
    return str(ask_result.answer)


@asynccontextmanager
async def _answered_run(url: str) -> AsyncIterator[Node]:
    """A node on which a parked run, called with a trace context, was answered and has gone on."""
    async with running(url, park, worker=True) as node:
        run_id = await node.run_service.start_background("park", {}, by=ANN, traceparent=CALLER)

        async def state() -> str:
            return (await node.run_service.get(run_id, by=ANN)).state

        async def parked() -> bool:
            return await state() == "parked"

        await assert_eventually(parked, "the run did not park")
        question = (await node.asks.page(by=ANN, limit=1))[0]
        await node.asks.answer(question.id, "yes", by=BOB, via="test")

        async def over() -> bool:
            return await state() == "succeeded"

        await assert_eventually(over, "the run did not go on")
        yield node


async def test_the_resumption_is_linked_to_the_run_that_parked(
    database_url: str, spans: InMemorySpanExporter
) -> None:
    async with _answered_run(database_url):
        pass
    by_name: dict[str, ReadableSpan] = {s.name: s for s in spans.get_finished_spans()}
    assert set(by_name) == {"rejoinder.start", "rejoinder.run", "rejoinder.resume"}
    start = by_name["rejoinder.start"]
    assert start.parent is not None
    assert f"{start.parent.trace_id:032x}" in CALLER
    context = start.get_span_context()
    assert context is not None
    for later in ("rejoinder.run", "rejoinder.resume"):
        assert by_name[later].parent is None
        assert [link.context.span_id for link in by_name[later].links] == [context.span_id]
        assert (by_name[later].attributes or {})["rejoinder.tool"] == "park"


class _Collector(http.server.BaseHTTPRequestHandler):
    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Collector", (_Collector,), {"bodies": bodies})
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


async def test_spans_reach_a_collector_that_the_environment_names(
    database_url: str, collector: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, bodies = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    loop = asyncio.get_running_loop()
    export = exporting()
    export.__enter__()
    tracing._tracer = trace.get_tracer("rejoinder")
    try:
        async with _answered_run(database_url):
            pass
    finally:
        await loop.run_in_executor(None, export.__exit__, None, None, None)
        _forget_provider()
    sent = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    resources = [one.resource for request in sent for one in request.resource_spans]
    names = {
        span.name
        for request in sent
        for one in request.resource_spans
        for scope in one.scope_spans
        for span in scope.spans
    }
    assert names == {"rejoinder.start", "rejoinder.run", "rejoinder.resume"}
    assert {a.value.string_value for r in resources for a in r.attributes if a.key == "service.name"} == {
        "rejoinder"
    }


def test_without_the_variable_nothing_is_set_up() -> None:
    with exporting():
        assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
