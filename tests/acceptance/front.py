"""What stands before a server at its public address: passes requests on, or knows no such path any more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2

#: What a reply says of the connection that it came over.
_HOP = frozenset(("connection", "content-length", "date", "server", "transfer-encoding"))


class Front:
    """``dead``: every path is answered with 404, and the answer names it, as those of many proxies do."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.dead = False
        front = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, headers, content = front.answer(
                    self.command, self.path, dict(self.headers), self._body()
                )
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("content-length") or 0))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if self.dead:
            told = {"error": f"Cannot {method} {path}", "headers": headers}
            return 404, {"content-type": "application/json"}, json.dumps(told).encode()
        reply = httpx2.request(
            method, self.behind + path, headers=headers, content=body, timeout=30, trust_env=False
        )
        return reply.status_code, dict(reply.headers), reply.content

    @contextmanager
    def standing(self) -> Iterator[Front]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
