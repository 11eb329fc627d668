"""Spans across the wait. A run's trace context is stored with it, so that the resumption on another worker links back.

Only the OpenTelemetry API is needed; without an SDK every call here does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, ProxyTracerProvider, Span, SpanKind, StatusCode

_tracer = trace.get_tracer("rejoinder")
_NOTHING = nullcontext(trace.INVALID_SPAN)


def stored_context() -> str | None:
    """The current trace context as a W3C ``traceparent``, or None where nothing is traced."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier.get("traceparent")


def span(
    name: str,
    *,
    attributes: Mapping[str, Any] | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    linked_to: str | None = None,
    parent: Mapping[str, str] | None = None,
) -> AbstractContextManager[Span]:
    """A span; ``linked_to`` is a stored ``traceparent``: the wait may have lasted days, so it is a link, no parent."""
    if parent is None and not _traced():
        # A span stays open while its run waits for a person: without an SDK it would be memory for nothing.
        return _NOTHING
    return _span(name, attributes, kind, linked_to, parent)


def _traced() -> bool:
    """Whether somebody records spans here, or a caller's trace is to be passed on."""
    if not isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        return True
    return trace.get_current_span().get_span_context().is_valid


@contextmanager
def _span(
    name: str,
    attributes: Mapping[str, Any] | None,
    kind: SpanKind,
    linked_to: str | None,
    parent: Mapping[str, str] | None,
) -> Iterator[Span]:
    links = []
    if linked_to is not None:
        context = trace.get_current_span(propagate.extract({"traceparent": linked_to})).get_span_context()
        if context.is_valid:
            links.append(Link(context))
    with _tracer.start_as_current_span(
        name,
        context=propagate.extract(parent) if parent else None,
        kind=kind,
        attributes=dict(attributes or {}),
        links=links,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            # The type only: an exception's text may hold what the tool was given.
            current.set_status(StatusCode.ERROR, type(error).__name__)
            raise
