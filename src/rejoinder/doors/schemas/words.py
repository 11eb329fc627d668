"""The words that the schemas of the doors are made of, and what makes an operation's entry of them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

#: Of a question.
STATES = ["pending", "answered", "expired", "cancelled", "undelivered", "superseded"]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
ID: Schema = {"type": "string", "format": "uuid"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
ANY: Schema = {}
OBJECT: Schema = {"type": "object"}


def one_of(values: Any) -> Schema:
    return {"type": "string", "enum": list(values)}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def items(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def body(name: str) -> dict[str, Any]:
    """An operation's request body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": ref(name)}}}}


def gives(name: str, status: int = 200, *, bare: bool = False, **headers: str) -> dict[str, Any]:
    """An operation's good answer, in the ``{"data": ...}`` envelope unless ``bare``."""
    schema = ref(name) if bare else record({"data": ref(name)})
    answer: dict[str, Any] = {
        "description": "Done",
        "content": {"application/json": {"schema": schema}},
    }
    if headers:
        answer["headers"] = {
            key.replace("_", "-"): {"description": text, "schema": TEXT} for key, text in headers.items()
        }
    return {"responses": {str(status): answer}}
