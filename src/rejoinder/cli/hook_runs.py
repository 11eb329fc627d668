"""``rejoinder hooks runs``: what hooks made of events, and what is held for an operator."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from rejoinder.cli.arguments import UsageError
from rejoinder.cli.client import segment
from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import note, print_json, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(name="runs", help="List what hooks make of events, and retry or discard what is held.")

HookRunId = Annotated[str, Parameter(name="ID", help="The hook run's id.")]


@app.command(name="list")
def list_runs(
    *,
    status: Annotated[
        Literal["outstanding", "failed"], Parameter(help="Those that wait or go on, or those that are held.")
    ] = "outstanding",
    limit: Annotated[int, Parameter(help="How many, at most 200.")] = 50,
    cursor: Annotated[str | None, Parameter(help="Go on where the last list ended.")] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """List hook runs, newest first."""
    answer = remote.client().get("/api/hook-runs", status=status, limit=limit, cursor=cursor)
    if remote.json:
        print_json(answer)
        return
    print_table(
        [
            ("id", "ID"),
            ("hook", "HOOK"),
            ("topic", "TOPIC"),
            ("attempts", "ATTEMPTS"),
            ("next_attempt_at", "NEXT"),
            ("claim_intent", "RETRY WOULD"),
            ("last_error_kind", "KIND"),
            ("last_error", "ERROR"),
        ],
        [
            {**shown(item, next_attempt_at=local), "claim_intent": _intent(item["claim_intent"])}
            for item in items_of(answer)
        ],
        wide="last_error",
    )
    note(f"{answer['outstanding']} outstanding, {answer['failed']} failed.")
    if answer["next_cursor"]:
        note(f"There are more: --cursor {answer['next_cursor']}")


@app.command
def retry(identifier: HookRunId, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Let a held hook run try again: replay the start that it recorded, or run the hook again on its event."""
    done = remote.client().post(f"/api/hook-runs/{segment(identifier)}/retry")
    if remote.json:
        print_json(done)
    else:
        print("It is tried again.")


@app.command
def discard(
    identifier: HookRunId,
    /,
    *,
    yes: Annotated[bool, Parameter(negative="", help="Do it: the event is given up.")] = False,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Give a held hook run up. Its event runs nothing any more."""
    if not yes:
        raise UsageError("this gives the event up for this hook; say --yes where you mean it")
    done = remote.client().delete(f"/api/hook-runs/{segment(identifier)}")
    if remote.json:
        print_json(done)
    else:
        print("Discarded.")


def _intent(value: str) -> str:
    return {"start": "replay its start", "resume": "be refused"}.get(value, "run the hook again")
