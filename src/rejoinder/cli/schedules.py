"""``rejoinder schedules``: tools that run at set times."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from rejoinder.cli.arguments import UsageError, json_option, pairs, read_json, standard_input
from rejoinder.cli.client import segment
from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import note, print_json, print_mapping, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(name="schedules", help="Run tools at set times.")

PAGE = 500


@app.command(name="list")
def list_schedules(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the schedules, with what keeps one from running."""
    client = remote.client()
    items: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        answer = client.get("/api/schedules", after=after, limit=PAGE)
        items += items_of(answer)
        after = answer.get("next_after")
        if after is None:
            break
    if remote.json:
        print_json({"items": items})
        return
    if not items:
        note("No schedule.")
        return
    print_table(
        [
            ("name", "NAME"),
            ("tool", "TOOL"),
            ("cadence", "WHEN"),
            ("enabled", "ON"),
            ("next_run_at_iso", "NEXT"),
            ("error", "ERROR"),
        ],
        [shown(item, cadence=_when, next_run_at_iso=local) for item in items],
        wide="error",
    )


@app.command
def server_datetime(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """Show the clock that schedules go by, in UTC."""
    answer = remote.client().get("/api/schedules/server-datetime")
    if remote.json:
        print_json(answer)
    else:
        print(answer["server_datetime"])


@app.command
def add(
    tool: Annotated[str, Parameter(help="The tool's name.")],
    /,
    *,
    tool_kw: Annotated[
        list[str] | None,
        Parameter(
            help="An argument as name=value; may be repeated. Numbers, true, false, lists and objects are JSON."
        ),
    ] = None,
    tool_kwargs: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True, help="All arguments as a JSON object; - reads it from standard input."
        ),
    ] = None,
    tool_kwargs_file: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="A file with the arguments as JSON; - is standard input."),
    ] = None,
    every: Annotated[float | None, Parameter(help="Run it every so many seconds.")] = None,
    cron: Annotated[
        str | None,
        Parameter(
            help="Run it by a crontab expression of five fields, or six with the seconds first, in UTC."
        ),
    ] = None,
    cadence: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="When to run it, as the JSON object of the door; - reads it from standard input.",
        ),
    ] = None,
    schedule_name: Annotated[
        str | None,
        Parameter(help="What it is called. [default: the tool's name and a digest of what is run when]"),
    ] = None,
    execution_key: Annotated[
        str | None, Parameter(help="The name of the key that it runs under. [default: the caller's own]")
    ] = None,
    subject: Annotated[
        str | None, Parameter(help="What its runs are about; runs can be listed by it.")
    ] = None,
    start_expr: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="A jq expression that makes the arguments of each run; null starts nothing.",
        ),
    ] = None,
    missed: Annotated[
        str | None,
        Parameter(
            help="What becomes of times that no worker was there for: once, skip or all. [default: once]"
        ),
    ] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Schedule a tool. With none of --every, --cron and --cadence it runs once, now."""
    body = {
        "tool_name": tool,
        "tool_kwargs": _arguments(tool_kw, tool_kwargs, tool_kwargs_file),
        "cadence": _cadence(every, cron, cadence),
        "schedule_name": schedule_name,
        "execution_key": execution_key,
        "subject": subject,
        "start_expr": start_expr,
        "missed": missed,
    }
    given = {key: value for key, value in body.items() if value is not None}
    made = remote.client().post("/api/schedules", given)
    if remote.json:
        print_json(made)
    else:
        print_mapping(shown(made, cadence=_when, next_run_at_iso=local))


@app.command
def delete(
    name: Annotated[str, Parameter(help="The schedule's name.")], /, *, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Delete a schedule. Runs that it has started go on."""
    done = remote.client().delete(f"/api/schedules/{segment(name)}")
    if remote.json:
        print_json(done)
    else:
        print(f"Deleted: {done['name']}")


@app.command
def disable(
    name: Annotated[str, Parameter(help="The schedule's name.")], /, *, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Switch a schedule off, until it is switched on again."""
    _switch(name, False, remote)


@app.command
def enable(
    name: Annotated[str, Parameter(help="The schedule's name.")], /, *, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Switch a schedule on again. What would have run meanwhile is not made up for."""
    _switch(name, True, remote)


def _switch(name: str, enabled: bool, remote: Remote) -> None:
    changed = remote.client().call("PATCH", f"/api/schedules/{segment(name)}", body={"enabled": enabled})
    if remote.json:
        print_json(changed)
    else:
        print(f"{'On' if enabled else 'Off'}: {changed['name']}")


def _arguments(given: list[str] | None, text: str | None, file: str | None) -> dict[str, Any] | None:
    whole = json_option("--tool-kwargs", text, file)
    if given and whole is not None:
        raise UsageError("Give --tool-kw or --tool-kwargs, not both.", field="--tool-kwargs")
    if given:
        return pairs("--tool-kw", given)
    if whole is not None and not isinstance(whole, dict):
        raise UsageError("--tool-kwargs must be a JSON object.", field="--tool-kwargs")
    return whole


def _cadence(every: float | None, cron: str | None, cadence: str | None) -> Any:
    given = [
        name
        for name, value in (("--every", every), ("--cron", cron), ("--cadence", cadence))
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"Give {given[0]} or {given[1]}, not both.", field=given[1])
    if every is not None:
        return {"kind": "interval", "every": every}
    if cron is not None:
        return {"kind": "crontab", "expression": cron}
    if cadence is not None:
        return read_json("--cadence", standard_input.read("--cadence") if cadence == "-" else cadence)
    return None


def _when(cadence: Any) -> Any:
    """``every 900 s``, or the crontab."""
    if not isinstance(cadence, dict):
        return "once"
    if "every" in cadence:
        return f"every {cadence['every']:g} s"
    if "expression" in cadence:
        return cadence["expression"]
    fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    return " ".join(str(cadence.get(field, "*")) for field in fields)
