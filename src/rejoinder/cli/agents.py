"""``rejoinder agents``: which agents there are, and running one while it tells what it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from rejoinder.cli.arguments import UsageError, standard_input
from rejoinder.cli.client import Client, ServerError, segment
from rejoinder.cli.output import cell, note, print_json, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of
from rejoinder.cli.tools import print_asks, print_result
from rejoinder.contract.terminal import clean

app = App(name="agents", help="List agents, and run one while it tells what it does.")

#: Seconds without a byte after which a stream is dead: a live one says something every 15.
SILENCE = 45.0


@app.command(name="list")
def list_agents(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the agents that the server exposes, and what keeps one from being run."""
    client = remote.client()
    items = items_of(client.get("/api/agents"))
    lacking = {one["name"]: one["lacking"] for one in items_of(client.get("/api/agents/spec-runnable"))}
    items = [{**one, "lacking": lacking.get(one["name"])} for one in items]
    if remote.json:
        print_json({"items": items})
        return
    if not items:
        note("This server exposes no agents; name them in its manifest.")
        return
    columns = [("name", "NAME"), ("model", "MODEL"), ("tools", "TOOLS"), ("lacking", "LACKS")]
    shown = [{**one, "tools": ", ".join(one["tools"]) or None} for one in items]
    print_table([*columns, ("description", "WHAT IT DOES")], shown, wide="description")


@app.command
def run(
    name: Annotated[str, Parameter(help="The agent's name.")],
    message: Annotated[
        str | None, Parameter(help="What it is to do; - reads it from standard input.")
    ] = None,
    /,
    *,
    message_file: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="A file with the message; - is standard input.")
    ] = None,
    follow: Annotated[
        bool, Parameter(negative="", help="Stay until the run has ended, however long it waits for people.")
    ] = False,
    remote: Remote = ON_THIS_MACHINE,
) -> int:
    """Run an agent and print what it does as it happens. Where it waits for people this ends and the run stays; Ctrl-C
    before that cancels the run."""
    body: dict[str, Any] = {"message": _message(message, message_file)}
    if follow:
        body["follow"] = True
    client = remote.client()
    client = Client(client.url, client.key, timeout=remote.timeout or SILENCE)
    printer = JsonPrinter() if remote.json else Printer()
    for _, event, data in client.events(f"/api/agents/{segment(name)}/run", body=body):
        printer.frame(event, json.loads(data))
    if printer.last not in ("final", "suspended", "error"):
        raise ServerError("The server ended the stream before the run had ended.")
    return 1 if printer.last == "error" else 0


def _message(text: str | None, file: str | None) -> str:
    if (text is None) == (file is None):
        raise UsageError("Give the message behind the name or with --message-file.", field="--message-file")
    if text is not None:
        return text
    assert file is not None
    if file == "-":
        return standard_input.read("--message-file")
    try:
        return Path(file).expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"--message-file: {file} cannot be read: {error.strerror}.", field="--message-file"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"--message-file: {file} is not UTF-8 text.", field="--message-file") from None


class JsonPrinter:
    """Each frame as one line of JSON: its body, and its name under ``event``."""

    last = ""

    def frame(self, event: str, body: dict[str, Any]) -> None:
        self.last = event
        print_json({"event": event, **body}, compact=True)


class Printer:
    """What an agent says as it says it, and what it does on lines of their own."""

    last = ""

    def __init__(self) -> None:
        self._said = ""

    def frame(self, event: str, body: dict[str, Any]) -> None:
        self.last = event
        if event == "text":
            self._said += str(body.get("text", ""))
            print(clean(str(body.get("text", "")), keep="\n\t"), end="", flush=True)
            return
        said = self._said
        self._end_line()
        indent = "  " * int(body.get("depth") or 0)
        if event == "tool_call":
            print(f"{indent}> {cell(body.get('name'))} {cell(body.get('arguments'))}")
        elif event == "tool_result":
            failed = " failed" if body.get("failed") else ""
            print(f"{indent}< {cell(body.get('name'))}{failed}: {cell(body.get('content'))}")
        elif event == "suspended":
            self._suspended(body)
        elif event == "final" and body.get("result") != said.strip():
            # It has been said already where the two are the same.
            if body.get("kind") == "none":
                print("Done.")
            else:
                print_result(body.get("result"))
        elif event == "error":
            note(f"rejoinder: {body.get('error')}")
        sys.stdout.flush()

    def _suspended(self, body: dict[str, Any]) -> None:
        questions = [one for one in body.get("questions") or [] if isinstance(one, dict)]
        if questions:
            print("Parked: it goes on when this is answered.")
        for one in questions:
            print(f"  {cell(one.get('question'))}")
            # What an outside system answers is opened there.
            how = "open" if one.get("answer_format") == "external" else "answer"
            print(f"  rejoinder interactions {how} {cell(one.get('interaction_id'))}")
        if body.get("asks"):
            print_asks(str(body.get("run_id")), body["asks"])
        elif not questions:
            print("Parked.")
        print(f"Look at it with: rejoinder tools run-show {cell(body.get('run_id'))}")

    def _end_line(self) -> None:
        if self._said and not self._said.endswith("\n"):
            print()
        self._said = ""
