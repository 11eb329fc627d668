"""What leaves the house in a recording: no secret and no user's name, and everything else as it was."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import GatewayError
from rejoinder.openclaw.handshake import Access, connect_params
from rejoinder.openclaw.masking import Mask
from rejoinder.openclaw.recording import Recorder, create, load, parse

TOKEN = "shared-token-of-this-gateway"


@pytest.mark.parametrize(
    "field",
    [
        "token",
        "deviceToken",
        "device_token",
        "password",
        "apiKey",
        "Authorization",
        "Set-Cookie",
        "signature",
        "publicKey",
        "privateKey",
        "recoveryScope",
        "clientSecret",
    ],
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"value": v}, lambda v: [{"x": [v]}]])
def test_a_secret_field_is_masked_however_deep(field: str, wrap: Any) -> None:
    masked = json.dumps(Mask().frame({"payload": {"deep": [{field: wrap("the-value-itself")}]}}))
    assert "the-value-itself" not in masked
    assert field in masked


@pytest.mark.parametrize(
    "field",
    ["totalTokens", "outputTokens", "tokens", "idempotencyKey", "sessionKey", "key", "mainKey", "runId"],
)
def test_fields_that_only_sound_secret_stay(field: str) -> None:
    frame = {"payload": {field: "agent:main:chat"}}
    assert Mask().frame(frame) == frame


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnopqrstuvwxyz123456",
        "xoxb-123456789012-abcdefghij",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
        TOKEN,
    ],
)
def test_secrets_in_texts_are_masked(secret: str) -> None:
    mask = Mask([TOKEN])
    text = mask.text(f"before ({secret}) and {secret}")
    assert secret not in text
    assert text.startswith("before (")
    assert mask.counts


def test_a_bearer_keeps_its_word() -> None:
    assert Mask().text("Authorization: Bearer abcdefghijklmnop") == "Authorization: Bearer <secret-1>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ada/notes.txt", "/home/user/notes.txt"),
        ("in '/Users/ada' and /home/bob/x", "in '/Users/user' and /home/user/x"),
        ("C:\\Users\\ada\\x", "C:\\Users\\user\\x"),
        ("/root/.openclaw", "/home/user/.openclaw"),
        ("cat /root", "cat /home/user"),
        ("the root of /srv/root/x and ./root/y", "the root of /srv/root/x and ./root/y"),
        ("https://example.org/home", "https://example.org/home"),
    ],
)
def test_the_users_name_goes_and_the_path_stays(text: str, expected: str) -> None:
    assert Mask().text(text) == expected


def test_the_same_secret_has_the_same_mask_and_another_another() -> None:
    masked = Mask().frame({"a": {"token": "one-one"}, "b": {"token": "two-two"}, "c": {"token": "one-one"}})
    assert masked["a"] == masked["c"] != masked["b"]


def test_what_was_masked_is_said() -> None:
    mask = Mask()
    mask.frame({"token": "x", "deviceToken": "y", "text": "/home/ada/a"})
    assert mask.summary() == ["1 home path", "2 tokens"]


def test_a_connect_request_shows_who_but_not_how() -> None:
    device = Device.new()
    device.keep_token("device-token-issued")
    access = Access("ws://127.0.0.1:1", token=TOKEN, device=device)
    params = connect_params(access, {"nonce": "n", "ts": 1})
    masked = json.dumps(Mask().frame({"params": params}))
    assert device.id in masked  # the report is about this device
    for secret in (TOKEN, params["device"]["signature"], params["device"]["publicKey"]):
        assert secret not in masked


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_masking_twice_changes_nothing_more(value: Any) -> None:
    once = Mask([TOKEN]).frame({"payload": value})
    assert Mask([TOKEN]).frame(once) == once


def test_a_recording_reads_back_as_it_was_written(tmp_path: Path) -> None:
    for name in ("plain.jsonl", "packed.jsonl.gz"):
        path = tmp_path / name
        with create(path) as file:
            recorder = Recorder(file, now=lambda: 12.3456)
            recorder.write(
                "1", "out", {"type": "req", "id": "1", "method": "x", "params": {"text": "Zeile\u2028ü"}}
            )
            recorder.write("1", "closed", {"code": 1006, "reason": ""})
        lines = load(path)
        assert [(line.at, line.connection, line.direction) for line in lines] == [
            (12.346, "1", "out"),
            (12.346, "1", "closed"),
        ]
        assert lines[0].frame["params"] == {"text": "Zeile\u2028ü"}
        assert path.stat().st_mode & 0o077 == 0
        with pytest.raises(GatewayError, match="never replaces"), create(path):
            pass


def test_a_recorder_that_was_killed_leaves_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    with create(path) as file:
        recorder = Recorder(file)
        for number in range(500):
            recorder.write("1", "in", {"type": "event", "event": "tick", "payload": {"ts": number}})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert 0 < len(load(path)) < 500
    text = io.StringIO()
    Recorder(text).write("1", "in", {"type": "event", "event": "tick", "payload": {}})
    assert len(list(parse([text.getvalue(), '{"t": 1, "co']))) == 1


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["not json"], 1),
        (['{"dir": "in", "frame": {}}', "{", '{"dir": "in", "frame": {}}'], 2),
        (['{"dir": "in", "frame": {}}', "[1]"], 2),
        (['{"dir": "sideways", "frame": {}}'], 1),
        (['{"dir": "in"}'], 1),
    ],
)
def test_what_is_no_recording_is_named_by_its_line(lines: list[str], number: int) -> None:
    with pytest.raises(GatewayError, match=f"Line {number} of"):
        list(parse(lines))


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="cannot be read"):
        load(tmp_path / "missing.jsonl")
