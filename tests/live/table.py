"""The table of the cases that a turn in a chat can be in, each run live: python -m tests.live.table [FOLDER] [--write]

Every case is played on a real Gateway and a real Open WebUI and looked at twice: in the Host's database, and in its
page, reloaded. With a folder, a picture of each page is kept there; with --write the table is put into
docs/explanation/one-message-a-run.md where every case passes. Exit code 1 if a case fails.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime

import pytest

from bench.machine import ROOT
from bench.render import section
from tests.live import proof
from tests.live.rig import places

PAGE = ROOT / "docs" / "explanation" / "one-message-a-run.md"
BEGIN, END = "<!-- cases: written by python -m tests.live.table --write -->", "<!-- end of cases -->"

_CHATS, _RESTARTS = "tests/live/test_turns_chats.py", "tests/live/test_turns_restarts.py"
CASES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("1", "a tab shows the chat", ("test_a_run_of_the_agents_own_appears_in_the_open_page",)),
    (
        "2",
        "a tab shows another chat",
        ("test_a_tab_that_shows_another_chat_finds_the_reply_when_it_comes_back",),
    ),
    ("3", "no tab; one closed and opened mid-turn", ("test_a_tab_closed_and_opened_mid_turn",)),
    ("3", "no tab: a schedule wakes the agent", ("test_two_wakes_of_a_schedule_are_two_messages",)),
    ("3", "no tab: a message from another session", ("test_a_message_from_another_session",)),
    ("4", "the Host dies, the run goes on", ("test_the_host_dies_mid_turn_and_comes_back",)),
    ("4", "the run ends while the Host is down", ("test_a_run_that_ended_while_the_host_was_down",)),
    (
        "4",
        "the Host is stopped as a container is, asked and then killed",
        (
            "test_the_host_is_stopped_mid_turn_and_started_again[SIGTERM]",
            "test_the_host_is_stopped_mid_turn_and_started_again[SIGTERM, then SIGKILL]",
        ),
    ),
    ("5", "the Gateway is killed", ("test_after_kill_9_of_the_gateway_each_run_goes_on_in_its_own_message",)),
    ("5", "the Gateway restarts", ("test_after_an_announced_restart_each_run_goes_on_in_its_own_message",)),
    (
        "5",
        "the Gateway is asked to stop while a run goes on",
        ("test_a_gateway_that_is_asked_to_stop_lets_the_reply_come_to_its_end",),
    ),
    (
        "5",
        "the Gateway is stopped as a container is",
        ("test_a_container_stop_of_the_gateway_lets_the_reply_go_on_after_its_start",),
    ),
    ("6", "the wire is cut", ("test_a_cut_wire_loses_no_word",)),
    ("7", "a message while the agent writes", ("test_a_message_typed_while_the_agent_writes_follows_it",)),
    ("8", "Stop", ("test_stop_of_an_agents_own_run", "test_stop_of_a_persons_turn_stops_the_agent")),
    ("8", "Send now", ("test_send_now_lets_the_agent_finish_and_answers_next",)),
    ("9", "two turns back to back", ("test_two_turns_back_to_back",)),
    ("10", "a sub-agent ends, the parent idles", ("test_a_sub_agents_end_while_the_parent_idles",)),
    ("10", "a sub-agent ends, the parent works", ("test_a_sub_agents_end_while_the_parent_works",)),
    ("11", "a redeploy mid-turn", ("test_a_redeploy_mid_turn_loses_and_doubles_nothing",)),
)


class _Reporter:
    """What became of each test, how long it took, and where it looked."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.seconds: dict[str, float] = defaultdict(float)
        self.looked: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        self.seconds[name] += report.duration
        if report.when == "call" or report.failed:
            self.results[name] = report.outcome
        self.looked[name] |= proof.taken(name)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    folders = [word for word in sys.argv[1:] if word != "--write"]
    if folders:
        os.environ[proof.PICTURES] = folders[0]
    wanted = sorted({name.partition("[")[0] for _, _, names in CASES for name in names})
    files = (_RESTARTS, _CHATS)
    reporter, started = _Reporter(), time.monotonic()
    # What is imported already, pytest cannot prepare for its own asserts; none of it asserts.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    pytest.main(["-q", "--no-header", *quiet, *files, "-k", " or ".join(wanted)], plugins=[reporter])
    shown = [_row("case", "what", "result", "database", "page", "seconds"), _row(*["---"] * 6)]
    told = [_row("what happens", "in the database", "in the page, reloaded"), _row(*["---"] * 3)]
    good = True
    for number, what, names in CASES:
        fine = all(reporter.results.get(name) == "passed" for name in names)
        looked = set.intersection(*(reporter.looked[name] for name in names))
        good = good and fine and looked == {"database", "page"}
        marks = ["✓" if fine and place in looked else "–" for place in ("database", "page")]
        took = sum(reporter.seconds[name] for name in names)
        shown.append(_row(number, what, "passed" if fine else "FAILED", *marks, f"{took:.0f}"))
        told.append(_row(what, *marks))
    print("\n".join(shown))
    print(f"{time.monotonic() - started:.0f} s")
    if good and "--write" in sys.argv:
        versions = f"OpenClaw {places.gateway_version()} and Open WebUI {places.host_version()}"
        when = datetime.now(UTC).date().isoformat()
        section(PAGE, BEGIN, END, f"Looked at on {when} with {versions}.\n\n" + "\n".join(told))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
