"""When a schedule comes round, beside a reference that knows nothing but the words of the interface."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.contract.errors import BadInputError
from rejoinder.schedules.cadence import FIELDS, Crontab, Interval, Once, cadence_of
from rejoinder.schedules.missed import HORIZON, LATE, POLICIES, Missed, turn

NOW = datetime(2026, 11, 30, 20, 15, 42, 250_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MOMENTS = st.integers(0, 4 * 365 * 86_400_000).map(lambda ms: NOW + timedelta(milliseconds=ms))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (7, "cadence"),
        ("* * * * *", "cadence"),
        ([], "cadence"),
        ({}, "cadence.kind"),
        ({"kind": "hourly"}, "cadence.kind"),
        ({"every": 5}, "cadence.kind"),
        ({"kind": "interval"}, "cadence.every"),
        ({"kind": "interval", "every": 0}, "cadence.every"),
        ({"kind": "interval", "every": -1}, "cadence.every"),
        ({"kind": "interval", "every": True}, "cadence.every"),
        ({"kind": "interval", "every": "5"}, "cadence.every"),
        ({"kind": "interval", "every": 1e300}, "cadence.every"),
        ({"kind": "interval", "every": float("nan")}, "cadence.every"),
        ({"kind": "interval", "every": 5, "relative": 1}, "cadence.relative"),
        ({"kind": "interval", "every": 5, "minute": "*"}, "cadence.minute"),
        ({"kind": "interval", "every": 5, "expression": "* * * * *"}, "cadence.expression"),
        ({"kind": "interval", "every": 5, "more": 1}, "cadence"),
        ({"kind": "crontab"}, "cadence"),
        ({"kind": "crontab", "every": 5}, "cadence.every"),
        ({"kind": "crontab", "expression": "* * * * *", "minute": 5}, "cadence.minute"),
        ({"kind": "crontab", "expression": "* * * *"}, "cadence.expression"),
        ({"kind": "crontab", "expression": "* * * * * * *"}, "cadence.expression"),
        ({"kind": "crontab", "expression": "61 * * * *"}, "cadence.expression"),
        ({"kind": "crontab", "expression": "@daily"}, "cadence.expression"),
        ({"kind": "crontab", "expression": "0 0 30 2 *"}, "cadence.expression"),
        ({"kind": "crontab", "expression": 5}, "cadence.expression"),
        ({"kind": "crontab", "minute": 60}, "cadence.minute"),
        ({"kind": "crontab", "minute": True}, "cadence.minute"),
        ({"kind": "crontab", "minute": "5 6"}, "cadence.minute"),
        ({"kind": "crontab", "hour": "24"}, "cadence.hour"),
        ({"kind": "crontab", "day_of_month": "0"}, "cadence.day_of_month"),
        ({"kind": "crontab", "month_of_year": "13"}, "cadence.month_of_year"),
        ({"kind": "crontab", "day_of_week": "monday"}, "cadence.day_of_week"),
        ({"kind": "crontab", "day_of_week": ""}, "cadence.day_of_week"),
    ],
)
def test_what_is_no_cadence_is_refused_by_its_part(given: Any, field: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        cadence_of(given)
    assert refusal.value.field == field


def test_what_is_a_cadence() -> None:
    assert cadence_of(None) == Once()
    assert cadence_of({"kind": "interval", "every": 900}) == Interval(timedelta(seconds=900))
    assert cadence_of({"kind": "crontab", "minute": 5, "hour": "*/2"}) == Crontab("5 */2 * * *")
    assert cadence_of({"kind": "crontab", "expression": " 0  9 * * mon-fri "}) == Crontab("0 9 * * mon-fri")
    assert cadence_of({"kind": "crontab", "expression": "*/10 * * * * *"}) == Crontab("*/10 * * * * *")


@pytest.mark.parametrize(
    ("every", "begins"),
    [
        (86_400, datetime(2026, 11, 30, tzinfo=UTC)),
        (7200, datetime(2026, 11, 30, 20, tzinfo=UTC)),
        (90, datetime(2026, 11, 30, 20, 15, tzinfo=UTC)),
        (5, datetime(2026, 11, 30, 20, 15, 42, tzinfo=UTC)),
    ],
)
def test_a_relative_interval_begins_at_a_whole_unit(every: float, begins: datetime) -> None:
    assert Interval(timedelta(seconds=every), relative=True).start(NOW) == begins
    assert Interval(timedelta(seconds=every)).start(NOW) == NOW


@given(every=st.integers(1, 100_000), passed=st.integers(-5, 100_000_000))
def test_an_interval_counts_from_its_anchor(every: int, passed: int) -> None:
    cadence = Interval(timedelta(milliseconds=every * 100))
    moment = NOW + timedelta(milliseconds=passed)
    slots = max(passed, 0) // (every * 100)
    assert cadence.after(moment, NOW) == NOW + (slots + 1) * cadence.every
    assert cadence.until(moment, NOW) == (NOW + slots * cadence.every if slots else None)


_PART = st.one_of(st.just("*"), st.integers(0, 59).map(str), st.integers(1, 30).map(lambda n: f"*/{n}"))


def _naive(words: list[str], at: datetime) -> bool:
    """Whether a six-field crontab of ``*``, numbers and ``*/n`` names this second."""
    values = [at.second, at.minute, at.hour, at.day, at.month]
    lows = [0, 0, 0, 1, 1]
    for word, value, low in zip(words[:5], values, lows, strict=True):
        if word.startswith("*/") and (value - low) % int(word[2:]):
            return False
        if word.isdigit() and value != int(word):
            return False
    return True


@settings(max_examples=60)
@given(second=_PART, minute=_PART, at=MOMENTS, hour=st.one_of(st.just("*"), st.integers(0, 23).map(str)))
def test_a_crontab_names_the_seconds_that_its_words_name(
    second: str, minute: str, at: datetime, hour: str
) -> None:
    words = [second, minute, hour, "*", "*", "*"]
    cadence = cadence_of({"kind": "crontab", "expression": " ".join(words)})
    begin = at.replace(microsecond=0)
    anchor = begin - timedelta(days=400)
    reference = next((begin + n * SECOND for n in range(1, 7200) if _naive(words, begin + n * SECOND)), None)
    found = cadence.after(at, anchor)
    assert found is not None
    assert reference == found or (reference is None and found > begin + 7199 * SECOND)
    # Backwards, the same slot is found from itself, and from just before the next one.
    following = cadence.after(found, anchor)
    assert following is not None
    assert cadence.until(found, anchor) == found
    assert cadence.until(following - timedelta(microseconds=1), anchor) == found
    before = cadence.until(found - timedelta(microseconds=1), anchor)
    assert before is None or before < found


_JUNK = st.text(alphabet="0123456789*/,-#LWwSUNmon ?@\x00é", max_size=25)


@settings(max_examples=300)
@given(text=_JUNK)
def test_any_words_are_a_crontab_or_refused(text: str) -> None:
    expression = {"kind": "crontab", "expression": text}
    for words in (expression, *({"kind": "crontab", name: text} for name in FIELDS)):
        made = _made(words)
        found = None if made is None else made.after(NOW, NOW)
        assert found is None or found > NOW


def _made(words: dict[str, str]) -> Crontab | None:
    try:
        made = cadence_of(words)
    except BadInputError:
        return None
    assert isinstance(made, Crontab)
    return made


def test_the_parser_still_raises_what_is_caught() -> None:
    with pytest.raises(CronSimError):
        CronSim("x * * * *", NOW)


CADENCES = st.one_of(
    st.integers(1, 40_000).map(lambda s: Interval(timedelta(seconds=s))),
    st.sampled_from(["0 * * * *", "*/7 * * * *", "30 3 * * *", "0 9 * * mon"]).map(Crontab),
)


def _slots(cadence: Any, first: datetime, now: datetime) -> list[datetime]:
    found = [first]
    while (following := cadence.after(found[-1], NOW)) is not None and following <= now and len(found) < 500:
        found.append(following)
    return found


@settings(max_examples=150)
@given(cadence=CADENCES, late=st.integers(0, 3 * 86_400), missed=st.sampled_from(POLICIES))
def test_every_slot_is_run_or_let_go_as_the_policy_says(cadence: Any, late: int, missed: Missed) -> None:
    due = cadence.after(NOW, NOW)
    now = due + timedelta(seconds=late)
    slots = _slots(cadence, due, now)
    if len(slots) == 500:
        return
    taken: list[datetime] = []
    waiting: datetime | None = due
    let_go: list[tuple[datetime, datetime]] = []
    while waiting is not None and waiting <= now:
        one = turn(cadence, NOW, waiting, now, missed)
        assert one.next_at is None or one.next_at > waiting
        if one.slot is not None:
            taken.append(one.slot)
        if one.let_go is not None:
            let_go.append(one.let_go)
        waiting = one.next_at
    if missed == "all":
        kept = [slot for slot in slots if slot > now - HORIZON or slot == slots[-1] or due >= now - HORIZON]
        assert taken == kept
    elif missed == "skip" and now - slots[-1] > LATE:
        assert taken == []
    else:
        assert taken == slots[-1:]
    gone = [slot for slot in slots if slot not in taken]
    assert let_go == ([(gone[0], gone[-1])] if gone else [])
    assert waiting == cadence.after(now, NOW)


def test_once_is_once() -> None:
    assert Once().after(NOW - SECOND, NOW) == NOW
    one = turn(Once(), NOW, NOW, NOW + timedelta(days=9), "all")
    assert (one.slot, one.next_at, one.let_go) == (NOW, None, None)
