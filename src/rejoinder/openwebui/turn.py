"""One message of a person: sent to the agent, its reply streamed through the request that asked for it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rejoinder.openclaw.calls import send_chat
from rejoinder.openclaw.errors import CallFailed, Dropped, GatewayError, NotConnected, TimedOut
from rejoinder.openwebui.advice import advice, refused_message, refused_model
from rejoinder.openwebui.bridge import Bridge
from rejoinder.openwebui.intent import Hook
from rejoinder.openwebui.levels import chosen_level
from rejoinder.turns.identity import message_id, parse_key

log = logging.getLogger("rejoinder.openwebui")

Tell = Callable[[str, bool], Awaitable[None]]
"""Shows a line of state above the reply: its words, and whether it is over."""

READY_SECONDS = 10.0
_ATTEMPTS = 5


class TurnError(Exception):
    """The message could not be sent. The text says what to do about it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asked.

    agent, user, chat, message: who answers whom, where, in which reply; the last two None for a request without a chat.
    model: the model to use, None for the agent's own. thinking: a level (`levels`), or None for the agent's own.
    attachments: `{type, mimeType, fileName, content}` with base64 content.
    """

    agent: str
    user: str | None
    chat: str | None
    message: str | None
    text: str
    model: str | None = None
    thinking: str | None = None
    attachments: Sequence[dict[str, Any]] = ()

    @property
    def key(self) -> str:
        """The session of the chat; a new one each time for a request without a chat."""
        chat = (self.chat or f"api-{uuid.uuid4()}").replace(":", "-")
        return f"agent:{self.agent}:openwebui-{self.user or 'unknown'}-{chat}"


async def reply(bridge: Bridge, asked: Asked, tell: Tell) -> AsyncIterator[dict[str, Any]]:
    """The events of the reply, as the Host's stream takes them. Raises TurnError, only before the first of them."""
    await _ready(bridge)
    if not asked.text.strip() and not asked.attachments:
        # Said only now: whoever tries the way without a message learns that it is open.
        raise TurnError("The message is empty. Write something and send it again.")
    key = asked.key
    chat = parse_key(key)
    if chat is not None and asked.message:
        run_id = f"msg-{chat.chat}-{asked.message}-{time.time_ns() // 1_000_000}"
    else:
        chat, run_id = None, f"owui-{uuid.uuid4()}"
        bridge.accept(key)
    reply_id = message_id(key, run_id)
    assert reply_id is not None
    inline = bridge.messages.stream(reply_id)
    sent = False
    try:
        hook = None
        if chat is not None:
            hook = Hook(bridge.host, chat.user, chat.chat, reply_id, bridge.spawn)
            hook.look()
        try:
            await _wait_for_turn(bridge, key, tell)
        except asyncio.CancelledError:
            bridge.left_waiting(key, reply_id)
            raise
        await _choose(bridge, key, asked.model, tell)
        level, note = await chosen_level(bridge.client, asked.agent, asked.model, asked.thinking)
        if note and (key, note) not in bridge.noted:
            bridge.noted.add((key, note))
            await tell(note, True)
        asked = replace(asked, thinking=level)
        # From here on the run may be there, whatever becomes of this request.
        sent = True
        try:
            await _send(bridge, key, run_id, asked, tell)
        except TurnError:
            sent = False
            raise
        bridge.table.expect(key, run_id, asked.text)
        async for event in inline.events():
            if hook is not None:
                hook.look()
            yield event
    finally:
        if sent and not inline.over:
            bridge.hand_over(key, run_id, reply_id, inline)
        else:
            bridge.messages.streamed(reply_id, inline)
        if chat is None:
            bridge.forget(key)


async def _wait_for_turn(bridge: Bridge, key: str, tell: Tell) -> None:
    if bridge.active(key):
        await tell("Queued behind the current response", False)
        await bridge.idle(key)
        await tell("Sent", True)


async def _ready(bridge: Bridge) -> None:
    refused = bridge.client.refused
    if refused is not None and refused.kind == "pairing":
        # Whoever was told to have the device approved writes again when that is done.
        bridge.client.retry()
    try:
        await bridge.client.ready(READY_SECONDS)
    except GatewayError as error:
        raise TurnError(advice(error)) from error


async def _choose(bridge: Bridge, key: str, model: str | None, tell: Tell) -> None:
    if bridge.chosen.get(key) == model and (model or key in bridge.chosen):
        return
    if model is None and key not in bridge.listed:
        return  # a session that is not there yet has no model of its own

    async def patch() -> None:
        await bridge.client.call("sessions.patch", {"key": key, "model": model})

    try:
        await _insist(bridge, patch, tell, "The Gateway is back")
        bridge.chosen[key] = model
    except CallFailed as error:
        if model is None:
            log.info("The model of a session could not be set back: %s", error)
            return
        raise TurnError(refused_model(error, model)) from error


async def _send(bridge: Bridge, key: str, run_id: str, asked: Asked, tell: Tell) -> None:
    thinking = asked.thinking

    async def send() -> None:
        await send_chat(
            bridge.client,
            key,
            asked.text,
            run_id,
            # Never put into a run that answers somebody else: it waits and gets a run of its own.
            queue_mode="followup",
            attachments=asked.attachments,
            thinking=thinking,
            receipt=receipt(asked),
        )

    try:
        # Whether a call that was cut off arrived is unknown; the same id starts no second run.
        await _insist(bridge, send, tell, "Sent")
    except CallFailed as error:
        if thinking is None or "think" not in error.message.lower():
            raise TurnError(refused_message(error, asked.agent)) from error
        await tell(f"The model does not know the thinking level {thinking}; it is left out", True)
        await _send(bridge, key, run_id, replace(asked, thinking=None), tell)


async def _insist(bridge: Bridge, call: Callable[[], Awaitable[None]], tell: Tell, back: str) -> None:
    """Make a call that may be made twice, whether the Gateway restarts meanwhile or the line is cut.

    back: what is said when a restart is over. Raises CallFailed where the call is refused for another reason, TurnError.
    """
    told = False
    for attempt in range(_ATTEMPTS):
        hellos = bridge.hellos
        try:
            await call()
        except CallFailed as error:
            if not error.restarting:
                raise
            told = True
            await tell("The Gateway restarts; the message is sent when it is back", False)
            await bridge.greeted_after(hellos)
        except (Dropped, NotConnected, TimedOut) as error:
            if attempt + 1 == _ATTEMPTS:
                raise TurnError(advice(error)) from error
            await _ready(bridge)
        except GatewayError as error:
            raise TurnError(advice(error)) from error
        else:
            if told:
                await tell(back, True)
            return
    raise TurnError("The message could not be sent. Send it again.")


def receipt(asked: Asked) -> str:
    """What the agent is told about where the message comes from."""
    facts = {"source": "openwebui", "chat_id": asked.chat, "user_id": asked.user}
    told = json.dumps({name: value for name, value in facts.items() if value}, indent=2)
    return f"Open WebUI chat\n```json\n{told}\n```"
