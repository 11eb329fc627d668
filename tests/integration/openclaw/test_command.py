"""The commands as people use them: another process, a real socket, Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from rejoinder.openclaw.device import Device
from tests.fake_gateway import TOKEN, FakeGateway, not_paired
from tests.support import OURS, assert_eventually

FOLDER = Path("tests/fixtures/openclaw-2026.9.3")
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())


async def started(*arguments: str, **variables: str) -> asyncio.subprocess.Process:
    clean = {name: value for name, value in os.environ.items() if not name.startswith((*OURS, "OPENCLAW_"))}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rejoinder.cli.main",
        "openclaw",
        *arguments,
        env={**clean, **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def command(*arguments: str, **variables: str) -> tuple[int | None, str, str]:
    return await ended(await started(*arguments, **variables))


async def test_replay_prints_json_for_programs_and_a_table_for_people() -> None:
    path = str(FOLDER / "s11_subagent.jsonl.gz")
    (code, out, err), (table_code, table, _) = await asyncio.gather(
        command("replay", path, "--json"), command("replay", path)
    )
    assert (code, err) == (0, "")
    assert json.loads(out) == {"chats": EXPECTED["s11_subagent"]}
    assert table_code == 0
    assert "CHAT agent:main:owui:chat-sub" in table
    for message in EXPECTED["s11_subagent"]["agent:main:owui:chat-sub"]:
        assert message["run_id"] in table
    assert "sessions_spawn completed, sessions_yield completed" in table


async def test_replay_says_what_is_no_recording(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text('{"t": 1, "conn": "1", "dir": "note", "frame": {}}\n')
    other = tmp_path / "other.txt"
    other.write_text("hello\n")
    results = await asyncio.gather(
        command("replay", str(tmp_path / "missing")),
        command("replay", str(other)),
        command("replay", str(nothing), "--json"),
        command("replay", str(nothing)),
    )
    assert [code for code, _, _ in results] == [1, 1, 0, 0]
    assert "cannot be read" in results[0][2]
    assert "Line 1 of" in results[1][2]
    assert json.loads(results[2][1]) == {"chats": {}}
    assert "No run" in results[3][2]
    assert all("Traceback" not in err for _, _, err in results)


async def test_record_writes_until_it_is_interrupted_and_says_what_it_masked(tmp_path: Path) -> None:
    file, device = tmp_path / "report.jsonl.gz", tmp_path / "device.json"
    async with FakeGateway() as gateway:
        gateway.device_token = "issued-to-this-device"
        gateway.histories["agent:main:chat"] = {
            "sessionKey": "agent:main:chat",
            "messages": [
                {
                    "role": "user",
                    "content": "hi",
                    "idempotencyKey": "r:user",
                    "__openclaw": {"id": "1", "seq": 1},
                },
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": f"In /home/ada: {TOKEN}"}],
                    "stopReason": "stop",
                    "__openclaw": {"id": "2", "seq": 2, "runId": "r"},
                },
            ],
        }
        process = await started(
            "record", str(file), "--url", gateway.url, "--device", str(device), OPENCLAW_GATEWAY_TOKEN=TOKEN
        )
        connection = await gateway.connected()
        assert connection.connect["scopes"] == ["operator.read"]  # it only listens
        common = {"runId": "r", "sessionKey": "agent:main:chat", "agentId": "main"}
        connection.tell("agent", {**common, "stream": "lifecycle", "seq": 1, "data": {"phase": "start"}})
        connection.tell("chat", {**common, "seq": 2, "state": "final", "stopReason": "stop"})
        await assert_eventually(lambda: "chat.history" in [method for method, _ in connection.requests])
        process.send_signal(signal.SIGINT)
        code, out, err = await ended(process)
    assert (code, out) == (0, ""), err
    assert "Masked: " in err
    assert "token" in err
    assert TOKEN not in err
    code, out, err = await command("replay", str(file), "--json")
    assert code == 0, err
    (message,) = json.loads(out)["chats"]["agent:main:chat"]
    assert message["done"]
    assert message["text"].startswith("In /home/user: <")
    identity = Device.load(device)
    assert identity.token == "issued-to-this-device"
    assert identity.id == connection.connect["device"]["id"]


async def test_record_that_is_refused_says_what_to_do_and_keeps_what_passed(tmp_path: Path) -> None:
    file = tmp_path / "report.jsonl"
    async with FakeGateway() as gateway:
        gateway.refusals.append(not_paired(request_id="req-77"))
        code, _, err = await command("record", str(file), "--url", gateway.url, "--token", TOKEN)
        assert code == 1
        assert "openclaw devices approve req-77" in err
        assert "Traceback" not in err
        assert TOKEN not in file.read_text()
        assert "PAIRING_REQUIRED" in file.read_text()
        again, _, err = await command("record", str(file), "--url", gateway.url, "--token", TOKEN)
        assert again == 1
        assert "exists already" in err
        wrong, _, err = await command("record", str(tmp_path / "x"), "--url", "ftp://x")
        assert wrong == 1
        assert "not the address of a Gateway" in err
        assert not (tmp_path / "x").exists()


async def test_record_that_heard_nothing_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "report.jsonl"
    code, _, err = await command("record", str(file), "--url", "ws://127.0.0.1:1", "--seconds", "0.2")
    assert code == 1
    assert "Nothing was recorded" in err
    assert "No Gateway answers at ws://127.0.0.1:1" in err
    assert not file.exists()
