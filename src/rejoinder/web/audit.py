"""The audit trail: every ask, try, answer, expiry and refusal, newest first."""

from __future__ import annotations

from uuid import UUID

from starlette.responses import Response

from rejoinder.language.spoken import later
from rejoinder.web.drawing import link
from rejoinder.web.site import Visit

PAGE = 100
KINDS = (
    ("interaction", later("Questions")),
    ("interaction.answered", later("Answers")),
    ("answer", later("Refused answers")),
    ("ask", later("Refused questions")),
    ("run", later("Runs")),
    ("key", later("Keys")),
    ("session", later("Sign-ins")),
)


async def show(visit: Visit) -> Response:
    """A restricted identity sees what is addressed to it."""
    kind = visit.query("kind")
    kind = kind if kind in dict(KINDS) else None
    actor, before = visit.query("actor"), _number(visit.query("before"))
    interaction, run = _uuid(visit.query("interaction")), _uuid(visit.query("run"))
    by = visit.identity
    found = await visit.node.events.page(
        before=before,
        interaction_id=interaction,
        run_id=run,
        kind=kind,
        actor=actor,
        audience=by.name if by.restricted else None,
        limit=PAGE + 1,
    )
    older = None
    if len(found) > PAGE:
        found = found[:PAGE]
        older = link(
            "/audit",
            kind=kind,
            actor=actor,
            interaction=str(interaction or ""),
            run=str(run or ""),
            before=str(found[-1].seq),
        )
    return visit.draw(
        "audit.html",
        events=found,
        asked=await visit.node.questions.by_ids(
            sorted({one.interaction_id for one in found if one.interaction_id})
        ),
        older=older,
        kinds=KINDS,
        kind=kind,
        actor=actor,
        interaction=interaction,
        run=run,
        later=before is not None,
    )


def _number(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        return None
    return int(text)


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None
