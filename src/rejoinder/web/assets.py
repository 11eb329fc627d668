"""The style sheet, the scripts and the icon: named by their content, so a browser may keep them for ever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

PREFIX = "/assets"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_NAMES = ("app.css", "form.js", "app.js", "icon.svg")


@dataclass(frozen=True, slots=True)
class Asset:
    path: str
    content: bytes
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """Every asset by its plain name."""
    found = {}
    for name in _NAMES:
        content = files("rejoinder.web").joinpath("static", name).read_bytes()
        stem, kind = name.rsplit(".", 1)
        mark = hashlib.sha256(content).hexdigest()[:12]
        found[name] = Asset(f"{PREFIX}/{stem}-{mark}.{kind}", content, _TYPES[kind])
    return found


def asset_path(name: str) -> str:
    return assets()[name].path


async def serve(request: Request) -> Response:
    for asset in assets().values():
        if asset.path == request.url.path:
            headers = {
                "cache-control": "public, max-age=31536000, immutable",
                "x-content-type-options": "nosniff",
            }
            return Response(asset.content, media_type=asset.media_type, headers=headers)
    return Response("Not found", status_code=404, media_type="text/plain")
