"""What an outside system posts to a topic, read by its content type, as one JSON object."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, Never
from xml.parsers import expat

from rejoinder.contract.errors import BadInputError
from rejoinder.contract.text import MAX_DEPTH, unstorable
from rejoinder.doors.bodies import parse_json
from rejoinder.doors.callback_bodies import MOST_PAIRS, pairs_of, query_map

#: What text is read in. Other codecs of Python do other things than reading text.
CHARSETS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "windows-1252": "cp1252",
    "utf-16": "utf-16",
}
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def event_of(raw: bytes, query: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    """The event: what the body holds, and what the query adds to it. Raises BadInputError.

    A JSON object is taken as it is and an XML document as one; every other value is under ``body``. Bytes that are no text
    are base64 there, and ``body_encoding`` says so."""
    event = {**query_map(query), **_body(raw, headers)} if query else _body(raw, headers)
    if reason := unstorable(event):
        raise BadInputError(f"the event cannot be kept: {reason}", field="body")
    return event


def _body(raw: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise BadInputError("a body with a Content-Encoding is not read", field="Content-Encoding")
    if not raw:
        return {}
    kind, charset = _type_of(headers.get("content-type", ""))
    if kind in ("application/json", "text/json") or kind.endswith("+json"):
        return _under_body(parse_json(raw))
    if kind in ("application/xml", "text/xml") or kind.endswith("+xml"):
        return _xml(raw, charset)
    if kind == FORM:
        return _form(pairs_of(raw, "body"))
    if kind == MULTIPART:
        return _form(_parts(raw, headers["content-type"]))
    if kind.startswith("text/"):
        return {"body": _text(raw, charset)}
    if not kind:
        return _guessed(raw)
    return {"body": base64.b64encode(raw).decode(), "body_encoding": "base64"}


def _type_of(value: str) -> tuple[str, str | None]:
    """The media type in small letters, and the charset that it names."""
    message = Message()
    message["content-type"] = value
    if not value.strip():
        return "", None
    charset = message.get_param("charset")
    return message.get_content_type(), charset.lower() if isinstance(charset, str) else None


def _under_body(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"body": value}


def _guessed(raw: bytes) -> dict[str, Any]:
    """Without a content type: JSON where it is JSON, else text where it is text."""
    try:
        return _under_body(parse_json(raw))
    except BadInputError:
        pass
    try:
        return {"body": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(raw).decode(), "body_encoding": "base64"}


def _text(raw: bytes, charset: str | None) -> str:
    codec = CHARSETS.get(charset or "utf-8")
    if codec is None:
        raise BadInputError("the body is in a charset that is not read", field="Content-Type")
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        raise BadInputError("the body is not text in its charset", field="body") from None


def _form(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _parts(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    head = b"Content-Type: " + content_type.encode("latin-1", "replace").replace(b"\n", b" ") + b"\r\n\r\n"
    message = BytesParser(policy=HTTP).parsebytes(head + raw)
    parts = message.get_payload()
    if not message.is_multipart() or not isinstance(parts, list) or message.defects:
        raise BadInputError("the body is not multipart/form-data", field="body")
    if len(parts) > MOST_PAIRS:
        raise BadInputError("the body has too many parts", field="body")
    pairs = []
    for part in parts:
        assert isinstance(part, Message)
        name = part.get_param("name", header="content-disposition")
        if part.get_filename() is not None:
            raise BadInputError("a form with a file is not taken", field="body")
        payload = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(payload, bytes):
            raise BadInputError("a part of the body is no field of a form", field="body")
        pairs.append((name, _text(payload, _type_of(part.get("content-type", ""))[1])))
    return pairs


class _Element:
    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.content: dict[str, Any] = {f"@{key}": value for key, value in attributes.items()}
        self.text: list[str] = []

    def add(self, name: str, value: Any) -> None:
        known = self.content.get(name)
        if name not in self.content:
            self.content[name] = value
        elif isinstance(known, list):
            known.append(value)
        else:
            self.content[name] = [known, value]

    def value(self) -> Any:
        text = "".join(self.text).strip()
        if not self.content:
            return text or None
        if text:
            self.content["#text"] = text
        return self.content


def _xml(raw: bytes, charset: str | None) -> dict[str, Any]:
    """``{root: content}``: attributes as ``@name``, text beside them as ``#text``, what comes several times as a list.

    A document type is refused, and with it every entity but the five of XML itself: nothing is expanded or fetched."""
    if charset is not None and charset not in CHARSETS:
        raise BadInputError("the body is in a charset that is not read", field="Content-Type")
    root = _Element("", {})
    opened = [root]

    def begin(name: str, attributes: dict[str, str]) -> None:
        if len(opened) > MAX_DEPTH:
            raise BadInputError(f"the body is nested more than {MAX_DEPTH} levels deep", field="body")
        opened.append(_Element(name, attributes))

    def end(_name: str) -> None:
        done = opened.pop()
        opened[-1].add(done.name, done.value())

    def refuse(*_what: Any) -> Never:
        raise BadInputError("an XML body with a document type is not read", field="body")

    try:
        parser = expat.ParserCreate(None if charset is None else CHARSETS[charset])
        parser.buffer_text = True
        parser.StartElementHandler = begin
        parser.EndElementHandler = end
        parser.CharacterDataHandler = lambda text: opened[-1].text.append(text)
        parser.StartDoctypeDeclHandler = refuse
        parser.EntityDeclHandler = refuse
        parser.ExternalEntityRefHandler = refuse
        parser.Parse(raw, True)
    except (expat.ExpatError, LookupError):
        raise BadInputError("the body is not well-formed XML", field="body") from None
    return root.content
