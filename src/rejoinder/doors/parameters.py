"""Parameters that several doors take, checked the same way everywhere."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime

from rejoinder.contract.errors import InteractionNotFoundError, RunNotFoundError
from rejoinder.contract.text import unstorable_text

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def maybe_uuid(text: str) -> UUID | None:
    """An id as we write ids; None for every other spelling that a UUID parser would also take."""
    return UUID(text) if _UUID.fullmatch(text) else None


def interaction_id(text: str) -> UUID:
    found = maybe_uuid(text)
    if found is None:
        raise InteractionNotFoundError()
    return found


def run_id(text: str) -> UUID:
    found = maybe_uuid(text)
    if found is None:
        raise RunNotFoundError()
    return found


def _text(value: str) -> str:
    if reason := unstorable_text(value):
        raise ValueError(f"cannot be searched for: {reason}")
    return value


def _id(value: str) -> str:
    if maybe_uuid(value) is None:
        raise ValueError("must be an id")
    return value


def _moment(value: datetime) -> datetime:
    if not 1970 <= value.year <= 9990:
        raise ValueError("is out of range")
    return value


Words = Annotated[str | None, Query(max_length=200), AfterValidator(lambda v: v if v is None else _text(v))]
Id = Annotated[str | None, Query(max_length=64), AfterValidator(lambda v: v if v is None else _id(v))]
Moment = Annotated[AwareDatetime | None, Query(), AfterValidator(lambda v: v if v is None else _moment(v))]
