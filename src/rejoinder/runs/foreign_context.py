"""Tools that were written for the MCP library's own ``Context``: they are given one that asks through us.

Imported only where a tool's parameter has that type, so that the library is loaded already.
"""

from __future__ import annotations

from typing import Any

from mcp.server.elicitation import (
    AcceptedElicitation as TheirsAccepted,
)
from mcp.server.elicitation import (
    AcceptedUrlElicitation,
)
from mcp.server.elicitation import (
    CancelledElicitation as TheirsCancelled,
)
from mcp.server.elicitation import (
    DeclinedElicitation as TheirsDeclined,
)
from mcp.server.mcpserver import Context as TheirContext

from rejoinder.contract.elicitation import AcceptedElicitation, DeclinedElicitation
from rejoinder.observe.logs import get_logger
from rejoinder.runs.ask import ask
from rejoinder.runs.context import current_run
from rejoinder.runs.elicitation import elicit, report_progress

log = get_logger("tools")


class Accepted(TheirsAccepted[Any]):
    """With what the elicitation's ``_meta`` holds; None where an MCP client's person answered."""

    meta: dict[str, Any] | None = None


class ForeignContext(TheirContext[Any, Any]):
    """Has no session and no request of a client of its own; what needs one raises ValueError, as outside a request."""

    async def elicit(self, message: str, schema: Any) -> Any:
        result = await elicit(message, schema)
        if isinstance(result, AcceptedElicitation):
            return Accepted(data=result.data, meta=result.meta)
        return TheirsDeclined() if isinstance(result, DeclinedElicitation) else TheirsCancelled()

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> Any:
        """Show the link and ask whether the person has been there."""
        answer = await ask(message, answer_format="confirm", media=[{"kind": "link", "url": url}])
        return AcceptedUrlElicitation() if answer.answer else TheirsDeclined()

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        report_progress(progress, total, message)

    async def log(self, level: str, data: Any, *, logger_name: str | None = None) -> None:
        log.info("a tool says", run_id=self.request_id, level=level, said=str(data)[:2_000])

    @property
    def request_id(self) -> str:
        return str(current_run().run_id)

    @property
    def headers(self) -> None:
        return None

    @property
    def client_capabilities(self) -> None:
        return None
