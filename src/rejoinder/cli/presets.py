"""``rejoinder presets``: tools with some of their arguments fixed, in versions."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from rejoinder.cli.arguments import UsageError, json_option
from rejoinder.cli.client import segment
from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import cell, note, print_json, print_mapping, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(
    name="presets", help="List, make, change and tag presets: tools with some of their arguments fixed."
)

Name = Annotated[str, Parameter(name="NAME", help="The preset's name.")]
Params = Annotated[
    str | None,
    Parameter(allow_leading_hyphen=True, help="The preset as a JSON object; - reads it from standard input."),
]
ParamsFile = Annotated[
    str | None,
    Parameter(allow_leading_hyphen=True, help="A file with the preset as JSON; - is standard input."),
]
Expected = Annotated[
    int | None, Parameter(help="Refuse the change where another version than this one counts by now.")
]


@app.command(name="list")
def list_presets(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the presets, each with the version that counts."""
    client = remote.client()
    items: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        answer = client.get("/api/presets", after=after, limit=200)
        items += items_of(answer)
        after = answer.get("next_after")
        if after is None:
            break
    if remote.json:
        print_json({"items": items})
        return
    if not items:
        note("There are no presets; make one with: rejoinder presets create --params-file FILE")
        return
    rows = [shown(item, fixed_kwargs=_names) for item in items]
    columns = [
        ("name", "NAME"),
        ("version", "VERSION"),
        ("base_tool", "BASE TOOL"),
        ("fixed_kwargs", "FIXED"),
        ("quarantine", "QUARANTINED"),
    ]
    print_table([*columns, ("description", "WHAT IT DOES")], rows, wide="description")


@app.command
def show(
    name: Name,
    /,
    *,
    version: Annotated[int | None, Parameter(help="An earlier version of it.")] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Show a preset whole: what it fixes, and what callers give."""
    path = f"/api/presets/{segment(name)}"
    _print(remote, remote.client().get(path if version is None else f"{path}/versions/{version}"))


@app.command
def create(
    *, params: Params = None, params_file: ParamsFile = None, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Make a preset of a JSON object with name, base_tool, description and fixed_kwargs."""
    _print(remote, remote.client().post("/api/presets", _given(params, params_file)))


@app.command
def validate(
    *, params: Params = None, params_file: ParamsFile = None, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Try a preset without making it, and show what callers would give."""
    _print(remote, remote.client().post("/api/presets/validate", _given(params, params_file)))


@app.command
def save(
    name: Name,
    /,
    *,
    params: Params = None,
    params_file: ParamsFile = None,
    expected_version: Expected = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Save a version with what the JSON object holds in the place of the same; it counts at once."""
    body = _given(params, params_file)
    if expected_version is not None:
        body["expected_version"] = expected_version
    _print(remote, remote.client().post(f"/api/presets/{segment(name)}/versions", body))


@app.command
def versions(name: Name, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """List a preset's versions, newest first."""
    answer = remote.client().get(f"/api/presets/{segment(name)}/versions", limit=100)
    if remote.json:
        print_json(answer)
        return
    rows = [
        shown(item, fixed_kwargs=_names, version_tags=", ".join, created_at=local)
        for item in items_of(answer)
    ]
    columns = [
        ("version", "VERSION"),
        ("created_at", "SAVED"),
        ("created_by", "BY"),
        ("version_tags", "TAGS"),
        ("fixed_kwargs", "FIXED"),
    ]
    print_table([*columns, ("description", "WHAT IT DOES")], rows, wide="description")


@app.command
def rollback(
    name: Name,
    version: Annotated[int, Parameter(name="VERSION", help="The version that is to count again.")],
    /,
    *,
    expected_version: Expected = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Let an earlier version count again. No version is lost by it."""
    body = {"version": version}
    if expected_version is not None:
        body["expected_version"] = expected_version
    _print(remote, remote.client().post(f"/api/presets/{segment(name)}/rollback", body))


@app.command
def rename(
    name: Name,
    new_name: Annotated[str, Parameter(name="NEW-NAME", help="What it is to be called.")],
    /,
    *,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Rename a preset that nothing names."""
    path = f"/api/presets/{segment(name)}/rename"
    _print(remote, remote.client().post(path, {"new_name": new_name}))


@app.command
def delete(name: Name, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Delete a preset that nothing names. Runs that began with it are carried on."""
    done = remote.client().delete(f"/api/presets/{segment(name)}")
    if remote.json:
        print_json(done)
    else:
        print("Deleted.")


@app.command
def referees(name: Name, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the hooks, schedules and agents that name a preset."""
    answer = remote.client().get(f"/api/presets/{segment(name)}/referees")
    if remote.json:
        print_json(answer)
        return
    found = items_of(answer)
    if not found:
        note("Nothing names this preset.")
        return
    print_table([("kind", "KIND"), ("name", "NAME")], found)


@app.command
def tag(
    name: Name,
    tag: Annotated[str, Parameter(name="TAG", help="The word, such as reviewed.")],
    /,
    *,
    version: Annotated[int | None, Parameter(help="The version that it is a word for.")] = None,
    clear: Annotated[bool, Parameter(negative="", help="Take the word off.")] = False,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Make a word name one version of a preset, or take it off."""
    if clear == (version is not None):
        raise UsageError("Give --version or --clear, and not both.", field="--version")
    path = f"/api/presets/{segment(name)}/version-tags/{segment(tag)}"
    client = remote.client()
    _print(remote, client.delete(path) if clear else client.call("PUT", path, body={"version": version}))


def _given(params: str | None, params_file: str | None) -> dict[str, Any]:
    body = json_option("--params", params, params_file)
    if body is None:
        raise UsageError("Give the preset with --params or --params-file.", field="--params")
    if not isinstance(body, dict):
        raise UsageError("--params must hold a JSON object.", field="--params")
    return body


def _print(remote: Remote, answer: dict[str, Any]) -> None:
    if remote.json:
        print_json(answer)
        return
    print_mapping({name: cell(value) for name, value in answer.items() if value is not None})


def _names(fixed: dict[str, Any]) -> str:
    return ", ".join(fixed)
