"""``rejoinder scopes``: which doors outside ``/api`` stand open to all, for those who administer."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import print_json, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(name="scopes", help="Open and close the doors that outside systems call.")
public = App(name="public", help="The doors outside /api that stand open to all.")
app.command(public)

Pattern = Annotated[
    str, Parameter(help="`/universal_webhook/*`, /universal_webhook/ and one topic, or `/trigger/*`.")
]


@public.command(name="list")
def list_routes(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the public routes. Where access control is off every public door is open without one."""
    answer = remote.client().get("/api/scopes/public")
    if remote.json:
        print_json(answer)
        return
    print_table(
        [("pattern", "PATTERN"), ("created_at", "SINCE"), ("created_by", "BY")],
        [shown(item, created_at=local) for item in items_of(answer)],
    )


@public.command
def pin(pattern: Pattern, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Open a door to all."""
    made = remote.client().call("PUT", "/api/scopes/public", body={"pattern": pattern})
    if remote.json:
        print_json(made)
    else:
        print(f"Open: {made['pattern']}")


@public.command
def unpin(pattern: Pattern, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Close a door again."""
    done = remote.client().call("DELETE", "/api/scopes/public", query={"pattern": pattern})
    if remote.json:
        print_json(done)
    else:
        print(f"Closed: {done['pattern']}")
