"""One tree of errors. Each has a stable ``code``, the HTTP status a door answers with, and a text for people.

A text never holds a secret, a ticket, a stack trace or a Python ``repr``. ``field`` names the parameter that was
wrong, where one was.
"""

from __future__ import annotations

from typing import ClassVar


class RejoinderError(Exception):
    """Something went wrong in Rejoinder."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message or (self.__class__.__doc__ or "").strip())
        self.field = field

    @property
    def message(self) -> str:
        return str(self.args[0])

    def as_problem(self) -> dict[str, object]:
        """The body a door answers with: ``{"error", "code"[, "field"]}``."""
        body: dict[str, object] = {"error": self.message, "code": self.code}
        if self.field is not None:
            body["field"] = self.field
        return body


class AskArgumentError(RejoinderError, ValueError):
    """An argument of ``ask`` is not usable; ``field`` names it. Nothing was stored."""

    code = "bad-argument"
    status = 400


class CrossIdentityAudienceError(AskArgumentError):
    """This key may address questions to itself only."""

    code = "cross-identity-audience"
    status = 403


class BadInputError(RejoinderError, ValueError):
    """The request is not usable; ``field`` names the part that is wrong."""

    code = "bad-input"
    status = 400


class TooLargeError(RejoinderError):
    """The request is larger than this door takes."""

    code = "too-large"
    status = 413


class AnswerMismatchError(RejoinderError, ValueError):
    """The answer does not fit the question; the question stays open.

    ``errors`` maps a field's dotted path to its sentence, for forms.
    """

    code = "answer-mismatch"
    status = 400

    def __init__(
        self, message: str, *, field: str | None = None, errors: dict[str, str] | None = None
    ) -> None:
        super().__init__(message, field=field)
        self.errors = errors or {}

    def as_problem(self) -> dict[str, object]:
        body = super().as_problem()
        if self.errors:
            body["errors"] = self.errors
        return body


class InteractionNotFoundError(RejoinderError):
    """Interaction not found"""

    code = "interaction-not-found"
    status = 404


class InteractionClosedError(RejoinderError):
    """The question is no longer open. ``state``, ``by`` and ``at`` say how it ended, where the reader may know."""

    code = "interaction-closed"
    status = 409

    def __init__(
        self, message: str, *, state: str, by: str | None = None, at: str | None = None, answer: object = None
    ) -> None:
        super().__init__(message)
        self.state = state
        self.by = by
        self.at = at
        self.answer = answer

    def as_problem(self) -> dict[str, object]:
        body = super().as_problem()
        body["state"] = self.state
        if self.by is not None:
            body["answered_by"] = self.by
        if self.at is not None:
            body["closed_at"] = self.at
        if self.answer is not None:
            body["answer"] = self.answer
        return body


class InteractionAlreadyAnsweredError(InteractionClosedError):
    """Interaction already answered"""

    code = "interaction-already-answered"


class InteractionExpiredError(InteractionClosedError):
    """The answer came at or after the deadline; nothing was done with it."""

    code = "interaction-expired"
    status = 410


class WrongAudienceError(RejoinderError):
    """This question is not addressed to you."""

    code = "wrong-audience"
    status = 403


class CallerAskError(RejoinderError):
    """This question is for the caller of the run, who resumes the run with the answer; it is not answered here."""

    code = "caller-ask"
    status = 409


class VisitRequestError(BadInputError):
    """The run cannot be resumed with this; ``rule`` is the stable name of what was broken. Nothing was changed."""

    code = "bad-visit"

    def __init__(self, message: str, *, rule: str, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.rule = rule

    def as_problem(self) -> dict[str, object]:
        return super().as_problem() | {"rule": self.rule}


class ParkedEntryGoneError(RejoinderError):
    """The run does not wait for this any more."""

    code = "parked-entry-gone"
    status = 410


class ParkableRunFailedError(RejoinderError):
    """The run went on and failed."""

    code = "parkable-run-failed"
    status = 409


class InteractionTimeoutError(RejoinderError, TimeoutError):
    """Nobody answered in time."""

    code = "interaction-timeout"
    status = 504


class InteractionCancelledError(RejoinderError):
    """The question was withdrawn before anybody answered."""

    code = "interaction-cancelled"
    status = 409


class InteractionLimitError(RejoinderError):
    """Too many questions are open."""

    code = "interaction-limit"
    status = 503


class SuspensionError(RejoinderError):
    """This run cannot be parked. Nothing was stored."""

    code = "cannot-park"
    status = 409


class NoRunError(RejoinderError, RuntimeError):
    """``ask`` was called outside a run: call it from a tool that Rejoinder runs."""

    code = "no-run"


class ToolNotFoundError(RejoinderError):
    """No tool of this name is exposed."""

    code = "tool-not-found"
    status = 404


class AgentNotFoundError(RejoinderError):
    """No agent of this name is exposed."""

    code = "agent-not-found"
    status = 404


class AgentNotRunnableError(RejoinderError):
    """This agent cannot be run here."""

    code = "agent-not-runnable"
    status = 501


class ToolArgumentError(BadInputError):
    """The tool's arguments are not usable."""

    code = "bad-argument"


class ToolFailedError(RejoinderError):
    """The tool raised an error."""

    code = "tool-failed"
    status = 500


class ToolInternalError(RejoinderError):
    """This tool is internal: it is run by hooks on verified events, and not from here."""

    code = "tool-internal"
    status = 403


class RunNotFoundError(RejoinderError):
    """Run not found"""

    code = "run-not-found"
    status = 404


class RunConflictError(RejoinderError):
    """The run is not in a state that allows this."""

    code = "run-conflict"
    status = 409


class ApprovalDeniedError(RejoinderError):
    """This call was not approved, and was not run."""

    code = "approval-denied"
    status = 403


class RunTerminalFailed(RejoinderError):
    """Raise it in a continuation to end the run as failed: no retry."""

    code = "run-failed"


class ParkRunTakenDownError(RejoinderError):
    """The run was taken down meanwhile."""

    code = "run-taken-down"
    status = 409


class RunInterruptedError(RejoinderError):
    """A worker died inside code that may not run twice. An operator looks what it had done."""

    code = "run-interrupted"
    status = 409


class StepFailedError(RejoinderError):
    """A step of a resumable tool raised an error. ``step`` is its name, ``raised`` the name of what it raised."""

    code = "step-failed"

    def __init__(self, message: str | None = None, *, step: str = "", raised: str = "") -> None:
        super().__init__(message)
        self.step = step
        self.raised = raised


class StepsDivergedError(RejoinderError):
    """The code of a resumable tool does something else than it did before, so the run cannot go on with it."""

    code = "steps-diverged"
    status = 409


class LeaseLostError(RejoinderError):
    """Another worker drives this run now; this one must not write."""

    code = "lease-lost"
    status = 409


class RunCapacityError(RejoinderError):
    """Too many background runs are going; try again later."""

    code = "tool-runs-at-capacity"
    status = 503


class AuthenticationError(RejoinderError):
    """Authentication required"""

    code = "unauthenticated"
    status = 401


class ForbiddenError(RejoinderError):
    """Not allowed"""

    code = "forbidden"
    status = 403


class NotReadyError(RejoinderError):
    """The database does not answer; nothing was changed."""

    code = "not-ready"
    status = 503


class ConfigurationError(RejoinderError):
    """A setting is missing or wrong."""

    code = "configuration"
