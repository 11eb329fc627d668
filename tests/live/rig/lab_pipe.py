"""
title: Lab
version: 1.0.0
description: A pipe of the live tests: it shows what a Function may do inside the Host.
"""
# mypy: ignore-errors
# Runs inside the Host, which loads it as text: it imports nothing of the tests.

import asyncio
import copy
import json
import time
import uuid

from pydantic import BaseModel, Field
from sqlalchemy.orm.attributes import flag_modified

GATES: dict[str, asyncio.Event] = {}
NOTES: list[list] = []


class Pipe:
    class Valves(BaseModel):
        GREETING: str = Field(default="Hello", description="How an answer begins.")

    def __init__(self):
        self.valves = self.Valves()

    async def pipes(self):
        return [{"id": "main", "name": "Lab"}]

    async def pipe(self, body: dict, __request__=None, __metadata__=None, __task__=None):
        """A message is an order, `{"do": name, ...}`, or words that are answered with a greeting."""
        text = body["messages"][-1]["content"]
        if not text.startswith("{"):
            return f"{self.valves.GREETING}, {text}"
        order = json.loads(text)
        return await getattr(self, order.pop("do"))(__request__.app, **order)

    async def notes(self, app):
        return json.dumps(NOTES)

    async def release(self, app, gate):
        GATES.setdefault(gate, asyncio.Event()).set()
        return "released"

    async def held(self, app, gate):
        """Stream a word, wait for the gate, stream another."""

        async def words():
            yield "before "
            await GATES.setdefault(gate, asyncio.Event()).wait()
            yield "after"

        return words()

    async def write(self, app, chat, message, user, gate):
        """Begin a message of the agent's own, outside of any request. It ends when the gate opens, or by Stop."""
        asyncio.get_running_loop().create_task(Writer(app, chat, message, user, gate).write())
        return "begun"


class Writer:
    """Writes one message into a chat, as a run that nobody asked for would."""

    def __init__(self, app, chat, message, user, gate):
        self.redis, self.chat, self.message, self.user, self.gate = app.state.redis, chat, message, user, gate
        self.task = str(uuid.uuid4())
        self.text = ""

    async def write(self):
        from open_webui.socket.main import get_event_emitter
        from open_webui.tasks import create_task

        shown = await self.claim()
        if shown is None:
            NOTES.append(["claimed already", self.message])
            return
        where = {"user_id": self.user, "chat_id": self.chat, "message_id": self.message}
        self.emit = await get_event_emitter(where, update_db=False)
        await self.emit({"type": "chat:messages", "data": shown})
        await create_task(self.redis, self.run(), id=self.chat, task_id=self.task)
        await self.emit({"type": "chat:active", "data": {"active": True}})

    async def claim(self):
        """Insert the message at the end of the chat, under the chat's lock. What to show, or None if it is there."""
        from open_webui.models.chat_messages import ChatMessages
        from open_webui.models.chats import Chats

        async with Chats._chat_transaction(self.chat) as (db, chat):
            history = (chat.chat or {}).get("history") or {"messages": {}, "currentId": None}
            known = history["messages"]
            if self.message in known:
                return None
            leaf = history["currentId"]
            while leaf and known.get(leaf, {}).get("childrenIds"):
                leaf = known[leaf]["childrenIds"][-1]
            made = Chats.upsert_message_to_history(
                history,
                self.message,
                {
                    "id": self.message,
                    "parentId": leaf,
                    "childrenIds": [],
                    "role": "assistant",
                    "content": "",
                    "output": [],
                    "done": False,
                    "model": (known.get(leaf) or {}).get("model") or chat.chat["models"][0],
                    "timestamp": int(time.time()),
                    "user_id": chat.user_id,
                    "meta": {"task_id": self.task},
                },
            )
            chat.chat = {**chat.chat, "history": history}
            flag_modified(chat, "chat")
            chat.current_message_id = history["currentId"]
            chat.updated_at = int(time.time())
            await ChatMessages.upsert_message(self.message, self.chat, chat.user_id, made, db=db)
            shown = {self.message: {k: v for k, v in made.items() if k != "meta"}}
            if leaf:
                shown[leaf] = known[leaf]
            return {"messages": shown, "currentId": history["currentId"]}

    async def run(self):
        from open_webui.models.chats import Chats
        from open_webui.tasks import cleanup_task, has_active_tasks

        how = "written"
        try:
            await self.stream({"type": "response.output_item.added", "output_index": 0, "item": self.item()})
            await self.word("first ")
            await GATES.setdefault(self.gate, asyncio.Event()).wait()
            await self.word("second")
        except asyncio.CancelledError:
            how = "stopped"
        NOTES.append([how, self.message])
        done = [self.item("completed")]
        await Chats.upsert_message_to_chat_by_id_and_message_id(
            self.chat, self.message, {"content": self.text, "output": done, "done": True}
        )
        end = {"done": True, "content": self.text, "output": done}
        await self.emit({"type": "chat:completion", "data": end})
        await cleanup_task(self.redis, self.task, self.chat)
        if not await has_active_tasks(self.redis, self.chat):
            await self.emit({"type": "chat:active", "data": {"active": False}})

    async def word(self, word):
        from inspect import signature

        from open_webui.tasks import save_response_stream

        self.text += word
        # From 0.12.3 on the text is no argument any more. It is kept before it is sent, for tabs that open in between.
        text = [self.text] if "content" in signature(save_response_stream).parameters else []
        await save_response_stream(self.redis, self.task, self.chat, self.message, *text, [self.item()])
        delta = {"output_index": 0, "content_index": 0, "item_id": "text_1", "delta": word}
        await self.stream({"type": "response.output_text.delta", **delta})

    async def stream(self, data):
        await self.emit({"type": "response:completion", "data": copy.deepcopy(data)})

    def item(self, status="in_progress"):
        content = [{"type": "output_text", "text": self.text}]
        return {"type": "message", "id": "text_1", "role": "assistant", "status": status, "content": content}
