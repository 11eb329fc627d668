"""What the pages say about a question, a run and an event, in sentences."""

from __future__ import annotations

from uuid import UUID

from rejoinder.contract.identity import EXPIRY, NO_AUTH, OUTSIDE, SYSTEM
from rejoinder.contract.questions import Question
from rejoinder.language.spoken import later, n, t
from rejoinder.store.events import Event
from rejoinder.store.runs import Run

VIA = {
    "inbox": later("in the inbox"),
    "http": later("over HTTP"),
    "api": later("over HTTP"),
    "cli": later("on the command line"),
    "mcp": later("over MCP"),
    "tool": later("by a tool"),
    "callback": later("through its callback URL"),
}
RUN_STATES = {
    "running": later("Running"),
    "parked": later("Waiting"),
    "succeeded": later("Succeeded"),
    "failed": later("Failed"),
    "lost": later("Lost"),
    "cancelled": later("Cancelled"),
}
STANDINGS = {
    "pending": later("Open"),
    "answered": later("Answered"),
    "expired": later("Lapsed"),
    "cancelled": later("Withdrawn"),
    "undelivered": later("Withdrawn"),
    "superseded": later("Withdrawn"),
}


#: The tool that agents ask with. Its name says nothing: who asks does.
BUILTIN = "ask"


#: What ``who`` says in the place of a name.
_OURS = ("you", "somebody", "somebody at this computer", "the deadline", "an outside system")


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
    return name[:1].upper() + name[1:] if name in {t(one) for one in _OURS} else name


def who(name: str | None, viewer: str | None = None) -> str:
    """A name for people; the viewer's own is ``you``."""
    if name is None:
        return t("somebody")
    if name == viewer:
        return t("you")
    return {
        NO_AUTH: t("somebody at this computer"),
        SYSTEM: "Rejoinder",
        EXPIRY: t("the deadline"),
        OUTSIDE: t("an outside system"),
    }.get(name, name)


def on_lapse(question: Question) -> str:
    """What happens if nobody answers."""
    if question.mode == "sync":
        return t("the run is told that nobody answered. No answer is assumed.")
    if question.on_expiry == "resume":
        return t("the run goes on, and is told that nobody answered. No answer is assumed.")
    return t("the run ends. No answer is assumed.")


def ended(question: Question) -> str:
    """Why a question that was neither answered nor lapsed is closed."""
    if question.state == "undelivered":
        return t("It could not be delivered.")
    if question.state == "superseded":
        return t("Another question took its place.")
    if question.reason == "asker gone":
        return t("The run that asked went away before anybody answered.")
    if question.reason == "run ended":
        return t("The run that asked ended before anybody answered.")
    if question.reason == "declined":
        return t("The person who was asked declined to answer. No consent was given.")
    if question.reason == "dismissed":
        return t("The person who was asked closed it without an answer. No consent was given.")
    if question.closed_by == SYSTEM:
        return t("The process that ran it stopped before anybody answered.")
    return t("It needs no answer any more.")


def run_after(run: Run | None, question: Question, open_siblings: int) -> str | None:
    """How the run stands, once this question has ended."""
    if run is None:
        return None
    match run.state:
        case "parked" if open_siblings:
            return n(
                "The run waits for one more answer.", "The run waits for {count} more answers.", open_siblings
            )
        case "parked":
            return t("The run goes on as soon as a worker takes it.")
        case "running":
            return t("The run went on.") if question.state == "answered" else t("The run is still going.")
        case "succeeded":
            return (
                t("The run went on and finished.") if question.state == "answered" else t("The run finished.")
            )
        case "failed" if run.held:
            return t("The run failed and is held for an operator.")
        case "failed":
            return t("The run went on and failed.") if question.state == "answered" else t("The run failed.")
        case "cancelled":
            return t("The run was ended.")
        case _:
            return t("The process that ran it stopped; the run is lost.")


_EVENTS = {
    "interaction.add": later("{who} asked"),
    "interaction.answered": later("{who} answered{via}"),
    "answer.refused": later("An answer by {who}{via} was not taken"),
    "link.opened": later("{who} opened the link to the outside system"),
    "ask.refused": later("A question by {who} was refused"),
    "run.started": later("{who} started the run"),
    "run.entered": later("A worker took the run"),
    "run.resumed": later("A worker resumed the run"),
    "run.parked": later("The run parked to wait"),
    "run.succeeded": later("The run succeeded"),
    "run.failed": later("The run failed"),
    "run.cancelled": later("The run was ended"),
    "run.expired": later("The run ended, because nobody answered in time"),
    "run.lost": later("The run was lost with its process"),
    "run.held": later("The run is held for an operator"),
    "run.retried": later("{who} sent the run to the queue again"),
    "run.released": later("The run goes back to the queue"),
    "key.created": later("{who} created a key"),
    "key.revoked": later("{who} revoked a key"),
    "session.opened": later("{who} signed in"),
}
_REASONS = {
    "mismatch": later("it did not fit the question"),
    "delivery-seen": later("what carried it had counted before"),
    "wrong-audience": later("the question is addressed to somebody else"),
    "self-approval": later("calls are not approved over the doors that models call through"),
    "interrupted": later("its worker stopped in the middle"),
    "exhausted": later("it was started too often"),
}
_REMOVED = {
    "expired": later("The deadline passed"),
    "cancelled": later("{who} withdrew the question{via}"),
    "declined": later("{who} declined to answer{via}"),
    "dismissed": later("{who} closed the question without an answer{via}"),
    "asker gone": later("The question was withdrawn, because the run that asked went away"),
    "run ended": later("The question was withdrawn, because the run that asked ended"),
    "stopped": later("The question was withdrawn, because its process stopped"),
}


def event(one: Event, viewer: str | None = None) -> str:
    """One line of a trail."""
    name = who(one.actor, viewer)
    via = f" {t(VIA[one.via])}" if one.via in VIA else ""
    if one.kind == "interaction.removed":
        text = t(_REMOVED.get(one.reason or "", later("The question was withdrawn")))
    else:
        text = t(_EVENTS.get(one.kind, one.kind))
    # The name comes from a key that somebody named: it is put in last and holds no pattern of ours.
    name = subject(name) if text.startswith("{who}") else name
    return text.replace("{via}", via).replace("{who}", name)


def reason(one: Event) -> str | None:
    """Why, where the line itself does not say it."""
    if one.kind in ("interaction.removed", "interaction.add", "interaction.answered") or one.reason is None:
        return None
    return t(_REASONS.get(one.reason, one.reason))
