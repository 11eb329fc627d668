"""``rejoinder hooks``: what outside systems prove themselves with."""

from __future__ import annotations

from cyclopts import App

from rejoinder.cli.output import print_json, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(name="hooks", help="See how outside systems prove themselves.")


@app.command
def verifiers(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the webhook verifiers that a question can be bound to."""
    answer = remote.client().get("/api/hooks/verifiers")
    if remote.json:
        print_json(answer)
        return
    rows = [{**one, "post_only": "yes" if one["post_only"] else "no"} for one in items_of(answer)]
    print_table([("name", "NAME"), ("post_only", "SIGNS THE BODY")], rows)
