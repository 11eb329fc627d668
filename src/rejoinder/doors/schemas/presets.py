"""What the doors of presets take and give."""

from __future__ import annotations

from rejoinder.doors.schemas.words import (
    ANY,
    MOMENT,
    OBJECT,
    TEXT,
    TRUTH,
    WHOLE,
    Schema,
    items,
    maybe,
    one_of,
    record,
    ref,
)

NUMBER: Schema = {"type": "integer", "minimum": 1}
_OPTIONAL: dict[str, Schema] = {
    "fixed_kwargs": OBJECT,
    "extensions": items(ANY),
    "input_schema": maybe(OBJECT),
    "output_schema": maybe(OBJECT),
    "input_map": maybe(TEXT),
    "output_map": maybe(TEXT),
    "tags": items(TEXT),
}
_DOCUMENT = {"base_tool": TEXT, "description": TEXT, **_OPTIONAL}
_MADE = {"created_at": MOMENT, "created_by": TEXT}

SCHEMAS: dict[str, Schema] = {
    "NewPreset": record(
        {"name": TEXT, "base_tool": TEXT, "description": TEXT},
        _OPTIONAL,
        description="fixed_kwargs are the arguments that no caller gives. Leave extensions out where there are none.",
    ),
    "PresetChange": record(
        {},
        {**_DOCUMENT, "expected_version": maybe(NUMBER)},
        description="What is left out stays as it was; fixed_kwargs are replaced as a whole. expected_version refuses "
        "the change where another version counts by now.",
    ),
    "Preset": record(
        {
            "name": TEXT,
            "version": NUMBER,
            "last_version": NUMBER,
            **_DOCUMENT,
            "exposed_schema": maybe(OBJECT),
            "locked": TRUTH,
            "quarantine": maybe(TEXT),
            "version_tags": {"type": "object", "additionalProperties": NUMBER},
            **_MADE,
            "updated_at": MOMENT,
            "updated_by": TEXT,
        },
        description="exposed_schema is what callers give. locked: it fixes arguments, so that only an admin may change "
        "what it does. quarantine is why this server makes no tool of it.",
    ),
    "Presets": record({"items": items(ref("Preset")), "next_after": maybe(TEXT)}),
    "PresetVersion": record({"version": NUMBER, **_DOCUMENT, **_MADE, "version_tags": items(TEXT)}),
    "PresetVersions": record({"items": items(ref("PresetVersion")), "next_before": maybe(WHOLE)}),
    "PresetRollback": record({"version": NUMBER}, {"expected_version": maybe(NUMBER)}),
    "PresetRename": record({"new_name": TEXT}),
    "PresetTag": record({"version": NUMBER}),
    "PresetValid": record({"name": TEXT, "input_schema": OBJECT, "locked": TRUTH}),
    "PresetReferees": record(
        {"items": items(record({"kind": one_of(("agent", "hook", "schedule")), "name": TEXT}))}
    ),
    "PresetDeleted": record({"name": TEXT, "status": {"const": "deleted"}}),
}
