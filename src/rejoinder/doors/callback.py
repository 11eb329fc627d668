"""``/api/interactions/callback/{ticket}``: the one door without a key that an answer comes through.

GET and HEAD only show. POST is read in one order: how large it is, whether the ticket is ours, whether its verifier
agrees, and only then what has become of its question.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

from fastapi import APIRouter, Request
from starlette.responses import Response

from rejoinder.asks.callback import Callbacks, Proven, Standing, TicketGoneError
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
from rejoinder.contract.verifiers import VerificationFailedError
from rejoinder.doors.admission import Door, needs, route_template
from rejoinder.doors.bodies import read_body, to_bytes
from rejoinder.doors.callback_bodies import channel_value, outside_value, pairs_of, query_map
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
_AWAY = "The service is away for a moment. Load this page again."


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
            log.warning(
                "refused",
                method="POST",
                route=route_template(request.scope),
                status=401,
                reason=error.code,
                request_id=request.scope.get("rejoinder.request_id"),
            )
            return _problem(error, 401)
        except VerificationError as error:
            metrics.callbacks.labels("unverifiable").inc()
            identifier = request.scope.get("rejoinder.request_id")
            log.error("a callback could not be verified", request_id=identifier)
            return _problem(error, 500, id=identifier)
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
            value, reply = outside_value(raw, query, proven), None
            status = await self._callbacks.answer(proven, standing, value)
        else:
            try:
                value, reply = channel_value(question, raw)
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
        state: form.FormState | None = None
        try:
            pairs = pairs_of(raw, "body")
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
                value = query_map(query)
            await self._callbacks.answer(proven, standing, value)
        except AnswerMismatchError as error:
            if state is not None:
                form.refused(question.format_payload, state, error.errors or {"": error.message})
                return pages.asked(standing, state, status=422), "refused"
            if pages.takes_a_form(question):
                # Nothing was read: it is the schema that cannot be processed.
                return self._fault_page(request, error), "fault"
            notice = later("This link does not carry what the question asks for. Nothing was sent.")
            return pages.asked(standing, notice=notice, status=422), "refused"
        except TooLargeError:
            notice = later("This is more than a form may send. Shorten it and try again.")
            return pages.asked(standing, notice=notice, status=413), "refused"
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
