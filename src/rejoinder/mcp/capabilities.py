"""What the client of one request can do, and the words of the protocol's tasks."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from rejoinder.mcp.offers import Shows

Context = ServerRequestContext[Any, Any]

TASKS = "io.modelcontextprotocol/tasks"


class TaskParams(types.RequestParams):
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses")


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def knows_tasks(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return is_modern(ctx) and capabilities is not None and TASKS in (capabilities.extensions or {})


def shows_of(ctx: Context, site: str | None) -> Shows:
    """What it puts before its person; saying nothing of what kind means forms. ``site`` is where our pages are."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None:
        return Shows()
    pages = elicitation.url is not None
    return Shows(elicitation.form is not None or not pages, site if pages else None)
