"""When a schedule comes round: every so many seconds, or by a crontab. Pure: no clock and no database.

A slot is a moment at which a schedule is due. Slots of an interval lie at whole steps from the schedule's anchor, so a
late run does not shift the ones after it. Crontabs are read in UTC, the time of the database's clock, so no slot is
skipped or doubled where a country changes its clocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cronsim import CronSim, CronSimError

from rejoinder.contract.errors import BadInputError

#: Seconds. The least and the most that an interval may be.
LEAST, MOST = 0.1, 10 * 366 * 86_400
#: The crontab's fields in the order of an expression, with the word that the parser has for each.
FIELDS = {
    "minute": "minute",
    "hour": "hour",
    "day_of_month": "day-of-month",
    "month_of_year": "month",
    "day_of_week": "day-of-week",
}
MAX_EXPRESSION = 200
_MICROSECOND = timedelta(microseconds=1)


class Cadence(ABC):
    """``after`` and ``until`` take and give moments with a zone; ``anchor`` is where the schedule began."""

    def start(self, now: datetime) -> datetime:
        """The anchor of a schedule that is made at ``now``."""
        return now

    @abstractmethod
    def after(self, moment: datetime, anchor: datetime) -> datetime | None:
        """The first slot after ``moment``, or None where no more comes."""

    @abstractmethod
    def until(self, moment: datetime, anchor: datetime) -> datetime | None:
        """The last slot at or before ``moment``, or None where none has come yet."""


@dataclass(frozen=True, slots=True)
class Once(Cadence):
    """One run, at the anchor."""

    def after(self, moment: datetime, anchor: datetime) -> datetime | None:
        return anchor if moment < anchor else None

    def until(self, moment: datetime, anchor: datetime) -> datetime | None:
        return anchor if anchor <= moment else None


@dataclass(frozen=True, slots=True)
class Interval(Cadence):
    """Every ``every``. ``relative`` moves the anchor back to the last whole day, hour, minute or second: whichever is
    the longest that the interval is at least as long as."""

    every: timedelta
    relative: bool = False

    def start(self, now: datetime) -> datetime:
        if not self.relative:
            return now
        now = now.astimezone(UTC)
        if self.every >= timedelta(days=1):
            return now.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.every >= timedelta(hours=1):
            return now.replace(minute=0, second=0, microsecond=0)
        if self.every >= timedelta(minutes=1):
            return now.replace(second=0, microsecond=0)
        return now.replace(microsecond=0)

    def after(self, moment: datetime, anchor: datetime) -> datetime | None:
        return self._slot(max((moment - anchor) // self.every + 1, 1), anchor)

    def until(self, moment: datetime, anchor: datetime) -> datetime | None:
        steps = (moment - anchor) // self.every
        return self._slot(steps, anchor) if steps >= 1 else None

    def _slot(self, steps: int, anchor: datetime) -> datetime | None:
        try:
            return anchor + steps * self.every
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True)
class Crontab(Cadence):
    """``expression`` has five fields, or six with the seconds first. Where neither the day of the month nor the day of
    the week is ``*``, a day that fits either counts, as in any crontab."""

    expression: str

    def after(self, moment: datetime, anchor: datetime) -> datetime | None:
        return self._first(CronSim(self.expression, moment.astimezone(UTC)))

    def until(self, moment: datetime, anchor: datetime) -> datetime | None:
        # What is read backwards begins before the moment that it is given.
        found = self._first(CronSim(self.expression, moment.astimezone(UTC) + _MICROSECOND, reverse=True))
        return found if found is not None and found > anchor else None

    def _first(self, slots: CronSim) -> datetime | None:
        try:
            return next(slots, None)
        except (OverflowError, ValueError):
            # Past the last year that there is.
            return None


def cadence_of(given: object, *, field: str = "cadence") -> Cadence:
    """The cadence that a request or a row holds as JSON; None is once. Raises BadInputError naming what is wrong in it:
    ``cadence.every``, for example."""
    if given is None:
        return Once()
    if not isinstance(given, Mapping):
        raise BadInputError(f"{field} must be an object with a kind, or left out to run once", field=field)
    kind = given.get("kind")
    if kind == "interval":
        return _interval(given, field)
    if kind == "crontab":
        return _crontab(given, field)
    raise BadInputError(f"{field}.kind must be interval or crontab", field=f"{field}.kind")


def _interval(given: Mapping[Any, Any], field: str) -> Interval:
    _only(given, ("every", "relative"), field, (*FIELDS, "expression"))
    every, relative = given.get("every"), given.get("relative", False)
    if isinstance(every, bool) or not isinstance(every, int | float) or not LEAST <= every <= MOST:
        raise BadInputError(
            f"{field}.every must be a number of seconds from {LEAST:g} to {MOST}", field=f"{field}.every"
        )
    if not isinstance(relative, bool):
        raise BadInputError(f"{field}.relative must be true or false", field=f"{field}.relative")
    return Interval(timedelta(seconds=every), relative)


def _crontab(given: Mapping[Any, Any], field: str) -> Crontab:
    _only(given, (*FIELDS, "expression"), field, ("every", "relative"))
    named = [name for name in FIELDS if name in given]
    if "expression" in given:
        if named:
            raise BadInputError(
                f"{field} has an expression and {named[0]}, which may say two things; give one of them",
                field=f"{field}.{named[0]}",
            )
        return _expression(given["expression"], f"{field}.expression")
    if not named:
        raise BadInputError(f"{field} needs an expression or fields such as minute and hour", field=field)
    words = [_word(given.get(name, "*"), f"{field}.{name}") for name in FIELDS]
    return _checked(" ".join(words), lambda fault: f"{field}.{_named(fault)}")


def _expression(text: object, field: str) -> Crontab:
    if not isinstance(text, str) or len(text) > MAX_EXPRESSION or not text.isascii():
        raise BadInputError(
            f"{field} must be text of five fields, or six with the seconds first", field=field
        )
    words = text.split()
    if len(words) not in (5, 6):
        raise BadInputError(
            f"{field} has {len(words)} fields; it takes five, or six with the seconds first", field=field
        )
    return _checked(" ".join(words), lambda _fault: field)


def _word(value: object, field: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if (
        not isinstance(value, str)
        or not value
        or len(value) > 60
        or not value.isascii()
        or value.split() != [value]
    ):
        raise BadInputError(f"{field} must be one crontab field, such as */15 or 1-5", field=field)
    return value


def _checked(expression: str, field: Any) -> Crontab:
    try:
        CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        fault = str(error).removeprefix("Bad ")
        raise BadInputError(f"the {fault} of the crontab is not usable", field=field(fault)) from None
    return Crontab(expression)


def _named(fault: str) -> str:
    return next((name for name, word in FIELDS.items() if word == fault), "expression")


def _only(given: Mapping[Any, Any], known: tuple[str, ...], field: str, others: tuple[str, ...]) -> None:
    for key in given:
        if key == "kind" or key in known:
            continue
        if key in others:
            raise BadInputError(
                f"{field} mixes an interval and a crontab; give one of them", field=f"{field}.{key}"
            )
        raise BadInputError(
            f"{field} has a key that is not known; it takes kind, {', '.join(known)}", field=field
        )
