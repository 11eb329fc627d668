"""``rejoinder tools``: what may be run, running it, and what became of runs."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import App, Parameter

from rejoinder.cli.arguments import UsageError, json_option, pairs
from rejoinder.cli.client import Client, ServerError, segment
from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import cell, note, print_json, print_mapping, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(name="tools", help="List and run tools, and look at their runs.")

RunId = Annotated[str, Parameter(name="ID", help="The run's id.")]


@app.command(name="list")
def list_tools(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the tools that the server exposes."""
    answer = remote.client().get("/api/tools")
    if remote.json:
        print_json(answer)
        return
    items = items_of(answer)
    if not items:
        note("This server exposes no tools; start it with --manifest.")
        return
    print_table(
        [("name", "NAME"), ("group", "GROUP"), ("description", "WHAT IT DOES")], items, wide="description"
    )


@app.command
def show(
    name: Annotated[str, Parameter(help="The tool's name.")], /, *, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Show one tool and the arguments that it takes."""
    found = _tool(remote.client(), name)
    if found is None:
        raise ServerError("No tool of this name is exposed.", heard=404)
    if remote.json:
        print_json(found)
        return
    schema = found.pop("input_schema", None) or {}
    print_mapping(found)
    needed = schema.get("required") or []
    arguments = [
        {
            "name": argument,
            "needed": argument in needed,
            "type": ", ".join(sorted(_types(about))) or "any",
            "default": about.get("default"),
            "about": about.get("description"),
        }
        for argument, about in (schema.get("properties") or {}).items()
    ]
    if arguments:
        print()
        columns = [("name", "ARGUMENT"), ("type", "TYPE"), ("needed", "NEEDED"), ("default", "DEFAULT")]
        print_table([*columns, ("about", "WHAT IT IS")], arguments, wide="about")


@app.command
def run(
    name: Annotated[str, Parameter(help="The tool's name.")],
    /,
    *,
    arg: Annotated[
        list[str] | None,
        Parameter(
            help="An argument as name=value; may be repeated. Numbers, true, false, lists and objects are JSON."
        ),
    ] = None,
    params: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True, help="All arguments as a JSON object; - reads it from standard input."
        ),
    ] = None,
    params_file: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="A file with the arguments as JSON; - is standard input."),
    ] = None,
    background: Annotated[
        bool, Parameter(negative="", help="Leave it to a worker and print the run's id.")
    ] = False,
    subject: Annotated[
        str | None,
        Parameter(help="With --background: what the run is about; runs can be listed by it."),
    ] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> int | None:
    """Run a tool and print what it returns. While it asks somebody, this waits; Ctrl-C withdraws the question."""
    if subject is not None and not background:
        raise UsageError("--subject needs --background.", field="--subject")
    client = remote.client(patient=not background)
    body = {"tool_name": name, "arguments": _given(client, name, arg, params, params_file)}
    if background:
        if subject is not None:
            body["subject"] = subject
        started = client.post("/api/tool-runs", body)
        if remote.json:
            print_json(started)
        else:
            print(f"Started. Look at it with: rejoinder tools run-show {started['run_id']}")
        return None
    if not remote.json and sys.stderr.isatty():
        note("Running. If it asks something: rejoinder interactions list, in another terminal.")
    done = client.post("/api/run-tool", body)
    print_outcome(client, done, as_json=remote.json)
    return None


@app.command
def runs(
    *,
    tool: Annotated[str | None, Parameter(help="Only runs of this tool.")] = None,
    status: Annotated[
        str | None, Parameter(help="Only running, parked, succeeded, failed, lost or cancelled ones.")
    ] = None,
    held: Annotated[
        bool | None, Parameter(help="Only those that wait for an operator, or only the others.")
    ] = None,
    subject: Annotated[str | None, Parameter(help="Only runs that are about this.")] = None,
    limit: Annotated[int | None, Parameter(help="How many at most, 1 to 500.")] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """List the newest runs."""
    answer = remote.client().get(
        "/api/tool-runs", tool_name=tool, status=status, held=held, subject=subject, limit=limit
    )
    if remote.json:
        print_json(answer)
        return
    items = items_of(answer)
    if not items:
        note("No such run.")
        return
    print_table(
        [
            ("run_id", "RUN"),
            ("tool_name", "TOOL"),
            ("status", "STATUS"),
            ("held", "HELD"),
            ("identity", "FOR"),
            ("created_at", "STARTED"),
        ],
        [shown(item, created_at=local) for item in items],
    )


@app.command(name="run-show")
def run_show(identifier: RunId, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Show one run: its arguments, its state and its result."""
    found = remote.client().get(f"/api/tool-runs/{segment(identifier)}")
    if remote.json:
        print_json(found)
    else:
        print_mapping(shown(found, created_at=local, finished_at=local))


@app.command
def resume(
    identifier: RunId,
    /,
    *,
    answer: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="The answer as JSON; - reads it from standard input."),
    ] = None,
    answer_file: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="A file with the answer as JSON; - is standard input."),
    ] = None,
    to: Annotated[
        str | None, Parameter(help="The id of what is answered. Needed where the run asks several things.")
    ] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Answer what a run asks you, its caller, and wait until it needs somebody again or has ended. Without --answer
    this shows what the run asks."""
    client = remote.client(patient=True)
    path = f"/api/tool-runs/{segment(identifier)}"
    value = json_option("--answer", answer, answer_file)
    if value is None:
        asks = client.get(path).get("asks") or []
        if remote.json:
            print_json({"asks": asks})
        elif asks:
            print_asks(identifier, asks)
        else:
            note("This run asks its caller nothing now.")
        return
    if to is None:
        to = _the_one(client.get(path).get("asks") or [])
    done = client.post(f"{path}/resume", {"answers": {to: value}})
    print_outcome(client, done, as_json=remote.json)


def _the_one(asks: list[dict[str, Any]]) -> str:
    if len(asks) == 1:
        return str(asks[0]["interaction_id"])
    if not asks:
        raise UsageError("This run asks its caller nothing now.", field="ID")
    listed = ", ".join(str(one["interaction_id"]) for one in asks)
    raise UsageError(f"The run asks {len(asks)} things; name one with --to: {listed}", field="--to")


@app.command
def retry(identifier: RunId, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Send a held run to the workers once more."""
    done = remote.client().post(f"/api/tool-runs/{segment(identifier)}/retry")
    if remote.json:
        print_json(done)
    else:
        print("Sent to the workers once more.")


@app.command
def discard(identifier: RunId, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Take a held run off the list of those that wait for an operator; it stays as it ended."""
    done = remote.client().delete(f"/api/tool-runs/{segment(identifier)}")
    if remote.json:
        print_json(done)
    else:
        print("Discarded.")


def _given(
    client: Client, name: str, arg: list[str] | None, params: str | None, params_file: str | None
) -> dict[str, Any]:
    whole = json_option("--params", params, params_file)
    if whole is not None:
        if arg:
            raise UsageError("Give the arguments with --arg or with --params, not both.", field="--params")
        if not isinstance(whole, dict):
            raise UsageError("--params must be a JSON object.", field="--params")
        return whole
    if not arg:
        return {}
    # A tool that takes a text is given one, even where it looks like a number.
    schema = (_tool(client, name) or {}).get("input_schema") or {}
    texts = {n for n, about in (schema.get("properties") or {}).items() if _types(about) == {"string"}}
    return pairs("--arg", arg, texts=texts)


def _tool(client: Client, name: str) -> dict[str, Any] | None:
    return next((item for item in items_of(client.get("/api/tools")) if item.get("name") == name), None)


def _types(about: Any) -> set[str]:
    """The JSON types that an argument takes, as far as its schema says so plainly."""
    if not isinstance(about, dict):
        return set()
    found = about.get("type")
    types = {found} if isinstance(found, str) else set(found or [])
    for part in (about.get("anyOf") or []) + (about.get("oneOf") or []):
        types |= _types(part)
    return types


def print_outcome(client: Client, done: dict[str, Any], *, as_json: bool) -> None:
    """What a run came to, as the doors that run and resume answer it."""
    result = done.get("result") or {}
    if as_json:
        print_json(done)
    elif done.get("kind") == "asks":
        print_asks(str(result.get("run_id")), result.get("asks") or [])
    elif done.get("kind") == "parked":
        inner = result.get("tai42:suspended_interaction")
        if inner is None:
            print(f"Not finished yet. Look at it with: rejoinder tools run-show {cell(result.get('run_id'))}")
            return
        print("Parked: it goes on when its question is answered.")
        for identifier in inner.get("interaction_ids") or [inner.get("interaction_id")]:
            print(f"  rejoinder interactions {_how(client, identifier)} {cell(identifier)}")
    elif done.get("kind") == "none":
        print("Done.")
    else:
        print_result(done.get("result"))


def _how(client: Client, identifier: Any) -> str:
    """The command that brings a question on: what an outside system answers is opened there."""
    try:
        found = client.get(f"/api/interactions/{segment(str(identifier))}")
    except ServerError:
        # It is somebody else's, or has been answered and forgotten: nothing is known of it here.
        return "answer"
    return "open" if found.get("answer_format") == "external" else "answer"


def print_asks(run_id: str, asks: list[dict[str, Any]]) -> None:
    print("Parked: it asks you, its caller.")
    for one in asks:
        print()
        fields = ("interaction_id", "question", "payload", "answer_format", "format_payload", "expiry_at")
        told = {name: one[name] for name in fields if one.get(name) is not None}
        print_mapping(shown(told, expiry_at=local))
    print(f"\n  rejoinder tools resume {cell(run_id)} --answer JSON")


def print_result(value: Any) -> None:
    if isinstance(value, dict):
        print_mapping(value)
    else:
        print(cell(value))
