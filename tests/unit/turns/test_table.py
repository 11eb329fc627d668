"""When a run is known, when its message may be shown, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.turns.finish import finish
from rejoinder.turns.identity import message_id
from rejoinder.turns.signals import (
    Collected,
    Cut,
    Discard,
    End,
    HistoryRead,
    Lost,
    Opened,
    Queued,
    ReadHistory,
    ReadList,
    Show,
    Steered,
)
from tests.unit.turns.script import (
    CHAT,
    KEY,
    M1,
    M2,
    OTHER,
    OWN,
    SESSION,
    Frames,
    Scene,
    discarded,
    firsts,
    row,
    wants_history,
)
from tests.unit.turns.test_queued import collection

M3 = "77777777-7777-4777-8777-777777777777"
THIRD = f"msg-{CHAT}-{M3}-1"
AGENT = "8d503703-f0d6-4698-9067-9245d1809fe6"


def _told(frames: Frames, text: str = "Hello") -> list[tuple[str, dict[str, object]]]:
    return [*frames.begin(), frames.says(text, text, "item"), *frames.final(text), frames.settled()]


def test_an_agents_run_is_one_message_under_its_own_id() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    actions = scene.push(*_told(f))
    show = firsts(actions)[0]
    assert show.run.message_id == message_id(KEY, AGENT)
    scene.history(f.asked(), f.said("Hello"))
    assert scene.messages() == {message_id(KEY, AGENT): ("Hello", [])}


@pytest.mark.parametrize("signal", ["phase", "ids", "event", "flight"])
def test_a_run_is_known_by_whichever_sign_comes_first(signal: str) -> None:
    # r_sigkill: recovery runs push no start. c_claudecli: neither do CLI runs of the agent method.
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    if signal == "phase":
        actions = scene.push(*f.begin())
    elif signal == "ids":
        actions = scene.push(f.changed(reason="send", hasActiveRun=True, activeRunIds=[AGENT]))
    elif signal == "event":
        actions = scene.push(f.call("c1"))
    else:
        scene.listed(row(hasActiveRun=True))
        actions = scene.history(f.asked(), inFlightRun={"runId": AGENT, "text": "So far", "events": []})
    assert [action.run.run_id for action in actions if isinstance(action, Opened)] == [AGENT]


def test_the_run_the_list_does_not_name_is_named_by_the_history() -> None:
    scene, f = Scene(), Frames(AGENT)
    assert wants_history(scene.hello("boot", row(hasActiveRun=True)))
    actions = scene.history(f.asked(), inFlightRun={"runId": AGENT, "text": "So far", "events": []})
    assert firsts(actions)[0].run.message_id == message_id(KEY, AGENT)
    scene.push(f.delta("So far so good", " so good", 9), *f.final("So far so good"))
    scene.history(f.asked(), f.said("So far so good"))
    assert scene.messages() == {message_id(KEY, AGENT): ("So far so good", [])}


def test_nothing_is_shown_before_there_is_something_to_show() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    assert not firsts(
        scene.push(*f.begin(), f.says("NO_R", "NO_R", "item"), f.agent("usage", outputTokens=5))
    )
    assert firsts(scene.push(f.call("c1")))


@pytest.mark.parametrize("kind", ["heartbeat", "hidden", "action", "sentinel", "empty"])
def test_a_run_that_is_not_for_people_gets_no_message(kind: str) -> None:
    scene = Scene()
    f = Frames("owui-action-compact-1" if kind == "action" else AGENT)
    scene.hello()
    rows = [f.asked(), f.said("HEARTBEAT")]
    if kind == "heartbeat":
        frames = [("agent", {**f.says("Checked.", "Checked.")[1], "isHeartbeat": True}), *f.final("Checked.")]
    elif kind == "hidden":
        # r_sigusr1: of a heartbeat's run only its start, its row and its end are pushed; its input is hidden.
        rows = [f.said("HEARTBEAT")]
        frames = [
            ("tick", {"ts": 1}),
            f.changed(phase="start", runId=AGENT, hasActiveRun=True),
            f.row(f.said("Checked.")),
            f.changed(phase="end", runId=AGENT, hasActiveRun=True, lastRunId=AGENT),
        ]
    elif kind == "action":
        frames = _told(f, "Compacted.")
    elif kind == "sentinel":
        frames, rows = _told(f, "NO_REPLY"), [f.asked()]
    else:
        frames, rows = [*f.begin(), *f.final()], [f.asked()]
    scene.push(*frames)
    scene.history(*rows)
    assert not [action for action in scene.actions if isinstance(action, Show | End)]
    assert [run.run_id for run in discarded(scene.actions)] == [f.run]


def test_a_run_that_was_asked_under_its_own_id_is_shown_though_its_frames_were_lost() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(f.changed(phase="start", runId=AGENT, hasActiveRun=True))
    scene.push(f.changed(phase="end", runId=AGENT, hasActiveRun=False, status="done", lastRunId=AGENT))
    scene.history(f.asked(), f.said("Checked."))
    assert scene.messages() == {message_id(KEY, AGENT): ("Checked.", [])}


def test_a_history_that_does_not_help_is_not_read_again_by_itself() -> None:
    scene, f = Scene(), Frames(SESSION)  # a scheduled run: only its input tells it apart
    scene.hello()
    assert wants_history(scene.push(*f.begin(), f.delta("So far", "So far", 2)))
    flight = {"runId": SESSION, "text": "So far", "events": []}
    assert not wants_history(scene.history(inFlightRun=flight))
    assert wants_history(scene.push(f.delta("So far so", " so", 3)))


def test_cards_stay_when_the_answer_is_a_sentinel() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.call("c1"), f.result("c1"), f.says("NO_REPLY", "NO_REPLY", "i"), *f.final())
    scene.history(f.asked(), f.called("c1"), f.returned("c1"))
    assert scene.messages() == {message_id(KEY, AGENT): ("", [("exec", "completed")])}


def test_a_sub_agents_session_and_a_foreign_key_show_nothing() -> None:
    scene = Scene()
    child = Frames("child", key="agent:main:subagent:27c4cf89")
    spawned = [
        ("chat", {**payload, "spawnedBy": KEY}) for _, payload in [Frames("x").chat("delta", "secret")]
    ]
    assert scene.push(*_told(child), *spawned) == []


@pytest.mark.parametrize("ending", ["final", "error", "aborted", "phase", "settled"])
def test_a_run_ends_once_on_its_own_terminal(ending: str) -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.says("Some words", "Some words", "item"))
    if ending == "final":
        frames = [*f.final("Some words"), f.chat("final", "Some words")]
    elif ending == "error":
        frames = [f.over("error", error="it broke"), f.chat("error", errorMessage="it broke")]
        frames += [f.chat("error", errorMessage="⚠️ Agent failed before reply: it broke")]
    elif ending == "aborted":
        frames = [
            f.chat("aborted", "Some words", stopReason="rpc"),
            f.agent("lifecycle", phase="end", aborted=True),
        ]
    elif ending == "phase":
        frames = [f.changed(phase="end", runId=AGENT, hasActiveRun=True, lastRunId=AGENT)]
    else:
        frames = []
    frames.append(f.settled("failed" if ending == "error" else "killed" if ending == "aborted" else "done"))
    assert wants_history(scene.push(*frames))
    scene.history(f.asked(), f.said("Some words"))
    scene.push(f.changed(phase="error", runId=AGENT, hasActiveRun=False), f.settled())
    runs = scene.ended()
    assert len(runs) == 1
    final = runs[0].final
    assert final is not None
    assert final.text == "Some words"
    assert final.error == ("it broke" if ending == "error" else None)


def test_a_run_that_is_tried_again_under_its_id_stays_one_message() -> None:
    # t02_noreply: final, start, final, start, final; only the last end is settled.
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*Frames("warm").begin(), Frames("warm").over())
    scene.push(*f.begin(), f.call("c1"), f.result("c1"))
    for _ in range(2):
        unsettled = [f.agent("lifecycle", phase="end"), f.chat("final", stopReason="stop")]
        scene.push(*unsettled, f.changed(phase="end", runId=AGENT, hasActiveRun=True), *f.begin())
        assert not scene.ended()
    scene.push(f.says("At last.", "At last.", "i2"), *f.final("At last."), f.settled())
    scene.history(f.asked(), f.called("c1"), f.returned("c1"), f.said("At last."))
    assert scene.messages() == {message_id(KEY, AGENT): ("At last.", [("exec", "completed")])}


def test_words_said_only_by_a_second_final_are_added_to_the_same_message() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.call("c1"), f.result("c1"), *f.final())
    scene.history(f.asked(), f.called("c1"), f.returned("c1"))
    assert wants_history(scene.push(f.chat("final", "No summary was produced.")))
    fallback = f.said("No summary was produced.", idempotencyKey=f"{AGENT}:settled-finalization-fallback")
    scene.history(f.asked(), f.called("c1"), f.returned("c1"), fallback)
    assert scene.messages() == {message_id(KEY, AGENT): ("No summary was produced.", [("exec", "completed")])}


def test_silence_and_a_described_state_end_nothing() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.call("c1"))
    scene.push(f.changed(reason="participants", status="done", hasActiveRun=True))
    scene.listed(row(status="done", hasActiveRun=True, activeRunIds=[AGENT]))
    assert not scene.ended()
    assert [run.run_id for run in scene.table.unfinished()] == [AGENT]


def test_a_yielded_run_ends_its_message_and_the_announce_is_another() -> None:
    # s11_subagent: the settled row of a yielded run says running, which is no interruption.
    scene, f = Scene(), Frames(OWN)
    announce = Frames(f"announce:requester-settle:main:{KEY}:u:yield-1")
    scene.hello()
    scene.push(*f.begin(), f.preamble("Spawning."), f.call("c1", "sessions_yield"), f.result("c1"))
    scene.push(f.over(yielded=True), f.chat("final", yielded=True), f.settled("running", lastRunId=None))
    asked = [f.asked(), f.before_tool("Spawning."), f.called("c1", name="sessions_yield"), f.returned("c1")]
    scene.history(*asked)
    assert scene.messages() == {M1: ("Spawning.", [("sessions_yield", "completed")])}
    scene.push(*announce.begin(), announce.says("Child says 42.", "Child says 42.", "i"), *announce.final())
    scene.history(*asked, announce.said("Child says 42."))
    assert not [action for action in scene.actions if isinstance(action, Cut)]
    assert scene.messages()[str(message_id(KEY, announce.run))] == ("Child says 42.", [])


def test_two_scheduled_runs_with_one_id_are_two_messages() -> None:
    # t01_cron_twice: both have the session's id as their run id; their input rows differ.
    scene = Scene()
    scene.hello()
    rows = []
    for number, asked in enumerate(["38c452a9-18b5", "4227ba44-f3f6"]):
        f, question = Frames(SESSION), Frames(asked)
        scene.push(
            *f.begin(),
            f.row(question.asked("[cron] go")),
            f.says("Hi", "Hi", f"item-{number}"),
            *f.final("Hi"),
        )
        scene.push(
            f.changed(phase="end", runId=SESSION, status="done", hasActiveRun=False, lastRunId=SESSION)
        )
        rows += [question.asked("[cron] go"), f.said("Hi")]
        scene.history(*rows)
    expected = [
        message_id(KEY, SESSION, asked, session_id=SESSION) for asked in ("38c452a9-18b5", "4227ba44-f3f6")
    ]
    assert [run.message_id for run in scene.ended()] == expected
    later = Scene(adopt=True)
    later.history(*rows)
    assert [run.message_id for run in later.ended()] == expected


OLDER = ["38c452a9-18b5", "4227ba44-f3f6", "9be0c1d2-77aa"]


def _scheduled(number: int) -> list[dict[str, object]]:
    """The rows of the first scheduled runs, all of one id."""
    return [
        row for asked in OLDER[:number] for row in (Frames(asked).asked("[cron]"), Frames(SESSION).said("Hi"))
    ]


def _named(asked: str) -> str | None:
    return message_id(KEY, SESSION, asked, session_id=SESSION)


@pytest.mark.parametrize("older", [1, 2, 3])
@pytest.mark.parametrize("ended", [False, True])
def test_a_process_that_came_late_names_the_newest_scheduled_run_and_no_older_one(
    older: int, ended: bool
) -> None:
    scene, f = Scene(), Frames(SESSION)
    scene.hello()
    scene.push(*f.begin(), f.says("Now", "Now", "item"))
    if ended:
        scene.push(*f.final("Now"))
    rows = [*_scheduled(older), Frames("new-one").asked("[cron]")]
    if ended:
        scene.history(*rows)  # asked for before the end: it has no answer
        scene.history(*rows, f.said("Now"))
        assert scene.messages() == {_named("new-one"): ("Now", [])}
    else:
        flight = {"runId": SESSION, "text": "Now", "events": []}
        actions = scene.history(*rows, inFlightRun=flight)
        assert [show.run.message_id for show in firsts(actions)] == [_named("new-one")]


def test_a_history_without_the_input_of_a_scheduled_run_names_nothing_yet() -> None:
    scene, f = Scene(), Frames(SESSION)
    scene.hello()
    scene.push(*f.begin(), f.says("Now", "Now", "item"))
    flight = {"runId": SESSION, "text": "Now", "events": []}
    assert not firsts(scene.history(*_scheduled(2), inFlightRun=flight))
    assert wants_history(scene.push(f.says("Now then", " then", "item")))
    actions = scene.history(*_scheduled(2), Frames("new-one").asked(), inFlightRun=flight)
    assert [show.run.message_id for show in firsts(actions)] == [_named("new-one")]


def test_two_scheduled_runs_that_ended_unread_are_parted_by_their_order() -> None:
    scene = Scene()
    scene.hello()
    for word in ("One", "Two"):
        f = Frames(SESSION)
        scene.push(*f.begin(), f.says(word, word, word), *f.final(word))
    rows = _scheduled(1)
    for asked, word in (("new-one", "One"), ("new-two", "Two")):
        rows += [Frames(asked).asked(), Frames(SESSION).said(word)]
    scene.history(*rows)
    scene.history(*rows)
    assert scene.messages() == {_named("new-one"): ("One", []), _named("new-two"): ("Two", [])}


@pytest.mark.parametrize("told", ["settled", "list"])
@pytest.mark.parametrize("first", ["history", "row"])
def test_a_killed_row_says_that_an_error_was_none_though_its_other_frames_were_lost(
    told: str, first: str
) -> None:
    # t02_noreply, of which a gap took the sentinel and the chat's aborted.
    scene, f = Scene(), Frames(OWN)
    scene.hello()
    scene.push(*f.begin())
    scene.gap()
    scene.push(f.over("error", error="Agent couldn't generate a response. Please try again."))
    scene.push(f.chat("error", errorMessage="Agent couldn't generate a response. Please try again."))
    killed = [f.settled("killed", abortedLastRun=True)] if told == "settled" else []
    if first == "row":
        scene.push(*killed) if killed else scene.listed(row(status="killed", lastRunId=OWN))
        scene.history(f.asked())
        assert not scene.messages()
        assert [run.run_id for run in discarded(scene.actions)] == [OWN]
    else:
        scene.history(f.asked())
        scene.push(*killed) if killed else scene.listed(row(status="killed", lastRunId=OWN))
        assert finish((), scene.table.runs(KEY)[0].state).error is None


def test_a_failed_run_still_says_why() -> None:
    scene, f = Scene(), Frames(OWN)
    scene.hello()
    scene.push(*f.begin())
    scene.gap()
    scene.push(f.over("error", error="No credit."), f.chat("error", errorMessage="No credit."))
    scene.push(f.settled("failed", lastRunError="No credit."))
    scene.history(f.asked())
    assert [run.final.error for run in scene.ended() if run.final] == ["No credit."]


def test_a_scheduled_run_waits_for_its_input_before_it_claims_a_message() -> None:
    scene, f, question = Scene(), Frames(SESSION), Frames("38c452a9-18b5")
    scene.hello()
    actions = scene.push(*f.begin(), f.says("Hi", "Hi", "item"))
    assert not firsts(actions)
    assert wants_history(actions)
    actions = scene.history(question.asked(), inFlightRun={"runId": SESSION, "text": "Hi", "events": []})
    assert firsts(actions)[0].run.message_id == message_id(KEY, SESSION, "38c452a9-18b5", session_id=SESSION)


def test_a_message_sent_into_a_busy_session_is_answered_in_its_own_reply() -> None:
    # s10_queue (followup): a bare final at once, the answer later under a new uuid.
    scene, first, second, answer = Scene(), Frames(OWN), Frames(OTHER), Frames(AGENT)
    scene.hello()
    scene.push(*first.begin(), first.call("c1"))
    assert scene.push(second.bare()) == [Queued(KEY, OTHER)]
    scene.push(first.changed(reason="chat.run.settled", hasActiveRun=True))
    scene.push(first.result("c1"), *first.final(), first.settled())
    scene.history(first.asked(), first.called("c1"), first.returned("c1"))
    actions = scene.push(*answer.begin(), answer.row(second.asked()), answer.says("Second.", "Second.", "i"))
    assert firsts(actions)[0].run.message_id == M2
    scene.push(*answer.final("Second."), answer.chat("final", "Second."))
    scene.history(
        first.asked(), first.called("c1"), first.returned("c1"), second.asked(), answer.said("Second.")
    )
    assert scene.messages() == {M1: ("", [("exec", "completed")]), M2: ("Second.", [])}


@pytest.mark.parametrize("told", ["pushed", "read"])
def test_messages_that_are_collected_are_answered_together_in_the_reply_to_the_last(told: str) -> None:
    # s10_queue (collect): the row of the input names none of the messages.
    scene, first, second, third, answer = (Scene(), Frames(OWN), Frames(OTHER), Frames(THIRD), Frames(AGENT))
    scene.hello()
    scene.push(*first.begin(), first.call("c1"), second.bare(), third.bare())
    scene.push(first.result("c1"), *first.final(), first.settled())
    rows = [first.asked(), first.called("c1"), first.returned("c1")]
    scene.history(*rows)
    rows += [answer.asked(idempotencyKey=f"followup-collect:{SESSION}:3b6b9ff3"), answer.said("Both.")]
    scene.push(*answer.begin())
    if told == "pushed":
        scene.push(answer.row(rows[-2]))
    scene.push(answer.says("Both.", "Both.", "i"))
    if told == "read":
        scene.history(*rows[:-1], inFlightRun={"runId": AGENT, "text": "Both.", "events": []})
    assert Collected(KEY, OTHER, THIRD) in scene.actions
    assert firsts(scene.actions)[-1].run.message_id == M3
    scene.push(*answer.final("Both."), answer.chat("final", "Both."))
    scene.history(*rows)
    assert scene.messages() == {M1: ("", [("exec", "completed")]), M3: ("Both.", [])}


def test_a_queued_message_does_not_outlive_the_gateway_that_holds_it() -> None:
    scene, first, second = Scene(), Frames(OWN), Frames(OTHER)
    scene.hello()
    scene.push(*first.begin(), first.call("c1"), second.bare())
    scene.drop()
    assert Lost(KEY, OTHER) not in scene.hello("boot-1", row(hasActiveRun=True))
    scene.drop()
    assert Lost(KEY, OTHER) in scene.hello("boot-2", row(abortedLastRun=True))
    scene.drop()
    assert Lost(KEY, OTHER) not in scene.hello("boot-3", row(abortedLastRun=True))


def test_a_steered_message_is_answered_in_the_running_one() -> None:
    # s10_queue (default): the row names the run it was put into; no message of its own.
    scene, first, second = Scene(), Frames(OWN), Frames(OTHER)
    scene.hello()
    scene.push(*first.begin(), first.row(first.asked()), first.call("c1"), first.result("c1"))
    steered = second.asked(__openclaw={"steerTargetRunId": OWN})
    actions = scene.push(first.row(second.asked()), first.row(steered), second.bare())
    assert [action for action in actions if isinstance(action, Steered | Queued)] == [
        Steered(KEY, OTHER, OWN)
    ]
    scene.push(first.says("Both.", "Both.", "i"), *first.final("Both."), first.settled())
    scene.history(first.asked(), first.called("c1"), first.returned("c1"), steered, first.said("Both."))
    assert scene.messages() == {M1: ("Both.", [("exec", "completed")])}


def test_lost_frames_have_the_list_and_then_the_history_read() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.delta("Hello", "Hello", 5))
    assert ReadList() in scene.gap()
    assert wants_history(scene.listed(row(status="done", activeRunIds=[], lastRunId=AGENT)))
    scene.history(f.asked(), f.said("Hello there, you."))
    assert scene.messages() == {message_id(KEY, AGENT): ("Hello there, you.", [])}


def test_a_run_that_began_in_the_gap_is_opened_from_the_list() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.gap()
    actions = scene.listed(row(hasActiveRun=True, activeRunIds=[AGENT]))
    assert [action.run.run_id for action in actions if isinstance(action, Opened)] == [AGENT]
    scene.push(f.says("Hello", "Hello", "i"), *f.final("Hello"), f.settled())
    scene.history(f.asked(), f.said("Hello"))
    assert scene.messages() == {message_id(KEY, AGENT): ("Hello", [])}


def test_a_reconnect_to_the_same_gateway_goes_on_with_the_run_the_history_names() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.delta("Hello", "Hello", 5))
    scene.drop()
    assert wants_history(scene.hello("boot-1", row(hasActiveRun=True)))
    scene.history(f.asked(), inFlightRun={"runId": AGENT, "text": "Hello there", "events": []})
    assert not scene.ended()
    scene.push(f.delta("Hello there.", ".", 9), *f.final("Hello there."), f.settled())
    scene.history(f.asked(), f.said("Hello there."))
    assert scene.messages() == {message_id(KEY, AGENT): ("Hello there.", [])}


def test_a_run_that_ended_while_nobody_was_connected_is_finished_from_the_history() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.delta("Hello", "Hello", 5))
    scene.drop()
    scene.hello("boot-1", row(hasActiveRun=True))
    other = Frames("other-run")
    scene.history(
        f.asked(), f.said("Hello you."), other.asked(), inFlightRun={"runId": "other-run", "text": ""}
    )
    assert scene.messages() == {message_id(KEY, AGENT): ("Hello you.", [])}


@pytest.mark.parametrize("how", ["crash", "restart"])
def test_a_recovery_goes_on_in_the_message_of_the_run_that_was_cut(how: str) -> None:
    # r_sigkill: no terminal at all. r_restart_force_term: aborted with stopReason restart.
    scene, f, again = Scene(), Frames(OWN), Frames(AGENT)
    scene.hello()
    scene.push(
        *f.begin(), f.row(f.asked()), f.call("c1"), f.result("c1"), f.delta("This is a", "This is a", 9)
    )
    if how == "restart":
        scene.push(f.chat("aborted", "This is a", stopReason="restart"))
        scene.push(f.settled("running", abortedLastRun=True, lastRunId=None))
    scene.drop()
    scene.hello("boot-2", row(status="running", abortedLastRun=True, activeRunIds=[]))
    assert [action.run.run_id for action in scene.actions if isinstance(action, Cut)] == [OWN]
    assert not scene.ended()
    scene.push(
        again.changed(reason="send", hasActiveRun=True, activeRunIds=[AGENT]), again.row(again.recovers())
    )
    actions = scene.push(again.call("c2"), again.result("c2"), again.says("Recovered.", "Recovered.", "i"))
    assert not firsts(actions)
    assert {action.run.message_id for action in actions if isinstance(action, Show)} == {M1}
    scene.push(*again.final("Recovered."), again.settled())
    rows = [f.asked(), f.called("c1"), f.returned("c1")]
    rows += [again.recovers(), again.called("c2"), again.returned("c2"), again.said("Recovered.")]
    scene.history(*rows)
    assert scene.messages() == {M1: ("Recovered.", [("exec", "completed")] * 2)}


def test_a_recovery_that_began_before_anybody_was_there_is_linked_by_the_history() -> None:
    f, again = Frames(OWN), Frames(AGENT)
    scene = Scene()
    scene.hello("boot-2", row(status="running", hasActiveRun=True))
    rows = [f.asked(), f.called("c1"), f.returned("c1"), again.recovers()]
    actions = scene.history(*rows, inFlightRun={"runId": AGENT, "text": "Reco", "events": []})
    assert {show.run.message_id for show in firsts(actions)} == {M1}
    scene.push(again.delta("Recovered.", "vered.", 9), *again.final("Recovered."), again.settled())
    scene.history(*rows, again.said("Recovered."))
    assert scene.messages() == {M1: ("Recovered.", [("exec", "completed")])}


def test_a_cut_run_with_a_terminal_row_is_finished_with_what_streamed() -> None:
    # r_sigterm_long: a stopped Gateway stores no partial text.
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(
        *f.begin(), f.row(f.asked()), f.call("c1"), f.result("c1"), f.delta("Half a sen", "Half a sen", 9)
    )
    scene.push(
        ("shutdown", {"reason": "gateway stopping"}), f.chat("aborted", "Half a sen", stopReason="rpc")
    )
    scene.history(f.asked(), f.called("c1"), f.returned("c1"))
    assert scene.messages() == {message_id(KEY, AGENT): ("Half a sen", [("exec", "completed")])}
    assert scene.ended()[0].stop_notice


def test_the_history_that_cannot_be_read_leaves_what_streamed() -> None:
    scene, f = Scene(), Frames(OWN)
    scene.hello()
    scene.push(*_told(f, "All of it."))
    scene.no_history()
    assert scene.messages() == {M1: ("All of it.", [])}


def test_a_result_a_job_posts_into_the_chat_is_a_message() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    posted = f.said("Reminder!", idempotencyKey="cron-current-completion:cron:job:17")
    posted["openclawAutomation"] = {"kind": "cron", "jobId": "job", "runId": "cron:job:17"}
    posted["__openclaw"] = {}
    scene.push(f.row(posted), f.row(posted))
    scene.history(posted)
    assert scene.messages() == {message_id(KEY, "cron:job:17"): ("Reminder!", [])}
    assert len(scene.ended()) == 1


def test_two_runs_of_one_chat_keep_their_order_and_their_words() -> None:
    scene, one, two = Scene(), Frames(AGENT), Frames(OWN)
    scene.hello()
    scene.push(*_told(one, "one two"), *_told(two, "one two"))
    scene.history(one.asked(), one.said("one two"), two.asked(), two.said("one two"))
    assert list(scene.messages()) == [message_id(KEY, AGENT), M1]
    assert [run.run_id for run in scene.table.runs(KEY)] == [AGENT, OWN]


def test_an_adopting_table_gives_unwatched_runs_their_messages_and_no_heartbeat() -> None:
    one, beat, two = Frames(AGENT), Frames("30f58460-5ffc-4f54-a5dd-eac1466c7748"), Frames(OWN)
    scene = Scene(adopt=True)
    scene.history(one.asked(), one.said("One."), beat.said("Checked."), two.asked(), two.said("Two."))
    assert scene.messages() == {message_id(KEY, AGENT): ("One.", []), M1: ("Two.", [])}
    assert not [action for action in scene.actions if isinstance(action, Discard)]


def test_an_end_that_comes_while_the_history_is_read_has_it_read_again() -> None:
    scene, one, two = Scene(), Frames(AGENT), Frames(OWN)
    scene.hello()
    scene.push(*_told(one, "One."), *_told(two, "Two"))
    actions = scene.history(one.asked(), one.said("One."), two.asked())
    assert [run.run_id for run in scene.ended()] == [AGENT]
    assert wants_history(actions)
    scene.history(one.asked(), one.said("One."), two.asked(), two.said("Two, whole."))
    assert scene.messages()[M1] == ("Two, whole.", [])


def test_one_read_may_adopt_what_nobody_watched() -> None:
    scene, one = Scene(), Frames(AGENT)
    scene.history(one.asked(), one.said("One."))
    assert not scene.ended()
    payload = {"sessionId": SESSION, "messages": [one.asked(), one.said("One.")]}
    scene.feed(HistoryRead(KEY, payload, adopt=True))
    assert scene.messages() == {message_id(KEY, AGENT): ("One.", [])}


def test_a_chat_that_lives_for_long_keeps_few_of_its_ended_runs() -> None:
    scene = Scene()
    scene.hello()
    rows = []
    for number in range(100):
        f = Frames(f"run-{number}")
        scene.push(*_told(f))
        rows += [f.asked(), f.said("Hello")]
        scene.history(*rows)
    assert len(scene.ended()) == 100
    assert len(scene.table.runs(KEY)) < 40


def test_the_row_an_interrupted_run_is_judged_by_is_kept() -> None:
    scene, f = Scene(), Frames(AGENT)
    scene.hello()
    scene.push(*f.begin(), f.settled("failed", lastRunError="Claude Code process exited with code 143"))
    settled = scene.table.row(KEY)
    assert settled is not None
    assert settled["status"] == "failed"
    assert scene.table.row("agent:main:main") is None


@pytest.mark.parametrize("run", [OWN, "9c2a4c0e-0a5f-4e0b-9d53-0e6d6f3f1f11"])
@pytest.mark.parametrize("words", ["⚠️ Agent couldn't generate a response. Please try again.", "HTTP 400: no"])
@pytest.mark.parametrize("tools", [False, True])
def test_a_run_of_the_agents_own_that_fails_for_saying_nothing_has_no_message(
    run: str, words: str, tools: bool
) -> None:
    # 2026.9.6 asks a model that only says NO_REPLY once more and then takes the run for failed.
    scene, f = Scene(), Frames(run)
    scene.hello()
    scene.push(*f.begin(), *([f.call("c1"), f.result("c1")] if tools else []), *f.begin())
    scene.push(f.over("error", error=words), f.chat("error", errorMessage=words), f.settled("failed"))
    rows = [f.called("c1"), f.returned("c1")] if tools else []
    scene.history(f.asked(), *rows)
    nothing = run != OWN and "HTTP" not in words and not tools
    assert bool(scene.messages()) is not nothing
    assert [one.run_id for one in discarded(scene.actions)] == ([run] if nothing else [])


def test_messages_that_are_collected_one_by_one_are_answered_each_in_its_own_reply() -> None:
    # Gateway 2026.9.3: of two that wait, each may get a collection of its own.
    scene, first, second, third = Scene(), Frames(OWN), Frames(OTHER), Frames(THIRD)
    scene.hello()
    scene.push(*first.begin(), first.call("c1"), second.bare(), third.bare())
    scene.push(first.result("c1"), *first.final(), first.settled())
    rows = [first.asked(), first.called("c1"), first.returned("c1")]
    scene.history(*rows)
    for number, words in enumerate(("Second.", "Third.")):
        answer = Frames(f"7777777{number}-7777-4777-8777-777777777777")
        row = answer.asked(
            collection(words)["content"], idempotencyKey=f"followup-collect:{SESSION}:{number}"
        )
        rows += [row, answer.said(words)]
        scene.push(*answer.begin(), answer.row(row), answer.says(words, words, "i"))
        scene.push(*answer.final(words), answer.chat("final", words))
        scene.history(*rows)
    assert not [action for action in scene.actions if isinstance(action, Collected)]
    assert scene.messages() == {
        M1: ("", [("exec", "completed")]),
        M2: ("Second.", []),
        M3: ("Third.", []),
    }


def test_what_a_process_sends_itself_and_the_gateway_lets_wait_is_no_open_run() -> None:
    scene, second = Scene(), Frames(OTHER)
    scene.hello()
    scene.push(second.bare())
    scene.table.expect(KEY, OTHER, "hello")
    assert scene.table.unfinished() == []


@pytest.mark.parametrize(
    ("notice", "lost", "ended"),
    [
        pytest.param({"reason": "gateway stopping"}, False, True, id="it stops"),
        pytest.param({"reason": "gateway stopping"}, True, False, id="it stops, and frames were lost"),
        pytest.param(
            {"reason": "gateway restarting", "restartExpectedMs": 1500}, False, False, id="it restarts"
        ),
    ],
)
def test_a_run_that_ended_while_the_gateway_was_stopping_is_what_it_streamed(
    notice: dict[str, Any], lost: bool, ended: bool
) -> None:
    # r_sigterm: turns come to their end, every call is refused meanwhile, then the notice comes and the line is cut.
    scene, f = Scene(), Frames(OWN)
    scene.hello()
    scene.push(
        *f.begin(), f.row(f.asked()), f.call("c1"), f.result("c1"), f.says("All of it.", "All of it.", "i")
    )
    if lost:
        scene.gap()
    scene.push(*f.final("All of it."), f.settled())
    scene.push(("shutdown", notice))
    assert (scene.messages() == {M1: ("All of it.", [("exec", "completed")])}) is ended
    if not ended:
        # Back again, the transcript has it.
        scene.drop()
        scene.hello("boot-2", row(status="done", lastRunId=OWN))
        scene.history(f.asked(), f.called("c1"), f.returned("c1"), f.said("All of it."))
        assert scene.messages() == {M1: ("All of it.", [("exec", "completed")])}


@pytest.mark.parametrize("lost", [False, True])
def test_a_run_that_ended_while_no_history_is_told_is_what_it_streamed(lost: bool) -> None:
    # A Gateway that was asked to stop waits up to 315 s for whatever else it runs, and refuses every call meanwhile.
    scene, f = Scene(), Frames(OWN)
    scene.hello()
    scene.push(*f.begin(), f.row(f.asked()), f.says("All of it.", "All of it.", "i"))
    if lost:
        scene.gap()
    scene.listed(row(status="running", hasActiveRun=True))
    scene.no_history(restarting=True)
    assert scene.messages() == {}
    ended = scene.push(*f.final("All of it."), f.settled())
    assert ReadHistory(KEY, "end") in ended
    scene.no_history(restarting=True)
    assert scene.messages() == ({} if lost else {M1: ("All of it.", [])})
    # Back again, the transcript has it, and no second message.
    scene.drop()
    scene.hello("boot-2", row(status="done", lastRunId=OWN))
    scene.history(f.asked(), f.said("All of it."))
    assert scene.messages() == {M1: ("All of it.", [])}
