"""Recordings as others make them: the recorded ones, changed in the ways in which real ones differ.

Each change is one that keeps what happened, so the chats stay what they are: no word twice, none lost, one message a
run. Where a change takes something away, what is left must be right.
"""

from __future__ import annotations

import copy
import json
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rejoinder.openclaw.recording import load, parse
from rejoinder.openclaw.replay import as_json, replay

FOLDER = Path("tests/fixtures/openclaw-2026.9.3")
EXPECTED: dict[str, dict[str, list[dict[str, Any]]]] = json.loads((FOLDER / "expected.json").read_text())
NAMES = sorted(EXPECTED)
#: The Gateway stayed the same one.
STEADY = [
    name for name in NAMES if not name.startswith("r_") and name not in ("s01_handshake", "c_claudecli")
]

Lines = list[dict[str, Any]]


@cache
def _text(name: str) -> str:
    lines = load(FOLDER / f"{name}.jsonl.gz")
    return "\n".join(
        json.dumps({"t": line.at, "conn": line.connection, "dir": line.direction, "frame": line.frame})
        for line in lines
    )


def recorded(name: str) -> Lines:
    return [json.loads(line) for line in _text(name).split("\n")]


def chats(lines: Lines) -> dict[str, Any]:
    text = [json.dumps(line, ensure_ascii=False) for line in lines]
    found: dict[str, Any] = as_json(replay(parse(text)))["chats"]
    for key, messages in found.items():
        ids = Counter(message["id"] for message in messages)
        assert not [one for one, count in ids.items() if count > 1], key
    return found


def payloads(lines: Lines) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line["dir"] == "in" and isinstance(line["frame"].get("payload"), dict):
            yield line["frame"]["payload"]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in it."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(part)


def rows(lines: Lines) -> Iterator[dict[str, Any]]:
    """The rows of transcripts, in histories and alone."""
    for payload in payloads(lines):
        listed = payload.get("messages")
        alone = payload.get("message")
        for row in [*(listed if isinstance(listed, list) else []), alone]:
            if isinstance(row, dict) and "__openclaw" in row:
                yield row


# Other keys, other agents, several at once.

UUID = "9d0c1b7a-1111-4111-8111-{:012d}"
SHAPES = [
    "agent:main:openwebui-00000000-0000-4000-8000-000000000000-" + UUID,
    "agent:research:owui:chat-{}",
    "agent:main:telegram:direct:{}",
    "agent:main:discord:channel:{}:thread:7",
    "agent:Über-agent 2:{}",
    "{}",
    "global-{}",
]


def _renamed(text: str, keys: Sequence[str], shape: str) -> tuple[str, dict[str, str]]:
    names = {key: shape.format(number) for number, key in enumerate(keys)}
    for key in sorted(keys, key=len, reverse=True):
        before = re.escape(json.dumps(key)[1:-1]) + r"(?![\w-])"
        text = re.sub(before, json.dumps(names[key])[1:-1].replace("\\", r"\\"), text)
    return text, names


def _said(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{part: message[part] for part in ("text", "cards", "done")} for message in messages]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_any_key_is_a_chat(name: str, shape: str) -> None:
    text, names = _renamed(_text(name), list(EXPECTED[name]), shape)
    found = chats([json.loads(line) for line in text.split("\n")])
    assert {key: _said(messages) for key, messages in found.items()} == {
        names[key]: _said(messages) for key, messages in EXPECTED[name].items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_same_file_gives_the_same_to_the_byte(name: str) -> None:
    first, again = (json.dumps(as_json(replay(parse(_text(name).split("\n"))))) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("name", NAMES)
def test_a_sub_agents_session_of_any_agent_shows_nothing(name: str) -> None:
    text, _ = _renamed(_text(name), list(EXPECTED[name]), "agent:research:subagent:" + UUID)
    assert chats([json.loads(line) for line in text.split("\n")]) == {}


@pytest.mark.parametrize("name", NAMES)
def test_another_agent_answers_the_same(name: str) -> None:
    lines = recorded(name)
    for payload in payloads(lines):
        for one in objects(payload):
            if "agentId" in one:
                one["agentId"] = "research"
    assert chats(lines) == EXPECTED[name]


def _one_gateway(names: Sequence[str], dice: random.Random) -> tuple[Lines, dict[str, Any]]:
    queues: list[Lines] = []
    expected: dict[str, Any] = {}
    for number, name in enumerate(names):
        text, keys = _renamed(_text(name), list(EXPECTED[name]), f"agent:main:chat-{number}-{{}}")
        lines = [json.loads(line) for line in text.split("\n")]
        for line in lines:
            line["conn"] = f"{number}-{line['conn']}"
            for one in objects(line["frame"]):
                if "bootId" in one:
                    one["bootId"] = "one-boot"
        queues.append(lines)
        expected |= {keys[key]: _said(messages) for key, messages in EXPECTED[name].items()}
    woven: Lines = []
    while any(queues):
        queue = dice.choice([queue for queue in queues if queue])
        woven += [queue.pop(0) for _ in range(min(len(queue), dice.randint(1, 5)))]
    return woven, expected


@pytest.mark.parametrize("seed", range(8))
def test_chats_that_interleave_stay_apart(seed: int) -> None:
    dice = random.Random(seed)
    woven, expected = _one_gateway(dice.sample(STEADY, 4), dice)
    found = {key: _said(messages) for key, messages in chats(woven).items()}
    assert {key: found.get(key) for key in expected} == expected


# Several connections in another order.


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", STEADY)
def test_a_connection_that_lags_tells_nothing_new(name: str, seed: int) -> None:
    dice = random.Random(f"{name}{seed}")
    lag = {conn: dice.choice([0, 3, 20]) for conn in sorted({line["conn"] for line in recorded(name)})}
    placed = [(place + lag[line["conn"]], place, line) for place, line in enumerate(recorded(name))]
    lines = [line for _, _, line in sorted(placed, key=lambda entry: entry[:2])]
    assert chats(lines) == EXPECTED[name]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", STEADY)
def test_connections_one_after_the_other_tell_it_too(name: str, reverse: bool) -> None:
    lines = sorted(recorded(name), key=lambda line: str(line["conn"]), reverse=reverse)
    assert chats(lines) == EXPECTED[name]


# What a recorder leaves out or adds.


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_breaks_off_within_a_line_is_read_as_far_as_it_goes(
    name: str, seed: int, tmp_path: Path
) -> None:
    raw = _text(name).encode()
    path = tmp_path / "broken.jsonl"
    path.write_bytes(raw[: random.Random(f"{name}{seed}").randrange(len(raw) // 20, len(raw))])
    for key, messages in as_json(replay(load(path)))["chats"].items():
        for message in messages:
            whole = [one for one in EXPECTED[name].get(key, []) if one["id"] == message["id"]]
            assert whole or not message["done"] or not message["text"], message


def _without(fields: Sequence[str]) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        for line in lines:
            for one in objects(line):
                for field in fields:
                    one.pop(field, None)

    return change


def _no_time(lines: Lines) -> None:
    for line in lines:
        del line["t"]


def _no_hello(lines: Lines) -> None:
    lines[:] = [
        line
        for line in lines
        if line["frame"].get("event") != "connect.challenge"
        and line["frame"].get("method") != "connect"
        and (line["frame"].get("payload") or {}).get("type") != "hello-ok"
    ]


def _no_requests(lines: Lines) -> None:
    lines[:] = [line for line in lines if line["dir"] != "out"]


def _no_lists(lines: Lines) -> None:
    lines[:] = [
        line
        for line in lines
        if not {"sessions", "list"} & set(line["frame"].get("payload") or {}) or line["dir"] != "in"
    ]


def _no_numbers(lines: Lines) -> None:
    for line in lines:
        if line["dir"] == "in":
            line["frame"].pop("seq", None)


def _no_places(lines: Lines) -> None:
    for row in rows(lines):
        row["__openclaw"].pop("seq", None)


def _no_session_ids(lines: Lines) -> None:
    for line in lines:
        if line["frame"].get("event") == "session.message":
            line["frame"]["payload"].pop("sessionId", None)


def _only(field: str) -> Callable[[Lines], None]:
    """Deltas with the whole text so far only, or with what was added only."""

    def change(lines: Lines) -> None:
        for payload in payloads(lines):
            if payload.get("state") == "delta":
                payload.pop({"message": "deltaText", "deltaText": "message"}[field], None)

    return change


def _one_stream(event: str) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        lines[:] = [
            line
            for line in lines
            if not (
                line["frame"].get("event") in ("chat", "agent")
                and line["frame"]["event"] != event
                and (
                    line["frame"]["payload"].get("state") == "delta"
                    or line["frame"]["payload"].get("stream") == "assistant"
                )
            )
        ]

    return change


UNKNOWN_EVENTS: list[dict[str, Any]] = [
    {"event": "session.weather", "payload": {"state": "final"}},
    {"event": "chat", "payload": {"state": "thinking", "seq": 1}},
    {"event": "agent", "payload": {"stream": "weather", "seq": 1, "data": {"text": "Rain."}}},
    {"event": "agent", "payload": {"stream": "item", "data": {"kind": "weather", "progressText": "Rain."}}},
    {"event": "session.tool", "payload": {"stream": "tool", "data": {"phase": "considering", "name": "x"}}},
    {"event": "sessions.changed", "payload": {"phase": "model", "status": "running"}},
    {"event": "sessions.changed", "payload": {"reason": "weather"}},
    {"event": "session.operation", "payload": {"operation": {"runId": "x"}}},
]


def _unknown_events(lines: Lines) -> None:
    dice = random.Random(7)
    added: Lines = []
    numbers: Counter[str] = Counter()
    for line in lines:
        numbered = line["dir"] == "in" and isinstance(line["frame"].get("seq"), int)
        if line["dir"] == "closed" or line["frame"].get("event") == "connect.challenge":
            numbers[line["conn"]] = 0
        if numbered:
            line["frame"]["seq"] += numbers[line["conn"]]
        added.append(line)
        payload = line["frame"].get("payload") or {}
        if (
            numbered
            and line["frame"].get("event") in ("chat", "agent")
            and payload.get("runId")
            and dice.random() < 0.2
        ):
            numbers[line["conn"]] += 1
            new = copy.deepcopy(dice.choice(UNKNOWN_EVENTS))
            about = {part: payload[part] for part in ("runId", "sessionKey") if part in payload}
            frame = {"type": "event", **new, "seq": line["frame"]["seq"] + 1}
            frame["payload"] = {**about, **new["payload"]}
            added.append({**line, "frame": frame})
    lines[:] = added


def _unknown_fields(lines: Lines) -> None:
    for line in lines:
        line["host"] = "somewhere"
        for one in list(objects(line["frame"])):
            one["xFuture"] = {"runId": "other", "text": "Rain.", "parts": [1, None]}


def _notes(lines: Lines) -> None:
    for place in range(0, len(lines), 9):
        frame = {"type": "event", "event": "chat", "payload": {"state": "final"}}
        lines.insert(place, {"t": 0, "conn": "A1", "dir": "note", "frame": frame if place % 2 else "a word"})
        lines.insert(place, {"dir": "note"})


CHANGES = [
    _no_time,
    _no_hello,
    _no_requests,
    _no_lists,
    _no_numbers,
    _unknown_events,
    _unknown_fields,
    _notes,
    _without(["messageSeq"]),
    _without(["timestamp", "recordTimestampMs", "ts", "startedAt", "endedAt", "updatedAt"]),
    _without(["deltaCursor", "totalMessages", "hasMore", "sessionInfo", "pendingInputs"]),
    _without(["inFlightRun"]),
    _without(["executionSettled"]),
    _without(["itemId"]),
    _without(["lastRunId", "activeRunIds"]),
    _without(["openclawStreamFallback"]),
    _no_places,
    _no_session_ids,
    _only("message"),
    _only("deltaText"),
    _one_stream("chat"),
    _one_stream("agent"),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_or_added_changes_nothing(name: str, change: Callable[[Lines], None]) -> None:
    lines = recorded(name)
    change(lines)
    assert chats(lines) == EXPECTED[name]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NAMES)
def test_some_histories_are_missing(name: str, seed: int) -> None:
    dice = random.Random(f"{name}{seed}")
    lines = [
        line
        for line in recorded(name)
        if "messages" not in (line["frame"].get("payload") or {}) or dice.random() < 0.5
    ]
    found = chats(lines)
    for key, messages in EXPECTED[name].items():
        seen = {message["id"] for message in found.get(key, [])}
        assert found.get(key, []) == [message for message in messages if message["id"] in seen]


# Rows and frames with other contents.


def _thoughts(lines: Lines) -> None:
    for row in rows(lines):
        if row["role"] == "assistant" and isinstance(row["content"], list):
            kind = "thinking" if len(row["content"]) % 2 else "reasoning"
            row["content"].insert(0, {"type": kind, "thinking": "Hm.", "signature": "x"})


def _images(lines: Lines) -> None:
    for row in rows(lines):
        if row["role"] != "toolResult" and isinstance(row["content"], list):
            row["content"].insert(0, {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="})
            row["content"].append({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}})


def _strings(lines: Lines) -> None:
    for payload in payloads(lines):
        for one in objects(payload):
            blocks = one.get("content")
            if "role" in one and isinstance(blocks, list) and [b.get("type") for b in blocks] == ["text"]:
                one["content"] = blocks[0]["text"]


def _string_results(lines: Lines) -> None:
    for row in rows(lines):
        if row["role"] == "toolResult" and isinstance(row["content"], list):
            row["content"] = "\n".join(str(block.get("text", "")) for block in row["content"])
    for payload in payloads(lines):
        for one in objects(payload):
            result = one.get("result")
            if one.get("phase") == "result" and isinstance(result, dict):
                one["result"] = json.dumps(result)


@pytest.mark.parametrize("change", [_thoughts, _images, _strings, _string_results])
@pytest.mark.parametrize("name", NAMES)
def test_contents_of_other_kinds_leave_text_and_cards_alone(
    name: str, change: Callable[[Lines], None]
) -> None:
    lines = recorded(name)
    change(lines)
    assert chats(lines) == EXPECTED[name]


#: Small letters only: sentinels stay what they are.
ALPHABETS = {
    "accents": str.maketrans(dict(zip(string.ascii_lowercase, "áƀćđéƒǵħíĵḱłḿńóṕʠŕśţúṽŵẋýž", strict=True))),
    "wide": str.maketrans(
        {"e": "漢", "a": "🙂", "o": "👩‍💻", "s": "e\u0301", "t": "ש", "i": "\u2028", "n": "\u00a0n"}
    ),
    "long": str.maketrans({letter: letter * 9 for letter in string.ascii_lowercase}),
    "markup": str.maketrans({"e": "`e`", "a": "<a>", "t": '"\\t', "n": "{n}"}),
}
SPOKEN = ("text", "delta", "deltaText", "progressText", "content", "replacementText")


def _spoken(value: Any, table: dict[int, Any]) -> None:
    for one in objects(value):
        for field in SPOKEN:
            if isinstance(one.get(field), str):
                one[field] = one[field].translate(table)


@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("name", NAMES)
def test_texts_in_any_script_and_of_any_length(name: str, alphabet: str) -> None:
    table = ALPHABETS[alphabet]
    lines = recorded(name)
    for payload in payloads(lines):
        _spoken(payload, table)
    expected = copy.deepcopy(EXPECTED[name])
    for messages in expected.values():
        for message in messages:
            message["text"] = message["text"].translate(table)
    assert chats(lines) == expected
