"""The commands that need no Open WebUI."""

from __future__ import annotations

from pathlib import Path

import pytest

from rejoinder.cli.main import run
from rejoinder.openwebui.bundle import build


def test_the_files_can_be_written_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["openwebui", "bundle", str(tmp_path / "out")]) == 0
    written = {path.stem: path.read_text("utf-8") for path in (tmp_path / "out").iterdir()}
    assert written == build()
    assert "openclaw_gateway.py" in capsys.readouterr().out
    assert (
        run(["openwebui", "sources", str(tmp_path / "out" / "openclaw_start.py"), str(tmp_path / "in")]) == 0
    )
    assert list((tmp_path / "in").rglob("bridge.py"))


def test_what_cannot_be_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("print(1)\n")
    assert run(["openwebui", "sources", str(tmp_path / "file"), str(tmp_path / "in")]) == 1
    assert "not built by this program" in capsys.readouterr().err
    assert run(["openwebui", "bundle", str(tmp_path / "file")]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["install", "status", "repair", "uninstall"])
def test_without_a_token_or_a_server_it_is_said(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENWEBUI_TOKEN", raising=False)
    assert run(["openwebui", command]) == 1
    assert "OPENWEBUI_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("OPENWEBUI_TOKEN", "a-secret-of-the-tests")
    assert run(["openwebui", command, "--url", "http://127.0.0.1:9"]) == 1
    told = capsys.readouterr().err
    assert "No Open WebUI answers" in told
    assert "a-secret-of-the-tests" not in told
