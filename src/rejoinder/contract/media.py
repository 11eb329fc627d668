"""Media shown above a question's controls: checked whole before anything is stored.

An image that comes as a data: URL is taken out of the question before it is recorded, and served by an id of its own:
lists and streams carry a reference of 66 characters. Such a reference may be asked with again; the new question then
has the image too, for as long as it lives itself.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.text import unstorable_text

MediaKind = Literal["image", "link", "document", "video", "audio"]
KINDS = ("image", "link", "document", "video", "audio")

MAX_ITEMS = 50
MAX_URL = 8_192
MAX_DATA_URL = 524_288
MAX_CAPTION = 1_000
MAX_FILENAME = 255
MAX_URL_TEXT = 1_048_576
#: Bytes of the images of one question: as many as fit into its URLs in base64.
MAX_PICTURES = MAX_URL_TEXT // 4 * 3

#: A stored image is served below this path.
PATH = "/api/interactions/media"
_ID = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)

_DATA_IMAGE = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,", re.ASCII)
_BAD_CHARACTER = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]")


class MediaItem(BaseModel):
    """One thing shown with a question. ``filename`` goes with a document only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: MediaKind
    url: str
    caption: str | None = None
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """An image to be stored with a question: ``content``, or a copy of the stored one that ``source`` names.
    ``where`` names the first item that shows it."""

    id: str
    where: str
    content_type: str = ""
    content: bytes = b""
    source: str | None = None


def is_media_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def reference(media_id: str) -> str:
    """The URL of a stored image, relative to this server."""
    return f"{PATH}/{media_id}"


def referred(url: str) -> str | None:
    """The id in a reference; None for every other URL."""
    head, _, last = url.rpartition("/")
    return last if head == PATH and is_media_id(last) else None


def detach(items: Sequence[dict[str, Any]] | None) -> tuple[list[dict[str, Any]] | None, list[Picture]]:
    """Checked items with a new reference in place of each image of theirs, and these images."""
    if items is None:
        return None, []
    pictures: dict[str, Picture] = {}
    for index, item in enumerate(items):
        url = str(item["url"])
        if url in pictures:
            continue
        source, data = referred(url), _DATA_IMAGE.match(url)
        where = f"media[{index}].url"
        if source is not None:
            pictures[url] = Picture(secrets.token_urlsafe(32), where, source=source)
        elif data is not None:
            content = base64.b64decode(url[data.end() :], validate=True)
            pictures[url] = Picture(secrets.token_urlsafe(32), where, data[1], content)
    told = [
        item | {"url": reference(pictures[item["url"]].id)} if item["url"] in pictures else item
        for item in items
    ]
    return told, list(pictures.values())


def check_media(items: Sequence[MediaItem | dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """The items as plain dicts, or None. Raises AskArgumentError naming ``media[i]`` and what is wrong with it."""
    if items is None:
        return None
    if isinstance(items, str | bytes | dict) or not isinstance(items, Sequence):
        raise AskArgumentError("media must be a list of items", field="media")
    if not items:
        raise AskArgumentError("media must not be an empty list; leave it out instead", field="media")
    if len(items) > MAX_ITEMS:
        raise AskArgumentError(f"media holds {len(items)} items; at most {MAX_ITEMS} fit", field="media")
    checked = [_check_item(item, f"media[{i}]") for i, item in enumerate(items)]
    if sum(len(str(item["url"])) for item in checked) > MAX_URL_TEXT:
        raise AskArgumentError(
            f"the URLs in media are over {MAX_URL_TEXT} characters together", field="media"
        )
    return checked


def _check_item(raw: MediaItem | dict[str, Any], where: str) -> dict[str, Any]:
    item = raw.model_dump() if isinstance(raw, MediaItem) else raw
    if not isinstance(item, dict):
        raise AskArgumentError(f"{where} must be an object", field=where)
    unknown = set(item) - {"kind", "url", "caption", "filename"}
    if unknown:
        raise AskArgumentError(
            f"{where} has a key that is not known: {sorted(map(str, unknown))[0]}", field=where
        )
    kind, url = item.get("kind"), item.get("url")
    if kind not in KINDS:
        raise AskArgumentError(f"{where}.kind must be one of {', '.join(KINDS)}", field=f"{where}.kind")
    if not isinstance(url, str) or not url:
        raise AskArgumentError(f"{where}.url must be a URL", field=f"{where}.url")
    if reason := unstorable_text(url):
        raise AskArgumentError(f"{where}.url cannot be stored: {reason}", field=f"{where}.url")
    _check_url(str(kind), url, f"{where}.url")
    result: dict[str, Any] = {"kind": kind, "url": url}
    for key, cap in (("caption", MAX_CAPTION), ("filename", MAX_FILENAME)):
        value = item.get(key)
        if value is None:
            continue
        if not isinstance(value, str) or len(value) > cap:
            raise AskArgumentError(
                f"{where}.{key} must be text of at most {cap} characters", field=f"{where}.{key}"
            )
        if reason := unstorable_text(value):
            raise AskArgumentError(f"{where}.{key} cannot be stored: {reason}", field=f"{where}.{key}")
        result[key] = value
    if "filename" in result and kind != "document":
        raise AskArgumentError(f"{where}.filename goes with a document only", field=f"{where}.filename")
    return result


def _check_url(kind: str, url: str, where: str) -> None:
    if url.startswith("data:"):
        _check_data_url(kind, url, where)
        return
    if url.startswith(PATH):
        if kind != "image" or referred(url) is None:
            raise AskArgumentError(
                f"{where} is not a reference to a stored image, or not one of kind image", field=where
            )
        return
    if len(url) > MAX_URL:
        raise AskArgumentError(f"{where} is over {MAX_URL} characters", field=where)
    if _BAD_CHARACTER.search(url):
        raise AskArgumentError(f"{where} holds a space or a control character", field=where)
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018 - raises where the port is not a number
    except ValueError:
        raise AskArgumentError(f"{where} is not a URL", field=where) from None
    schemes = ("http", "https") if kind == "link" else ("https",)
    if parts.scheme not in schemes or not host:
        raise AskArgumentError(f"{where} must be an absolute {' or '.join(schemes)} URL", field=where)
    if "@" in parts.netloc:
        raise AskArgumentError(f"{where} must not carry a user name", field=where)
    if not parts.netloc.isascii():
        raise AskArgumentError(f"{where} must name its host in ASCII", field=where)


def _check_data_url(kind: str, url: str, where: str) -> None:
    if len(url) > MAX_DATA_URL:
        raise AskArgumentError(f"{where} is over {MAX_DATA_URL} characters", field=where)
    head = _DATA_IMAGE.match(url)
    if kind != "image" or head is None:
        raise AskArgumentError(
            f"{where} may be a data: URL only for a png, jpeg, gif or webp image", field=where
        )
    try:
        content = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise AskArgumentError(f"{where} is not valid base64", field=where) from None
    if not content:
        raise AskArgumentError(f"{where} is an empty image", field=where)
