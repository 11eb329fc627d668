"""Who continues a run that was cut: one case for each row of the table, never two owners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.turns.owner import MAX_RESUMES, Verdict, outside_kill, owner_of
from tests.unit.turns.script import M1, OWN, row

# Where a Gateway is installed, the live suite compares these with its own words.
_TEXTS = json.loads((Path(__file__).parent / "exit_texts.json").read_text(encoding="utf-8"))
_143 = "Claude Code process exited with code 143"


def _row(status: str, **more: Any) -> dict[str, Any]:
    return row(status=status, lastRunId=OWN, **more)


@pytest.mark.parametrize(
    ("given_row", "facts", "owner"),
    [
        pytest.param(_row("running", abortedLastRun=True), {"terminal": False}, "gateway", id="crash"),
        pytest.param(_row("running", abortedLastRun=True), {"terminal": True}, "gateway", id="restart mode"),
        pytest.param(_row("failed", lastRunError=_143), {"terminal": True}, "we", id="container stop"),
        pytest.param(_row("killed"), {"terminal": True, "stop_notice": True}, "we", id="gateway stop"),
        pytest.param(_row("killed"), {"terminal": True}, "nobody", id="user's stop"),
        pytest.param(
            _row("failed", lastRunError="LLM request failed"), {"terminal": True}, "nobody", id="error"
        ),
        pytest.param(
            _row("failed", lastRunError="Claude Code process exited with code 1"),
            {"terminal": True},
            "nobody",
            id="exit 1",
        ),
        pytest.param(_row("done") | {"lastRunId": "newer"}, {"terminal": False}, "newer", id="newer run"),
        pytest.param(_row("running"), {"terminal": True, "yielded": True}, "nobody", id="yielded"),
        pytest.param(_row("running", hasActiveRun=True), {"terminal": True}, "wait", id="busy session"),
        pytest.param(
            _row("failed", lastRunError=_143, hasActiveRun=True),
            {"terminal": True},
            "wait",
            id="busy after a kill",
        ),
        pytest.param(_row("done"), {"terminal": True}, "nobody", id="done"),
        pytest.param(None, {"terminal": False}, "nobody", id="session gone"),
    ],
)
def test_each_row_has_one_owner(given_row: dict[str, Any] | None, facts: dict[str, bool], owner: str) -> None:
    assert owner_of(given_row, OWN, **{"stop_notice": False, **facts}).owner == owner


def test_the_fourth_kill_of_one_message_is_a_note_and_no_run() -> None:
    verdicts = [
        owner_of(_row("failed", lastRunError=_143), OWN, terminal=True, stop_notice=False, resumes=resumes)
        for resumes in range(4)
    ]
    assert [verdict.owner for verdict in verdicts] == ["we"] * MAX_RESUMES + ["nobody"]
    assert verdicts[-1].cut_off


@given(
    status=st.sampled_from(["running", "done", "failed", "killed", None]),
    error=st.sampled_from([None, _143, "Claude Code process exited with signal SIGKILL", "it broke"]),
    active=st.booleans(),
    terminal=st.booleans(),
    notice=st.booleans(),
    yielded=st.booleans(),
    last=st.sampled_from([OWN, M1, None]),
)
def test_we_never_resume_what_the_gateway_may_recover(
    status: str | None,
    error: str | None,
    active: bool,
    terminal: bool,
    notice: bool,
    yielded: bool,
    last: str | None,
) -> None:
    verdict = owner_of(
        {"status": status, "lastRunError": error, "hasActiveRun": active, "lastRunId": last},
        OWN,
        terminal=terminal,
        stop_notice=notice,
        yielded=yielded,
    )
    assert isinstance(verdict, Verdict)
    if verdict.owner == "we":
        assert status in ("failed", "killed")
        assert not active
        assert last in (OWN, None)
        assert not yielded


@pytest.mark.parametrize("entry", _TEXTS["rows"], ids=lambda entry: entry["text"][:40])
def test_an_outside_kill_is_known_by_the_recorded_text(entry: dict[str, Any]) -> None:
    assert outside_kill(entry["text"]) is entry["outside"]


@pytest.mark.parametrize(
    ("values", "outside"),
    [
        ({"code": 143}, True),
        ({"code": 137}, True),
        ({"code": 1}, False),
        ({"code": 0}, False),
        ({"code": 1430}, False),
    ],
)
def test_the_template_with_any_code(values: dict[str, int], outside: bool) -> None:
    assert outside_kill(_TEXTS["templates"][0].format(**values)) is outside


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_the_template_with_any_signal(signal: str) -> None:
    assert outside_kill(_TEXTS["templates"][1].format(signal=signal))


def test_no_error_is_no_kill() -> None:
    assert not outside_kill(None)
    assert not outside_kill("")
