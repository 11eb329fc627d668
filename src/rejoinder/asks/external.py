"""External questions: an outside system answers through a callback URL, and a person is sent there by a link.

The link holds the bearer's right to answer, so it is kept in parts, without its ticket; only who is asked is given a
whole one, with a ticket of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, cast

from rejoinder.asks.tickets import PATH, TicketOffice, digest_of
from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.public import public_base, wrong_with_link
from rejoinder.contract.questions import AskRequest, External, Link
from rejoinder.contract.text import unstorable_text
from rejoinder.contract.verifiers import Binding
from rejoinder.verifiers.registry import Verifiers

PLACEHOLDER = "{callback_url}"
LINK, VERIFIER = "link", "verifier"


def check_external(
    answer_format: str, link: object, verifier: object, *, verifiers: Verifiers, public_base_url: str | None
) -> External | None:
    """The rules of an external question, in the order of the interface; None for every other kind.

    Raises AskArgumentError, and PublicUrlError where nobody outside could reach this deployment."""
    if answer_format != "external":
        for name, value in ((LINK, link), (VERIFIER, verifier)):
            if value is not None:
                raise AskArgumentError(f'{name} goes with answer_format="external"', field=name)
        return None
    if link is None:
        raise AskArgumentError(
            "an external question needs its link: a text with {callback_url} in it, or a function that makes the "
            "address from the callback URL",
            field=LINK,
        )
    binding = None if verifier is None else verifiers.bind(verifier, field=VERIFIER)
    base = public_base(public_base_url)
    return External(_checked_link(link), binding, base)


def _checked_link(link: object) -> Link:
    if callable(link):
        return cast(Link, link)
    if not isinstance(link, str):
        raise AskArgumentError("link must be text, or a function that takes the callback URL", field=LINK)
    if PLACEHOLDER not in link:
        raise AskArgumentError(
            "link must hold {callback_url}, which the callback URL is put in for", field=LINK
        )
    # A blank ticket stands in for the real one: what is wrong with the rest is found before anything is made.
    if reason := wrong_with_link(link.replace(PLACEHOLDER, f"https://callback.invalid{PATH}/0")):
        raise AskArgumentError(f"link cannot be opened: {reason}", field=LINK)
    return link


class ExternalAsks:
    def __init__(self, office: TicketOffice) -> None:
        self._office = office

    async def open(self, request: AskRequest) -> AskRequest:
        """The request as it is to be stored, with the digest of its ticket. A link that is a function is called
        here; what it raises goes through, and nothing was stored."""
        external = request.external
        assert external is not None
        ticket = await self._office.make(external.binding)
        callback_url = f"{external.base}{PATH}/{ticket}"
        url = await _made_link(external.link, callback_url)
        payload: dict[str, Any] = {LINK: url.split(ticket), **(request.format_payload or {})}
        if external.binding is not None:
            payload[VERIFIER] = external.binding.as_json()
        return replace(request, format_payload=payload, ticket=digest_of(ticket))

    async def fresh(self, payload: dict[str, Any]) -> tuple[str, bytes | None]:
        """A whole link with a new ticket, and that one's digest; None where the link holds no ticket."""
        parts = payload[LINK]
        if len(parts) == 1:
            return str(parts[0]), None
        bound = payload.get(VERIFIER)
        ticket = await self._office.make(
            None if bound is None else Binding(bound["verifier"], bound["config"])
        )
        return ticket.join(parts), digest_of(ticket)


async def _made_link(link: Link, callback_url: str) -> str:
    if isinstance(link, str):
        return link.replace(PLACEHOLDER, callback_url)
    made: object = link(callback_url)
    if inspect.isawaitable(made):
        made = await cast("Awaitable[object]", made)
    if reason := wrong_with_link(made):
        raise AskArgumentError(f"the link that was made cannot be opened: {reason}", field=LINK)
    assert isinstance(made, str)
    if reason := unstorable_text(made):
        raise AskArgumentError(f"the link that was made cannot be stored: {reason}", field=LINK)
    return made
