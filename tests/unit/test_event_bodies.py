"""What is posted to a topic is read by its type; what cannot be read is refused, and nothing in it is ever fetched."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rejoinder.contract.errors import BadInputError
from rejoinder.contract.text import unstorable
from rejoinder.doors.event_bodies import event_of

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "cases" / "deliveries.json").read_text(encoding="utf-8")
)
TYPES = sorted({case["type"] for case in CASES})


def read(case: dict[str, Any]) -> dict[str, Any]:
    raw = base64.b64decode(case["base64"]) if "base64" in case else case["body"].encode()
    headers = {"content-type": case["type"]} if case["type"] else {}
    if "encoding" in case:
        headers["content-encoding"] = case["encoding"]
    return event_of(raw, case.get("query", "").encode(), headers)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_delivery_is_read_or_refused(case: dict[str, Any]) -> None:
    if "event" in case:
        event = read(case)
        assert event == case["event"]
        assert list(event) == list(case["event"])
        return
    with pytest.raises(BadInputError) as refused:
        read(case)
    assert refused.value.field == case["field"]


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("application/json", b"[" * 30_000 + b"]" * 30_000),
        ("application/x-www-form-urlencoded", b"&".join([b"a=1"] * 5_200)),
        ("text/xml", b"<a>" * 20_000),
    ],
    ids=["depth", "fields", "elements"],
)
def test_what_is_large_in_its_own_way_is_refused(kind: str, raw: bytes) -> None:
    with pytest.raises(BadInputError):
        event_of(raw, b"", {"content-type": kind})


@given(st.sampled_from(TYPES), st.binary(max_size=200), st.binary(max_size=40))
@example("text/xml", b"<a xmlns='x'/>", b"")
@example("multipart/form-data; boundary=XX", b"--XX\r\n\r\n", b"a=1")
def test_whatever_comes_is_an_event_that_can_be_kept_or_a_refusal(
    kind: str, raw: bytes, query: bytes
) -> None:
    try:
        event = event_of(raw, query, {"content-type": kind})
    except BadInputError:
        return
    assert unstorable(event) is None


@given(st.sampled_from(TYPES), st.text(max_size=60))
def test_a_content_type_of_any_words_is_no_fault(kind: str, junk: str) -> None:
    try:
        event_of(b"x", b"", {"content-type": (kind + junk).encode("utf-8").decode("latin-1")})
    except BadInputError:
        pass
