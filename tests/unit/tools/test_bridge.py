"""The bridge: what it posts to, what it takes for a verdict, and how often it tries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.contract.errors import BadInputError, ConfigurationError, RejoinderError
from rejoinder.net.outbound import Outbound, OutboundError, Reply
from rejoinder.runs.context import RunContext, entering, leaving
from rejoinder.tools.bridge import (
    Bridge,
    CallbackDoorError,
    CallbackUnreachableError,
    CallbackUrlError,
    missing,
)
from rejoinder.tools.ladder import Ladder
from rejoinder.tools.reconciling import Found, ReconcileFailedError, Summary, hours_back, reconcile

BASE = "https://ask.example.org"
DOOR = f"{BASE}/api/interactions/callback/"
TICKET = "AQAB" + "x" * 50
SECRET = "only the two know it"
PAYLOAD = {"reference": "r-1", "decision": "confirmed"}
Step = Reply | Exception


def said(status: int, body: Any = None, **headers: str) -> Reply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


def answered(status: str = "answered") -> Reply:
    return said(200, {"data": {"status": status}})


class Door:
    """In the place of the network: what it answers in turn, what it was sent, and how long the bridge slept."""

    def __init__(self, *steps: Step, base: str = BASE, chance: float = 0.5) -> None:
        self._steps = list(steps)
        self.sent: list[tuple[str, str, dict[str, str], Any]] = []
        self.slept: list[float] = []
        ladder = Ladder(sleep=self._sleep, chance=lambda: chance, now=lambda: 1_000_000.0)
        self.bridge = Bridge(base, SECRET, cast(Outbound, self), ladder=ladder)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def send(self, method: str, url: str, *, content: bytes, headers: dict[str, str]) -> Reply:
        self.sent.append((method, url, headers, json.loads(content)))
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return step

    def answer(self, url: object = DOOR + TICKET) -> Any:
        return asyncio.run(self.bridge.answer(url, PAYLOAD))


@pytest.mark.parametrize("status", ["answered", "already_answered"])
def test_an_answer_is_posted_once_with_the_secret_and_nothing_else(status: str) -> None:
    door = Door(answered(status))
    assert door.answer() == status
    [(method, url, headers, body)] = door.sent
    assert (method, url, body) == ("POST", DOOR + TICKET, PAYLOAD)
    assert headers == {"content-type": "application/json", "X-TAI-Bridge-Secret": SECRET}
    assert door.slept == []


def test_its_secret_is_shown_nowhere() -> None:
    assert SECRET not in repr(Door(answered()).bridge)


# Where it posts to


@pytest.mark.parametrize(
    "url",
    [
        None,
        7,
        "",
        TICKET,
        DOOR,
        f"{DOOR}{TICKET}/",
        f"{DOOR}{TICKET}/react",
        f"{DOOR}a/{TICKET}",
        f"{DOOR}../{TICKET}",
        f"{DOOR}..",
        f"{DOOR}{TICKET}?x=1",
        f"{DOOR}{TICKET}#x",
        f"{DOOR}%2e%2e",
        f"{DOOR}{TICKET}\n",
        f"{DOOR}{TICKET};x",
        f"http://ask.example.org/api/interactions/callback/{TICKET}",
        f"https://ask.example.org:8443/api/interactions/callback/{TICKET}",
        f"https://ask.example.org.evil.example/api/interactions/callback/{TICKET}",
        f"https://evil.example/api/interactions/callback/{TICKET}",
        f"https://ask.example.org@evil.example/api/interactions/callback/{TICKET}",
        f"https://user:word@ask.example.org/api/interactions/callback/{TICKET}",
        f"https://evil.example/https://ask.example.org/api/interactions/callback/{TICKET}",
        f"https://ask.example.org\\@evil.example/api/interactions/callback/{TICKET}",
        f"https://ask.example.org//api/interactions/callback/{TICKET}",
        f"https://ask.example.org/api/interactions//callback/{TICKET}",
        f"https://ask.example.org/x/api/interactions/callback/{TICKET}",
        f"https://ask.example.org/api/interactions/{TICKET}",
        f"https://ask.example.org/api/tool-runs/{TICKET}",
        f"//ask.example.org/api/interactions/callback/{TICKET}",
        f"file:///api/interactions/callback/{TICKET}",
    ],
)
def test_nothing_is_sent_to_an_address_that_is_not_the_callback_door(url: object) -> None:
    door = Door(answered())
    with pytest.raises(CallbackUrlError) as caught:
        door.answer(url)
    assert door.sent == []
    # What the event carried may be somebody's live ticket.
    assert TICKET not in str(caught.value)


@given(
    st.text(alphabet=":/?#@\\.%-_ abAB0\n\u2024\uff0f", max_size=12),
    st.integers(min_value=0, max_value=len(DOOR + TICKET)),
    st.integers(min_value=0, max_value=8),
)
def test_whatever_is_done_to_a_callback_url_it_leads_to_the_door_or_nowhere(
    more: str, place: int, gone: int
) -> None:
    whole = DOOR + TICKET
    url = whole[:place] + more + whole[place + gone :]
    door = Door(answered())
    try:
        door.answer(url)
    except CallbackUrlError:
        assert door.sent == []
        return
    [(_, sent, _, _)] = door.sent
    assert sent.startswith(DOOR)
    assert sent.removeprefix(DOOR).replace("-", "a").replace("_", "a").isalnum()


@pytest.mark.parametrize(
    "base", ["https://example.org/ask", "http://127.0.0.1:8642", "http://[::1]:8642/in/here"]
)
def test_a_public_address_with_a_path_or_a_port(base: str) -> None:
    door = Door(answered(), base=base)
    url = f"{base}/api/interactions/callback/{TICKET}"
    assert door.answer(url) == "answered"
    assert door.sent[0][1] == url
    for other in (url.replace("/api", "/x/api"), url.replace("callback", "media"), DOOR + TICKET):
        with pytest.raises(CallbackUrlError):
            door.answer(other)


# Verdicts, and everything else


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 301, 302, 307, 204, 201])
def test_a_verdict_is_not_argued_with(status: int) -> None:
    door = Door(said(status, {"error": "no", "code": "x"}))
    with pytest.raises(CallbackDoorError) as caught:
        door.answer()
    assert (caught.value.status, caught.value.body) == (status, {"error": "no", "code": "x"})
    assert len(door.sent) == 1


@pytest.mark.parametrize("status", [200, 302, 400, 404, 418])
@pytest.mark.parametrize(
    "body", [b"no route for %b %b", b'{"error": "no route for %b", "headers": ["%b"]}', b'["%b", {"%b": 1}]']
)
def test_what_is_said_back_of_a_request_is_not_told(status: int, body: bytes) -> None:
    """What does not know a path often names it; and an error of the bridge is kept, listed and logged."""
    with pytest.raises(CallbackDoorError) as caught:
        Door(said(status, body % ((DOOR + TICKET).encode(), SECRET.encode()))).answer()
    told = f"{caught.value.message} {caught.value.body!r}"
    assert "******" in told
    assert not [one for one in (TICKET, SECRET) if one in told]


@pytest.mark.parametrize(
    "body",
    [b"<html>hello</html>", {}, [], None, {"data": None}, {"data": {"status": "already_seen"}}, b"\xff"],
)
def test_a_200_of_somebody_else_is_no_answer(body: Any) -> None:
    with pytest.raises(CallbackDoorError) as caught:
        Door(said(200, body)).answer()
    assert caught.value.status == 200


@pytest.mark.parametrize("step", [said(500), said(502), said(503), said(408), said(429), OutboundError()])
def test_what_is_no_verdict_is_tried_five_times(step: Step) -> None:
    door = Door(step)
    with pytest.raises(CallbackUnreachableError):
        door.answer()
    assert len(door.sent) == 5
    assert door.slept == [0.5, 1.0, 2.0, 4.0]


def test_it_stops_trying_once_it_is_told() -> None:
    door = Door(said(503), OutboundError(), said(500), answered())
    assert door.answer() == "answered"
    assert (len(door.sent), door.slept) == (4, [0.5, 1.0, 2.0])


@pytest.mark.parametrize(("chance", "first"), [(0.0, 0.45), (0.5, 0.5), (0.999_999, 0.55)])
def test_the_pauses_differ_by_a_tenth(chance: float, first: float) -> None:
    door = Door(said(500), answered(), chance=chance)
    door.answer()
    assert door.slept == [pytest.approx(first, abs=1e-6)]


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("90", 90.0),
        ("91", 0.5),
        ("-1", 0.5),
        ("1.5", 0.5),
        ("9" * 400, 0.5),
        ("soon", 0.5),
        ("", 0.5),
        ("Mon, 12 Jan 1970 13:47:10 GMT", 30.0),
        ("Mon, 12 Jan 1970 13:40:00 GMT", 0.0),
        ("Mon, 12 Jan 2070 13:40:00 GMT", 0.5),
    ],
)
def test_how_long_the_door_asks_for_is_waited_in_full_up_to_a_minute_and_a_half(
    header: str, pause: float
) -> None:
    door = Door(said(429, retry_after=header), answered())
    assert door.answer() == "answered"
    assert door.slept == [pause]


def test_only_the_flood_control_may_say_how_long() -> None:
    door = Door(said(503, retry_after="60"), answered())
    door.answer()
    assert door.slept == [0.5]


def test_every_missing_setting_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"A_KEY, A_URL$"):
        missing({"A_KEY": "", "THERE": "x", "A_URL": None})
    missing({"THERE": "x"})


# Many at once


class Asks:
    """In the place of the database: the tickets whose questions have their answer."""

    def __init__(self, *done: str) -> None:
        self.done = set(done)
        self.looks = 0

    async def answered_tickets(self, tickets: Any) -> set[str]:
        self.looks += 1
        return self.done & set(tickets)


@pytest.fixture
def asks() -> Iterator[Asks]:
    made = Asks()
    token = entering(cast(RunContext, type("Run", (), {"asks": made})))
    yield made
    leaving(token)


def found(ticket: str, name: str | None = None) -> Found:
    return Found(name or ticket, DOOR + ticket, PAYLOAD)


def reconciled(door: Door, *all_of_them: Found, interval: float = 1.2) -> Summary:
    async def go() -> Summary:
        return await reconcile(door.bridge, all_of_them, interval=interval, sleep=door._sleep)

    return asyncio.run(go())


def test_what_is_answered_here_costs_one_look_and_no_post(asks: Asks) -> None:
    asks.done = {"one", "two"}
    door = Door(answered())
    summary = reconciled(door, found("one"), found("two"), found("three"))
    assert summary.as_json() == {
        "selected": 3,
        "answered": 1,
        "already_answered": 2,
        "expired": 0,
        "rejected": [],
        "failed": [],
    }
    assert (asks.looks, len(door.sent), door.slept) == (1, 1, [])


def test_answers_keep_their_distance(asks: Asks) -> None:
    door = Door(answered())
    reconciled(door, found("one"), found("two"), found("three"))
    assert door.slept == [1.2, 1.2]
    door = Door(answered())
    reconciled(door, found("one"), found("two"), found("three"), interval=0)
    assert door.slept == []


def test_a_failure_does_not_keep_the_others_from_their_answers(asks: Asks) -> None:
    refusals: list[Step] = [said(403), said(401), said(404), said(400, {"error": "does not match"})]
    door = Door(*refusals, answered("already_answered"), said(200, {}), answered())
    names = ["gate", "secret", "gone", "drifted", "before", "odd", "fine"]
    crafted = Found("crafted", "https://evil.example/x", PAYLOAD)
    with pytest.raises(ReconcileFailedError) as caught:
        reconciled(door, crafted, *(found(name) for name in names), interval=0)
    summary = caught.value.summary
    assert summary.counts() == {
        "answered": 1,
        "already_answered": 1,
        "expired": 1,
        "rejected": 1,
        "failed": 4,
    }
    assert summary.rejected == ["drifted"]
    assert [name for name, _ in summary.failed] == ["crafted", "gate", "secret", "odd"]
    assert summary.selected == 8
    told = str(caught.value)
    assert all(name in told for name in ("crafted", "gate", "secret", "odd"))
    assert "evil.example" not in told


def test_a_dead_route_shows_by_the_shape_of_the_summary(asks: Asks) -> None:
    summary = reconciled(Door(said(404, b"<h1>404</h1>")), found("one"), found("two"), interval=0)
    assert summary.expired == summary.selected == 2


def test_nothing_found_is_nothing_done(asks: Asks) -> None:
    assert reconciled(Door(answered())).selected == 0


_STEPS: list[Callable[[], Step]] = [
    lambda: answered(),
    lambda: answered("already_answered"),
    lambda: said(200, {}),
    lambda: said(400),
    lambda: said(401),
    lambda: said(403),
    lambda: said(404),
    lambda: said(302),
    lambda: said(500),
    lambda: OutboundError(),
]


@given(st.lists(st.tuples(st.sampled_from(_STEPS), st.booleans(), st.booleans()), max_size=12))
def test_the_five_outcomes_are_disjoint_and_complete(
    drawn: list[tuple[Callable[[], Step], bool, bool]],
) -> None:
    replies: dict[str, Step] = {f"t{i}": make() for i, (make, _, _) in enumerate(drawn)}

    class Each(Door):
        async def send(self, method: str, url: str, *, content: bytes, headers: dict[str, str]) -> Reply:
            step = replies[url.removeprefix(DOOR)]
            if isinstance(step, Exception):
                raise step
            return step

    asks = Asks(*(f"t{i}" for i, (_, done, _) in enumerate(drawn) if done))
    token = entering(cast(RunContext, type("Run", (), {"asks": asks})))
    them = [
        Found(f"t{i}", f"{DOOR}t{i}" if ours else f"https://evil.example/t{i}", PAYLOAD)
        for i, (_, _, ours) in enumerate(drawn)
    ]
    try:
        summary = reconciled(Each(answered()), *them, interval=0)
    except ReconcileFailedError as error:
        summary = error.summary
        assert summary.failed
    else:
        assert not summary.failed
    finally:
        leaving(token)
    assert summary.selected == len(drawn)
    assert sum(summary.counts().values()) == len(drawn)
    names = [*summary.rejected, *(name for name, _ in summary.failed)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("hours", [1, 26, 168])
def test_look_backs_within_bounds(hours: int) -> None:
    assert hours_back(hours) == hours


@pytest.mark.parametrize("hours", [0, -1, 169, 26.5, "26", None, True])
def test_look_backs_out_of_bounds(hours: object) -> None:
    with pytest.raises(BadInputError, match="from 1 to 168") as caught:
        hours_back(hours)
    assert caught.value.field == "lookback_hours"


def test_all_of_its_errors_are_ours() -> None:
    """So that a hook's run and a door can tell what kind they are."""
    kinds = (CallbackDoorError, CallbackUnreachableError, CallbackUrlError, ReconcileFailedError)
    assert all(issubclass(kind, RejoinderError) for kind in kinds)
