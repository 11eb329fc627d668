"""The pages, as routes: ``routes(node)`` goes into the application beside the doors."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder.access.declared import Budget, open_to_all
from rejoinder.node import Node
from rejoinder.web import assets, audit, hook_runs, hooks, inbox, keys, outside, presets, runs, schedules
from rejoinder.web.session import Session
from rejoinder.web.site import Site, redirect

#: Signing in asks the database about whatever was typed.
_SIGN_IN: Budget = (120, 30)


def routes(node: Node) -> list[BaseRoute]:
    """Every page and asset. Each page authenticates by itself; only those marked so are open to all."""
    site = Site(node)
    session = Session(site)
    return [
        open_to_all(Route("/", _home, methods=["GET"])),
        open_to_all(Route("/sign-in", session.page, methods=["GET"]), _SIGN_IN),
        open_to_all(Route("/sign-in", session.sign_in, methods=["POST"]), _SIGN_IN),
        site.route("/sign-out", session.sign_out, method="POST"),
        site.route("/inbox", inbox.show),
        site.route("/inbox/queue", inbox.show_queue),
        site.route("/inbox/{id}", inbox.show_question),
        site.route("/inbox/{id}/pane", inbox.show_pane),
        site.route("/inbox/{id}/answer", inbox.answer, method="POST", grant="write"),
        site.route("/inbox/{id}/open", outside.leave, method="POST", grant="write"),
        site.route("/inbox/{id}/withdraw", inbox.withdraw, method="POST", grant="write"),
        site.route("/runs", runs.show_all),
        site.route("/runs/{id}", runs.show_one),
        site.route("/runs/{id}/retry", runs.retry, method="POST", grant="write"),
        site.route("/runs/{id}/discard", runs.discard, method="POST", grant="write"),
        site.route("/hooks", hooks.show),
        site.route("/hooks/runs/{id}/retry", hook_runs.retry, method="POST", grant="write"),
        site.route("/hooks/runs/{id}/discard", hook_runs.discard, method="POST", grant="write"),
        site.route("/presets", presets.show_all),
        site.route("/presets/{name}", presets.show_one),
        site.route("/schedules", schedules.show),
        site.route("/audit", audit.show),
        site.route("/keys", keys.show, grant="admin"),
        site.route("/keys", keys.create, method="POST", grant="admin"),
        site.route("/keys/revoke", keys.revoke, method="POST", grant="admin"),
        open_to_all(Route(assets.PREFIX + "/{name}", assets.serve, methods=["GET"])),
    ]


async def _home(request: Request) -> Response:
    return redirect("/inbox")
