"""Hooks and the verifiers before their topics, as people write them.

A hook runs a tool on the events of its topic, under a key of its own. Whoever may write may register one. An internal
tool is another matter: its hook acts on what a verifier vouched for, so the verifier comes first, goes last, and only an
admin writes or removes such a hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rejoinder.access.keys import Access
from rejoinder.contract.errors import (
    AskArgumentError,
    BadInputError,
    ForbiddenError,
    RejoinderError,
    ToolInternalError,
    ToolNotFoundError,
)
from rejoinder.contract.identity import Identity
from rejoinder.expressions import Expressions
from rejoinder.hooks.fields import kwargs_of, name_of
from rejoinder.runs.internal import ONLY_PINNED
from rejoinder.runs.manifest import Registry
from rejoinder.store.events import Events
from rejoinder.store.hooks import Hook, HookStore, NewHook, Topic

#: What a hook is written from.
KEYS = frozenset(("name", "topic", "tool", "execution_key", "tool_kwargs", "condition", "start_expr"))
#: Parts of the same interface that this version does not serve. Passing over one silently would drop what it means.
NOT_SERVED = ("cancel_expr", "resume_expr", "extras_expr", "subject", "state_binding")


class HookNotFoundError(RejoinderError):
    """There is no hook of this name."""

    code = "hook-not-found"
    status = 404


class TopicNotBoundError(RejoinderError):
    """No verifier stands before this topic."""

    code = "topic-not-bound"
    status = 404


class TopicHasHooksError(RejoinderError):
    """Hooks run on this topic, so its verifier stays; delete the hooks first."""

    code = "topic-has-hooks"
    status = 409


class TopicOpenError(BadInputError):
    """No verifier stands before this topic, so no hook on it may run an internal tool; set the verifier first."""

    code = "topic-open"


class HookRecords:
    def __init__(
        self,
        store: HookStore,
        registry: Registry,
        access: Access,
        expressions: Expressions,
        events: Events,
    ) -> None:
        self.store = store
        self._registry = registry
        self._access = access
        self._expressions = expressions
        self._events = events

    # Hooks

    async def register(self, body: Mapping[str, Any], *, by: Identity) -> tuple[Hook, bool]:
        """Write the hook that ``body`` describes, in the place of one of the same name. Returns it, and whether it is
        new. Raises BadInputError and its like naming the field, ToolNotFoundError, ForbiddenError."""
        _unrestricted(by)
        name, topic = name_of(body.get("name"), "name"), name_of(body.get("topic"), "topic")
        for field in NOT_SERVED:
            if body.get(field) is not None:
                raise BadInputError(f"{field} is not served by this version; leave it out", field=field)
        kwargs = kwargs_of(body.get("tool_kwargs"))
        tool = self._tool(body.get("tool"))
        self._check_names(tool, kwargs)
        key = await self._access.execution_key(body.get("execution_key"), by=by)
        admin = by.may("admin")
        if admin and self._registry.get(tool).only_pinned:
            raise ToolInternalError(ONLY_PINNED, field="tool")
        hook = NewHook(
            name=name,
            topic=topic,
            tool=tool,
            execution_key=key.name,
            key_id=key.id,
            tool_kwargs=kwargs,
            condition=await self._expression(body, "condition"),
            start_expr=await self._expression(body, "start_expr"),
        )
        status = await self.store.register(hook, internal=self._internal(), admin=admin, by=by.name)
        if status == "fenced":
            await self._refused(name, by)
        if status == "open":
            raise TopicOpenError(field="topic")
        written = await self.store.hook(name)
        if written is None:
            # Somebody deleted it at this moment.
            raise HookNotFoundError(field="name")
        return written, status == "created"

    async def delete(self, name: str, *, by: Identity) -> None:
        """Raises HookNotFoundError, ForbiddenError. What was accepted for it and has not begun starts nothing."""
        _unrestricted(by)
        status = await self.store.delete(
            name_of(name, "name"), internal=self._internal(), admin=by.may("admin"), by=by.name
        )
        if status == "absent":
            raise HookNotFoundError(field="name")
        if status == "fenced":
            await self._refused(name, by)

    # Topics

    async def bind(self, topic: str, body: Mapping[str, Any], *, by: Identity) -> Topic:
        """Put a verifier before a topic. Raises BadInputError naming what is wrong: the verifier must be known here and
        its config one that could work."""
        chosen = name_of(topic, "topic")
        verifiers = self._registry.verifiers
        name = body.get("verifier")
        if not isinstance(name, str) or verifiers.get(name) is None:
            raise BadInputError(
                f"no webhook verifier of this name is known; known are {', '.join(verifiers.names())}",
                field="verifier",
            )
        try:
            binding = verifiers.bind({"verifier": name, "config": body.get("config", {})}, field="topic")
        except AskArgumentError as error:
            raise BadInputError(error.message.removeprefix("topic."), field="config") from None
        await self.store.bind(chosen, binding, by=by.name)
        found = await self.store.topic(chosen)
        if found is None:
            raise TopicNotBoundError(field="topic")
        return found

    async def unbind(self, topic: str, *, by: Identity) -> None:
        """Raises TopicNotBoundError, and TopicHasHooksError naming hooks that would be open to all from then on."""
        status, hooks = await self.store.unbind(name_of(topic, "topic"), by=by.name)
        if status == "absent":
            raise TopicNotBoundError(field="topic")
        if status == "hooked":
            raise TopicHasHooksError(
                f"Hooks run on this topic, so its verifier stays; delete them first: {', '.join(hooks)}",
                field="topic",
            )

    def _tool(self, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise BadInputError("tool must be the name of a tool", field="tool")
        try:
            return self._registry.get(value).name
        except ToolNotFoundError as error:
            raise ToolNotFoundError(error.message, field="tool") from None

    def _check_names(self, tool: str, kwargs: Mapping[str, Any]) -> None:
        """The values may lean on what an event brings; a name that the tool does not know fails on every one."""
        known = self._registry.get(tool).input_schema.get("properties", {})
        for name in kwargs:
            if name not in known:
                raise BadInputError("the tool takes no such argument", field=f"tool_kwargs.{name[:100]}")

    def _internal(self) -> list[str]:
        return [one.tool.name for one in self._registry if one.tool.internal]

    async def _expression(self, body: Mapping[str, Any], field: str) -> str | None:
        text = body.get(field)
        if text is None:
            return None
        return (await self._expressions.compile(text, field=field)).text

    async def _refused(self, name: str, by: Identity) -> None:
        await self._events.add(
            "access.refused", actor=by.name, reason="hook of an internal tool", detail={"hook": name}
        )
        raise ForbiddenError(
            "This hook runs an internal tool; only an admin may write or delete it.", field="tool"
        )


def _unrestricted(by: Identity) -> None:
    if by.restricted:
        raise ForbiddenError("A restricted key may not write hooks.")
