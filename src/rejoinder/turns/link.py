"""Which run a restart recovery carries on with, read from the session's history.

Recorded (r_sigkill, r_restart_force_term): after a restart the Gateway starts a run of its own for each cut run; its
input row has the provenance `internal_system` / `main_session_restart_recovery`, and it has a new uuid. Nothing
names the run it carries on with but the order of the rows: it is the newest run before that input. An announce
run that was cut has no input row (s11_subagent), so the rows it wrote count as well as the inputs. A steered
input belongs to the run it was put into (s10_queue). A recovery that is cut itself is carried on with by the next
one, and both by the first run's message.
"""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.turns.identity import input_id, message_id
from rejoinder.turns.transcript import (
    Row,
    is_input,
    is_posted,
    is_recovery,
    key_of,
    run_of,
    runs_in,
    steered_into,
)


def source_of(rows: Sequence[Row], recovery_run: str) -> str | None:
    """The run that `recovery_run` carries on with (never a recovery itself), or None if the history has none."""
    place = _input_at(rows, recovery_run)
    if place is None or not is_recovery(rows[place]):
        return None
    for index in range(place - 1, -1, -1):
        run = _run_at(rows[index])
        if run is None or is_posted(rows[index]):
            continue
        before = _input_at(rows, run)
        if before is not None and is_recovery(rows[before]):
            return source_of(rows, run)
        return run
    return None


def asked_before(rows: Sequence[Row], run_id: str, other: str) -> bool:
    """Whether the input of `run_id` stands before that of `other`. An input that is not there yet is the newest."""
    one, two = _input_at(rows, run_id), _input_at(rows, other)
    return one is not None and (two is None or one < two)


def message_of(rows: Sequence[Row], key: str, run_id: str, session_id: str | None = None) -> str | None:
    """The id of the message of `run_id`, as the history alone tells it: recoveries go into their source's."""
    source = source_of(rows, run_id) or run_id
    asked = next((run.input_run for run in reversed(runs_in(rows, session_id)) if run.run_id == source), None)
    return message_id(key, source, asked, session_id=session_id)


def _run_at(row: Row) -> str | None:
    if not is_input(row):
        return run_of(row)
    return steered_into(row) or input_id(key_of(row))


def _input_at(rows: Sequence[Row], run_id: str) -> int | None:
    for index in range(len(rows) - 1, -1, -1):
        if is_input(rows[index]) and input_id(key_of(rows[index])) == run_id:
            return index
    return None
