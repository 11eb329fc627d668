"""``/api/interactions/callback/{ticket}``: the one door without a key that an answer comes through.

GET and HEAD only show. POST is read in one order: how large it is, whether the ticket is ours, whether its verifier
agrees, and only then what has become of its question.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any, cast
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from starlette.responses import Response

from rejoinder.asks.callback import Callbacks, Proven, Reply, Standing, TicketGoneError
from rejoinder.asks.tickets import PATH
from rejoinder.contract.errors import (
    AnswerMismatchError,
    BadInputError,
    CallerAskError,
    NotReadyError,
    RejoinderError,
    TooLargeError,
)
from rejoinder.contract.questions import Question
from rejoinder.contract.text import unstorable_text
from rejoinder.contract.verifiers import VerificationFailedError
from rejoinder.doors.admission import Door, needs
from rejoinder.doors.bodies import parse_json, read_body, to_bytes
from rejoinder.doors.openapi import REASONS
from rejoinder.doors.schemas import gives
from rejoinder.language.spoken import later, speaking
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.verifiers.registry import VerificationError
from rejoinder.web import callback as pages
from rejoinder.web import form
from rejoinder.web.speech import language_of

log = get_logger("callback")

#: Requests of one client in a minute, and in ten seconds.
BUDGET = (60, 10)
FORM = "application/x-www-form-urlencoded"
MOST_PAIRS = 5_100
KEYS = frozenset(("answer", "params", "medium_message_id", "reply_to_medium_message_id"))
MOST_PARAMS, MAX_PARAM, MAX_PARAMS, MAX_MEDIUM_ID = 16, 512, 2_048, 512
_PARAM = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_AWAY = "The service is away for a moment. Load this page again."

Pairs = list[tuple[str, str]]


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["interactions"])
    path = PATH + "/{ticket}"
    shown = needs(
        "public",
        budget=BUDGET,
        responses={
            "200": {
                "description": "A page, or a canary's proof",
                "content": {"text/html": {}, "application/json": {}},
            },
            "404": {"description": REASONS[404], "content": {"text/plain": {}}},
            "500": {"description": REASONS[500], "content": {"text/plain": {}, "application/json": {}}},
            "503": {"description": REASONS[503], "content": {"text/plain": {}}},
        },
    )
    taken = needs(
        "public", budget=BUDGET, refuses=(401, 404, 408, 409, 500, 503), **gives("CallbackAnswered")
    )
    door = _CallbackDoor(node)

    @api.head(path, openapi_extra=needs("public", budget=BUDGET), include_in_schema=False)
    @api.get(
        path, openapi_extra=shown, summary="Show what an external question asks", response_class=Response
    )
    async def show(request: Request) -> Response:
        """Changes nothing, whoever asks. One constant 404 for every ticket that is unknown, over or has a
        verifier."""
        return await door.show(request)

    @api.post(path, openapi_extra=taken, summary="Answer an external question")
    async def answer(request: Request) -> Response:
        """The body is the answer, a JSON object; without one the query is. Counts once, and says so again. What does
        not fit the question leaves the ticket as it was."""
        return await door.answer(request)

    def genuine(scope: Any) -> str | None:
        ticket = str(scope.get("path_params", {}).get("ticket", ""))
        return ticket if node.office.knows(ticket) else None

    for endpoint in (show, answer):
        cast(Any, endpoint).genuine_ticket = genuine
    return api


class _CallbackDoor:
    def __init__(self, node: Node) -> None:
        self._callbacks: Callbacks = node.callbacks
        self._settings = node.settings
        self._cap = node.settings.interactions_callback_max_body_bytes

    # GET and HEAD

    async def show(self, request: Request) -> Response:
        try:
            with self._speaking(request):
                response = await self._shown(request.path_params["ticket"])
        except (TicketGoneError, CallerAskError):
            response = self._gone_page()
        except NotReadyError:
            response = pages.plain(_AWAY, 503)
        except Exception as error:
            response = self._fault_page(request, error)
        if request.method == "HEAD":
            response.body = b""
        return response

    async def _shown(self, ticket: str) -> Response:
        opened = await self._callbacks.office.open(ticket)
        if opened is None or opened.binding is not None:
            raise TicketGoneError()
        if opened.proof is not None:
            return _canary(opened.proof)
        standing = await self._callbacks.find(opened)
        return pages.done(standing.question) if standing.answered else pages.asked(standing)

    # POST

    async def answer(self, request: Request) -> Response:
        person = False
        query: bytes = request.scope.get("query_string", b"")
        try:
            if len(query) > self._cap:
                raise TooLargeError(
                    f"The query is over {self._cap} bytes, which is the most that this door takes."
                )
            raw = await read_body(request.scope, request.receive, self._cap)
            person = _by_page(request, raw)
            response, outcome = await self._answered(request, raw, query, person)
        except TicketGoneError as error:
            metrics.callbacks.labels("gone").inc()
            return self._gone_page() if person else _problem(error, 404)
        except VerificationFailedError as error:
            # Nothing here says which ticket it was, nor that there was one.
            metrics.callbacks.labels("unverified").inc()
            log.warning("refused", route=PATH, status=401, reason=error.code)
            return _problem(error, 401)
        except VerificationError as error:
            metrics.callbacks.labels("unverifiable").inc()
            return _problem(error, 500, id=request.scope.get("rejoinder.request_id"))
        except (AnswerMismatchError, BadInputError):
            metrics.callbacks.labels("refused").inc()
            raise
        except NotReadyError:
            if person:
                return pages.plain(_AWAY, 503)
            raise
        metrics.callbacks.labels(outcome).inc()
        return response

    async def _answered(
        self, request: Request, raw: bytes, query: bytes, person: bool
    ) -> tuple[Response, str]:
        proven = await self._callbacks.prove(request.path_params["ticket"], raw, _headers(request))
        if proven.opened.proof is not None:
            return _canary(proven.opened.proof), "canary"
        standing = await self._callbacks.find(proven.opened)
        question = standing.question
        by_page = person and proven.opened.binding is None
        if by_page:
            with self._speaking(request):
                if standing.answered:
                    return pages.done(question), "already_answered"
                return await self._from_page(request, proven, standing, raw, query)
        if standing.answered:
            return _said("already_answered"), "already_answered"
        if question.answer_format == "external":
            value, reply = _outside_value(raw, query, proven), None
            status = await self._callbacks.answer(proven, standing, value)
        else:
            try:
                value, reply = _channel_value(question, raw)
                status = await self._callbacks.answer(proven, standing, value, reply)
            except (AnswerMismatchError, BadInputError) as error:
                return _problem(error, 400, retry_in_place=True), "refused"
        if status == "answered":
            return _said(status, question), status
        return _said(status), status

    async def _from_page(
        self, request: Request, proven: Proven, standing: Standing, raw: bytes, query: bytes
    ) -> tuple[Response, str]:
        """What a person sent with the page's own form; they are answered with a page, whatever comes of it."""
        question = standing.question
        try:
            pairs = _pairs(raw, "body")
            if question.answer_format in ("text", "select"):
                return pages.asked(standing, status=400), "refused"
            if pages.takes_a_form(question):
                state = form.read(question.format_payload, pairs)
                if not state.ready:
                    faulty = bool(state.errors)
                    return pages.asked(standing, state, status=422 if faulty else 200), "refused"
                value = state.value
            elif question.answer_format == "confirm":
                # The page's own buttons say which; a form with nothing in it is a plain yes.
                value = dict(pairs).get("answer", "true") == "true"
            else:
                value = _query_map(query)
            await self._callbacks.answer(proven, standing, value)
        except AnswerMismatchError as error:
            if pages.takes_a_form(question):
                state = form.read(question.format_payload, pairs)
                state.errors = error.errors or {"": error.message}
                return pages.asked(standing, state, status=422), "refused"
            notice = later("This link does not carry what the question asks for. Nothing was sent.")
            return pages.asked(standing, notice=notice, status=422), "refused"
        except BadInputError:
            return pages.asked(
                standing, notice=later("This page could not read what was sent."), status=400
            ), "refused"
        except TicketGoneError:
            raise
        except NotReadyError:
            raise
        except Exception as error:
            return self._fault_page(request, error), "fault"
        return pages.done(question), "answered"

    def _speaking(self, request: Request) -> AbstractContextManager[None]:
        return speaking(language_of(request, self._settings.rejoinder_language))

    def _gone_page(self) -> Response:
        return pages.plain(self._settings.interactions_callback_gone_text, 404)

    def _fault_page(self, request: Request, error: Exception) -> Response:
        log.error(
            "a callback page failed", request_id=request.scope.get("rejoinder.request_id"), exc_info=error
        )
        return pages.plain(self._settings.interactions_callback_fault_text, 500)


def _by_page(request: Request, raw: bytes) -> bool:
    """Whether a person pressed a button of our page, and is to be answered with one."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == FORM and "=".join(pages.MARKER).encode() in raw.split(b"&")


def _outside_value(raw: bytes, query: bytes, proven: Proven) -> dict[str, Any]:
    """What an outside system sent: its body word for word, or without one the query."""
    if raw:
        value = parse_json(raw)
        if not isinstance(value, dict):
            raise BadInputError("the body must be a JSON object", field="body")
        return value
    if proven.post_only:
        raise BadInputError("verified callback requires a signed request body", field="body")
    return _query_map(query)


def _query_map(query: bytes) -> dict[str, Any]:
    """The query's parameters; one that comes several times is a list."""
    found: dict[str, list[str]] = {}
    for name, value in _pairs(query, "query"):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _pairs(text: bytes, field: str) -> Pairs:
    try:
        return parse_qsl(
            text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_PAIRS, errors="strict"
        )
    except ValueError:
        raise BadInputError(f"the {field} cannot be read", field=field) from None


def _channel_value(question: Question, raw: bytes) -> tuple[Any, Reply]:
    """What a channel forwards: the answer, and what it tells beside it."""
    if not raw:
        if question.answer_format == "confirm":
            return True, Reply()
        raise BadInputError("body must contain 'answer'", field="answer")
    body = parse_json(raw)
    if not isinstance(body, dict):
        raise BadInputError("the body must be a JSON object", field="body")
    if "answer" not in body:
        raise BadInputError("body must contain 'answer'", field="answer")
    if set(body) - KEYS:
        raise BadInputError(f"the body takes {', '.join(sorted(KEYS))}, and no other key", field="body")
    _medium_id(body, "medium_message_id")
    return body["answer"], Reply(_params(body.get("params")), _medium_id(body, "reply_to_medium_message_id"))


def _params(value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > MOST_PARAMS:
        raise BadInputError(f"params must be an object of at most {MOST_PARAMS} texts", field="params")
    for name, text in value.items():
        if not _PARAM.fullmatch(name):
            raise BadInputError(
                "a name in params has 1 to 64 letters, digits, _ and -, and nothing else", field="params"
            )
        if not isinstance(text, str) or len(text) > MAX_PARAM or unstorable_text(text):
            raise BadInputError(
                f"params.{name} must be text of at most {MAX_PARAM} characters", field="params"
            )
    if len(to_bytes(value)) > MAX_PARAMS:
        raise BadInputError(f"params is over {MAX_PARAMS} bytes of JSON", field="params")
    return cast("dict[str, str]", value) or None


def _medium_id(body: dict[str, Any], key: str) -> str | None:
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_MEDIUM_ID or unstorable_text(value):
        raise BadInputError(f"{key} must be text of 1 to {MAX_MEDIUM_ID} characters", field=key)
    return value


def _headers(request: Request) -> dict[str, str]:
    """Every header by its lower-case name; one that comes twice is joined, so that it proves nothing by halves."""
    found: dict[str, str] = {}
    for name, value in request.scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _said(status: str, question: Question | None = None) -> Response:
    data = {"status": status} if question is None else {"interaction_id": str(question.id), "status": status}
    return _json({"data": data}, 200)


def _canary(proof: str) -> Response:
    return _json({"data": {"canary": proof}}, 200)


def _problem(error: RejoinderError, status: int, **more: Any) -> Response:
    return _json(
        error.as_problem() | {key: value for key, value in more.items() if value is not None}, status
    )


def _json(body: dict[str, Any], status: int) -> Response:
    return Response(
        to_bytes(body),
        status_code=status,
        media_type="application/json",
        headers={
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
        },
    )
