"""An answer on the command line: as JSON, plainly typed, or asked for on the terminal; and what became of it."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from getpass import getpass
from typing import Any

from rejoinder.cli.arguments import UsageError, json_option
from rejoinder.cli.client import Client, ServerError, segment
from rejoinder.cli.moments import local
from rejoinder.cli.output import cell
from rejoinder.contract.errors import AnswerMismatchError
from rejoinder.contract.terminal import clean, one_line
from rejoinder.forms.field import Field
from rejoinder.forms.plain import parse_plain

#: Seconds that a command waits to see a parked run go on.
SEE_IT_GO_ON = 3
#: Seconds between looks for a worker that takes it up: soon for the one that is free, one in all.
TAKEN_UP = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.3)
SIMPLE = frozenset(
    (
        "text",
        "textarea",
        "number",
        "integer",
        "boolean",
        "radios",
        "select",
        "checkboxes",
        "checkbox",
        "const",
        "lines",
    )
)


@dataclass(frozen=True)
class Given:
    """An answer from the command line: a JSON value, or words that only the question gives a meaning."""

    value: Any
    plain: bool

    def for_question(self, question: dict[str, Any]) -> Any:
        return _parsed(question, self.value)


def read_answer(text: str | None, as_json: str | None, file: str | None) -> Given | None:
    """Raises UsageError for two answers at once and for JSON that is none."""
    if text is not None and (as_json is not None or file is not None):
        raise UsageError("Give the answer once: plainly typed, or as JSON with --answer.", field="--answer")
    if as_json is None and file is None:
        return None if text is None else Given(text, plain=True)
    return Given(json_option("--answer", as_json, file), plain=False)


def ask_on_terminal(question: dict[str, Any]) -> Any:
    """Show the question and ask until the answer has the right form. Ctrl-C answers nothing."""
    print(clean(str(question.get("question", "")), keep="\n"))
    print(f"(asked by {cell(question.get('tool'))}; lapses {local(question.get('timeout_at'))})")
    kind, payload = question.get("answer_format"), question.get("format_payload") or {}
    if kind == "select":
        for number, option in enumerate(payload.get("options") or [], 1):
            print(f"  {number}  {one_line(option)}")
    elif kind == "approval":
        _print_call(payload)
    elif kind == "text" and payload.get("options"):
        print("Suggested: " + ", ".join(one_line(option) for option in payload["options"]))
    while True:
        try:
            return _parsed(question, _typed(question))
        except AnswerMismatchError as error:
            for line in error.errors.values() or [error.message]:
                print(f"  {one_line(line)}", file=sys.stderr)


def _print_call(payload: dict[str, Any]) -> None:
    """A call that waits for approval, whole."""
    print(
        f"Tool: {cell(payload.get('tool'))}"
        + (" (it destroys something)" if payload.get("destructive") else "")
    )
    if payload.get("description"):
        print(clean(str(payload["description"]), keep="\n"))
    print("Arguments:")
    print(clean(json.dumps(payload.get("arguments"), ensure_ascii=False, indent=2), keep="\n"))
    print(f"Digest: {cell(payload.get('digest'))}")


def _parsed(question: dict[str, Any], text: str) -> Any:
    return parse_plain(str(question.get("answer_format")), question.get("format_payload"), text)


def _typed(question: dict[str, Any]) -> str:
    if question.get("answer_format") == "form":
        return _form((question.get("format_payload") or {}).get("schema") or {})
    if question.get("answer_format") == "approval":
        typed = _line("approve, or deny and the reason: ")
        # It was shown just now.
        digest = (question.get("format_payload") or {}).get("digest")
        return f"approve {digest}" if typed.strip().casefold() == "approve" else typed
    prompt = {"confirm": "Yes or no: ", "select": "Your choice: "}.get(
        str(question.get("answer_format")), "Answer: "
    )
    return _line(prompt, hidden=bool(question.get("sensitive")))


def _line(prompt: str, *, hidden: bool = False) -> str:
    try:
        return getpass(prompt) if hidden else input(prompt)
    except EOFError:
        raise UsageError("No answer was given; the question stays open.") from None


def _form(schema: dict[str, Any]) -> str:
    from rejoinder.forms.fields import field_tree

    leaves = _leaves(field_tree(schema))
    if leaves is None:
        return _line("JSON: ")
    lines: list[str] = []
    for field in leaves:
        typed = _line(_prompt(field))
        if typed.strip():
            values = typed.split(",") if field.control == "lines" else [typed]
            lines += [f"{field.dotted}={value.strip()}" for value in values]
    return "\n".join(lines)


def _leaves(fields: list[Field]) -> list[Field] | None:
    """The places to ask for, in order; None where one of them cannot be asked for in a line."""
    found: list[Field] = []
    for field in fields:
        if field.control == "group":
            below = _leaves(list(field.children))
            if below is None:
                return None
            found += below
        elif field.extra:
            continue
        elif field.control in SIMPLE:
            found += [field] if field.control != "const" else []
        else:
            return None
    return found


def _prompt(field: Field) -> str:
    choices = {
        "boolean": "yes or no",
        "checkbox": "yes or no",
        "lines": "several with commas between",
        "checkboxes": "any of " + ", ".join(one_line(option.label) for option in field.options),
    }.get(field.control, ", ".join(one_line(option.label) for option in field.options))
    notes = [choices] if choices else []
    if field.input_type not in ("text", "number"):
        notes.append(
            {"date": "YYYY-MM-DD", "datetime-local": "YYYY-MM-DDTHH:MM+00:00"}.get(
                field.input_type, field.input_type
            )
        )
    if not field.required:
        notes.append("may be left empty")
    return one_line(field.label) + (f" ({'; '.join(notes)})" if notes else "") + ": "


def report(client: Client, identifier: str, question: dict[str, Any] | None) -> None:
    """Say that it was taken, and how a parked run went on with it."""
    print("Answered.", flush=True)
    try:
        if question is None:
            question = client.get(f"/api/interactions/{segment(identifier)}")
        if question is None or question.get("mode") != "async":
            return
        run = _gone_on(client, f"/api/tool-runs/{segment(str(question['run_id']))}")
        status = run.get("status")
    except ServerError:
        return
    tool = cell(run.get("tool_name"))
    if status == "succeeded":
        print(f"{tool} went on and finished: {cell(run.get('result'))}")
    elif status in ("failed", "lost", "cancelled"):
        print(f"{tool} went on and {status}: {cell((run.get('error') or {}).get('error'))}")
    elif status == "running":
        print(f"{tool} goes on: rejoinder tools run-show {run.get('run_id')}")
    elif status == "parked":
        print(f"{tool} is parked still: it waits for another answer, or for a worker.")


def _gone_on(client: Client, path: str) -> dict[str, Any]:
    """The run once a worker has taken it up and come to an end, or as it is when that takes too long."""
    run: dict[str, Any] = client.get(path)
    # To the server a parked run is settled, so waiting there returns at once: look until a worker has it.
    for pause in TAKEN_UP:
        if run.get("status") != "parked":
            break
        time.sleep(pause)
        run = client.get(path)
    if run.get("status") == "running":
        run = client.get(f"{path}/wait", seconds=SEE_IT_GO_ON)
    return run
