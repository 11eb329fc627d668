"""The words everybody shares: what may be stored, what an answer carries, how errors are told."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.contract import errors, pause
from rejoinder.contract.answers import AskAnswer, ReplyTo, SecretValue, expiry_marker, is_expiry_marker
from rejoinder.contract.identity import Identity
from rejoinder.contract.text import MAX_DEPTH, storable_text, unstorable, unstorable_text

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(ANY_TEXT, st.integers(1, 20))
def test_text_made_storable_is_storable_and_short(text: str, cap: int) -> None:
    made = storable_text(text, cap)
    assert unstorable_text(made) is None
    assert len(made) <= cap
    if unstorable_text(text) is None and len(text) <= cap:
        assert made == text


@given(JSON)
def test_what_is_storable_survives_a_round_trip(value: Any) -> None:
    if unstorable(value) is None:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        assert "\x00" not in text
        text.encode("utf-8")
        assert json.loads(text) == value


@pytest.mark.parametrize(
    "value",
    [
        "a\x00",
        "\ud800",
        {"\x00": 1},
        {"a": ["\udfff"]},
        float("nan"),
        [float("inf")],
        10**400,
        -(10**400),
        {1: 2},
        b"bytes",
        {1, 2},
        pytest.param(object(), id="an object"),
    ],
    ids=ascii,
)
def test_what_cannot_be_stored_says_why_without_showing_it(value: Any) -> None:
    reason = unstorable(value)
    assert reason is not None
    assert reason.startswith("it holds a ")


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"a": v}])
def test_depth_is_bounded_and_costs_no_stack(wrap: Any) -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert unstorable(value) is None
    for _ in range(100_000):
        value = wrap(value)
    assert unstorable(value) == f"it is nested more than {MAX_DEPTH} levels deep"
    # Taken apart from outside: the interpreter would recurse to free it.
    while isinstance(value, list | dict):
        value = value[0] if isinstance(value, list) else value["a"]


@given(ANY_TEXT | st.integers() | st.binary())
def test_a_secret_shows_itself_only_when_asked(secret: Any) -> None:
    value = SecretValue(secret)
    assert value.reveal() == secret
    assert repr(value) == str(value) == f"{value}" == "SecretValue(******)"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy, orjson.dumps, json.dumps):
        with pytest.raises(TypeError):
            leak(value)


def test_an_answer_is_frozen_and_tells_its_wire_form() -> None:
    answer = AskAnswer(True, ReplyTo("m", "found", "Run?"), {"media_id": "1"})
    assert answer.as_json() == {
        "answer": True,
        "reply_to": {"message_id": "m", "status": "found", "text": "Run?"},
        "params": {"media_id": "1"},
    }
    with pytest.raises(AttributeError):
        answer.answer = False  # type: ignore[misc]
    assert AskAnswer("x").as_json() == {"answer": "x", "reply_to": None, "params": None}


@pytest.mark.parametrize(
    ("value", "expired"),
    [
        (expiry_marker(), True),
        ({"tai42:interaction_expired": True}, True),
        ({"tai42:interaction_expired": "true"}, False),
        ({"tai42:interaction_expired": False}, False),
        (True, False),
        ("tai42:interaction_expired", False),
        (None, False),
        ([], False),
    ],
)
def test_silence_is_no_answer(value: Any, expired: bool) -> None:
    assert is_expiry_marker(value) is expired
    assert AskAnswer(value).expired is expired


ALL = [
    one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.RejoinderError)
]


@pytest.mark.parametrize("error", ALL, ids=lambda e: e.__name__)
def test_every_error_has_a_code_a_status_and_a_sentence(error: type[errors.RejoinderError]) -> None:
    assert error.code == error.code.lower()
    assert 400 <= error.status < 600
    assert error.__doc__
    if error.__init__ is errors.RejoinderError.__init__:
        assert error().as_problem() == {"error": error.__doc__.strip(), "code": error.code}
        assert error("text", field="a.b").as_problem() == {
            "error": "text",
            "code": error.code,
            "field": "a.b",
        }


@pytest.mark.parametrize(
    ("audience", "restricted", "sees"),
    [
        (None, False, True),
        ("kit", False, True),
        ("kit", True, True),
        ("ann", True, False),
        (None, True, False),
    ],
)
def test_who_sees_what(audience: str | None, restricted: bool, sees: bool) -> None:
    assert Identity("kit", restricted=restricted).may_see(audience) is sees


@pytest.mark.parametrize("grant", ["read", "write", "admin"])
def test_an_admin_may_all_and_others_what_they_were_granted(grant: Any) -> None:
    assert Identity("a", frozenset(("admin",))).may(grant)
    assert Identity("a", frozenset((grant,))).may(grant)
    assert not Identity("a").may(grant)


async def test_a_pause_point_must_have_a_name_that_is_known() -> None:
    async def nothing() -> None: ...

    with pytest.raises(ValueError, match=r"no\.such"):
        pause.arm("no.such", nothing)
    await pause.here("no.such")  # unarmed points cost a look-up and nothing else
    pause.arm("ask.recorded", nothing)
    with pytest.raises(ValueError, match=r"no\.such"):
        await pause.here("no.such")
    pause.disarm("ask.recorded")


@pytest.mark.parametrize("given", ["ask.recorded", "ask.recorded=explode", "no.such=kill", "=kill"])
def test_a_wrong_pause_setting_is_told(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("REJOINDER_PAUSE", given)
    with pytest.raises(ValueError):
        pause.arm_from_environment()
