"""A manifest that cannot be used says which file, which entry and what is wrong, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.manifest import load_manifest


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"tools: [", "is not YAML"),
        (b"- a", "must hold keys"),
        (b"tool: []", "a key that is not known: tool"),
        (b"presets: []", "presets is not served by this version"),
        (b"tools: x", "tools must be a list"),
        (b"tools: [x]", r"tools\[0\] must hold keys"),
        (b"tools: [{modul: x}]", "a key that is not known: modul"),
        (b"tools: [{title: x}]", r"tools\[0\].module must name a module or a file"),
        (b"tools: [{module: no.such}]", "no.such cannot be imported: ModuleNotFoundError"),
        (b"tools: [{module: ./no.py}]", "./no.py cannot be imported"),
        (b"tools: [{module: json}]", "json defines no tool"),
        (b"tools: [{module: json, include: [x]}]", "json has no tool named x"),
        (b"tools: [{module: json, include: x}]", "include must be a list of names"),
    ],
)
def test_a_manifest_that_cannot_be_used(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "manifest.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=told) as caught:
        load_manifest(path)
    assert str(path) in caught.value.message
