"""Every verifier: the makers' own vectors and library, junk of every kind, rotation, windows to the second."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import stripe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rejoinder.contract.errors import AskArgumentError, ConfigurationError
from rejoinder.contract.verifiers import (
    Binding,
    FreshnessWindow,
    ReplayDefense,
    SeenSetClaim,
    VerificationFailedError,
    Verifier,
    VerifierConfigError,
)
from rejoinder.verifiers import registry
from rejoinder.verifiers.github import GitHub
from rejoinder.verifiers.registry import VerificationError, Verifiers
from rejoinder.verifiers.shared_secret import SharedSecret
from rejoinder.verifiers.standard_webhooks import StandardWebhooks
from rejoinder.verifiers.stripe import Stripe

SECRET = "whsec_dGhlIHNlY3JldCBvZiB0aGUgdGVzdHM="
NOW = 1_800_000_000.0
BODY = b'{"id": "evt_1", "type": "done"}'


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def verified(verifier: Verifier, raw: bytes, headers: Mapping[str, str], **config: Any) -> bool:
    try:
        asyncio.run(verifier.verify(raw, headers, {"secret_env": "HOOK_SECRET", **config}))
    except VerificationFailedError:
        return False
    return True


def stripe_header(at: int, body: bytes = BODY, secret: str = SECRET) -> str:
    return f"t={at},v1={hmac.new(secret.encode(), b'%d.%b' % (at, body), hashlib.sha256).hexdigest()}"


def standard_headers(
    at: int, body: bytes = BODY, identifier: str = "msg_1", secret: str = SECRET
) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.new(key, f"{identifier}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": identifier,
        "webhook-timestamp": str(at),
        "webhook-signature": "v1," + base64.b64encode(signed).decode(),
    }


def github_headers(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    return {"x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def good(name: str) -> tuple[Verifier, dict[str, str], dict[str, Any]]:
    """A verifier, the headers of a genuine request with BODY, and what its config needs beside the secret."""
    at = int(NOW)
    return {
        "shared_secret": (SharedSecret(), {"x-secret": SECRET}, {"header": "X-Secret"}),
        "stripe": (Stripe(lambda: NOW), {"stripe-signature": stripe_header(at)}, {}),
        "github": (GitHub(), github_headers(), {}),
        "standard_webhooks": (StandardWebhooks(lambda: NOW), standard_headers(at), {}),
    }[name]


NAMES = ["shared_secret", "stripe", "github", "standard_webhooks"]


# Published vectors


def test_the_example_of_githubs_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "It's a Secret to Everybody")
    signed = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert verified(GitHub(), b"Hello, World!", {"x-hub-signature-256": signed})
    assert not verified(GitHub(), b"Hello, World", {"x-hub-signature-256": signed})


def test_the_example_of_standard_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    body = b'{"test": 2432232314}'
    assert verified(StandardWebhooks(lambda: 1614265330), body, headers)
    assert verified(
        StandardWebhooks(lambda: 1614265330),
        body,
        headers | {"webhook-signature": "v1,AAAA v2,x v1a,y " + headers["webhook-signature"]},
    )
    assert not verified(StandardWebhooks(lambda: 1614265330), body, headers | {"webhook-id": "msg_other"})


# Against Stripe's own library


def their_verdict(body: str, header: str, tolerance: int) -> bool:
    try:
        return bool(stripe.WebhookSignature.verify_header(body, header, SECRET, tolerance))
    except (stripe.SignatureVerificationError, TypeError):
        # A TypeError comes of letters that are not ASCII, which it cannot compare.
        return False


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60),
    st.integers(-400, 400),
    st.sampled_from(
        ["good", "wrong secret", "other body", "two v1", "v0 only", "no t", "truncated", "upper case"]
    ),
)
def test_every_verdict_is_that_of_stripes_library(body: str, age: int, kind: str) -> None:
    at = int(time.time()) - age
    # On the second itself the clocks of the two looks would decide.
    if abs(age - 300) <= 2:
        return
    right = stripe.WebhookSignature.generate_signature_header(body, SECRET, at)
    made = {
        "good": right,
        "wrong secret": stripe.WebhookSignature.generate_signature_header(body, "whsec_x", at),
        "other body": stripe.WebhookSignature.generate_signature_header(body + ".", SECRET, at),
        "two v1": right.replace("v1=", "v1=" + "0" * 64 + ",v1="),
        "v0 only": right.replace("v1=", "v0="),
        "no t": right.partition(",")[2],
        "truncated": right[:-1],
        "upper case": right[: right.index("v1=") + 3] + right[right.index("v1=") + 3 :].upper(),
    }[kind]
    ours = verified(Stripe(), body.encode(), {"stripe-signature": made})
    if kind == "upper case":
        # The same bytes; their library compares the letters.
        assert ours == their_verdict(body, right, 300)
    else:
        assert ours == their_verdict(body, made, 300)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    st.lists(
        st.sampled_from(["t=", "v1=", "v0=", ",", "=", " ", "1800000000", "٣", "é", "-1", "a" * 64, "0x1"])
    )
)
def test_what_stripes_library_refuses_is_refused(parts: list[str]) -> None:
    header = "".join(parts)
    assert their_verdict("{}", header, 0) is False
    assert not verified(Stripe(lambda: NOW), b"{}", {"stripe-signature": header})


# Windows, to the second


@pytest.mark.parametrize(
    ("age", "taken"), [(0, True), (299, True), (300, True), (300.001, False), (-10_000, True)]
)
def test_stripes_window(age: float, taken: bool) -> None:
    headers = {"stripe-signature": stripe_header(int(NOW))}
    assert verified(Stripe(lambda: NOW + age), BODY, headers) is taken


@pytest.mark.parametrize(("age", "taken"), [(300, True), (301, False), (-300, True), (-301, False)])
def test_the_window_of_standard_webhooks(age: float, taken: bool) -> None:
    assert verified(StandardWebhooks(lambda: NOW + age), BODY, standard_headers(int(NOW))) is taken


@pytest.mark.parametrize(
    ("age", "left"), [(0, 300), (0.5, 300), (1, 299), (299.5, 1), (300, 1), (-60, 360), (-0.5, 301)]
)
def test_a_claim_lives_as_long_as_a_copy_would_be_taken(age: float, left: int) -> None:
    for verifier, headers, key in (
        (Stripe(lambda: NOW + age), {"stripe-signature": stripe_header(int(NOW))}, "stripe:evt_1"),
        (StandardWebhooks(lambda: NOW + age), standard_headers(int(NOW)), "standard_webhooks:msg_1"),
    ):
        assert verifier.replay_defense(BODY, headers, {"secret_env": "HOOK_SECRET"}) == SeenSetClaim(
            key, left
        )


def test_what_the_others_claim() -> None:
    config = {"secret_env": "HOOK_SECRET", "header": "X-Secret"}
    shared = SharedSecret()
    assert shared.replay_defense(BODY, {}, config) == FreshnessWindow(86_400)
    with_id = config | {"id_header": "X-Id", "replay_window_seconds": 60}
    assert shared.replay_defense(BODY, {"x-id": "7"}, with_id) == SeenSetClaim("shared_secret:x-id:7", 60)
    for missing in ({}, {"x-id": "  "}, {"x-id": "7" * 201}):
        with pytest.raises(VerificationFailedError):
            shared.replay_defense(BODY, missing, with_id)
    first = GitHub().replay_defense(BODY, {"x-github-delivery": "1"}, {"secret_env": "HOOK_SECRET"})
    again = GitHub().replay_defense(BODY, {"x-github-delivery": "2"}, {"secret_env": "HOOK_SECRET"})
    assert first == again  # the delivery's id is not signed, so it does not count
    assert first != GitHub().replay_defense(BODY + b" ", {}, {"secret_env": "HOOK_SECRET"})


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b'{"id": 1}', b'{"id": ""}', b"\xff", b"[" * 10_000, b"{}"]
)
def test_an_event_without_an_id_is_refused(body: bytes) -> None:
    with pytest.raises(VerificationFailedError):
        Stripe().replay_defense(
            body, {"stripe-signature": stripe_header(int(NOW), body)}, {"secret_env": "X"}
        )


# Junk


@pytest.mark.parametrize("name", NAMES)
def test_only_the_very_request_passes(name: str) -> None:
    verifier, headers, config = good(name)
    assert verified(verifier, BODY, headers, **config)
    assert not verified(verifier, BODY, {}, **config)
    if verifier.post_only:
        assert not verified(verifier, BODY + b" ", headers, **config)
        assert not verified(verifier, b"", headers, **config)
    for header, value in headers.items():
        for changed in (value[:-1], value + "0", "", value.swapcase() + "é", " " + value[1:]):
            assert not verified(verifier, BODY, headers | {header: changed}, **config), (header, changed)


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.binary(max_size=100), st.data())
def test_junk_is_a_refusal_and_nothing_else(name: str, raw: bytes, data: st.DataObject) -> None:
    verifier, headers, config = good(name)
    latin = st.text(st.characters(max_codepoint=0xFF), max_size=120)
    shaped = st.sampled_from(
        [
            "garbage",
            "v1,a",
            "v1,é",
            "v1,abc,def",
            "t=1,t=2,v1=",
            "sha256=",
            "t=" + "9" * 400,
            "v1," + "=" * 50,
            "\x00",
        ]
    )
    junk = {key: data.draw(latin | shaped) for key in headers}
    assert not verified(verifier, raw, junk, **config)


def test_a_header_that_no_wire_carries_is_refused() -> None:
    assert not verified(SharedSecret(), BODY, {"x-secret": "\u0100"}, header="X-Secret")


# Secrets


@pytest.mark.parametrize("name", NAMES)
def test_rotation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, headers, config = good(name)
    new = "whsec_" + base64.b64encode(b"the next one").decode()
    monkeypatch.setenv("HOOK_SECRET", new)
    assert not verified(verifier, BODY, headers, **config)
    monkeypatch.setenv("HOOK_SECRET_PREVIOUS", SECRET)
    assert verified(verifier, BODY, headers, **config)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("HOOK_SECRET_PREVIOUS", new)
    assert verified(verifier, BODY, headers, **config)  # whichever of the two it is
    monkeypatch.setenv("HOOK_SECRET", new)
    monkeypatch.delenv("HOOK_SECRET_PREVIOUS")
    monkeypatch.setenv("OLD", SECRET)
    assert verified(verifier, BODY, headers, **config | {"secret_env": ["HOOK_SECRET", "OLD", "NOT_SET"]})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [None, "", "  \t"])
def test_a_missing_secret_is_no_refusal(
    name: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier, headers, config = good(name)
    if value is None:
        monkeypatch.delenv("HOOK_SECRET")
    else:
        monkeypatch.setenv("HOOK_SECRET", value)
    for given_headers in (headers, {}, dict.fromkeys(headers, "")):
        with pytest.raises(VerifierConfigError, match="HOOK_SECRET is not set"):
            asyncio.run(verifier.verify(BODY, given_headers, {"secret_env": "HOOK_SECRET", **config}))


def test_a_secret_that_is_no_base64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "whsec_not base64")
    with pytest.raises(VerifierConfigError, match="base64"):
        verified(StandardWebhooks(lambda: NOW), BODY, standard_headers(int(NOW)))


BAD_CONFIGS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"secret": "s3cret", "secret_env": "A", "header": "X"}) for name in NAMES),
    *((name, {"header": "X"}) for name in ("shared_secret",)),
    *((name, {}) for name in NAMES),
    *(
        (name, {"secret_env": bad, "header": "X"})
        for name in NAMES
        for bad in ("", "A B", 1, [], ["A", 1], ["A"] * 9)
    ),
    *(
        ("stripe", {"secret_env": "A", "tolerance_seconds": bad})
        for bad in (0, -1, True, 1.5, "300", None, 10**12)
    ),
    *(("standard_webhooks", {"secret_env": "A", "tolerance_seconds": bad}) for bad in (0, False)),
    *(("github", {"secret_env": "A", "replay_window_seconds": bad}) for bad in (0, True)),
    *(("shared_secret", {"secret_env": "A", "header": bad}) for bad in ("", "a b", "é", 1, None)),
    ("shared_secret", {"secret_env": "A", "header": "X", "id_header": ""}),
    ("shared_secret", {"secret_env": "A", "header": "X", "replay_window_seconds": True}),
]


@pytest.mark.parametrize(("name", "config"), BAD_CONFIGS)
def test_a_config_that_could_never_work(name: str, config: dict[str, Any]) -> None:
    with pytest.raises(AskArgumentError) as refused:
        Verifiers().bind({"verifier": name, "config": config})
    assert refused.value.field == "verifier"
    assert "s3cret" not in refused.value.message


# The registry


class Panic(BaseException):
    """As libraries raise that are written in Rust: no Exception."""


class Own(Verifier):
    name = "own"

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        return self._act()  # type: ignore[no-any-return]

    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        self._act()
        return FreshnessWindow(1)


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda: None, None),
        (lambda: True, None),
        (lambda: False, VerificationFailedError),
        (lambda: "yes", VerificationError),
        (raising(VerificationFailedError("the secret zqxj was wrong")), VerificationFailedError),
        (raising(ValueError("zqxj")), VerificationError),
        (raising(VerifierConfigError("no")), VerificationError),
        (raising(TimeoutError()), VerificationError),
        (raising(Panic("zqxj")), VerificationError),
        (raising(SystemExit("zqxj")), VerificationError),
        (raising(BaseExceptionGroup("zqxj", [Panic()])), VerificationError),
    ],
)
def test_a_verifier_of_ones_own(
    act: Callable[[], Any], expected: type[Exception] | None, capfd: pytest.CaptureFixture[str]
) -> None:
    known = Verifiers([Own(act)])
    if expected is None:
        asyncio.run(known.verify(Binding("own"), BODY, {}))
        return
    with pytest.raises(expected) as refused:
        asyncio.run(known.verify(Binding("own"), BODY, {}))
    assert "zqxj" not in str(refused.value)
    assert "zqxj" not in capfd.readouterr().err
    assert str(refused.value) in ("webhook verification failed", "webhook verification error")


def test_a_verifier_that_hangs_could_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Own):
        async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(registry, "PATIENCE", 0.01)
    with pytest.raises(VerificationError):
        asyncio.run(Verifiers([Hanging(lambda: None)]).verify(Binding("own"), BODY, {}))


@pytest.mark.parametrize("end", [asyncio.CancelledError, KeyboardInterrupt])
def test_what_ends_the_process_is_no_fault_of_a_verifier(end: type[BaseException]) -> None:
    with pytest.raises(end):
        asyncio.run(Verifiers([Own(raising(end()))]).verify(Binding("own"), BODY, {}))


def test_a_config_whose_check_exits_is_a_fault_and_ends_nothing() -> None:
    class Exiting(Own):
        def check_config(self, config: Mapping[str, Any]) -> None:
            self._act()

    with pytest.raises(VerificationError):
        Verifiers([Exiting(raising(SystemExit("zqxj")))]).bind({"verifier": "own"})


def test_a_claim_that_cannot_be_made() -> None:
    for error in (KeyError("zqxj"), Panic("zqxj"), SystemExit("zqxj")):
        with pytest.raises(VerificationError):
            Verifiers([Own(raising(error))]).claim(Binding("own"), BODY, {})
    with pytest.raises(VerificationFailedError):
        Verifiers([Own(raising(VerificationFailedError()))]).claim(Binding("own"), BODY, {})
    assert Verifiers([Own(lambda: None)]).claim(Binding("own"), BODY, {}) is None


@pytest.mark.parametrize("returned", [None, False, 60, "evt_1", ("evt_1", 60), SeenSetClaim, object()])
def test_a_defense_that_is_none_lets_nothing_through(returned: Any) -> None:
    """Forgotten, or awaited by nobody: without a claim each copy of the request would count."""

    class Careless(Own):
        def replay_defense(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> Any:
            return returned

    with pytest.raises(VerificationError):
        Verifiers([Careless(lambda: None)]).claim(Binding("own"), BODY, {})


def test_an_unknown_verifier_decides_nothing() -> None:
    with pytest.raises(VerificationError):
        asyncio.run(Verifiers().verify(Binding("nobody"), BODY, {}))
    with pytest.raises(AskArgumentError, match="shared_secret, standard_webhooks, stripe"):
        Verifiers().bind({"verifier": "nobody", "config": {}})


@pytest.mark.parametrize(
    "value",
    [None, "stripe", [], {}, {"verifier": ""}, {"verifier": 1}, {"verifier": "stripe", "config": []},
     {"verifier": "stripe", "more": 1}, {"verifier": "x" * 65}, {"verifier": "stripe", "config": {"a": "x" * 2000}},
     {"verifier": "stripe", "config": {"a": object()}}],
)  # fmt: skip
def test_what_is_no_binding(value: object) -> None:
    with pytest.raises(AskArgumentError) as refused:
        Verifiers().bind(value)
    assert refused.value.field == "verifier"


@pytest.mark.parametrize("name", ["", "A", "a b", "x" * 65, None, "stripe"])
def test_a_name_that_cannot_be_one(name: Any) -> None:
    own = Own(lambda: None)
    own.name = name
    with pytest.raises(ConfigurationError):
        Verifiers([own])


def test_names() -> None:
    assert Verifiers().names() == ["github", "shared_secret", "standard_webhooks", "stripe"]
    assert json.loads(json.dumps(Binding("stripe", {"secret_env": "A"}).as_json())) == {
        "verifier": "stripe",
        "config": {"secret_env": "A"},
    }


@pytest.mark.parametrize(("key", "ttl"), [("", 1), ("a", 0), ("a", True), ("a", 1.5)])
def test_a_claim_that_could_not_be_kept(key: str, ttl: Any) -> None:
    with pytest.raises(VerifierConfigError):
        SeenSetClaim(key, ttl)
