"""The pipe: OpenClaw's agent as models of Open WebUI."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from rejoinder.openwebui import deployment
from rejoinder.openwebui.deployment import SettingError, bridge_for
from rejoinder.openwebui.levels import LEVELS
from rejoinder.openwebui.turn import Asked, TurnError, reply
from rejoinder.openwebui.valves import PipeValves

log = logging.getLogger("rejoinder.openwebui")

DEFAULT = "default"
_IMAGE = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.+)", re.DOTALL)


class Pipe:
    """What Open WebUI loads."""

    class Valves(PipeValves):
        """See `valves`."""

    def __init__(self) -> None:
        self.type = "manifold"
        self.valves = self.Valves()

    async def pipes(self) -> list[dict[str, str]]:
        """The models to choose from. Connects, so that runs show before anybody writes."""
        found: list[dict[str, str]] = []
        try:
            bridge = bridge_for(self.valves)
            found = await deployment.models_of(bridge, self.valves)
        except SettingError as error:
            log.warning("%s", error)
        allowed = [one.strip() for one in self.valves.CONFIGURED_MODELS.split(",") if one.strip()]
        if allowed:
            known = {one["ref"]: one for one in found}
            found = [known.get(ref, {"ref": ref, "name": ref, "provider": ""}) for ref in allowed]
        entries = [{"id": DEFAULT, "name": "OpenClaw · Default"}]
        for one in found[: self.valves.MAX_MODELS]:
            provider = f" ({one['provider']})" if one.get("provider") else ""
            entries.append(
                {"id": one["ref"], "name": f"{one.get('name') or one['ref']}{provider} · OpenClaw"}
            )
        return entries

    async def pipe(
        self,
        body: dict[str, Any],
        __user__: dict[str, Any] | None = None,
        __metadata__: dict[str, Any] | None = None,
        __event_emitter__: Any = None,
        __task__: str | None = None,
        __request__: Any = None,
    ) -> Any:
        """Answer one request. The Host's own tasks (titles, tags, follow-ups) never reach the agent."""
        if __task__:
            return ""
        events = self._events(
            body, __user__ or {}, __metadata__ or {}, __event_emitter__, getattr(__request__, "app", None)
        )
        if body.get("stream"):
            return events
        return await _text_of(events)

    async def _events(
        self,
        body: Mapping[str, Any],
        user: Mapping[str, Any],
        metadata: Mapping[str, Any],
        emitter: Any,
        app: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        async def tell(words: str, done: bool) -> None:
            if emitter is not None:
                await emitter({"type": "status", "data": {"description": words, "done": done}})

        model = str(body.get("model") or "")
        pipe_id, _, chosen = model.partition(".")
        try:
            bridge = bridge_for(self.valves, app, pipe_id=pipe_id or None)
            asked = self._asked(body, user, metadata, chosen)
            for note in _notes(body):
                await tell(note, True)
            async for event in reply(bridge, asked, tell):
                yield event
        except (SettingError, TurnError) as error:
            yield {"error": str(error)}
        except Exception:
            fault = uuid.uuid4().hex[:12]
            log.exception("A reply could not be given (%s).", fault)
            yield {"error": f"The pipe could not answer. Open WebUI's log says more under {fault}."}

    def _asked(
        self,
        body: Mapping[str, Any],
        user: Mapping[str, Any],
        metadata: Mapping[str, Any],
        chosen: str,
    ) -> Asked:
        text, attachments = _last_words(body)
        level = str(body.get("reasoning_effort") or "").strip().lower()
        presets = {
            "": self.valves.DEFAULT_MODEL,
            DEFAULT: self.valves.DEFAULT_MODEL,
            "chatgpt": self.valves.CHATGPT_MODEL,
            "opus": self.valves.OPUS_MODEL,
            "sonnet": self.valves.SONNET_MODEL,
            "glm": self.valves.GLM_MODEL,
        }
        model = presets.get(chosen, chosen).strip()
        return Asked(
            agent=self.valves.AGENT_ID.strip() or "main",
            user=str(user.get("id") or "") or None,
            chat=str(metadata.get("chat_id") or "") or None,
            message=str(metadata.get("message_id") or "") or None,
            text=text,
            model=model or None,
            thinking=level if level in LEVELS else None,
            attachments=attachments,
        )


def _last_message(body: Mapping[str, Any]) -> Mapping[str, Any]:
    messages = body.get("messages")
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and message.get("role") == "user":
            return message
    return {}


def _parts(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = _last_message(body).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _last_words(body: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The text of what the person wrote last, and its images. The session itself is the agent's memory."""
    texts: list[str] = []
    attachments: list[dict[str, Any]] = []
    for part in _parts(body):
        if part.get("type") == "text":
            texts.append(str(part.get("text") or ""))
        elif (image := _image(part)) is not None:
            kind, content = image
            suffix = kind.rpartition("/")[2].partition("+")[0]
            attachments.append(
                {
                    "type": "image",
                    "mimeType": kind,
                    "fileName": f"image-{len(attachments) + 1}.{suffix}",
                    "content": content,
                }
            )
    return "\n".join(texts), attachments


def _image(part: Mapping[str, Any]) -> tuple[str, str] | None:
    address = part.get("image_url")
    url = address.get("url") if isinstance(address, dict) else address
    found = _IMAGE.fullmatch(url) if isinstance(url, str) else None
    return (found[1], found[2]) if found and part.get("type") == "image_url" else None


def _notes(body: Mapping[str, Any]) -> list[str]:
    left = [_name(part) for part in _parts(body) if part.get("type") != "text" and _image(part) is None]
    if not left:
        return []
    counts = {kind: left.count(kind) for kind in dict.fromkeys(left)}
    told = ", ".join(kind if count == 1 else f"{kind} (× {count})" for kind, count in counts.items())
    return [f"Not handed to the agent, which takes images only: {told}"]


def _name(part: Mapping[str, Any]) -> str:
    """What a person would call an attachment that is no image with its content in it."""
    kind = str(part.get("type") or "")
    names = {"video": "a video", "audio": "a sound", "image": "an image that is only an address"}
    return next((name for word, name in names.items() if word in kind), "a file")


async def _text_of(events: AsyncIterator[dict[str, Any]]) -> Any:
    """The text of a reply that is not streamed."""
    items: dict[str, str] = {}
    async for event in events:
        if "error" in event:
            return {"error": {"detail": event["error"], "message": event["error"]}}
        kind = event.get("type")
        if kind == "response.output_item.added" and event["item"]["type"] == "message":
            items[event["item"]["id"]] = event["item"]["content"][0]["text"]
        elif kind == "response.output_text.delta":
            items[event["item_id"]] = items.get(event["item_id"], "") + event["delta"]
        elif kind == "response.completed" and "output" in event["response"]:
            items = {
                item["id"]: item["content"][0]["text"]
                for item in event["response"]["output"]
                if item["type"] == "message"
            }
    return "\n\n".join(text.strip() for text in items.values() if text.strip())
