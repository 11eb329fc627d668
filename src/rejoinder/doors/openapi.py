"""The OpenAPI document: what FastAPI knows of its routes, the plain doors beside them, and the refusals of all."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from rejoinder.doors.admission import GRANT_KEY, REFUSES_KEY, Door, needs
from rejoinder.doors.bodies import to_bytes
from rejoinder.doors.schemas import ID, SCHEMAS, TEXT, Schema, body, gives, ref

DOCUMENT = "/openapi.json"

REASONS = {
    400: "The request is not usable; field names the part that is wrong.",
    401: "No valid key or session came with the request.",
    403: "This key or session may not do that.",
    404: "There is nothing of this id or name.",
    405: "This door does nothing with this method; Allow names those that it takes.",
    408: "The body did not arrive in time.",
    409: "It is not in a state that allows this; it may have been answered meanwhile.",
    410: "The question has lapsed.",
    413: "The body is larger than this door takes.",
    421: "The server is not known by this host name.",
    429: "Too many requests came from this client. Retry-After says when the next one is taken.",
    500: "Something went wrong here, or in the tool.",
    501: "This deployment is not set up for it; error says which setting it lacks.",
    503: "Not now: the database is away, a limit is reached, or the server is stopping. Try again.",
    504: "Nobody answered in time.",
}

_RUN_AGENT: dict[str, Any] = {
    "tags": ["agents"],
    "summary": "Run an agent and follow what it does",
    "description": "Server-sent events, each with the run_id: started; text, tool_call and tool_result as they happen; "
    "suspended, with the questions and the asks that the agent waits for; final, with kind and result; error. It ends with "
    "suspended, final or error. With follow it goes on after suspended until the run has ended, whoever carries it on. "
    "Closing the connection cancels a run that is going; a parked one stays parked.",
    **needs("write", **body("AgentCall"), refuses=(400, 404, 408, 413, 501)),
    "responses": {
        "200": {
            "description": "The stream",
            "headers": {"X-Rejoinder-Run-Id": {"description": "The run.", "schema": TEXT}},
            "content": {"text/event-stream": {"schema": TEXT}},
        }
    },
}

_PLAIN: dict[tuple[str, str], dict[str, Any]] = {
    ("/api/agents/{name}/run", "post"): {**_RUN_AGENT, "operationId": "run_agent"},
    ("/api/agents/{name}/runs", "post"): {**_RUN_AGENT, "operationId": "start_agent_run"},
    ("/api/agents/authored/{name}/runs", "post"): {
        **_RUN_AGENT,
        "operationId": "start_authored_agent_run",
        "summary": "Run an agent that is built from its specification",
        "description": "As running any agent. 404 for an agent that is a graph of its own code.",
    },
    ("/api/run-tool", "post"): {
        "tags": ["runs"],
        "operationId": "run_tool",
        "summary": "Run a tool and wait for it",
        "description": "Blocks until the tool is done, for as long as the questions that it asks are open. Closing the "
        "connection cancels the run and withdraws what it asked.",
        "parameters": [
            {
                "name": "traceparent",
                "in": "header",
                "description": "A W3C trace context; the run's spans belong to it.",
                "schema": TEXT,
            }
        ],
        **needs(
            "write",
            **body("ToolCall"),
            **gives("RunResult", X_Rejoinder_Run_Id="The run."),
            refuses=(400, 404, 408, 409, 413, 501, 504),
        ),
    },
    ("/api/interactions/{interaction_id}/answer", "post"): {
        "tags": ["interactions"],
        "operationId": "answer",
        "summary": "Answer a question",
        "description": "The answer counts once. The same answer given again by the same identity is told that it was "
        "recorded; anybody else is told who answered and when.",
        **needs("write", **body("Answer"), **gives("Answered"), refuses=(400, 404, 408, 409, 410, 413)),
    },
    ("/api/interactions/stream", "get"): {
        "tags": ["interactions"],
        "operationId": "stream",
        "summary": "Follow the questions live",
        "description": "Server-sent events: interaction.add, with the list's item; interaction.answered and "
        "interaction.removed, with interaction_id, group_id and, where removed, a reason; interaction.reset, after which "
        "the list is to be read again. It begins now: read the list first. With Last-Event-ID it begins with what was "
        "missed.",
        "parameters": [
            {"name": "Last-Event-ID", "in": "header", "schema": TEXT},
            {"name": "last_event_id", "in": "query", "schema": TEXT},
        ],
        **needs("read", refuses=(400,)),
        "responses": {
            "200": {"description": "The stream", "content": {"text/event-stream": {"schema": TEXT}}}
        },
    },
}


#: What is in a path. Anything else there is nothing that could be found.
_PATH: dict[str, Schema] = {
    "interaction_id": ID,
    "run_id": ID,
    "media_id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
    "ticket": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,512}$"},
    "name": {"type": "string", "pattern": "^[^\\u0000]{1,120}$"},
    "topic": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,119}$"},
    "token": {"type": "string", "pattern": "^trg-[A-Za-z0-9_-]{43}$"},
}


def document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=version("rejoinder"),
            summary="Ask a person from any agent or tool and get the typed answer back, exactly once.",
            routes=app.routes,
        )
        for (path, method), operation in _PLAIN.items():
            made["paths"].setdefault(path, {})[method] = dict(operation)
        for path, operations in made["paths"].items():
            for operation in operations.values():
                _complete(path, operation)
        made["components"] = {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key, rjk_..."},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-rejoinder"},
            },
        }
        app.openapi_schema = made
    return app.openapi_schema


def _complete(path: str, operation: dict[str, Any]) -> None:
    """Path parameters, security and refusals, which the routes do not spell one by one."""
    known = {parameter["name"] for parameter in operation.get("parameters", [])}
    for name in re.findall(r"{(\w+)}", path):
        if name not in known:
            parameter = {"name": name, "in": "path", "required": True, "schema": _PATH.get(name, TEXT)}
            operation["parameters"] = [*operation.get("parameters", []), parameter]
    responses = operation["responses"]
    responses.pop("422", None)
    refusals = {400, 413, 421, 500, *operation.pop(REFUSES_KEY, ())}
    if operation[GRANT_KEY] == "public":
        operation["security"] = []
        refusals.add(429)
    else:
        operation["security"] = [{"key": []}, {"session": []}]
        refusals |= {401, 403, 503}
    for status in sorted(refusals):
        responses.setdefault(
            str(status),
            {"description": REASONS[status], "content": {"application/json": {"schema": ref("Problem")}}},
        )


def router(app: FastAPI) -> APIRouter:
    api = APIRouter(route_class=Door)

    @api.get(DOCUMENT, openapi_extra=needs("public"), include_in_schema=False)
    async def shown() -> Response:
        return Response(to_bytes(document(app)), media_type="application/json")

    return api
