"""The model that the Gateway of the live tests asks: an OpenAI-compatible server that says what the test wrote.

What it says is in the prompt itself, or in a rule for prompts that the test does not word (a recovery's, an
announcement's). Nothing is timed: a step that is to last waits at a named hold until the test releases it.

    text = prompt(say("Let me look.", tools=[tool("exec", command="ls")]), say("One ", hold("middle"), "two."))
    ...                                     # send it to the agent
    await model.held("middle")              # "One " has been streamed
    model.release("middle")
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from tests.support import assert_eventually

Step: TypeAlias = dict[str, Any]

_MARK = "SCRIPT:"
#: The Gateway adds its own words to the model as one more user message.
_INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
#: Longer than any test: a hold that nobody released must not keep a thread for ever.
_HOLD_SECONDS = 600.0
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def say(*pieces: str | Mapping[str, str], tools: Sequence[Step] = (), reasoning: str = "") -> Step:
    """One answer of the model: text, streamed piece by piece, with holds between; then calls of tools."""
    return {"text": list(pieces), "tools": list(tools), "reasoning": reasoning}


def fail(status: int, message: str) -> Step:
    """The model's server refuses."""
    return {"status": status, "error": message}


def hold(name: str) -> dict[str, str]:
    """Wait here until ``model.release(name)``."""
    return {"hold": name}


def tool(name: str, **arguments: Any) -> Step:
    """A call of one of the agent's tools."""
    return {"name": name, "arguments": arguments}


def prompt(*steps: Step, lead: str = "Please go on.") -> str:
    """A message that tells the model its answers: the first one, the one after the first tools' results, and so on."""
    return f"{lead} {_MARK}{json.dumps(steps)}"


@dataclass(frozen=True)
class Asked:
    """One request: the newest words of a person, which step was played, the names of the tools it could use."""

    text: str
    step: int
    tools: tuple[str, ...]
    body: Mapping[str, Any]


class Model:
    """The server. ``url`` is its OpenAI base address."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._rules: list[tuple[str, Sequence[Step]]] = []
        self._holds: dict[str, threading.Event] = {}
        self._held: set[str] = set()
        self._ids = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="model", daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def start(self) -> Model:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, and let go everything that is held."""
        self.reset()
        self._server.shutdown()
        self._server.server_close()

    def rule(self, match: str, *steps: Step) -> None:
        """What it answers where the newest messages of users contain ``match``. The latest rule goes first."""
        self._rules.insert(0, (match, steps))

    def reset(self) -> None:
        """Forget the rules and the requests; let go what is held."""
        self._rules.clear()
        self.asked.clear()
        holds, self._holds = self._holds, {}
        for event in holds.values():
            event.set()
        self._held.clear()

    async def held(self, name: str, within: float = 30) -> None:
        """Until an answer waits at this hold."""
        await assert_eventually(lambda: name in self._held, f"no answer came to the hold “{name}”", within)

    def release(self, name: str) -> None:
        """Let the answers go on that wait here, and those that come later."""
        self._holds.setdefault(name, threading.Event()).set()

    def wait(self, name: str) -> None:
        event = self._holds.setdefault(name, threading.Event())
        self._held.add(name)
        event.wait(_HOLD_SECONDS)

    def choose(self, body: Mapping[str, Any]) -> Step:
        """The answer to one request; which one it is follows from the request alone."""
        messages = body["messages"]
        texts = [_text(one) if one.get("role") == "user" else "" for one in messages]
        users = [index for index, one in enumerate(messages) if one.get("role") == "user"]
        real = [index for index in users if not texts[index].lstrip().startswith(_INTERNAL)] or users
        newest = texts[real[-1]] if real else ""
        spoken = [index for index, one in enumerate(messages) if one.get("role") == "assistant"]
        since = [index for index in users if not spoken or index > spoken[-1] or index == real[-1]]
        steps, begun = self._steps(texts, users, since, newest, real[-1] if real else 0)
        played = sum(1 for index in spoken if index > begun)
        tools = tuple(one.get("function", {}).get("name", "") for one in body.get("tools") or ())
        self.asked.append(Asked(newest, played, tools, body))
        if steps is None:
            return say(f"You said: {newest.strip()[-200:]}")
        return steps[played] if played < len(steps) else say("(nothing more is scripted)")

    def _steps(
        self, texts: Sequence[str], users: Sequence[int], since: Sequence[int], newest: str, asked: int
    ) -> tuple[Sequence[Step] | None, int]:
        tail = "\n".join(texts[index] for index in since)
        for match, steps in self._rules:
            if match in tail:
                return steps, max(index for index in users if match in texts[index])
        place = newest.find(f"{_MARK}[")
        if place < 0:
            return None, asked
        return json.JSONDecoder().raw_decode(newest[place + len(_MARK) :])[0], asked

    def name(self, kind: str) -> str:
        return f"{kind}-{next(self._ids)}"


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if not self.path.endswith("/chat/completions"):
            return self._json(404, {"error": {"message": f"nothing is at {self.path}"}})
        step = self.model.choose(body)
        if "status" in step:
            return self._json(step["status"], {"error": {"message": step["error"], "type": "scripted"}})
        try:
            if body.get("stream"):
                self._stream(body, step)
            else:
                self._whole(body, step)
        except ConnectionError:
            # The Gateway stopped the run, or was stopped.
            self.close_connection = True

    def _whole(self, body: Mapping[str, Any], step: Step) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._pieces(step)) or None}
        calls = self._calls(step)
        if calls:
            message["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        head = {"id": self.model.name("answer"), "object": "chat.completion", "created": 0}
        self._json(200, {**head, "model": body.get("model"), "choices": [choice], "usage": _USAGE})

    def _stream(self, body: Mapping[str, Any], step: Step) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        head = {"id": self.model.name("answer"), "object": "chat.completion.chunk", "created": 0}

        def send(delta: Mapping[str, Any] | None, finish: str | None = None, **more: Any) -> None:
            choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
            chunk = {**head, "model": body.get("model"), "choices": choices, **more}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()

        send({"role": "assistant", "content": ""})
        if step.get("reasoning"):
            send({"reasoning_content": step["reasoning"]})
        for piece in self._pieces(step):
            send({"content": piece})
        calls = self._calls(step)
        for call in calls:
            send({"tool_calls": [call]})
        send({}, "tool_calls" if calls else "stop")
        send(None, usage=_USAGE)
        self.wfile.write(b"data: [DONE]\n\n")

    def _pieces(self, step: Step) -> Iterator[str]:
        for piece in step.get("text") or ():
            if isinstance(piece, str):
                yield piece
            else:
                self.model.wait(piece["hold"])

    def _calls(self, step: Step) -> list[dict[str, Any]]:
        return [
            {
                "index": index,
                "id": self.model.name("call"),
                "type": "function",
                "function": {"name": one["name"], "arguments": json.dumps(one["arguments"])},
            }
            for index, one in enumerate(step.get("tools") or ())
        ]

    def _json(self, status: int, body: Mapping[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or "") for part in content or () if isinstance(part, Mapping))
