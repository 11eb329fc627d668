"""``rejoinder schedules`` beside a server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rejoinder import tool
from tests.integration.cli.conftest import Shell
from tests.integration.doors.edge import served


@tool
async def sweep(number: int = 0, text: str = "") -> None:
    """Do nothing."""


@pytest.fixture
async def shell(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shell]:
    async with served(database_url, sweep) as e:
        monkeypatch.setenv("REJOINDER_SERVER", e.base)
        monkeypatch.setenv("REJOINDER_API_KEY", e.owner.headers["authorization"].split()[1])
        yield Shell(monkeypatch)


async def test_schedules_are_added_listed_switched_and_deleted(shell: Shell) -> None:
    assert (await shell("schedules", "list")).err == "No schedule.\n"
    made = await shell(
        "schedules",
        "add",
        "sweep",
        "--tool-kw",
        "number=7",
        "--every",
        "900",
        "--schedule-name",
        "nightly one",
    )
    assert made.code == 0, made.err
    assert "every 900 s" in made.out
    by_cron = await shell("schedules", "add", "sweep", "--cron", "0 3 * * *", "--subject", "disk", "--json")
    assert by_cron.json["cadence"] == {"kind": "crontab", "expression": "0 3 * * *"}
    more = ["--cadence", '{"kind": "crontab", "minute": 5}', "--missed", "all", "--start-expr", "{number: 1}"]
    fields = await shell("schedules", "add", "sweep", *more, "--execution-key", "owner")
    assert "5 * * * *" in fields.out
    listed = (await shell("schedules", "list")).out
    assert "nightly one" in listed
    assert "0 3 * * *" in listed
    assert "no worker is running" in listed
    assert len((await shell("schedules", "list", "--json")).json["items"]) == 3
    assert (await shell("schedules", "disable", "nightly one")).out == "Off: nightly one\n"
    on = (await shell("schedules", "enable", "nightly one", "--json")).json
    assert (on["enabled"], on["next_run_at_iso"] is None) == (True, False)
    assert (await shell("schedules", "delete", "nightly one")).out == "Deleted: nightly one\n"
    again = await shell("schedules", "delete", "nightly one")
    assert (again.code, "No schedule has this name" in again.err) == (1, True)
    assert (await shell("schedules", "server-datetime")).out.endswith("+00:00\n")
    assert (await shell("schedules", "server-datetime", "--json")).json["timezone"] == "UTC"


WRONG: list[tuple[list[str], int, str]] = [
    (["nothing"], 1, "tool"),
    (["sweep", "--every", "0"], 1, "cadence.every"),
    (["sweep", "--every", "5", "--cron", "* * * * *"], 2, "--cron"),
    (["sweep", "--cadence", "{"], 2, "--cadence"),
    (["sweep", "--tool-kwargs", "[1]"], 2, "--tool-kwargs"),
    (["sweep", "--tool-kwargs", "{}", "--tool-kwargs-file", "-"], 2, "--tool-kwargs"),
    (["sweep", "--tool-kwargs", "{}", "--tool-kw", "text=a"], 2, "--tool-kwargs"),
    (["sweep", "--tool-kw", "text"], 2, "--tool-kw"),
    (["sweep", "--tool-kwargs", "-", "--cadence", "-"], 2, "standard input"),
    (["sweep", "--tool-kw", "number=x"], 1, "argument number"),
    (["sweep", "--missed", "never"], 1, "missed"),
    (["sweep", "--start-expr", "{"], 1, "start_expr"),
]


async def test_runs_are_listed_by_what_they_are_about(shell: Shell) -> None:
    started = await shell("tools", "run", "sweep", "--background", "--subject", "disk", "--json")
    await shell("tools", "run", "sweep", "--background")
    listed = (await shell("tools", "runs", "--subject", "disk", "--json")).json["items"]
    assert [(one["run_id"], one["subject"]) for one in listed] == [(started.json["run_id"], "disk")]
    refused = await shell("tools", "run", "sweep", "--subject", "disk")
    assert (refused.code, "--background" in refused.err) == (2, True)


async def test_what_is_wrong_is_named(shell: Shell) -> None:
    for words, code, named in WRONG:
        done = await shell("schedules", "add", *words, stdin="{}")
        assert (done.code, named in done.err) == (code, True), (words, done.err)
