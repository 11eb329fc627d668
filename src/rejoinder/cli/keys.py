"""``rejoinder keys``: API keys, for those who administer."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from rejoinder.cli.client import segment
from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import note, print_json, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(name="keys", help="List, create and revoke API keys.")


@app.command(name="list")
def list_keys(
    *,
    revoked: Annotated[bool, Parameter(negative="", help="List the revoked ones as well.")] = False,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """List the keys. A key itself is shown only when it is made."""
    answer = remote.client().get("/api/keys", revoked=revoked)
    if remote.json:
        print_json(answer)
        return
    rows = [
        shown(item, grants=", ".join, created_at=local, expires_at=local, revoked_at=local)
        for item in items_of(answer)
    ]
    columns = [
        ("name", "NAME"),
        ("identity", "IDENTITY"),
        ("grants", "GRANTS"),
        ("owner", "OWNER"),
        ("created_at", "CREATED"),
        ("expires_at", "EXPIRES"),
    ]
    print_table([*columns, ("revoked_at", "REVOKED")] if revoked else columns, rows)


@app.command
def create(
    name: Annotated[str, Parameter(help="What the key is called.")],
    /,
    *,
    grant: Annotated[
        list[Literal["read", "write", "admin"]],
        Parameter(help="What it may do; may be repeated. write answers and runs tools, admin manages keys."),
    ],
    identity: Annotated[str | None, Parameter(help="Who acts with it. [default: its name]")] = None,
    owner: Annotated[
        str | None,
        Parameter(
            help="Restrict it: it sees only questions addressed to it, and may do no more than this key."
        ),
    ] = None,
    expires_at: Annotated[
        str | None, Parameter(help="When it ends, such as 2030-01-31T09:00:00+01:00.")
    ] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Create a key and print it. It is shown this once."""
    body = {"name": name, "grants": grant, "identity": identity, "owner": owner, "expires_at": expires_at}
    made = remote.client().post("/api/keys", {key: value for key, value in body.items() if value is not None})
    if remote.json:
        print_json(made)
    else:
        print(made["secret"])
        note("Keep it: it is not shown again.")


@app.command
def revoke(
    name: Annotated[str, Parameter(help="The key's name.")], /, *, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Revoke a key and the keys that it owns, everywhere at once."""
    done = remote.client().delete(f"/api/keys/{segment(name)}")
    if remote.json:
        print_json(done)
    else:
        print("Revoked: " + ", ".join(done["revoked"]))
