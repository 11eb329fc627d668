"""Ask a person from any agent or tool and get the typed answer back, exactly once, whatever crashes.

from rejoinder import ask, tool

@tool
async def delete_branch(name: str) -> str:
    answer = await ask(f"Delete the branch {name}?", answer_format="confirm")
    return "deleted" if answer.answer else "kept"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rejoinder.contract.answers import AskAnswer as AskAnswer
    from rejoinder.contract.answers import CallerAsk as CallerAsk
    from rejoinder.contract.answers import ReplyTo as ReplyTo
    from rejoinder.contract.answers import SecretValue as SecretValue
    from rejoinder.contract.answers import SuspendedInteraction as SuspendedInteraction
    from rejoinder.contract.deliveries import Delivery as Delivery
    from rejoinder.contract.elicitation import AcceptedElicitation as AcceptedElicitation
    from rejoinder.contract.elicitation import CancelledElicitation as CancelledElicitation
    from rejoinder.contract.elicitation import DeclinedElicitation as DeclinedElicitation
    from rejoinder.contract.errors import AskArgumentError as AskArgumentError
    from rejoinder.contract.errors import InteractionCancelledError as InteractionCancelledError
    from rejoinder.contract.errors import InteractionLimitError as InteractionLimitError
    from rejoinder.contract.errors import InteractionTimeoutError as InteractionTimeoutError
    from rejoinder.contract.errors import RejoinderError as RejoinderError
    from rejoinder.contract.errors import RunTerminalFailed as RunTerminalFailed
    from rejoinder.contract.errors import StepFailedError as StepFailedError
    from rejoinder.contract.errors import SuspensionError as SuspensionError
    from rejoinder.contract.forms import FormData as FormData
    from rejoinder.contract.forms import FormPage as FormPage
    from rejoinder.contract.media import MediaItem as MediaItem
    from rejoinder.contract.verifiers import FreshnessWindow as FreshnessWindow
    from rejoinder.contract.verifiers import SeenSetClaim as SeenSetClaim
    from rejoinder.contract.verifiers import VerificationFailedError as VerificationFailedError
    from rejoinder.contract.verifiers import Verifier as Verifier
    from rejoinder.contract.verifiers import VerifierConfigError as VerifierConfigError
    from rejoinder.runs.ask import ask as ask
    from rejoinder.runs.ask import ask_blocking as ask_blocking
    from rejoinder.runs.context import current_delivery as current_delivery
    from rejoinder.runs.context import current_run as current_run
    from rejoinder.runs.elicitation import Context as Context
    from rejoinder.runs.nested import call_tool as call_tool
    from rejoinder.runs.resumable import step as step
    from rejoinder.runs.tools import Tool as Tool
    from rejoinder.runs.tools import tool as tool

# Loaded when first used: the command line must start without pydantic and the database driver.
_PUBLIC = {
    "AcceptedElicitation": "rejoinder.contract.elicitation",
    "AskAnswer": "rejoinder.contract.answers",
    "CallerAsk": "rejoinder.contract.answers",
    "AskArgumentError": "rejoinder.contract.errors",
    "CancelledElicitation": "rejoinder.contract.elicitation",
    "Context": "rejoinder.runs.elicitation",
    "DeclinedElicitation": "rejoinder.contract.elicitation",
    "Delivery": "rejoinder.contract.deliveries",
    "FormData": "rejoinder.contract.forms",
    "FormPage": "rejoinder.contract.forms",
    "InteractionCancelledError": "rejoinder.contract.errors",
    "InteractionLimitError": "rejoinder.contract.errors",
    "InteractionTimeoutError": "rejoinder.contract.errors",
    "MediaItem": "rejoinder.contract.media",
    "RejoinderError": "rejoinder.contract.errors",
    "ReplyTo": "rejoinder.contract.answers",
    "RunTerminalFailed": "rejoinder.contract.errors",
    "SecretValue": "rejoinder.contract.answers",
    "StepFailedError": "rejoinder.contract.errors",
    "SuspendedInteraction": "rejoinder.contract.answers",
    "SuspensionError": "rejoinder.contract.errors",
    "Tool": "rejoinder.runs.tools",
    "ask": "rejoinder.runs.ask",
    "ask_blocking": "rejoinder.runs.ask",
    "call_tool": "rejoinder.runs.nested",
    "current_delivery": "rejoinder.runs.context",
    "current_run": "rejoinder.runs.context",
    "FreshnessWindow": "rejoinder.contract.verifiers",
    "SeenSetClaim": "rejoinder.contract.verifiers",
    "VerificationFailedError": "rejoinder.contract.verifiers",
    "Verifier": "rejoinder.contract.verifiers",
    "VerifierConfigError": "rejoinder.contract.verifiers",
    "step": "rejoinder.runs.resumable",
    "tool": "rejoinder.runs.tools",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rejoinder' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value
