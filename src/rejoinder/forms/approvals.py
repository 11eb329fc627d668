"""The answer to "may this tool be called?": approve, approve with other arguments, or deny with a reason."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.approvals import MAX_REASON
from rejoinder.contract.errors import AnswerMismatchError
from rejoinder.contract.text import unstorable
from rejoinder.forms.answers import examined
from rejoinder.forms.paths import dotted

#: How many characters of a digest stand for it where it is typed.
DIGEST_TYPED = 8
_KEYS = {"approve": {"decision", "digest", "arguments"}, "deny": {"decision", "digest", "reason"}}


def check_approval(payload: dict[str, Any], answer: Any) -> dict[str, Any]:
    """``{"decision": "approve", "digest"[, "arguments"]}`` or ``{"decision": "deny"[, "reason"]}``, where it fits.

    Approving names the digest of what was shown: an answer made for another call, or without looking, is refused.
    ``arguments`` replace those that were shown, and fit the tool's own schema. Raises AnswerMismatchError with ``field``.
    """
    if not isinstance(answer, dict):
        raise AnswerMismatchError("answer must be an object with a decision: approve or deny")
    if reason := unstorable(answer):
        raise AnswerMismatchError(f"answer cannot be kept: {reason}")
    decision = answer.get("decision")
    if decision not in _KEYS:
        raise AnswerMismatchError("decision must be approve or deny", field="decision")
    for key in answer:
        if key not in _KEYS[decision]:
            raise AnswerMismatchError(f"an answer that says {decision} takes no {key}", field=str(key))
    if "digest" in answer or decision == "approve":
        _check_digest(payload, answer.get("digest"))
    if decision == "approve":
        if "arguments" in answer:
            _check_arguments(payload, answer["arguments"])
    elif answer.get("reason") is not None:
        _check_reason(answer["reason"])
    return answer


def plain_approval(payload: dict[str, Any], text: str) -> dict[str, Any]:
    """What a typed ``approve DIGEST`` (its first characters are enough), ``deny`` or ``deny: the reason`` means.

    Raises AnswerMismatchError. Without the digest nothing is approved: it is read where the call is."""
    word, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    match word.rstrip(":,").casefold():
        case "approve":
            digest = str(payload.get("digest"))
            if len(rest) < DIGEST_TYPED or not digest.startswith(rest.casefold()):
                raise AnswerMismatchError(
                    f"type approve and the first {DIGEST_TYPED} characters of the call's digest",
                    field="digest",
                )
            return {"decision": "approve", "digest": digest}
        case "deny":
            reason = rest.removeprefix(":").strip()
            return {"decision": "deny", **({"reason": reason} if reason else {})}
    raise AnswerMismatchError("type approve and the digest, or deny and the reason", field="decision")


def _check_digest(payload: dict[str, Any], digest: Any) -> None:
    if digest is None:
        raise AnswerMismatchError(
            "digest is missing: it says which call is approved, and stands in the question", field="digest"
        )
    if digest != payload.get("digest"):
        raise AnswerMismatchError("digest is not that of this call; look at the call again", field="digest")


def _check_arguments(payload: dict[str, Any], arguments: Any) -> None:
    if not isinstance(arguments, dict):
        raise AnswerMismatchError("arguments must be an object", field="arguments")
    _, found = examined({"schema": payload.get("schema") or {}}, arguments)
    if found:
        errors = {f"arguments.{dotted(path)}" if path else "arguments": said for path, said in found.items()}
        place, sentence = next(iter(errors.items()))
        raise AnswerMismatchError(f"{place}: {sentence}", field=place, errors=errors)


def _check_reason(reason: Any) -> None:
    if not isinstance(reason, str):
        raise AnswerMismatchError("reason must be a string", field="reason")
    if len(reason) > MAX_REASON:
        raise AnswerMismatchError(f"reason holds more than {MAX_REASON} characters", field="reason")
