"""Where spans go: to an OpenTelemetry collector, if the environment names one and the ``otel`` extra is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace

from rejoinder.observe.logs import get_logger

log = get_logger("tracing")

#: OpenTelemetry's own variables that say where spans go. Without one of them nothing is set up.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@contextmanager
def exporting() -> Iterator[None]:
    """Export this process' spans while it runs; what is left is sent at the end. The SDK's own ``OTEL_*`` variables
    (service name, headers, sampling, time-outs) apply. An SDK that somebody has set up already is left alone."""
    wanted = next((name for name in ENDPOINTS if os.environ.get(name)), None)
    if wanted is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning(
            f"{wanted} is set, but nothing can export spans; install the extra: pip install 'rejoinder[otel]'"
        )
        yield
        return
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield
        return
    # The variables win over our name.
    named = Resource.create({"service.name": "rejoinder"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
