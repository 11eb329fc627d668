"""What the doors take and give, as JSON Schemas for the OpenAPI document: one module for each resource."""

from __future__ import annotations

from rejoinder.doors.schemas import access, hooks, interactions, operations, presets, runs, schedules
from rejoinder.doors.schemas.words import ID as ID
from rejoinder.doors.schemas.words import TEXT as TEXT
from rejoinder.doors.schemas.words import Schema as Schema
from rejoinder.doors.schemas.words import body as body
from rejoinder.doors.schemas.words import gives as gives
from rejoinder.doors.schemas.words import ref as ref

SCHEMAS: dict[str, Schema] = {
    name: schema
    for room in (operations, interactions, runs, access, hooks, presets, schedules)
    for name, schema in room.SCHEMAS.items()
}
