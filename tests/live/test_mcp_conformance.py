"""The protocol's own conformance suite against our MCP door, for both generations.

What it finds must be what ``mcp-expected-failures.yml`` says, each line with a reason: neither more nor less.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rejoinder.runs.manifest import load_manifest
from tests.integration.mcp.serving import serving
from tests.live.rig import places

HERE = Path(__file__).parent
TOOLS = HERE / "rig" / "conformance_tools.py"


async def conform(url: str, revision: str, folder: Path) -> tuple[set[str], set[str], str]:
    """Run the suite: what passed and what failed, as scenario/check, and what it said."""
    running = await asyncio.create_subprocess_exec(
        str(places.node()),
        str(places.conformance_script()),
        *("server", "--url", f"{url}/mcp", "--requirements", revision, "--output-dir", str(folder)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1"},
        cwd=folder,
    )
    said, _ = await running.communicate()
    passed: set[str] = set()
    failed: set[str] = set()
    for file in folder.glob("server-*/checks.json"):
        # The folder is named server-SCENARIO-TIMESTAMP.
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))
        for check in json.loads(file.read_text()):
            if check["status"] == "FAILURE":
                failed.add(f"{scenario}/{check['id']}")
            elif check["status"] == "SUCCESS":
                passed.add(f"{scenario}/{check['id']}")
    return passed - failed, failed, said.decode(errors="replace")


def expected(revision: str) -> set[str]:
    known = yaml.safe_load((HERE / "mcp-expected-failures.yml").read_text())
    return set(known["both"]) | set(known[revision])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("revision", "least"), [("2025-11-25", 45), ("2026-07-28", 110)])
async def test_the_suite_finds_what_is_expected(
    database_url: str, tmp_path: Path, revision: str, least: int
) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(f"tools:\n  - module: {TOOLS}\n")
    tools = [one.tool for one in load_manifest(manifest)]
    results = tmp_path / "results"
    results.mkdir()
    # No suite of ours has a key to give.
    settings: dict[str, Any] = {"access_control_enable": False, "rejoinder_mcp_hold_seconds": 2}
    async with serving(database_url, *tools, key="", **settings) as served:
        passed, failed, said = await conform(served.url, revision, results)
    assert failed == expected(revision), said[-4_000:]
    assert len(passed) >= least, said[-4_000:]
