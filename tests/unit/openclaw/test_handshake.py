"""What is said to a Gateway, and what each of its refusals tells the person who can mend it."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import GatewayError, Refused
from rejoinder.openclaw.handshake import (
    READ,
    WRITE,
    Access,
    Hello,
    check_scopes,
    connect_params,
    gateway_url,
)
from rejoinder.openclaw.refusals import refusal, refused_status, unreachable
from tests.fake_gateway import (
    BAD_SIGNATURE,
    ORIGIN,
    RESTARTING,
    STARTING,
    TOKEN_MISMATCH,
    UNKNOWN_CLIENT,
    not_paired,
    signature_holds,
)

RECORDED = Path("tests/fixtures/openclaw-2026.9.3/s01_handshake.jsonl.gz")
CHALLENGE = {"nonce": "bde82afd-a2f5-492a-b831-b2223e5b5690", "ts": 1796005184521}
SECRET = "the-shared-token-itself"


def recorded_lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


def access(**changes: Any) -> Access:
    return Access(**{"url": "ws://127.0.0.1:18789", "token": SECRET, **changes})


def error(gateway_code: str, message: str = "", /, **details: Any) -> dict[str, Any]:
    return {"code": gateway_code, "message": message, "details": details}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("localhost:18789", "ws://localhost:18789"),
        (" ws://127.0.0.1:18789/ ", "ws://127.0.0.1:18789"),
        ("http://gateway:80", "ws://gateway:80"),
        ("https://gateway.example/claw", "wss://gateway.example/claw"),
        ("WSS://gateway.example", "wss://gateway.example"),
        ("[::1]:18789", "ws://[::1]:18789"),
        ("gateway", "ws://gateway"),
    ],
)
def test_an_address_is_taken_as_people_write_it(typed: str, meant: str) -> None:
    assert gateway_url(typed) == meant


@pytest.mark.parametrize(
    "typed", ["", "  ", "ftp://x", "ws://", "ws://host:port", "ws://host:99999", "ws://a b", "ws://u:p@host"]
)
def test_what_is_no_address_is_refused(typed: str) -> None:
    with pytest.raises(GatewayError) as caught:
        gateway_url(typed)
    assert caught.value.code == "BAD_URL"


def test_a_device_signs_the_challenge_so_that_the_gateway_can_check_it() -> None:
    device = Device.new()
    params = connect_params(access(device=device), CHALLENGE)
    assert signature_holds(params, CHALLENGE)
    assert not signature_holds(params, {**CHALLENGE, "nonce": "another"})
    assert not signature_holds({**params, "scopes": [READ]}, CHALLENGE)


def test_the_recorded_device_blocks_are_shaped_as_ours() -> None:
    recorded = next(
        line["frame"]["params"]["device"]
        for line in recorded_lines()
        if line["dir"] == "out" and "device" in line["frame"].get("params", {})
    )
    ours = connect_params(access(device=Device.new()), CHALLENGE)["device"]
    assert ours.keys() == recorded.keys()
    assert isinstance(ours["signedAt"], int)
    assert "=" not in ours["signature"] + ours["publicKey"]


def test_a_devices_own_token_serves_only_without_a_shared_one() -> None:
    device = Device.new()
    device.keep_token("device-token")
    assert connect_params(access(device=device), CHALLENGE)["auth"] == {"token": SECRET}
    alone = connect_params(access(device=device, token=""), CHALLENGE)
    assert alone["auth"] == {"token": "device-token"}
    assert signature_holds(alone, CHALLENGE)
    password = connect_params(access(device=device, token="", password="words"), CHALLENGE)
    assert password["auth"] == {"password": "words"}
    assert signature_holds(password, CHALLENGE)


def test_a_device_is_kept_for_its_owner_only_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "device.json"
    first = Device.load(path)
    first.keep_token("issued")
    again = Device.load(path)
    assert (again.id, again.token) == (first.id, "issued")
    assert path.stat().st_mode & 0o077 == 0
    again.keep_token(None)
    assert Device.load(path).token is None
    assert Device.load(path).id == first.id
    assert [entry.name for entry in path.parent.iterdir()] == ["device.json"]
    assert Device.parse(first.dump()).id == first.id


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"privateKey": 1}', '{"privateKey": "YQ"}', "null"])
def test_a_broken_identity_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "device.json"
    path.write_text(text)
    with pytest.raises(GatewayError) as caught:
        Device.load(path)
    assert caught.value.code == "DEVICE_FILE"
    assert path.read_text() == text  # it is somebody's


@pytest.mark.parametrize(
    ("frame", "kind", "words"),
    [
        (TOKEN_MISMATCH.error, "token", ["token", "gateway.auth.token"]),
        (error("INVALID_REQUEST", code="AUTH_TOKEN_MISSING"), "token", ["gateway.auth.token"]),
        (error("INVALID_REQUEST", code="AUTH_TOKEN_NOT_CONFIGURED"), "token", ["gateway.auth.token"]),
        (error("INVALID_REQUEST", code="AUTH_PASSWORD_MISMATCH"), "token", ["gateway.auth.password"]),
        (error("INVALID_REQUEST", code="AUTH_RATE_LIMITED"), "rate", ["too many"]),
        (error("INVALID_REQUEST", "unauthorized"), "token", ["token"]),
        (UNKNOWN_CLIENT.error, "client", ["gateway-client/backend"]),
        (ORIGIN.error, "origin", ["allowedOrigins"]),
        (STARTING.error, "starting", ["by itself"]),
        (RESTARTING.error, "draining", ["by itself"]),
        (not_paired().error, "pairing", ["openclaw devices list", "openclaw devices approve req-1"]),
        (not_paired("scope-upgrade").error, "pairing", ["fewer scopes"]),
        (not_paired("role-upgrade").error, "pairing", ["another role"]),
        ({"code": "NOT_PAIRED", "message": "pairing required"}, "pairing", ["approve <request>"]),
        (BAD_SIGNATURE.error, "device", ["clocks"]),
        (error("INVALID_REQUEST", code="DEVICE_IDENTITY_REQUIRED"), "device", ["device identity"]),
        (error("INVALID_REQUEST", "protocol mismatch"), "protocol", ["2026.9.3"]),
        (error("FORBIDDEN", "scope not allowed"), "scopes", ["openclaw devices approve"]),
        (error("SURPRISE", "the moon is wrong."), "other", ["the moon is wrong."]),
        ({}, "other", []),
    ],
)
def test_each_refusal_is_named_and_says_what_to_do(
    frame: dict[str, Any], kind: str, words: list[str]
) -> None:
    refused = refusal(frame, access())
    text = str(refused)
    assert refused.kind == kind
    assert all(word in text for word in words), text
    assert refused.advice.endswith(".")
    assert refused.message.endswith(".")
    assert SECRET not in text
    assert refused.passing == (kind in ("starting", "draining", "rate"))


def test_the_pairing_names_the_device() -> None:
    device = Device.new()
    refused = refusal(not_paired(request_id="abc-1").error, access(device=device))
    assert (refused.device_id, refused.request_id) == (device.id, "abc-1")
    assert device.id in str(refused)


def test_only_a_devices_own_token_is_dropped() -> None:
    device = Device.new()
    device.keep_token("stale")
    assert not refusal(TOKEN_MISMATCH.error, access(device=device)).drop_device_token
    alone = refusal(TOKEN_MISMATCH.error, access(device=device, token=""))
    assert alone.drop_device_token
    assert "stale" not in str(alone)
    named = refusal(error("INVALID_REQUEST", code="AUTH_DEVICE_TOKEN_MISMATCH"), access(device=device))
    assert named.drop_device_token


def test_starting_is_tried_again_when_the_gateway_says() -> None:
    assert refusal(STARTING.error, access()).retry_after == 0.5
    assert refusal({"code": "UNAVAILABLE", "retryAfterMs": 2500}, access()).retry_after == 2.5


@pytest.mark.parametrize(
    ("status", "kind"), [(503, "draining"), (401, "token"), (403, "token"), (404, "other"), (200, "other")]
)
def test_an_answer_in_plain_http_is_explained(status: int, kind: str) -> None:
    assert refused_status(status, access()).kind == kind


def test_nobody_there_names_the_address() -> None:
    refused = unreachable(access(), "connection refused")
    assert "ws://127.0.0.1:18789" in str(refused)
    assert refused.passing


def test_scopes_that_were_cleared_without_a_word_are_missed() -> None:
    hello = Hello.read({"type": "hello-ok", "auth": {"scopes": []}, "server": {"bootId": "b"}})
    with pytest.raises(Refused) as caught:
        check_scopes(access(needed=(READ, WRITE)), hello)
    assert caught.value.kind == "scopes"
    assert READ in caught.value.message


def test_the_recorded_attempts_end_as_they_did() -> None:
    ends: dict[str, str] = {}
    for line in recorded_lines():
        frame = line["frame"]
        if line["dir"] != "in" or frame.get("type") != "res" or line["conn"] in ends:
            continue
        if not frame["ok"]:
            ends[line["conn"]] = refusal(frame["error"], access()).kind
            continue
        try:
            check_scopes(access(), Hello.read(frame["payload"]))
            ends[line["conn"]] = "hello"
        except Refused as refused:
            ends[line["conn"]] = refused.kind
    assert ends == {
        "gateway-client/backend, token, no device": "hello",
        "gateway-client/backend, token, no device, scopes=[]": "scopes",
        "gateway-client/backend, token, device": "hello",
        "cli/cli, token, no device": "hello",
        "cli/cli, token, device read+write+admin": "hello",
        "cli/cli, token, new device read+write": "hello",
        "test/test, token, no device": "scopes",
        "webchat-ui/webchat, token, no device": "origin",
        "bad token": "token",
        "unknown client id": "client",
    }


def test_no_text_shows_a_secret() -> None:
    device = Device.new()
    private = json.loads(device.dump())["privateKey"]
    shown = repr(access(device=device, password="pass-words")) + str(device)
    assert SECRET not in shown
    assert "pass-words" not in shown
    assert private not in shown
    assert base64.urlsafe_b64decode(private + "==")
