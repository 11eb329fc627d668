"""A Gateway's own recovery goes on in the message of the run it recovers, whenever this process is connected again.

A connection may be made before any moment of the recovery, its history may be read late, and frames may come before
the list does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import pytest

from rejoinder.turns.identity import message_id
from rejoinder.turns.signals import Action, Hello, HistoryRead, ReadHistory, ReadList, Show
from tests.unit.turns.restarts import MOMENTS, Moment, recovering, waiting
from tests.unit.turns.script import CHAT, KEY, M2, OWN, Frames, Row, Scene, firsts, row

AGENT = "8d503703-f0d6-4698-9067-9245d1809fe6"
FIRST, SECOND = "recovery-1", "recovery-2"


@dataclass
class Telling:
    """A connection to a Gateway whose moments pass, and whose answers come `lag` moments after they were asked."""

    scene: Scene
    moments: list[Moment]
    lag: int
    late: bool
    at: int = -1
    asked: list[tuple[int, int | None]] = field(default_factory=list)

    def connect(self, boot: str, at: int, *, early: bool, adopt: bool = False) -> None:
        """The list is as it stands after the moment `at`. early: that moment's frames came before it. adopt: the
        history is read for what nobody watched as well, as a process does that has just begun."""
        self.at = at
        if early:
            self._do(self.scene.push(*self.moments[at].frames))
        self._do(self.scene.feed(Hello(boot, [self.moments[at].listed])))
        if adopt:
            self.asked.append((at, self.scene.table.now))

    def drop(self) -> None:
        """What was asked over the old connection is never answered."""
        self.asked.clear()
        self.scene.drop()

    def pass_by(self, until: int) -> None:
        while self.at < until:
            self._answer()
            self.at += 1
            self._do(self.scene.push(*self.moments[self.at].frames))

    def go_on(self, until: int) -> None:
        """Until the Gateway is at rest and every answer has come."""
        self.pass_by(until)
        while self.asked:
            self._answer(waits=False)

    def _answer(self, *, waits: bool = True) -> None:
        due = [one for one in self.asked if not waits or one[0] + self.lag <= self.at]
        self.asked = [one for one in self.asked if one not in due]
        for at, asked in due:
            moment = self.moments[self.at if self.late else at]
            self._do(self.scene.feed(HistoryRead(KEY, moment.history, asked is not None, asked)))

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, ReadHistory):
                self.asked.append((self.at, None))
            assert not isinstance(action, ReadList)


def cut_run(run: str, *, announced: bool = False) -> tuple[Scene, tuple[Row, ...]]:
    """A run that was shown as far as “Cut ” when the Gateway was killed, or restarted in good order; and its rows."""
    scene, f = Scene(), Frames(run)
    scene.hello()
    scene.push(*f.begin(), f.row(f.asked()), f.call("c1"), f.result("c1"), f.says("Cut ", "Cut ", "i"))
    assert firsts(scene.actions)
    if announced:
        scene.push(("shutdown", {"reason": "gateway restarting", "restartExpectedMs": 1500}))
        if run == AGENT:
            scene.push(f.chat("aborted", "Cut ", stopReason="restart"))
        scene.push(f.settled("running", abortedLastRun=True, lastRunId=None))
    scene.drop()
    return scene, (f.asked(), f.called("c1"), f.returned("c1"))


def one_message(scene: Scene, expected: str, text: str, cards: int) -> None:
    assert scene.messages() == {expected: (text, [("exec", "completed")] * cards)}
    # It was finished once: nobody saw a finished message grow again.
    assert len(scene.ended()) == 1
    assert len(firsts(scene.actions)) <= 1
    assert {one.run.message_id for one in scene.actions if isinstance(one, Show)} <= {expected}
    assert not scene.table.unfinished()


_EITHER = (False, True)


_RUNS = pytest.mark.parametrize("run", [pytest.param(OWN, id="user"), pytest.param(AGENT, id="agent")])


@_RUNS
@pytest.mark.parametrize("joins", MOMENTS)
def test_a_recovery_is_linked_whenever_the_connection_is_there_again(joins: str, run: str) -> None:
    place = MOMENTS.index(joins)
    expected = message_id(KEY, run)
    assert expected is not None
    for lag, late, early, announced in product((0, 1, 2, 20), _EITHER, _EITHER, _EITHER):
        scene, rows = cut_run(run, announced=announced)
        moments = [waiting(rows), *recovering(FIRST, rows)]
        told = Telling(scene, moments, lag, late)
        told.connect("boot-2", place, early=early)
        told.go_on(len(moments) - 1)
        one_message(scene, expected, "Carried on.", 2)


@_RUNS
@pytest.mark.parametrize("joins", MOMENTS)
def test_answers_that_a_second_drop_swallows_are_asked_for_again(joins: str, run: str) -> None:
    expected = message_id(KEY, run)
    assert expected is not None
    place = MOMENTS.index(joins)
    for lag, again in product((0, 1, 20), range(place, len(MOMENTS))):
        scene, rows = cut_run(run)
        moments = [waiting(rows), *recovering(FIRST, rows)]
        told = Telling(scene, moments, 20, False)
        told.connect("boot-2", place, early=False)
        told.pass_by(again)
        told.drop()
        told.lag = lag
        told.connect("boot-2", again, early=False)
        told.go_on(len(moments) - 1)
        one_message(scene, expected, "Carried on.", 2)


@_RUNS
@pytest.mark.parametrize("joins", MOMENTS)
def test_a_recovery_that_is_killed_itself_is_recovered_into_the_same_message(joins: str, run: str) -> None:
    expected = message_id(KEY, run)
    assert expected is not None
    for lag, late, saw in product((0, 1, 20), _EITHER, (0, 3, 6)):
        scene, rows = cut_run(run)
        first = [waiting(rows), *recovering(FIRST, rows, dies=True)]
        told = Telling(scene, first, lag, late)
        told.connect("boot-2", saw, early=False)
        told.go_on(len(first) - 1)
        told.drop()
        rows = first[-1].rows
        told.moments = [waiting(rows), *recovering(SECOND, rows)]
        told.connect("boot-3", MOMENTS.index(joins), early=False)
        told.go_on(len(told.moments) - 1)
        one_message(scene, expected, "Carried on.", 3)


@_RUNS
@pytest.mark.parametrize("joins", MOMENTS)
def test_a_recovery_that_nobody_saw_begin_or_die_is_in_the_message_as_well(joins: str, run: str) -> None:
    expected = message_id(KEY, run)
    assert expected is not None
    for lag, late, early in product((0, 1, 20), _EITHER, _EITHER):
        scene, rows = cut_run(run)
        rows = list(recovering(FIRST, rows, dies=True))[-1].rows
        moments = [waiting(rows), *recovering(SECOND, rows)]
        told = Telling(scene, moments, lag, late)
        told.connect("boot-3", MOMENTS.index(joins), early=early)
        told.go_on(len(moments) - 1)
        one_message(scene, expected, "Carried on.", 3)


@_RUNS
@pytest.mark.parametrize("joins", MOMENTS)
def test_a_process_that_begins_while_a_recovery_goes_on_finishes_the_cut_message_once(
    joins: str, run: str
) -> None:
    expected = message_id(KEY, run)
    assert expected is not None
    for lag, late, early in product((0, 1, 20), _EITHER, _EITHER):
        _, rows = cut_run(run)
        moments = [waiting(rows), *recovering(FIRST, rows)]
        told = Telling(Scene(), moments, lag, late)
        told.connect("boot-2", MOMENTS.index(joins), early=early, adopt=True)
        told.go_on(len(moments) - 1)
        one_message(told.scene, expected, "Carried on.", 2)


@_RUNS
@pytest.mark.parametrize("status", ["failed", "killed", "done"])
def test_a_run_that_was_over_before_the_restart_ends_with_what_it_had(status: str, run: str) -> None:
    expected = message_id(KEY, run)
    scene, rows = cut_run(run)
    scene.hello("boot-2", row(status=status, activeRunIds=[], lastRunId=run))
    scene.history(*rows, sessionInfo=row(status=status, activeRunIds=[], lastRunId=run))
    assert scene.messages() == {expected: ("Cut", [("exec", "completed")])}


@_RUNS
@pytest.mark.parametrize("told", ["pushed", "read"])
def test_a_new_message_after_the_restart_leaves_the_cut_run_to_itself(told: str, run: str) -> None:
    # The Gateway recovers the run that was admitted last, so nothing carries on with the one before.
    expected = message_id(KEY, run)
    scene, rows = cut_run(run)
    other = Frames(f"msg-{CHAT}-{M2}-1")
    if told == "pushed":
        scene.hello("boot-2", row(abortedLastRun=True, activeRunIds=[]))
        scene.push(*other.begin(), other.row(other.asked()))
    else:
        scene.hello("boot-2", row(hasActiveRun=True))
    flight = {"runId": other.run, "text": "", "events": []}
    scene.history(*rows, other.asked(), sessionInfo=row(hasActiveRun=True), inFlightRun=flight)
    assert scene.messages() == {expected: ("Cut", [("exec", "completed")])}
    assert [one.run_id for one in scene.table.unfinished()] == [other.run]
