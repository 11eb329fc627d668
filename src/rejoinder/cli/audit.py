"""``rejoinder audit`` and ``rejoinder sign-in``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import note, print_json, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of


def audit(
    *,
    interaction: Annotated[str | None, Parameter(help="Only what is about this question.")] = None,
    run: Annotated[str | None, Parameter(help="Only what is about this run.")] = None,
    kind: Annotated[
        str | None,
        Parameter(help="Only this kind, or its first word: interaction, answer, run, key, session, access."),
    ] = None,
    actor: Annotated[str | None, Parameter(help="Only what this identity did.")] = None,
    since: Annotated[
        str | None, Parameter(help="From this moment on, such as 2030-01-31T09:00:00+01:00.")
    ] = None,
    until: Annotated[str | None, Parameter(help="Before this moment.")] = None,
    before: Annotated[int | None, Parameter(help="Only events older than the one with this number.")] = None,
    limit: Annotated[int, Parameter(help="How many at most, 1 to 1000.")] = 100,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Show what happened, the newest first: every question, attempt, answer, lapse and refusal."""
    answer = remote.client().get(
        "/api/audit",
        interaction_id=interaction,
        run_id=run,
        kind=kind,
        actor=actor,
        since=since,
        until=until,
        before=before,
        limit=limit,
    )
    if remote.json:
        print_json(answer)
        return
    items = items_of(answer)
    if not items:
        note("Nothing of that kind happened.")
        return
    print_table(
        [
            ("seq", "NO"),
            ("at", "WHEN"),
            ("kind", "WHAT"),
            ("actor", "WHO"),
            ("via", "VIA"),
            ("reason", "WHY"),
            ("interaction_id", "QUESTION"),
            ("run_id", "RUN"),
        ],
        [shown(item, at=local) for item in items],
    )
    if answer.get("next_before"):
        note(f"Older ones: --before {answer['next_before']}")


def sign_in(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """Print a link that signs a browser in as this key's identity: once, and within the hour."""
    made = remote.client().post("/api/sign-in-links")
    if remote.json:
        print_json(made)
    else:
        print(made["url"])
