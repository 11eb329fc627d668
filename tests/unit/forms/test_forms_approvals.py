"""Approvals typed on a command line."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.contract.errors import AnswerMismatchError
from rejoinder.forms.plain import parse_plain

DIGEST = "0123456789abcdef" * 4
PAYLOAD = {"digest": DIGEST}
APPROVED = {"decision": "approve", "digest": DIGEST}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (f"approve {DIGEST}", APPROVED),
        ("approve 01234567", APPROVED),
        (" Approve  0123456789AB ", APPROVED),
        ("deny", {"decision": "deny"}),
        ("Deny: too much", {"decision": "deny", "reason": "too much"}),
        ("deny, too much", {"decision": "deny", "reason": "too much"}),
        ("deny : too much", {"decision": "deny", "reason": "too much"}),
    ],
)
def test_what_is_typed_is_meant(typed: str, meant: dict[str, Any]) -> None:
    assert parse_plain("approval", PAYLOAD, typed) == meant


@pytest.mark.parametrize(
    "typed",
    ["", "yes", "y", "approve", "approve 0123456", "approve 76543210", "approve all", "approved", "ok"],
)
def test_nothing_is_approved_without_its_digest(typed: str) -> None:
    with pytest.raises(AnswerMismatchError):
        parse_plain("approval", PAYLOAD, typed)
