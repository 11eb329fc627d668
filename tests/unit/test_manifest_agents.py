"""Agents of a manifest: what each entry becomes, and what is wrong with one that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.agent import Agent
from rejoinder.runs.manifest import load_manifest

TOOLS = "tools: [{module: rejoinder.tools.interactions}]\n"
GRAPH = (
    "def build(model):\n    raise AssertionError('built when it is run, not when it is read')\n\nname = 1\n"
)


def read(folder: Path, agents: str) -> Agent:
    path = folder / "manifest.yaml"
    (folder / "graphs.py").write_text(GRAPH, encoding="utf-8")
    path.write_text(TOOLS + agents, encoding="utf-8")
    found = load_manifest(path).get("a")
    assert isinstance(found, Agent)
    return found


def test_an_agent_from_instructions(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
agents:
  - name: a
    title: An agent
    description: Does it.
    kind: deep
    model: {name: "openai:m", base_url_env: URL, api_key_env: KEY, options: {temperature: 0}}
    instructions: Do it.
    tools: [ask, list_parked]
    recursion_limit: 7
    subagents:
      - {name: b, description: Helps., instructions: Help., tools: [ask], model: "openai:n"}
""",
    )
    assert (found.title, found.description, found.kind, found.instructions) == (
        "An agent",
        "Does it.",
        "deep",
        "Do it.",
    )
    assert [one.name for one in found.tools] == ["ask", "list_parked"]
    assert found.recursion_limit == 7
    assert found.model is not None
    assert (found.model.name, found.model.base_url_env, found.model.api_key_env) == ("openai:m", "URL", "KEY")
    assert found.model.options == {"temperature": 0}
    [helper] = found.subagents
    assert (helper.name, [one.name for one in helper.tools]) == ("b", ["ask"])
    assert helper.model is not None
    assert helper.model.name == "openai:n"
    assert found.idempotent
    assert found.input_schema["required"] == ["message"]


def test_subagents_make_it_a_deep_one(tmp_path: Path) -> None:
    agents = "agents: [{name: a, model: m, subagents: [{name: b, description: c, instructions: d}]}]"
    assert read(tmp_path, agents).kind == "deep"


def test_a_graph_of_ones_own_is_built_when_it_is_run(tmp_path: Path) -> None:
    found = read(tmp_path, "agents: [{name: a, graph: './graphs.py:build', tools: [ask]}]")
    assert found.graph is not None
    assert found.graph.__name__ == "build"


@pytest.mark.parametrize(
    ("agents", "told"),
    [
        ("agents: x", "agents must be a list"),
        ("agents: [x]", r"agents\[0\] must hold keys"),
        ("agents: [{name: a, modell: x}]", "a key that is not known: modell"),
        ("agents: [{model: m}]", r"agents\[0\].name must be text and not empty"),
        ("agents: [{name: a}]", "needs a model, or a graph of your own"),
        ("agents: [{name: 'a b', model: m}]", "cannot be a tool's name"),
        ("agents: [{name: a, model: m, kind: odd}]", "kind must be one of simple, deep"),
        ("agents: [{name: a, model: m, tools: ask}]", r"agents\[0\].tools must be a list"),
        ("agents: [{name: a, model: m, tools: [gone]}]", "no entry of tools exposes gone"),
        ("agents: [{name: a, model: m, tools: [no]}]", r"agents\[0\].tools must be a list of names"),
        ("agents: [{name: a, model: m}, {name: b, model: m, tools: [a]}]", "a is an agent"),
        ("agents: [{name: ask, model: m}]", "exposes two tools named ask"),
        ("agents: [{name: a, model: m, recursion_limit: 0}]", "recursion_limit must be a whole number"),
        ("agents: [{name: a, model: {name: m, key: x}}]", "a key that is not known: key"),
        ("agents: [{name: a, model: {base_url_env: x}}]", "model.name must be text"),
        ("agents: [{name: a, model: {name: m, options: {api_key: x}}}]", "name a variable in api_key_env"),
        ("agents: [{name: a, model: {name: m, options: x}}]", "options must hold keys"),
        ("agents: [{name: a, graph: build}]", "graph must name a function"),
        ("agents: [{name: a, graph: './graphs.py:no'}]", "has no function named no"),
        ("agents: [{name: a, graph: './graphs.py:name'}]", "has no function named name"),
        ("agents: [{name: a, graph: './none.py:build'}]", "cannot be imported"),
        ("agents: [{name: a, graph: './graphs.py:build', kind: deep}]", "takes no kind"),
        ("agents: [{name: a, model: m, subagents: [{name: b}]}]", r"subagents\[0\].description must be text"),
    ],
)
def test_an_agent_that_cannot_be_used(tmp_path: Path, agents: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        read(tmp_path, agents)
    assert "api_key: x" not in caught.value.message


def test_reading_agents_and_putting_a_process_together_loads_no_langgraph(tmp_path: Path) -> None:
    read(tmp_path, "agents: [{name: a, graph: './graphs.py:build', tools: [ask]}]")
    code = f"""
import sys
from pathlib import Path
import rejoinder.doors.app, rejoinder.node
from rejoinder.runs.manifest import load_manifest
load_manifest(Path({str(tmp_path / "manifest.yaml")!r}))
print([name for name in sys.modules if name.split(".")[0] in ("langgraph", "langchain", "langchain_core", "psycopg")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
