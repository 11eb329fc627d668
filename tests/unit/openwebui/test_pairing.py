"""`rejoinder openwebui install --approve-pairing`: the device's pairing is approved with the openclaw command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.openclaw.handshake import Access
from rejoinder.openclaw.refusals import refusal
from rejoinder.openwebui import install
from rejoinder.openwebui.advice import advice
from tests.fake_gateway import not_paired

CONNECTED = "The pipe is connected to the Gateway."


class Server(install.OpenWebUI):
    """An Open WebUI whose pipe is refused until the device is approved."""

    def __init__(self, approved: Path) -> None:
        self._approved = approved
        self._put: list[str] = []

    def functions(self) -> dict[str, dict[str, Any]]:
        return {}

    def put(self, function_id: str, *_: Any, **__: Any) -> None:
        self._put.append(function_id)

    def switch(self, function_id: str) -> None:
        pass

    def offer(self, function_id: str) -> None:
        pass

    def models(self) -> list[str]:
        return [install.MODEL]

    def says(self, model: str) -> str:
        if self._approved.exists():
            return json.dumps(
                {"error": {"detail": f"{install._CONNECTED}. Write something and send it again."}}
            )
        refused = refusal(not_paired(request_id="req-7").error, Access("ws://gateway.test:1"))
        return json.dumps({"error": {"detail": advice(refused)}})


def openclaw(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "openclaw"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def installed(tmp_path: Path, *, approve: bool = True) -> str:
    server = Server(tmp_path / "approved")
    return install.install(server, tmp_path / "backups", {}, approve=approve).steps[-1]


def test_the_request_that_the_gateway_names_is_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openclaw(tmp_path, f'echo "$@" > {tmp_path}/approved', monkeypatch)
    assert installed(tmp_path) == CONNECTED
    assert (tmp_path / "approved").read_text() == "devices approve req-7\n"


def test_without_the_flag_nothing_is_approved_and_the_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openclaw(tmp_path, f"touch {tmp_path}/approved", monkeypatch)
    told = installed(tmp_path, approve=False)
    assert "not connected yet" in told
    assert "openclaw devices approve req-7" in told
    assert not (tmp_path / "approved").exists()


@pytest.mark.parametrize(
    ("script", "words"),
    [("echo 'no such request' >&2; exit 1", "no such request"), (None, "no openclaw command")],
)
def test_a_command_that_cannot_approve_is_said_and_the_install_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, words: str
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        openclaw(tmp_path, script, monkeypatch)
    told = installed(tmp_path)
    assert words in told
    assert "openclaw devices approve req-7" in told
