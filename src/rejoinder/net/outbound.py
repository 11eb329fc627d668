"""Calls to URLs that somebody else chose: guarded, bounded in time and size, never redirected, never decompressed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rejoinder.contract.errors import RejoinderError
from rejoinder.net.guard import Guard

if TYPE_CHECKING:
    import httpx2

    from rejoinder.net.transport import PinnedTransport

#: Seconds for a whole call, and bytes of its answer.
PATIENCE = 10.0
CAP = 65_536


class OutboundError(RejoinderError):
    """The other side did not answer, or not in a way that can be used. Trying again may help."""

    code = "outbound-failed"
    status = 502


@dataclass(frozen=True, slots=True)
class Reply:
    """``headers`` have their names in lower case. A redirect is a reply like any other: it is not followed."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Outbound:
    """One for a process; its connections are closed by ``stop``."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._transport: PinnedTransport | None = None

    async def send(
        self,
        method: str,
        url: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
        cap: int = CAP,
    ) -> Reply:
        """Call ``url``, for at most ``patience`` seconds and an answer of at most ``cap`` bytes. Raises
        AddressRefusedError before anything is sent, OutboundError where no whole answer came."""
        self.guard.check(url)
        import httpx2

        # Asked for as it is: a small answer may decompress to one that fills the memory.
        asked = {"accept-encoding": "identity", "user-agent": "Rejoinder", **(headers or {})}
        try:
            async with asyncio.timeout(patience):
                # No client around the transport: it would keep cookies from one call for the next.
                request = httpx2.Request(method, url, content=content, headers=asked)
                response = await self._open().handle_async_request(request)
                try:
                    return Reply(response.status_code, _plain(response), await _bounded(response, cap))
                finally:
                    await response.aclose()
        except TimeoutError:
            raise OutboundError(f"The other side did not answer within {patience:g} seconds.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise OutboundError(f"The other side could not be called ({type(error).__name__}).") from None

    async def stop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    def _open(self) -> PinnedTransport:
        if self._transport is None:
            from rejoinder.net.transport import PinnedTransport

            self._transport = PinnedTransport(self.guard)
        return self._transport


def _plain(response: httpx2.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


async def _bounded(response: httpx2.Response, cap: int) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > cap:
            raise OutboundError(f"The answer of the other side is over {cap} bytes.")
    return bytes(content)
