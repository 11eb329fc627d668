"""Sending the person who is asked to the page of an outside system."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from starlette.responses import Response

from rejoinder.contract.errors import InteractionClosedError, InteractionNotFoundError, RejoinderError
from rejoinder.contract.questions import Question
from rejoinder.web.site import HEADERS, Visit, redirect

VIA = "inbox"


@dataclass(frozen=True, slots=True)
class Outside:
    """Where an external question is answered: a link without its ticket, and whether a verifier guards the answer."""

    link: str
    host: str
    verified: bool


def outside_of(question: Question) -> Outside | None:
    payload = question.shown_payload()
    if question.answer_format != "external" or payload is None:
        return None
    link = str(payload["link"])
    return Outside(link, urlsplit(link).hostname or "", bool(payload.get("server_verified")))


async def leave(visit: Visit) -> Response:
    """One press of the button makes a link of its own for this person and goes there.

    It goes by a Refresh and not by a redirect: the page's policy keeps forms on this site, redirects included."""
    identifier = visit.identifier()
    if identifier is None:
        raise InteractionNotFoundError()
    question = await visit.node.asks.get(identifier, by=visit.identity)
    try:
        url = await visit.node.callbacks.send_out(question, by=visit.identity, via=VIA)
    except InteractionClosedError:
        return redirect(f"/inbox/{question.id}")
    except RejoinderError as error:
        return visit.site.problem(error, visit)
    address = quote(url, safe=":/%#?=@[]!$&'()*+,;~")
    headers = HEADERS | {"refresh": f"0; url={address}", "referrer-policy": "no-referrer"}
    return visit.site.draw(
        "leaving.html", headers=headers, address=address, host=urlsplit(url).hostname, **visit.frame()
    )
