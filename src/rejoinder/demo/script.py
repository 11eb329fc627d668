"""A chat model that reads its lines from a script. Imports LangChain, so it is imported only where it plays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

DAYS = 3


class ScriptedModel(BaseChatModel):
    """Plans a trip: finds connections, asks which one and how many seats, and sums up what it was told."""

    @property
    def _llm_type(self) -> str:
        return "rejoinder-demo"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        # The script knows its tools.
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=next_line(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        line = next_line(messages)
        for word in str(line.content).split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
            if run_manager is not None:
                run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk
        calls = [
            ToolCallChunk(name=one["name"], args=json.dumps(one["args"]), id=one["id"], index=i)
            for i, one in enumerate(line.tool_calls)
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=calls))


def next_line(messages: list[BaseMessage]) -> AIMessage:
    """What the script says after these messages: how far it is follows from the tools that have answered."""
    asked = next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)
    since = messages[messages.index(asked) :] if asked is not None else messages
    told = [m for m in since if isinstance(m, ToolMessage)]
    if not told:
        return _line("I look for ways to get there first.", _call("demo_find_connections", "find"))
    if len(told) == 1:
        found = json.loads(str(told[0].content))
        return _line(
            f"There are {len(found)} ways to go. Two things are not mine to decide.",
            _ask(
                "way",
                "How shall the team travel to Lisbon?",
                [f"{c['name']}, {c['price']} euro" for c in found],
            ),
            _ask("seats", "How many seats shall I book?", ["All six", "One now, the others later"]),
        )
    answers = {str(m.tool_call_id).partition("_")[0]: _answer(m) for m in told}
    way, seats = answers.get("way"), answers.get("seats")
    if way is None or seats is None:
        return _line("I was not told enough, so I booked nothing.")
    return _line(f"{way}. Seats: {seats.lower()}. Nothing was really booked.")


def _line(text: str, *calls: dict[str, Any]) -> AIMessage:
    return AIMessage(content=text, tool_calls=list(calls))


def _call(name: str, word: str, **arguments: Any) -> dict[str, Any]:
    # By the first word of its id a call's answer is known again.
    return {"name": name, "args": arguments, "id": f"{word}_{uuid4().hex[:12]}", "type": "tool_call"}


def _ask(word: str, question: str, options: list[str]) -> dict[str, Any]:
    lapses = (datetime.now(UTC) + timedelta(days=DAYS)).isoformat(timespec="seconds")
    return _call(
        "ask",
        word,
        question=question,
        answer_format="select",
        options=options,
        mode="async",
        expiry_at=lapses,
    )


def _answer(message: ToolMessage) -> Any:
    try:
        return json.loads(str(message.content))["answer"]
    except (ValueError, KeyError, TypeError):
        return None
