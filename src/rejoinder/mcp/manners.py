"""How a call waits for a person, by what its client can do: four manners over the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.mcp.answering import take
from rejoinder.mcp.calls import DOOR, Call, Calls, Tell, digest_of
from rejoinder.mcp.capabilities import is_modern, knows_tasks, shows_of
from rejoinder.mcp.ends import Asked, Ended
from rejoinder.mcp.handover import Handover, handover_of
from rejoinder.mcp.offers import Offer, Shows, offer_of, site_of
from rejoinder.mcp.results import complete, input_required, pending
from rejoinder.mcp.sealed import Sealer
from rejoinder.mcp.tasks import task_of
from rejoinder.mcp.wire import WIRE, Wire
from rejoinder.node import Node

Context = ServerRequestContext[Any, Any]
#: task: the client asks for the run's state by itself. input: it is told what to ask its person, and calls again.
#: elicit: it is asked on the stream of the call. plain: the person is in the inbox, and only there.
Manner = Literal["task", "input", "elicit", "plain"]
Result = types.CallToolResult | types.InputRequiredResult | dict[str, Any]

#: A client's person may be asked as long as a question may stay open without being forgotten by its client.
STATE_SECONDS = 7 * 86_400.0
#: Clients give up after ten rounds of one call.
MOST_ROUNDS = 8
_LEG = "leg"


def manner_of(ctx: Context, shows: Shows) -> Manner:
    if not is_modern(ctx):
        return "elicit" if shows and wire_of(ctx) is not None else "plain"
    if knows_tasks(ctx):
        return "task"
    return "input" if shows else "plain"


def wire_of(ctx: Context) -> Wire | None:
    found = ctx.request.scope.get(WIRE) if ctx.request is not None else None
    return found if isinstance(found, Wire) else None


def handover(ctx: Context) -> Handover:
    return handover_of(ctx.request.scope if ctx.request is not None else {})


@dataclass(slots=True)
class Leg:
    """One request of a call that takes several. ``asked`` are the questions that the client was given, ``dismissed``
    those that its person closed, or went to the pages of; ``said`` is why answers were not taken."""

    call: Call
    shows: Shows
    rounds: int = 0
    asked: frozenset[str] = frozenset()
    dismissed: frozenset[str] = frozenset()
    said: dict[str, str] | None = None


class Manners:
    def __init__(
        self, node: Node, calls: Calls, sealer: Sealer, *, every: float, task_after: float, checkable: bool
    ) -> None:
        self._node = node
        self._calls = calls
        self._sealer = sealer
        self._every = every
        self._task_after = task_after
        self._checkable = checkable

    def shows(self, ctx: Context) -> Shows:
        """What the client of this request puts before its person. One of the older generation said so before."""
        wire = wire_of(ctx)
        if wire is not None:
            return wire.shows
        return shows_of(ctx, site_of(self._node.settings))

    async def leg(
        self,
        ctx: Context,
        params: types.CallToolRequestParams,
        arguments: dict[str, Any],
        by: Identity,
        begin: Callable[[], Awaitable[Call]],
    ) -> Leg:
        """The call that this request is about: by its sealed state, or a new one. Answers without a state that we made
        count for nothing. Raises MCPError."""
        if params.request_state is None:
            return Leg(await begin(), self.shows(ctx))
        state = await self._sealer.open(_LEG, params.request_state, _bound(by, params.name, arguments))
        if state is None:
            raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState")
        leg = Leg(
            self._calls.follow(UUID(state["run"]), params.name, by=by),
            self.shows(ctx),
            state["rounds"],
            frozenset(state["asked"]),
            frozenset(state["dismissed"]),
        )
        await self._take(leg, params.input_responses or {}, by)
        return leg

    async def _take(self, leg: Leg, responses: types.InputResponses, by: Identity) -> None:
        said: dict[str, str] = {}
        for offer in self.offers(await self._calls.open_questions(leg.call.run_id), by, leg.shows):
            key = str(offer.question.id)
            response = responses.get(key)
            # What was not asked of this client, or is no answer to a form, is not there.
            if key not in leg.asked or not isinstance(response, types.ElicitResult):
                continue
            taken = await take(self._node.asks, offer, response.action, response.content, by=by)
            if taken.dismissed:
                leg.dismissed |= {key}
            if taken.refused is not None:
                said[key] = taken.refused
        leg.said = said

    async def wait(
        self,
        ctx: Context,
        params: types.CallToolRequestParams,
        leg: Leg,
        by: Identity,
        tell: Tell,
    ) -> Result:
        call, request = leg.call, handover(ctx)
        seconds = self._node.settings.rejoinder_mcp_hold_seconds
        await self._calls.begun(call, request)

        def askable(questions: list[Question]) -> list[Question]:
            offers = self.offers(questions, by, leg.shows)
            return [o.question for o in offers if str(o.question.id) not in leg.dismissed]

        match manner_of(ctx, leg.shows):
            case "task":
                # A moment for what is done at once: a task costs the client two more requests.
                end = await self._calls.hold(call, min(seconds, self._task_after), tell, self._every, askable)
                if not isinstance(end, Ended) or end.kind == "parked":
                    return await task_of(self._node, call.run_id)
            case "input":
                end = await self._calls.hold(call, seconds, tell, self._every, askable)
                if not isinstance(end, Ended) and leg.rounds < MOST_ROUNDS:
                    return await self._next_round(leg, end, params, by)
            case "elicit":
                wire = wire_of(ctx)
                assert wire is not None
                end = await self._ask_on(wire, leg, seconds, by, tell, request)
            case "plain":
                end = await self._calls.hold(call, seconds, tell, self._every, by=request)
        if isinstance(end, Ended):
            await self._calls.tell_end(end, request)
            return complete(end, call.lost_run)
        if (asks := await self._calls.asks(call.run_id, by=by)) is not None:
            return complete(asks, call.lost_run)
        return pending(
            call.run_id, call.tool, await self._calls.open_questions(call.run_id), checkable=self._checkable
        )

    def offers(self, questions: list[Question], by: Identity, shows: Shows) -> list[Offer]:
        return [offer for question in questions if (offer := offer_of(question, by, shows)) is not None]

    async def _next_round(
        self, leg: Leg, end: Asked | None, params: types.CallToolRequestParams, by: Identity
    ) -> types.InputRequiredResult:
        """What the client shall ask its person; nothing where it shall only call again."""
        offers = self.offers(end.questions, by, leg.shows) if end is not None else []
        state = {
            "run": str(leg.call.run_id),
            "rounds": leg.rounds + 1,
            "asked": sorted(leg.asked | {str(offer.question.id) for offer in offers}),
            "dismissed": sorted(leg.dismissed),
        }
        bound = _bound(by, params.name, params.arguments or {})
        sealed = await self._sealer.seal(_LEG, state, bound, STATE_SECONDS)
        return input_required(
            {str(o.question.id): o.params(said=(leg.said or {}).get(str(o.question.id))) for o in offers},
            sealed,
        )

    async def _ask_on(
        self, wire: Wire, leg: Leg, seconds: float, by: Identity, tell: Tell, request: Handover
    ) -> Ended | Asked | None:
        """Ask on the call's own stream, while the same questions wait in the inbox; the first answer counts."""
        deadline = asyncio.get_running_loop().time() + seconds
        asked: dict[UUID, Offer] = {}
        ended: set[UUID] = set()

        def new(questions: list[Question]) -> list[Question]:
            ended.update(asked.keys() - {q.id for q in questions})
            return [o.question for o in self.offers(questions, by, leg.shows) if o.question.id not in asked]

        while True:
            left = deadline - asyncio.get_running_loop().time()
            end = await self._calls.hold(leg.call, max(0.0, left), tell, self._every, new, request)
            if isinstance(end, Ended):
                # Nothing of it is open any more, whether or not that was seen before.
                ended.update(asked)
            for question in (await self._node.questions.by_ids(list(ended))).values():
                if asked.pop(question.id).url is not None and question.state == "answered":
                    await wire.complete(question.id)
                if (question.closed_via, question.closed_by) != (DOOR, by.name):
                    await wire.withdraw(question.id)
            ended.clear()
            if not isinstance(end, Asked):
                return end
            for offer in self.offers(end.questions, by, leg.shows):
                asked[offer.question.id] = offer
                await wire.ask(offer)


def _bound(by: Identity, tool: str, arguments: dict[str, Any]) -> list[Any]:
    return [digest_of(by, tool, arguments).hex()]
