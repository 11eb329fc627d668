"""``/api/interactions/media/{id}``: the images of questions, for whoever knows the id."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from rejoinder.contract.errors import BadInputError, RejoinderError
from rejoinder.contract.media import PATH, is_media_id
from rejoinder.doors.admission import Door, needs
from rejoinder.node import Node

#: Shown as a page of its own it runs nothing, asks nothing, and has no origin.
_CSP = "default-src 'none'; sandbox"
_IMAGES = {
    f"image/{kind}": {"schema": {"type": "string", "format": "binary"}}
    for kind in ("png", "jpeg", "gif", "webp")
}


class MediaNotFoundError(RejoinderError):
    """There is no image of this id, or its question is not shown any more."""

    code = "media-not-found"
    status = 404


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["interactions"])
    path = PATH + "/{media_id}"
    shown = needs(
        "public", refuses=(404, 503), responses={"200": {"description": "The image", "content": _IMAGES}}
    )

    @api.head(path, openapi_extra=shown, include_in_schema=False)
    @api.get(path, openapi_extra=shown, summary="Show an image of a question", response_class=Response)
    async def show(request: Request) -> Response:
        """Open to whoever knows the id, which nobody can guess. Gone with its question."""
        media_id = request.path_params["media_id"]
        if not is_media_id(media_id):
            raise BadInputError("media_id is not the id of an image", field="media_id")
        head = request.method == "HEAD"
        found = await node.media.find(
            media_id, kept=node.settings.interactions_idle_ttl_seconds, whole=not head
        )
        if found is None:
            raise MediaNotFoundError()
        return Response(
            found.content or b"",
            media_type=found.content_type,
            headers={
                "content-length": str(found.size),
                "cache-control": f"private, max-age={found.remaining}",
                "content-security-policy": _CSP,
                "x-content-type-options": "nosniff",
            },
        )

    return api
