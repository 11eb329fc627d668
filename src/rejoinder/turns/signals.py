"""What the Gateway says (signals in) and what is to be done about it (actions out)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rejoinder.turns.finish import Final
from rejoinder.turns.identity import is_action, message_id, parse_run, shares_id
from rejoinder.turns.reducer import Diff, Reducer
from rejoinder.turns.transcript import HIDDEN_INPUT

Payload = Mapping[str, Any]
Mode = Literal["none", "inline", "writer"]
"""Who writes a run's message: nobody yet, a live request of this process, or a task of ours."""


@dataclass(eq=False, slots=True)
class Run:
    """One run of a session, as this process knows it. `message_id` is final once `shown` or ended.

    told: at which signal something was said of it that a history asked for before may not have yet.
    words: what it was asked, where this process asked it.
    """

    key: str
    run_id: str
    state: Reducer
    input_run: str | None = None
    session_id: str | None = None
    recovery: bool = False
    sources: list[Run] = field(default_factory=list)
    mode: Mode = "none"
    words: str | None = None
    shown: bool = False
    ending: bool = False
    ended: bool = False
    told: int = 0
    cut: bool = False
    continued: bool = False
    unsure: bool = False
    hidden: bool = False
    stop_notice: bool = False
    claimed_id: str | None = None
    final: Final | None = None

    @property
    def open(self) -> bool:
        """Whether the run still goes on, or was cut and waits for the one that carries on with it."""
        return not (self.ended or self.continued)

    @property
    def gapped(self) -> bool:
        """Whether frames of it may have been lost."""
        return self.state.gapped

    @property
    def message_id(self) -> str | None:
        """The id of the run's message; None if it never gets one."""
        if is_action(self.run_id) or self.state.heartbeat or self.hidden:
            return None
        if self.sources:
            return self.sources[0].message_id
        if self.claimed_id is not None:
            return self.claimed_id
        return message_id(self.key, self.run_id, self.input_run, session_id=self.session_id)

    @property
    def asked_by_person(self) -> bool:
        """Whether somebody waits for its answer in the chat."""
        asked = (one for run in (self, *self.sources) for one in (run.run_id, run.input_run))
        return any(parse_run(one) is not None for one in asked if one)

    @property
    def identified(self) -> bool:
        """Whether nothing that comes later can name another message."""
        if self.sources or self.shown or self.claimed_id is not None:
            return True
        if self.recovery or (
            self.unsure and self.input_run is None and not self.run_id.startswith(HIDDEN_INPUT)
        ):
            return False
        return self.input_run is not None or not shares_id(self.run_id, self.session_id)


# What the Gateway says.


@dataclass(frozen=True, slots=True)
class Hello:
    """A connection is up; `rows` are the sessions of its subscribe-and-list request."""

    boot_id: str
    rows: Sequence[Payload]


@dataclass(frozen=True, slots=True)
class Listed:
    """A later reading of the session list."""

    rows: Sequence[Payload]


@dataclass(frozen=True, slots=True)
class Pushed:
    """An event frame: its name and payload."""

    event: str
    payload: Payload


@dataclass(frozen=True, slots=True)
class Gap:
    """Frames were lost on a living connection."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection is gone."""


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """A reply of `chat.history` (the whole payload).

    asked: the table's `now` when it was asked for; None for the read that the table itself asked for.
    adopt: whether runs nobody watched get their message too (a session that went on while nobody looked).
    left: messages whose replies the chat has unfinished, by ids under which they may have been sent, with their texts.
    """

    key: str
    payload: Payload
    adopt: bool = False
    asked: int | None = None
    left: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryFailed:
    """The history could not be read: runs that ended keep what streamed.

    restarting: the Gateway stops or restarts. It answers no reading until it is back, which may be never and may take
    minutes (it waits for whatever else runs); then only runs that streamed without a loss end.
    """

    key: str
    restarting: bool = False


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Nobody waits any longer for the session's cut run to be carried on with."""

    key: str


Signal = GivenUp | Hello | Listed | Pushed | Gap | Dropped | HistoryRead | HistoryFailed


# What is to be done.


@dataclass(frozen=True, slots=True)
class Opened:
    """A run is known. Nothing is shown yet."""

    run: Run


@dataclass(frozen=True, slots=True)
class Show:
    """Show the difference in the run's message. `first`: claim the message, the difference is all of it."""

    run: Run
    diff: Diff
    first: bool


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Read the session's history and feed it back (or that it failed). `why`: end, identity, active, link."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class ReadList:
    """Read the session list and feed it back."""


@dataclass(frozen=True, slots=True)
class End:
    """The run's message is finished and is exactly this. It may never have been shown; it may come again with
    more, for the same message."""

    run: Run
    final: Final


@dataclass(frozen=True, slots=True)
class Discard:
    """The run is over and said nothing: it gets no message."""

    run: Run


@dataclass(frozen=True, slots=True)
class Cut:
    """A restart cut the run: its message stays open for the run that carries on (see `owner`)."""

    run: Run


@dataclass(frozen=True, slots=True)
class Queued:
    """A message was taken into a busy session: it was not answered yet, and its own run id never will be."""

    key: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Steered:
    """A queued message was put into a running run: its answer is part of that run's message."""

    key: str
    run_id: str
    into: str


@dataclass(frozen=True, slots=True)
class Collected:
    """A queued message was put together with later ones: one run answers them all, in the reply to the last, `into`."""

    key: str
    run_id: str
    into: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A queued message went with the Gateway that held it: nobody will answer it."""

    key: str
    run_id: str


Action = Collected | Lost | Opened | Show | ReadHistory | ReadList | End | Discard | Cut | Queued | Steered
