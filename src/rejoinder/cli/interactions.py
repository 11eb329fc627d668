"""``rejoinder interactions``: the open questions - listed, watched, answered, withdrawn."""

from __future__ import annotations

import re
import sys
import time
from typing import Annotated, Any

from cyclopts import App, Parameter

from rejoinder.cli.arguments import UsageError
from rejoinder.cli.client import Client, ServerError, segment
from rejoinder.cli.moments import away, local, shown
from rejoinder.cli.output import note, print_json, print_mapping, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of
from rejoinder.contract.terminal import one_line

app = App(name="interactions", help="List, watch, answer and withdraw questions.")

Id = Annotated[str, Parameter(name="ID", help="The question's id, or the first characters of it.")]

#: Seconds without a byte after which a stream is dead: a live one says something every 15.
SILENCE = 45.0
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
#: How far a shortened id is searched for.
PAGES = 10
SHORT_ID = 8


@app.command(name="list")
def list_open(
    *,
    page: Annotated[int, Parameter(help="Which page, from 1.")] = 1,
    page_size: Annotated[int, Parameter(help="Questions on a page, at most 200.")] = 50,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """List the open questions, the next deadline first."""
    answer = remote.client().get("/api/interactions", page=page, pageSize=page_size)
    if remote.json:
        print_json(answer)
        return
    items = items_of(answer)
    if not items:
        note("No question is open." if page == 1 else f"Page {page} is empty.")
        return
    _table(items, "timeout_at")
    if answer.get("next_page"):
        total = f"more than {answer['total']}" if answer.get("truncated") else answer.get("total")
        note(f"{len(items)} of {total} shown; the next ones: --page {answer['next_page']}")


@app.command
def pending(
    *,
    limit: Annotated[int, Parameter(help="How many at most, 1 to 1000.")] = 500,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """List the questions that parked runs wait for."""
    if not 1 <= limit <= 1000:
        raise UsageError("--limit must be between 1 and 1000.", field="--limit")
    answer = remote.client().get("/api/interactions/pending", limit=limit)
    if remote.json:
        print_json(answer)
        return
    items = items_of(answer)
    if not items:
        note("No run is parked on a question.")
        return
    _table(items, "expiry_at")


@app.command
def show(identifier: Id, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Show one question whole, and how it ended where it has."""
    client = remote.client()
    found = client.get(f"/api/interactions/{segment(whole_id(client, identifier))}")
    if remote.json:
        print_json(found)
    else:
        print_mapping(shown(found, created_at=local, timeout_at=local, closed_at=local))


@app.command
def stream(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """Print what happens to questions as it happens, until Ctrl-C. A lost connection is taken up where it broke."""
    client = remote.client()
    client = Client(client.url, client.key, timeout=remote.timeout or SILENCE)
    last: str | None = None
    failures = 0
    while True:
        try:
            for identifier, event, data in client.events("/api/interactions/stream", last):
                failures = 0
                last = identifier or last
                _print_frame(identifier, event, data, as_json=remote.json)
            lost = "The server ended the stream."
        except ServerError as error:
            if error.heard is not None and error.heard < 500:
                raise
            if last is None and failures == 0 and error.heard is None:
                raise
            lost = error.message
        pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
        failures += 1
        if failures == 1:
            note(f"{lost} Connecting again.")
        time.sleep(pause)


@app.command
def answer(
    identifier: Id,
    text: Annotated[
        str | None,
        Parameter(
            help="The answer as you would say it: a text, yes or no, an option or its number, key=value lines."
        ),
    ] = None,
    /,
    *,
    answer: Annotated[
        str | None,
        Parameter(
            name="--answer",
            allow_leading_hyphen=True,
            help="The answer as JSON; - reads it from standard input.",
        ),
    ] = None,
    answer_file: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="A file with the answer as JSON; - is standard input."),
    ] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Answer a question: with --answer as JSON, plainly typed, or - on a terminal - asked for step by step."""
    from rejoinder.cli.answering import ask_on_terminal, read_answer, report

    client = remote.client()
    given = read_answer(text, answer, answer_file)
    if given is None and not sys.stdin.isatty():
        raise UsageError(
            "Give the answer: as JSON with --answer, or plainly typed behind the id.", field="--answer"
        )
    whole = whole_id(client, identifier)
    path = f"/api/interactions/{segment(whole)}"
    question: dict[str, Any] | None = None
    if given is None or given.plain:
        question = client.get(path)
        if question["answer_format"] == "external":
            raise UsageError(
                f"An outside system answers this question. Go there with: rejoinder interactions open {whole}",
                field="ID",
            )
        value = ask_on_terminal(question) if given is None else given.for_question(question)
    else:
        value = given.value
    done = client.post(f"{path}/answer", {"answer": value})
    if remote.json:
        print_json(done)
    else:
        report(client, whole, question)


@app.command(name="open")
def open_link(identifier: Id, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Print the link of an external question, with a ticket in it. Whoever has it can answer."""
    client = remote.client()
    found = client.post(f"/api/interactions/{segment(whole_id(client, identifier))}/open")
    if remote.json:
        print_json(found)
    else:
        print(one_line(found["url"]))


@app.command
def cancel(identifier: Id, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Withdraw a question. A caller that waits for it gets an error; a run that is parked on it ends."""
    client = remote.client()
    done = client.post(f"/api/interactions/{segment(whole_id(client, identifier))}/cancel")
    if remote.json:
        print_json(done)
    else:
        print("Withdrawn.")


def whole_id(client: Client, text: str) -> str:
    """The id that begins with ``text`` among the open questions; a whole one is taken as it is."""
    if re.fullmatch(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}", text):
        return text
    start = text.lower()
    if not re.fullmatch(r"[0-9a-f][0-9a-f-]{3,35}", start):
        raise UsageError(f"{text} is not a question's id, nor four or more characters of one.", field="ID")
    found: list[str] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = client.get("/api/interactions", pageSize=200, cursor=cursor)
        found += [i["interaction_id"] for i in items_of(page) if i["interaction_id"].startswith(start)]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{text} is the beginning of {len(found)} ids; give more of it.", field="ID")
    raise UsageError(
        f"No open question's id begins with {text}. One that is closed is found by its whole id.", field="ID"
    )


def _table(items: list[dict[str, Any]], deadline: str) -> None:
    short = sys.stdout.isatty()
    rows = [
        {
            **item,
            "interaction_id": item["interaction_id"][:SHORT_ID] if short else item["interaction_id"],
            "due": away(item.get(deadline)),
        }
        for item in items
    ]
    columns = [
        ("interaction_id", "ID"),
        ("answer_format", "ANSWER"),
        ("due", "DUE"),
        ("tool", "ASKED BY"),
        ("question", "QUESTION"),
    ]
    print_table(columns, rows, wide="question")


def _print_frame(identifier: str | None, event: str, data: str, *, as_json: bool) -> None:
    import json

    try:
        body = json.loads(data)
    except ValueError:
        body = data
    if as_json:
        print_json({"id": identifier, "event": event, "data": body}, compact=True)
        return
    # The frame's own data, escaped: what an agent wrote must not steer the terminal.
    print(f"{event}  {json.dumps(body, ensure_ascii=True)}", flush=True)
