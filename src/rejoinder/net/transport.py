"""The HTTP client's way out: each request goes to an address that was looked at, under the host's own name."""

from __future__ import annotations

import httpx2

from rejoinder.net.guard import Guard


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Raises AddressRefusedError for what the guard refuses."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        # No connection is kept: it is known by its address, and the next request to that may be for another name,
        # whose certificate nobody has seen.
        # Of the environment it takes the certificates to trust (SSL_CERT_FILE); a proxy it would not ask.
        self._inner: httpx2.AsyncBaseTransport = httpx2.AsyncHTTPTransport(
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=0)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target = self._guard.check(str(request.url))
        try:
            addresses = await self._guard.addresses(target)
        except OSError:
            raise httpx2.ConnectError(f"{target.host} is not known", request=request) from None
        failure: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        for address in addresses:
            request_to = httpx2.Request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers=request.headers,  # its Host is the name's
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": target.host},
            )
            try:
                return await self._inner.handle_async_request(request_to)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()
