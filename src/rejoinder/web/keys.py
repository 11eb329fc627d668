"""API keys, for an admin: listed, created (the secret is shown once), revoked."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from rejoinder.contract.errors import ForbiddenError, RejoinderError
from rejoinder.contract.identity import GRANTS
from rejoinder.language.spoken import t
from rejoinder.web.site import Visit, redirect


async def show(visit: Visit) -> Response:
    return await _draw(visit)


async def create(visit: Visit) -> Response:
    _only_full_admins(visit)
    name, identity, owner = (
        (visit.field(one) or "").strip() or None for one in ("name", "identity", "owner")
    )
    grants = [value for key, value in visit.pairs if key == "grant"]
    try:
        _, secret = await visit.node.access.create_key(
            name=name or "", identity=identity, owner=owner, grants=grants, by=visit.identity
        )
    except RejoinderError as error:
        typed = {"name": name or "", "identity": identity or "", "owner": owner or "", "grants": grants}
        sentence = t("Choose at least one grant.") if error.field == "grants" else t(error.message)
        return await _draw(visit, fault=(error.field, sentence), typed=typed, status=error.status)
    return await _draw(visit, secret=secret, made=name)


async def revoke(visit: Visit) -> Response:
    _only_full_admins(visit)
    await visit.node.access.revoke_key(visit.field("name") or "", by=visit.identity)
    return redirect("/keys")


def _only_full_admins(visit: Visit) -> None:
    if visit.identity.restricted:
        raise ForbiddenError("Only an admin may see this page.")


async def _draw(
    visit: Visit,
    *,
    secret: str | None = None,
    made: str | None = None,
    fault: tuple[str | None, str] | None = None,
    typed: Mapping[str, object] | None = None,
    status: int = 200,
) -> Response:
    _only_full_admins(visit)
    return visit.draw(
        "keys.html",
        status=status,
        keys=await visit.node.access.keys(),
        grants=GRANTS,
        secret=secret,
        made=made,
        fault=fault,
        typed=typed or {"name": "", "identity": "", "owner": "", "grants": ["read", "write"]},
    )
