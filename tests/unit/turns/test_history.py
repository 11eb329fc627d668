"""A session's history, read run by run, and the finished message it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rejoinder.turns.finish import finish
from rejoinder.turns.identity import message_id
from rejoinder.turns.items import Text, cards_of, text_of
from rejoinder.turns.link import message_of, source_of
from rejoinder.turns.reducer import Reducer
from rejoinder.turns.transcript import is_closed, is_input, items_of, rows_of, runs_in
from tests.unit.turns.script import KEY, M1, M2, OTHER, OWN, SESSION, Frames, Row

AGENT = "8d503703-f0d6-4698-9067-9245d1809fe6"
F, G, A = Frames(OWN), Frames(OTHER), Frames(AGENT)


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    return text_of(items_of(rows))


def test_rows_belong_to_their_run_whatever_lies_between() -> None:
    rows = [F.asked(), F.called("c1"), A.asked(), A.said("Theirs."), F.returned("c1"), F.said("Ours.")]
    assert _text(rows_of(rows, OWN)) == "Ours."
    assert _text(rows_of(rows, AGENT)) == "Theirs."
    assert [card.output for card in cards_of(items_of(rows_of(rows, OWN)))] == ["ok"]


@pytest.mark.parametrize(
    "row",
    [
        F.asked(),
        {**F.asked(), "role": "assistant", "provenance": {"kind": "inter_session"}},
        F.recovers(),
        {"role": "user", "content": "x", "idempotencyKey": "followup-collect:a:b"},
    ],
    ids=["user", "from another session", "recovery", "collected"],
)
def test_an_input_is_known_by_its_key_and_never_shown(row: Row) -> None:
    assert is_input(row)
    assert [run.run_id for run in runs_in([row, A.said("x")])] == [AGENT]


@pytest.mark.parametrize(
    "row",
    [
        F.said("Words."),
        F.cli_said("Words."),
        {**F.said("Words."), "__openclaw": {}, "idempotencyKey": f"{OWN}:settled-finalization-fallback"},
        {**F.said("Words."), "__openclaw": {}, "idempotencyKey": f"{OWN}:terminal-error"},
        F.said("Words.", idempotencyKey=f"{OWN}:assistant", openclawAbort={"aborted": True}),
    ],
    ids=["run id", "cli", "fallback", "error", "aborted"],
)
def test_every_way_a_row_names_its_run(row: Row) -> None:
    assert _text(rows_of([F.asked(), row], OWN)) == "Words."
    assert is_closed([row])


def test_a_text_before_a_tool_is_not_told_twice_by_its_row() -> None:
    both = F.called("c1")
    both["content"] = [{"type": "text", "text": "Let me look."}, *both["content"]]
    assert _text([F.before_tool("Let me look."), both, F.said("Done.")]) == "Let me look.\n\nDone."


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ("Let me look.", "Let me look."),
        ("Let me look.\n\nIt is", "Let me look.\n\nIt is"),
        ("Let me  look. It is", "Let me look.\n\nIt is"),
        ("It is", "Let me look.\n\nIt is"),
        ("Let me see", "Let me look.\n\nLet me see"),
        ("look.", "Let me look."),
        (" ", "Let me look."),
    ],
)
def test_what_a_stopped_run_said_before_its_tool_is_not_told_twice(kept: str, text: str) -> None:
    aborted = F.said(kept, idempotencyKey=f"{OWN}:assistant", openclawAbort={"aborted": True})
    assert _text([F.before_tool("Let me look."), F.called("c1"), aborted]) == text
    assert _text([aborted]) == kept.strip()


def test_the_same_row_read_twice_counts_once() -> None:
    noted = {**F.said("Once."), "__openclaw": {"runId": OWN, "id": "row-1"}}
    assert _text(rows_of([F.asked(), noted, noted], OWN)) == "Once."


def test_a_run_that_says_the_same_twice_keeps_both() -> None:
    rows = [F.asked(), F.before_tool("Again."), F.called("c1"), F.returned("c1"), F.said("Again.")]
    assert _text(rows_of(rows, OWN)) == "Again.\n\nAgain."


def test_runs_with_one_id_are_parted_by_their_inputs() -> None:
    one, two, cron = Frames("38c4"), Frames("4227"), Frames(SESSION)
    rows = [
        one.asked(),
        cron.called("c1"),
        cron.returned("c1"),
        cron.said("One."),
        two.asked(),
        cron.said("Two."),
    ]
    assert [run.input_run for run in runs_in(rows, SESSION)] == ["38c4", "4227"]
    assert _text(rows_of(rows, SESSION, "38c4", SESSION)) == "One."
    assert _text(rows_of(rows, SESSION, "4227", SESSION)) == "Two."


def test_a_steered_input_does_not_part_the_run_it_was_put_into() -> None:
    steered = G.asked(__openclaw={"steerTargetRunId": OWN})
    rows = [F.asked(), F.called("c1"), steered, F.returned("c1"), F.said("Both.")]
    assert [(run.run_id, run.input_run) for run in runs_in(rows, SESSION)] == [(OWN, OWN)]


def test_an_announce_has_no_input_and_takes_no_others() -> None:
    announce = Frames("announce:v1:agent:main:subagent:x:y")
    rows = [F.asked(), announce.said("Child says 42.")]
    assert message_of(rows, KEY, announce.run, SESSION) == message_id(KEY, announce.run)


def test_a_queued_messages_run_is_its_reply_from_the_history_alone() -> None:
    rows = [F.asked(), F.said("First."), G.asked(), A.said("Second.")]
    assert message_of(rows, KEY, AGENT, SESSION) == M2
    assert message_of(rows, KEY, OWN, SESSION) == M1


def _numbered(row: Row, seq: int) -> Row:
    return {**row, "__openclaw": {**row["__openclaw"], "seq": seq}}


def test_a_run_with_a_hidden_input_does_not_answer_a_message_that_has_no_rows() -> None:
    # t02_noreply: the rows of a message that only got NO_REPLY are hidden; then a heartbeat's input, hidden too.
    rows = [_numbered(F.asked(), 1), _numbered(G.asked(), 2), _numbered(A.said("Checked."), 5)]
    found = next(run for run in runs_in(rows, SESSION) if run.run_id == AGENT)
    assert found.internal
    assert message_of(rows, KEY, AGENT, SESSION) == message_id(KEY, AGENT)


def test_a_queued_messages_run_follows_it_at_once() -> None:
    # s10_queue: the input is number 5, the answer of the run with another id number 6.
    rows = [
        _numbered(F.asked(), 1),
        _numbered(F.said("First."), 4),
        _numbered(G.asked(), 5),
        _numbered(A.said("Second."), 6),
    ]
    assert message_of(rows, KEY, AGENT, SESSION) == M2


def test_a_runs_own_input_may_have_hidden_rows_after_it() -> None:
    # t02_noreply: a silent first try is hidden; the second try's rows are the same run's.
    cron = Frames(SESSION)
    rows = [
        _numbered(F.asked(), 1),
        _numbered(F.said("After all."), 4),
        _numbered(G.asked(), 5),
        _numbered(cron.said("Scheduled."), 9),
    ]
    assert [(run.run_id, run.input_run) for run in runs_in(rows, SESSION)] == [(OWN, OWN), (SESSION, OTHER)]


# Which run a recovery carries on with.


def test_a_recovery_belongs_to_the_newest_run_before_it() -> None:
    rows = [G.asked(), G.said("Old."), F.asked(), F.called("c1"), A.recovers(), A.said("Recovered.")]
    assert source_of(rows, AGENT) == OWN
    assert message_of(rows, KEY, AGENT, SESSION) == M1


def test_a_recovery_of_a_recovery_goes_into_the_first_message() -> None:
    second = Frames("4db62fc6-bb51-4df0-b163-afe4911a3591")
    rows = [
        F.asked(),
        F.called("c1"),
        A.recovers(),
        A.called("c2"),
        second.recovers(),
        second.said("At last."),
    ]
    assert source_of(rows, second.run) == OWN


def test_a_recovery_of_an_announce_is_found_by_its_rows() -> None:
    announce = Frames("announce:v1:agent:main:subagent:x:y")
    rows = [F.asked(), F.said("Done."), announce.called("c1"), A.recovers(), A.said("Recovered.")]
    assert source_of(rows, AGENT) == announce.run


def test_a_recovery_of_a_run_that_was_steered_is_that_run() -> None:
    steered = G.asked(__openclaw={"steerTargetRunId": OWN})
    assert source_of([F.asked(), F.called("c1"), steered, A.recovers()], AGENT) == OWN


def test_a_recovery_of_a_queued_messages_run_is_that_messages() -> None:
    queued = Frames("5797dd5c-b0c6-4806-923c-e5a678be638d")
    rows = [F.asked(), F.said("First."), G.asked(), queued.called("c1"), A.recovers(), A.said("Recovered.")]
    assert message_of(rows, KEY, AGENT, SESSION) == M2


def test_a_resume_that_is_cut_is_recovered_into_the_same_message() -> None:
    resume = Frames(OWN.rsplit("-", 1)[0] + "-resume-9")
    rows = [F.asked(), F.called("c1"), resume.asked(), resume.called("c2"), A.recovers()]
    assert source_of(rows, AGENT) == resume.run
    assert message_of(rows, KEY, AGENT, SESSION) == M1


def test_an_ordinary_run_recovers_nothing() -> None:
    assert source_of([F.asked(), F.said("x"), A.asked()], AGENT) is None
    assert source_of([], AGENT) is None
    assert source_of([A.recovers()], AGENT) is None


# The finished message.


def _streamed(*frames: tuple[str, dict[str, object]]) -> Reducer:
    live = Reducer(OWN)
    for name, payload in frames:
        live.feed(name, payload)
    return live


def test_the_transcript_wins_over_what_streamed() -> None:
    f = Frames(OWN)
    live = _streamed(f.delta("Helo", "Helo"), *f.final("Helo"))
    assert finish([f.said("Hello")], live).text == "Hello"


def test_a_card_the_stream_never_saw_is_in_the_message() -> None:
    # A run whose events were lost, or a runtime that streams no tools: the history has the cards.
    f = Frames(OWN)
    live = _streamed(f.delta("Done.", "Done."), *f.final("Done."))
    rows = [f.called("c1"), f.returned("c1"), f.called("c2"), f.returned("c2", error=True), f.said("Done.")]
    assert [card.status for card in finish(rows, live).cards] == ["completed", "failed"]


def test_cli_cards_stay_where_they_streamed() -> None:
    # c_claudecli: one row with the closing text, no tool rows.
    f = Frames(OWN)
    live = _streamed(
        f.delta("Let me check.", "Let me check."),
        f.call("c1", "Bash"),
        f.result("c1", name="Bash"),
        f.delta("Let me check.\n\nDone.", "\n\nDone."),
    )
    final = finish([f.cli_said("Let me check.\n\nDone.")], live)
    assert [type(item).__name__ for item in final.items] == ["Text", "Card", "Text"]
    assert final.text == "Let me check.\n\nDone."


def test_a_cli_row_with_the_last_words_only_keeps_the_earlier_ones() -> None:
    f = Frames(OWN)
    live = _streamed(
        f.delta("Let me check.", "Let me check."), f.call("c1"), f.delta("Let me check.\n\nDone.")
    )
    assert finish([f.cli_said("Done.")], live).text == "Let me check.\n\nDone."


def test_a_killed_run_without_rows_keeps_what_streamed_and_says_why() -> None:
    f = Frames(OWN)
    live = _streamed(f.delta("partial words", "partial words"), f.over("error", error="exited with code 1"))
    live.feed(*f.chat("error", errorMessage="exited with code 1"))
    live.feed(*f.chat("error", errorMessage="⚠️ Agent failed before reply: exited with code 1"))
    final = finish((), live)
    assert (final.text, final.error) == ("partial words", "exited with code 1")


def test_an_error_before_any_word_is_a_message_of_the_error() -> None:
    f = Frames(OWN)
    final = finish((), _streamed(f.over("error", error="no model"), f.chat("error", errorMessage="no model")))
    assert final.visible
    assert (final.text, final.error) == ("", "no model")


def test_a_run_that_only_said_a_sentinel_and_then_failed_is_no_message() -> None:
    # t02_noreply: a model that only says NO_REPLY to a user ends aborted and with an error nobody asked for.
    f = Frames(OWN)
    live = _streamed(
        f.says("NO_REPLY", "NO_REPLY", "i"),
        f.agent("lifecycle", phase="error", executionSettled=True),
        f.chat("aborted", stopReason="stop"),
        f.chat("error", errorMessage="⚠️ Agent couldn't generate a response."),
    )
    assert not finish((), live).visible


def test_a_run_carried_on_by_another_drops_its_cut_off_end() -> None:
    f = Frames(OWN)
    frames = [f.call("c1"), f.result("c1"), f.delta("This is a", "This is a")]
    rows = [f.called("c1"), f.returned("c1")]
    assert finish(rows, _streamed(*frames)).text == "This is a"
    assert finish(rows, _streamed(*frames), continued=True).text == ""


def test_so_does_one_that_was_cut_before_it_had_any_row() -> None:
    f = Frames(OWN)
    assert finish((), _streamed(f.delta("This is a", "This is a")), continued=True).items == []
    frames = [
        f.delta("First.", "First."),
        f.call("c1"),
        f.result("c1"),
        f.delta("This is a", "First.\n\nThis is a"),
    ]
    kept = finish((), _streamed(*frames), continued=True)
    assert (kept.text, [card.call_id for card in kept.cards]) == ("First.", ["c1"])


def test_an_answer_the_history_does_not_have_yet_goes_on_with_what_streamed() -> None:
    f = Frames(OWN)
    live = _streamed(f.preamble("Look."), f.call("c1"), f.result("c1", "out"), f.delta("Done.", "Done."))
    final = finish([f.before_tool("Look."), f.called("c1")], live)
    assert final.text == "Look.\n\nDone."
    assert [(card.status, card.output) for card in final.cards] == [("completed", "out")]


def test_reasoning_of_the_transcript_is_kept() -> None:
    f = Frames(OWN)
    row = f.said("Done.")
    row["content"] = [{"type": "thinking", "thinking": "Hm."}, *row["content"]]
    types = [entry["type"] for entry in finish([row], None).output]
    assert types == ["reasoning", "message"]


def test_a_run_nobody_watched_is_finished_from_its_rows() -> None:
    f = Frames(OWN)
    final = finish([f.called("c1"), f.returned("c1"), f.said("Done.")], None)
    assert final.text == "Done."
    assert final.complete
    assert isinstance(final.items[-1], Text)
