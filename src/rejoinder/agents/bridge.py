"""Tools of the registry as LangChain's. Imports LangChain, so it is imported only where an agent is driven."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import interrupt
from pydantic import PrivateAttr

from rejoinder.agents.calls import Outcome
from rejoinder.agents.steps import Drive
from rejoinder.contract.answers import SUSPENDED_KEY
from rejoinder.contract.errors import NoRunError, ToolInternalError
from rejoinder.runs.tools import Tool

#: The drive that the code around belongs to.
driving: ContextVar[Drive | None] = ContextVar("rejoinder_drive", default=None)
_call_id: ContextVar[str | None] = ContextVar("rejoinder_tool_call", default=None)


def current_drive() -> Drive:
    """Raises NoRunError outside a run."""
    drive = driving.get()
    if drive is None:
        raise NoRunError("an agent's graph was run by something else than Rejoinder")
    return drive


class RegistryTool(BaseTool):
    """One tool of the registry, called by an agent's model as a step of the agent's run."""

    handle_tool_error: bool = True
    _tool: Tool = PrivateAttr()

    def __init__(self, tool: Tool) -> None:
        super().__init__(
            name=function_name(tool),
            description=tool.description or tool.title or tool.name,
            args_schema=tool.input_schema,
        )
        self._tool = tool

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        called = input.get("id") if isinstance(input, dict) and input.get("type") == "tool_call" else None
        token = _call_id.set(called)
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _call_id.reset(token)

    # A leading underscore: no parameter of a tool may have one.
    async def _arun(self, _config: RunnableConfig, **arguments: Any) -> Any:
        drive = current_drive()
        if self._tool.internal:
            # The manifest gives no agent such a tool; this is for a graph that came by one in another way.
            raise ToolException(ToolInternalError().message)
        place = str((_config.get("configurable") or {}).get("checkpoint_ns", ""))
        while True:
            came = await drive.call(self._tool, arguments, place, _call_id.get())
            if isinstance(came, Outcome):
                break
            # What it gives back is not used: the answer is in our rows, and nowhere else.
            interrupt({SUSPENDED_KEY: [str(one.interaction_id) for one in came.questions]})
        if came.failed:
            raise ToolException(came.value)
        return came.value if isinstance(came.value, str) else json.dumps(came.value, ensure_ascii=False)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Rejoinder drives agents asynchronously: await the tool's ainvoke")


def function_name(tool: Tool) -> str:
    """The tool's name as models' interfaces allow it."""
    return tool.name.replace(".", "_")[:64]
