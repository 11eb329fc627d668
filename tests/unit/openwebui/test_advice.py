"""Whatever a Gateway refuses, the person in the chat reads what mends it: a valve, a command or a setting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import CallFailed, Dropped, Kind, NotConnected, Refused, TimedOut
from rejoinder.openclaw.handshake import Access, Hello, check_scopes
from rejoinder.openclaw.refusals import refusal, refused_status, unreachable
from rejoinder.openwebui.advice import advice, model_advice, refused_message, refused_model
from tests.fake_gateway import (
    BAD_SIGNATURE,
    ORIGIN,
    RESTARTING,
    STARTING,
    TOKEN_MISMATCH,
    UNKNOWN_CLIENT,
    not_paired,
)

SECRET = "the-shared-token-itself"
DETAILS = (
    "AUTH_TOKEN_MISMATCH",
    "AUTH_TOKEN_MISSING",
    "AUTH_TOKEN_NOT_CONFIGURED",
    "AUTH_PASSWORD_MISMATCH",
    "AUTH_DEVICE_TOKEN_MISMATCH",
    "AUTH_RATE_LIMITED",
    "AUTH_SOMETHING_NEW",
    "PAIRING_REQUIRED",
    "DEVICE_IDENTITY_REQUIRED",
    "DEVICE_AUTH_SIGNATURE_INVALID",
    "DEVICE_AUTH_SIGNATURE_EXPIRED",
    "CONTROL_UI_ORIGIN_NOT_ALLOWED",
    "",
)
WORDS = (
    "unauthorized",
    "protocol mismatch",
    "scope not allowed",
    "origin not allowed",
    "the moon is wrong",
    "",
)


def refusals(access: Access) -> list[Refused]:
    """Every refusal there is: the recorded ones, every code with every wording, every status, and silence."""
    frames: list[Mapping[str, Any]] = [
        one.error for one in (STARTING, RESTARTING, TOKEN_MISMATCH, UNKNOWN_CLIENT, ORIGIN, BAD_SIGNATURE)
    ]
    frames += [
        not_paired(reason).error
        for reason in ("not-paired", "scope-upgrade", "role-upgrade", "metadata-upgrade")
    ]
    frames += [
        {"code": code, "message": words, "details": {"code": detail} if detail else {}}
        for code in ("INVALID_REQUEST", "UNAUTHORIZED", "FORBIDDEN", "NOT_PAIRED", "SURPRISE")
        for words in WORDS
        for detail in DETAILS
    ]
    found = [refusal(frame, access) for frame in frames]
    found += [refused_status(status, access) for status in (301, 400, 401, 403, 404, 500, 502, 503)]
    found.append(unreachable(access, "connection refused"))
    found.append(Refused("timeout", "It did not greet.", "It is tried again by itself."))
    try:
        check_scopes(access, Hello("1", "boot", "conn", (), None, 1, {}))
    except Refused as refused:
        found.append(refused)
    return found


@pytest.mark.parametrize("with_device", [False, True])
def test_every_refusal_says_what_mends_it(with_device: bool, tmp_path: Path) -> None:
    device = Device.load(tmp_path / "device.json") if with_device else None
    found = refusals(Access("wss://far.example", token=SECRET, device=device))
    assert {refused.kind for refused in found} == set(get_args(Kind))
    for refused in found:
        told = advice(refused)
        mended = (
            re.search(r"Valves?: [A-Z_, ]+\.$", told)
            or "`openclaw devices approve" in told
            or "gateway.controlUi.allowedOrigins" in told
            or "gateway-client/backend" in told
            or "Update OpenClaw" in told
            or "again in a moment" in told
        )
        assert mended, told
        assert SECRET not in told


def test_a_pairing_names_the_exact_commands_and_the_device(tmp_path: Path) -> None:
    device = Device.load(tmp_path / "device.json")
    told = advice(refusal(not_paired(request_id="req-7").error, Access("wss://far.example", device=device)))
    assert "`openclaw devices list`" in told
    assert "`openclaw devices approve req-7`" in told
    assert device.id in told


@pytest.mark.parametrize(("status", "valve"), [(401, "GATEWAY_URL"), (404, "GATEWAY_URL")])
def test_what_stands_in_front_of_the_gateway_is_not_its_token(status: int, valve: str) -> None:
    told = advice(refused_status(status, Access("wss://far.example", token=SECRET)))
    assert valve in told
    assert "GATEWAY_TOKEN" not in told


@pytest.mark.parametrize(
    "error", [NotConnected(), Dropped("chat.send"), TimedOut("chat.send", 10)], ids=["none", "cut", "late"]
)
def test_what_passes_by_itself_says_to_send_again(error: Any) -> None:
    assert "again in a moment" in advice(error)


@pytest.mark.parametrize(
    "words",
    ['Agent "helper" no longer exists in configuration', "unknown agent: helper", "Agent helper not found"],
)
def test_an_unknown_agent_names_its_valve(words: str) -> None:
    told = refused_message(CallFailed("chat.send", {"code": "INVALID_REQUEST", "message": words}), "helper")
    assert "no agent named helper" in told
    assert "AGENT_ID" in told


@pytest.mark.parametrize("words", ['Unknown provider "nope".', "Unknown model: nope/nothing"])
def test_an_unknown_model_names_its_valves(words: str) -> None:
    failed = CallFailed("sessions.patch", {"code": "INVALID_REQUEST", "message": words})
    for told in (refused_model(failed, "nope/nothing"), model_advice(words)):
        assert "DEFAULT_MODEL" in told
        assert words in told


@pytest.mark.parametrize("words", ["the provider's quota is used up", "model overloaded", ""])
def test_any_other_error_of_a_run_is_told_as_it_is(words: str) -> None:
    assert model_advice(words) == words


def test_any_other_refusal_of_a_message_is_told_as_it_is() -> None:
    failed = CallFailed("chat.send", {"code": "INVALID_REQUEST", "message": "the session changed"})
    assert refused_message(failed, "main").endswith("the session changed")
