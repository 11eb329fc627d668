"""Writes the parts of the reference pages that the code itself knows.

``python -m tests.docs.generate`` writes them; a test fails while a page differs from the code. Such a part stands
between ``<!-- from the code: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from cyclopts import App
from prometheus_client import Histogram

import rejoinder
from rejoinder.cli.main import ON_THIS_MACHINE, REMOTE, build
from rejoinder.contract.errors import RejoinderError
from rejoinder.contract.settings import Settings
from rejoinder.doors.admission import GRANT_KEY
from rejoinder.doors.app import create_app
from rejoinder.node import Node
from rejoinder.observe.metrics import metrics
from rejoinder.runs.manifest import Registry
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
_PART = re.compile(r"(<!-- from the code: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: Options of every command that talks to a server; described once on the page.
EVERYWHERE = frozenset(("--json", "--server", "--api-key-stdin", "--timeout"))
#: What raises errors of its own that no door answers with: the command line prints them.
_NO_DOOR = ("rejoinder.cli", "rejoinder.launch", "rejoinder.openclaw", "rejoinder.turns")
#: The order of the page.
_TAGS = ("runs", "tools", "presets", "agents", "interactions", "hooks", "schedules", "access", "operations")


def commands() -> Iterator[tuple[str, App]]:
    """Every command that does something, such as ``rejoinder tools run``."""

    def walk(app: App, words: str) -> Iterator[tuple[str, App]]:
        for name in app:
            if name.startswith("-"):
                continue
            command = app[name]
            if any(not below.startswith("-") for below in command):
                yield from walk(command, f"{words} {name}")
            else:
                yield f"{words} {name}", command

    yield from walk(build(), "rejoinder")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """``(method, path, OpenAPI operation)`` of every door in the document."""
    every = [
        (method.upper(), path, operation)
        for path, methods in openapi()["paths"].items()
        for method, operation in methods.items()
    ]
    yield from sorted(every, key=lambda one: (_TAGS.index(one[2]["tags"][0]), one[1]))


def openapi() -> dict[str, Any]:
    app = create_app(Node(Settings(rejoinder_database_url="postgresql://nowhere/none"), Registry(), "server"))
    document: dict[str, Any] = app.openapi()
    return document


def errors() -> list[type[RejoinderError]]:
    """Every error class that a door may answer with."""
    for module in pkgutil.walk_packages(rejoinder.__path__, "rejoinder."):
        if not module.name.startswith(_NO_DOOR):
            importlib.import_module(module.name)

    def below(kind: type[RejoinderError]) -> Iterator[type[RejoinderError]]:
        yield kind
        for one in kind.__subclasses__():
            yield from below(one)

    ours = {
        kind
        for kind in below(RejoinderError)
        if kind.__module__.startswith("rejoinder.") and not kind.__module__.startswith(_NO_DOOR)
    }
    return sorted(ours, key=lambda kind: (kind.status, kind.code, kind.__name__))


# What is written


def cli_part() -> str:
    kinds = {name: "On this machine" for name, *_ in ON_THIS_MACHINE} | {
        name: "On a running server" for name, *_ in REMOTE
    }
    groups: dict[str, list[str]] = {"On this machine": [], "On a running server": []}
    for words, command in commands():
        groups[kinds.get(words.split()[1], "On this machine")].append(_command(words, command))
    return "\n".join(f"## {name}\n\n" + "\n".join(parts) for name, parts in groups.items())


def _command(words: str, command: App) -> str:
    arguments = list(command.assemble_argument_collection())
    own = [one for one in arguments if one.parameter.show is not False and one.show]
    names = {name for one in own for name in one.names}
    remote = names >= EVERYWHERE
    own = [one for one in own if not (remote and one.names[0] in EVERYWHERE)]
    positional = [one.names[0] for one in own if not one.names[0].startswith("-")]
    usage = " ".join([words, *positional, *(["[OPTIONS]"] if len(own) > len(positional) or remote else [])])
    lines = [f"### {words}", "", f"`{usage}`", "", _flat(command.help)]
    if own:
        lines += ["", "| argument | takes | meaning |", "|---|---|---|"]
        lines += [_argument(one) for one in own]
    if remote:
        lines += [
            "",
            "It also takes [the options of every remote command](#options-of-every-remote-command).",
        ]
    return "\n".join(lines) + "\n"


def _argument(one: Any) -> str:
    notes = [_flat(one.parameter.help)]
    default = one.field_info.default
    if one.required:
        notes.append("Required.")
    elif default not in (None, one.field_info.empty, False, True):
        notes.append(f"Default: `{default}`.")
    elif default is True:
        notes.append("On by default.")
    notes += [f"Or set `{name}`." for name in one.parameter.env_var]
    names = [name for name in one.names if not name.startswith(("--empty-", "--no-")) or default is True]
    names = [name for name in names if not name.startswith("--empty-")]
    return f"| {', '.join(f'`{name}`' for name in names)} | {_kind(one.hint)} | {' '.join(notes)} |"


def _kind(hint: Any) -> str:
    if get_origin(hint) in (typing.Union, UnionType):
        return " or ".join(_kind(part) for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is list:
        return f"{_kind(get_args(hint)[0])}, repeatable"
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    words = {bool: "flag", int: "whole number", float: "number", str: "text", Path: "path"}
    return words.get(hint, "text")


def http_overview() -> str:
    lines = ["| door | grant | what it does |", "|---|---|---|"]
    for method, path, operation in operations():
        name = f"{method} {path}"
        lines.append(
            f"| [`{name}`](#{_anchor(name)}) | {operation[GRANT_KEY]} | {_flat(operation['summary'])} |"
        )
    return "\n".join(lines) + "\n"


def http_doors() -> str:
    return "\n".join(_door(*one) for one in operations())


def _door(method: str, path: str, operation: dict[str, Any]) -> str:
    lines = [f"### {method} {path}", "", f"{_flat(operation['summary'])}. Grant: `{operation[GRANT_KEY]}`."]
    if operation.get("description"):
        lines += ["", _flat(operation["description"])]
    parameters = [one for one in operation.get("parameters", []) if one["in"] != "path"]
    if parameters:
        lines += ["", "| parameter | in | takes |", "|---|---|---|"]
        lines += [
            f"| `{one['name']}` | {one['in']} | {_bounds(one['schema'])}{_said(one.get('description'))} |"
            for one in parameters
        ]
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        lines += ["", "Body: " + _shape(content["application/json"]["schema"]) + "."]
    statuses = operation["responses"]
    for status, answer in statuses.items():
        if not status.startswith("2"):
            continue
        given = answer.get("content", {})
        schema = given.get("application/json", {}).get("schema")
        shape = _shape(schema) if schema else ", ".join(f"`{kind}`" for kind in given)
        lines += ["", f"Answers {status}: {shape}."]
    refusals = [status for status in statuses if not status.startswith("2")]
    lines += ["", f"Refusals: {', '.join(refusals)}."]
    return "\n".join(lines) + "\n"


def http_schemas() -> str:
    lines = []
    for name, schema in openapi()["components"]["schemas"].items():
        lines += [f"### {name}", ""]
        if schema.get("description"):
            lines += [_flat(schema["description"]), ""]
        lines += ["| field | holds |", "|---|---|"]
        needed = schema.get("required", [])
        for field, about in schema.get("properties", {}).items():
            lines.append(f"| `{field}` | {_bounds(about)}{'' if field in needed else '; may be missing'} |")
        lines.append("")
    return "\n".join(lines)


def _shape(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{_anchor(name)})"
    inner = schema.get("properties", {})
    if list(inner) == ["data"]:
        return f'`{{"data": ...}}` with {_shape(inner["data"])}'
    return _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _shape(schema)
    if "anyOf" in schema:
        parts = [_bounds(part) for part in schema["anyOf"]]
        return " or ".join("null" if part == "null" else part for part in parts)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_bounds(schema.get('items', {}))}"
    if kind == "object" and schema.get("properties"):
        return "object with " + ", ".join(f"`{name}`" for name in schema["properties"])
    word = {
        "string": {"uuid": "id", "date-time": "moment", "uri": "address"}.get(
            schema.get("format", ""), "text"
        ),
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "object": "object",
        "null": "null",
        None: "any JSON",
    }[kind]
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high < 2**31 - 1 and low >= 0:
        word += f", {low} to {high:,}"
    if schema.get("default") is not None:
        word += f", default {str(schema['default']).lower() if kind == 'boolean' else schema['default']}"
    return word


def errors_part() -> str:
    lines = ["| code | status | class | meaning |", "|---|---|---|---|"]
    for kind in errors():
        meaning = _flat((inspect.getdoc(kind) or "").split("\n\n")[0])
        public = f"`{kind.__name__}`"
        lines.append(f"| `{kind.code}` | {kind.status} | {public} | {meaning} |")
    return "\n".join(lines) + "\n"


def metrics_part() -> str:
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for collector in vars(metrics).values():
        if not hasattr(collector, "describe"):
            continue
        (family,) = collector.describe()
        labels = ", ".join(f"`{label}`" for label in collector._labelnames) or "-"
        name = family.name + ("_total" if family.type == "counter" else "")
        kind = "histogram" if isinstance(collector, Histogram) else family.type
        lines.append(f"| `{name}` | {kind} | {labels} | {family.documentation} |")
    return "\n".join(lines) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    "cli": cli_part,
    "http-overview": http_overview,
    "http-doors": http_doors,
    "http-schemas": http_schemas,
    "errors": errors_part,
    "metrics": metrics_part,
}


def renewed(text: str) -> str:
    """The page with every part as the code has it now."""
    return _PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]().strip()}\n\n{part[3]}", text)


def _flat(text: str | None) -> str:
    words = " ".join((text or "").replace("``", "`").split())
    return words.replace("|", "\\|")


def _said(text: str | None) -> str:
    return f". {_flat(text)}" if text else ""


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def main() -> None:
    for path in sorted(REFERENCE.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        new = renewed(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
