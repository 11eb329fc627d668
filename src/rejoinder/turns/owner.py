"""Who continues a run that was cut: one owner a run, read from its session's persisted row.

The Gateway carries on only with rows that are still `running`; we only with rows it has persisted as ended. A row
is never both, so there are never two continuations. The row is the one of the settled push after the run's
terminal, or of the first list after a reconnect: the terminal push itself still says running.

Recorded: r_sigkill and r_restart_force_term (running, abortedLastRun), r_sigterm_long (killed after a shutdown notice
without restartExpectedMs), s08_abort (killed, no notice), c_claudecli (failed, the process's exit), s12_error
(failed, another error), s11_subagent (running, no active run, yielded: not cut at all), t02_noreply (killed with a
chat error: nothing was said, nobody stopped it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Owner = Literal["gateway", "we", "nobody", "newer", "wait"]
"""gateway: keep the message open for its recovery. we: send a resume. nobody: the message ends.
newer: a later run has the session, the message ends. wait: the session is busy, decide on its next settle."""

MAX_RESUMES = 3
EXIT_TEXT = re.compile(r"process exited with (?:code (\d+)|signal (SIG[A-Z0-9]+))")
_OUTSIDE_CODES = frozenset({"143", "137"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The owner, why in a word, and whether people should be told that the reply was cut off."""

    owner: Owner
    why: str
    cut_off: bool = False


def outside_kill(error: str | None) -> bool:
    """Whether the error is a process that something outside ended (not an exit of its own)."""
    found = EXIT_TEXT.search(error or "")
    return found is not None and (found[2] is not None or found[1] in _OUTSIDE_CODES)


def owner_of(
    row: Mapping[str, Any] | None,
    run_id: str,
    *,
    terminal: bool,
    stop_notice: bool,
    yielded: bool = False,
    resumes: int = 0,
) -> Verdict:
    """Who continues run `run_id`, whose session's persisted row is `row` (None: the session is not known).

    terminal: whether the run's own terminal was seen.
    stop_notice: whether a shutdown notice without restartExpectedMs came before that terminal, on this connection.
    yielded: the run ended by waiting for its sub-agents; it was not cut.
    resumes: how often the run's message was resumed already.
    """
    if yielded:
        return Verdict("nobody", "yielded")
    if row is None:
        return Verdict("nobody", "the session is gone", cut_off=not terminal)
    if row.get("hasActiveRun"):
        active = row.get("activeRunIds")
        if not terminal and (not active or run_id in active):
            return Verdict("wait", "it still runs")
        return Verdict("wait", "the session is busy")
    status, error = row.get("status"), row.get("lastRunError")
    last = row.get("lastRunId")
    if status == "running":
        return Verdict("gateway", "the Gateway recovers it")
    if last and last != run_id:
        return Verdict("newer", "a later run has the session", cut_off=not terminal or outside_kill(error))
    if status == "failed" and outside_kill(error):
        return _resume("its process was ended from outside", resumes)
    if status == "killed" and stop_notice:
        return _resume("the Gateway stopped", resumes)
    if status == "killed":
        return Verdict("nobody", "stopped")
    if status == "failed":
        return Verdict("nobody", "failed")
    return Verdict("nobody", "done")


def _resume(why: str, resumes: int) -> Verdict:
    if resumes >= MAX_RESUMES:
        return Verdict("nobody", f"{why}, {resumes} times", cut_off=True)
    return Verdict("we", why)
