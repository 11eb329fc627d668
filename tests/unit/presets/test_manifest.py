"""The manifest's ``presets`` of agents: names that are looked up when the agent is driven, and what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.agent import Agent, LatePreset
from rejoinder.runs.manifest import load_manifest

TOOLS = """
from rejoinder import tool

@tool
def pay(amount: int) -> int:
    return amount
"""


def manifest(folder: Path, agent: str) -> Agent:
    (folder / "payments.py").write_text(TOOLS)
    path = folder / "manifest.yaml"
    lines = "tools: [{module: ./payments.py}]\nagents:\n  - {name: helper, model: 'openai:x', "
    path.write_text(f"{lines}{agent}}}\n")
    found = load_manifest(path).get("helper")
    assert isinstance(found, Agent)
    return found


def test_an_agent_and_its_subagents_are_given_presets_by_name(tmp_path: Path) -> None:
    below = "{name: one, description: d, instructions: i, presets: [pay_two]}"
    found = manifest(
        tmp_path,
        f"tools: [pay], presets: [pay_rent], requires_approval: [pay_rent], subagents: [{below}]",
    )
    assert found.named_presets() == {"pay_rent", "pay_two"}
    assert [(one.name, one.requires_approval) for one in found.tools] == [("pay", False), ("pay_rent", True)]
    assert isinstance(found.tools[1], LatePreset)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("presets: pay_rent", "agents\\[0\\].presets must be a list"),
        ("presets: [7]", "must be a list of names of presets"),
        ("presets: [pay]", "pay is a tool and no preset"),
        ("presets: [a, a]", "a is named twice"),
        ("presets: ['a b']", "cannot be a tool's name"),
        ("presets: [a], requires_approval: [b]", "b is none of its tools"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(tmp_path: Path, agent: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        manifest(tmp_path, agent)
