"""What the doors of keys, sign-in links and public routes take and give."""

from __future__ import annotations

from rejoinder.contract.identity import GRANTS
from rejoinder.doors.schemas.words import ID, MOMENT, TEXT, WHOLE, Schema, items, maybe, one_of, record, ref

SCHEMAS: dict[str, Schema] = {
    "Key": record(
        {
            "id": ID,
            "name": TEXT,
            "identity": TEXT,
            "grants": items(one_of(GRANTS)),
            "owner": maybe(TEXT),
            "created_at": MOMENT,
            "created_by": TEXT,
            "expires_at": maybe(MOMENT),
            "revoked_at": maybe(MOMENT),
        }
    ),
    "Keys": record({"items": items(ref("Key"))}),
    "NewKey": record(
        {"name": TEXT, "grants": items(one_of(GRANTS))},
        {"identity": maybe(TEXT), "owner": maybe(TEXT), "expires_at": maybe(MOMENT)},
    ),
    "CreatedKey": record({"key": ref("Key"), "secret": TEXT}),
    "RevokedKeys": record({"revoked": items(TEXT)}),
    "SignInLink": record({"url": {"type": "string", "format": "uri"}, "expires_in_seconds": WHOLE}),
    "PublicRoute": record({"pattern": TEXT, "created_at": MOMENT, "created_by": TEXT}),
    "PublicRoutes": record({"items": items(ref("PublicRoute"))}),
    "NewPublicRoute": record({"pattern": TEXT}),
    "UnpinnedRoute": record({"pattern": TEXT, "status": {"const": "unpinned"}}),
}
