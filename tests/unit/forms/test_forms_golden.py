"""The cases that every surface shares, at the server: a JSON answer, and what a page without scripts sends."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.contract.errors import AnswerMismatchError, AskArgumentError
from rejoinder.forms.answers import as_kept, check_answer
from rejoinder.forms.asked import form_payload
from rejoinder.forms.shape import same
from rejoinder.forms.subset import check_channel_subset
from rejoinder.web import form
from tests.cases.forms import CASES, NAMES, TYPED, pairs_of

SENT = [case for case in CASES if "sent" in case]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_channel_could_show_it(case: dict[str, Any]) -> None:
    payload = form_payload(**case["ask"])
    if case.get("channel", True):
        check_channel_subset(payload["schema"])
    else:
        with pytest.raises(AskArgumentError):
            check_channel_subset(payload["schema"])


@pytest.mark.parametrize("case", SENT, ids=[case["name"] for case in SENT])
def test_a_json_answer(case: dict[str, Any]) -> None:
    payload = form_payload(**case["ask"])
    if "answer" in case:
        kept = check_answer("form", payload, case["sent"])
        assert same(kept, case["answer"]), kept
        assert same(as_kept("form", payload, case["sent"]), kept)
        return
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", payload, case["sent"])
    assert list(caught.value.errors.items()) == list(case["errors"].items())
    assert caught.value.field == next(iter(case["errors"]))


@pytest.mark.parametrize("case", TYPED, ids=[case["name"] for case in TYPED])
def test_what_a_page_sends(case: dict[str, Any]) -> None:
    payload = form_payload(**case["ask"])
    drawn = [(name, each) for name, texts in form.blank(payload).draft.items() for each in texts]
    typed = pairs_of(payload["schema"], case["typed"])
    names = {name for name, _ in typed}
    pairs = [pair for pair in drawn if pair[0] not in names] + typed
    pages = case["ask"].get("pages") or [{}]
    at = 0
    while True:
        last = at == len(pages) - 1
        state = form.read(payload, [*pairs, ("step", str(at)), ("go", "send" if last else "next")])
        assert form.render(payload, state)
        if last or state.errors:
            break
        assert state.edit
        assert state.step > at
        at = state.step
    assert state.errors == case.get("errors", {})
    assert list(state.errors) == list(case.get("errors", {}))
    assert state.ready == ("answer" in case)
    if state.ready:
        assert same(state.value, case["answer"]), state.value
