"""What the pages say about a question, a run and an event, in sentences."""

from __future__ import annotations

from uuid import UUID

from rejoinder.contract.identity import EXPIRY, NO_AUTH, SYSTEM
from rejoinder.contract.questions import Question
from rejoinder.store.events import Event
from rejoinder.store.runs import Run

VIA = {
    "inbox": "in the inbox",
    "http": "over HTTP",
    "api": "over HTTP",
    "cli": "on the command line",
    "mcp": "over MCP",
    "tool": "by a tool",
    "callback": "through its callback URL",
}
RUN_STATES = {
    "running": "Running",
    "parked": "Waiting",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "lost": "Lost",
    "cancelled": "Cancelled",
}
STANDINGS = {
    "pending": "Open",
    "answered": "Answered",
    "expired": "Lapsed",
    "cancelled": "Withdrawn",
    "undelivered": "Withdrawn",
    "superseded": "Withdrawn",
}


#: The tool that agents ask with. Its name says nothing: who asks does.
BUILTIN = "ask"


def source(question: Question) -> str:
    """Who or what asks, in a word."""
    return who(question.asked_by) if question.tool == BUILTIN else question.tool


def short(identifier: str) -> str:
    """The beginning of a UUID; any other name whole."""
    try:
        return str(UUID(identifier))[:8]
    except ValueError:
        return identifier


def subject(name: str) -> str:
    """A name at the beginning of a sentence; only words of ours are changed."""
    return (
        name[:1].upper() + name[1:]
        if name in ("you", "somebody", "somebody at this computer", "the deadline", "an outside system")
        else name
    )


def who(name: str | None, viewer: str | None = None) -> str:
    """A name for people; the viewer's own is ``you``."""
    if name is None:
        return "somebody"
    if name == viewer:
        return "you"
    return {
        NO_AUTH: "somebody at this computer",
        SYSTEM: "Rejoinder",
        EXPIRY: "the deadline",
        "external-callback": "an outside system",
    }.get(name, name)


def on_lapse(question: Question) -> str:
    """What happens if nobody answers."""
    if question.mode == "sync":
        return "the run is told that nobody answered. No answer is assumed."
    if question.on_expiry == "resume":
        return "the run goes on, and is told that nobody answered. No answer is assumed."
    return "the run ends. No answer is assumed."


def ended(question: Question) -> str:
    """Why a question that was neither answered nor lapsed is closed."""
    if question.state == "undelivered":
        return "It could not be delivered."
    if question.state == "superseded":
        return "Another question took its place."
    if question.reason == "asker gone":
        return "The run that asked went away before anybody answered."
    if question.reason == "run ended":
        return "The run that asked ended before anybody answered."
    if question.closed_by == SYSTEM:
        return "The process that ran it stopped before anybody answered."
    return "It needs no answer any more."


def run_after(run: Run | None, question: Question, open_siblings: int) -> str | None:
    """How the run stands, once this question has ended."""
    if run is None:
        return None
    match run.state:
        case "parked" if open_siblings:
            more = "one more answer" if open_siblings == 1 else f"{open_siblings} more answers"
            return f"The run waits for {more}."
        case "parked":
            return "The run goes on as soon as a worker takes it."
        case "running":
            return "The run went on." if question.state == "answered" else "The run is still going."
        case "succeeded":
            return "The run went on and finished." if question.state == "answered" else "The run finished."
        case "failed" if run.held:
            return "The run failed and is held for an operator."
        case "failed":
            return "The run went on and failed." if question.state == "answered" else "The run failed."
        case "cancelled":
            return "The run was ended."
        case _:
            return "The process that ran it stopped; the run is lost."


_EVENTS = {
    "interaction.add": "{who} asked",
    "interaction.answered": "{who} answered{via}",
    "answer.refused": "An answer by {who}{via} was not taken",
    "link.opened": "{who} opened the link to the outside system",
    "ask.refused": "A question by {who} was refused",
    "run.started": "{who} started the run",
    "run.entered": "A worker took the run",
    "run.resumed": "A worker resumed the run",
    "run.parked": "The run parked to wait",
    "run.succeeded": "The run succeeded",
    "run.failed": "The run failed",
    "run.cancelled": "The run was ended",
    "run.expired": "The run ended, because nobody answered in time",
    "run.lost": "The run was lost with its process",
    "run.held": "The run is held for an operator",
    "run.retried": "{who} sent the run to the queue again",
    "run.released": "The run goes back to the queue",
    "key.created": "{who} created a key",
    "key.revoked": "{who} revoked a key",
    "session.opened": "{who} signed in",
}
_REASONS = {
    "mismatch": "it did not fit the question",
    "delivery-seen": "what carried it had counted before",
    "wrong-audience": "the question is addressed to somebody else",
    "interrupted": "its worker stopped in the middle",
    "exhausted": "it was started too often",
}
_REMOVED = {
    "expired": "The deadline passed",
    "cancelled": "{who} withdrew the question{via}",
    "asker gone": "The question was withdrawn, because the run that asked went away",
    "run ended": "The question was withdrawn, because the run that asked ended",
    "stopped": "The question was withdrawn, because its process stopped",
}


def event(one: Event, viewer: str | None = None) -> str:
    """One line of a trail."""
    name = who(one.actor, viewer)
    via = f" {VIA[one.via]}" if one.via in VIA else ""
    if one.kind == "interaction.removed":
        text = _REMOVED.get(one.reason or "", "The question was withdrawn")
    else:
        text = _EVENTS.get(one.kind, one.kind)
    # The name comes from a key that somebody named: it is put in last and holds no pattern of ours.
    name = subject(name) if text.startswith("{who}") else name
    return text.replace("{via}", via).replace("{who}", name)


def reason(one: Event) -> str | None:
    """Why, where the line itself does not say it."""
    if one.kind in ("interaction.removed", "interaction.add", "interaction.answered") or one.reason is None:
        return None
    return _REASONS.get(one.reason, one.reason)
