"""``rejoinder openclaw``: record what a Gateway says, and show what a recording makes of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from rejoinder.cli.output import note, print_json, print_table
from rejoinder.contract.errors import RejoinderError

if TYPE_CHECKING:
    from rejoinder.openclaw.handshake import Access
    from rejoinder.openclaw.recording import Recorder

app = App(name="openclaw", help="Record what an OpenClaw Gateway says, and replay recordings.")

ADDRESS_VARIABLE, TOKEN_VARIABLE = "OPENCLAW_GATEWAY_URL", "OPENCLAW_GATEWAY_TOKEN"
DEFAULT_ADDRESS = "ws://127.0.0.1:18789"


class GatewayCommandError(RejoinderError):
    """It did not work with the Gateway or the recording."""

    code = "gateway"
    status = 502


@app.command
def record(
    file: Annotated[Path, Parameter(help="The file to write, which must not exist; .gz packs it.")],
    /,
    *,
    url: Annotated[
        str | None, Parameter(help=f"The Gateway's address. [{ADDRESS_VARIABLE} or {DEFAULT_ADDRESS}]")
    ] = None,
    token: Annotated[
        str | None,
        Parameter(help=f"Its token; others on this machine may see it, so better set {TOKEN_VARIABLE}."),
    ] = None,
    device: Annotated[
        Path | None,
        Parameter(help="A file for a device identity, for a Gateway on another machine. Made if missing."),
    ] = None,
    seconds: Annotated[float | None, Parameter(help="Stop by itself after so many seconds.")] = None,
) -> None:
    """Record everything a Gateway says until Ctrl-C, with secrets masked. What people and agents write is kept."""
    from rejoinder.openclaw.device import Device
    from rejoinder.openclaw.errors import GatewayError
    from rejoinder.openclaw.handshake import READ, Access, gateway_url
    from rejoinder.openclaw.recording import Recorder, create

    try:
        secret = token if token is not None else os.environ.get(TOKEN_VARIABLE, "")
        identity = Device.load(device) if device is not None else None
        access = Access(
            gateway_url(url or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS),
            token=secret,
            scopes=(READ,),
            device=identity,
        )
        known = [secret, identity.token or "" if identity is not None else ""]
        with create(file) as opened:
            recorder = Recorder(opened, known=known)
            # What the client would log is said to the person here.
            logging.getLogger("rejoinder.openclaw").setLevel(logging.CRITICAL)
            try:
                asyncio.run(_record(access, recorder, seconds))
            finally:
                _sum_up(file, recorder)
    except GatewayError as error:
        raise GatewayCommandError(str(error)) from error
    if not recorder.lines:
        raise GatewayCommandError("Nothing was recorded, so no file was kept.")


def _sum_up(file: Path, recorder: Recorder) -> None:
    if not recorder.lines:
        file.unlink(missing_ok=True)
        return
    masked = ", ".join(recorder.mask.summary()) or "nothing had to be"
    note(f"{file}: {recorder.lines} frames. Masked: {masked}.")
    note("What people and agents wrote is in it. Read it before you hand it on.")


async def _record(access: Access, recorder: Recorder, seconds: float | None) -> None:
    from rejoinder.openclaw.record import record as record_gateway

    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if seconds is not None:
        loop.call_later(seconds, stop.set)
    else:
        note("Recording. Ctrl-C ends it.")
    await record_gateway(access, recorder, stop, say=note)


@app.command
def replay(
    file: Annotated[Path, Parameter(help="A recording; packed ones are read as they are.")],
    /,
    *,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for programs.")] = False,
) -> None:
    """Show the chats that a recording gives: one message for each run, oldest first, without what people wrote."""
    from rejoinder.openclaw.errors import GatewayError
    from rejoinder.openclaw.recording import load
    from rejoinder.openclaw.replay import as_json
    from rejoinder.openclaw.replay import replay as replay_lines

    try:
        chats = replay_lines(load(file))
    except GatewayError as error:
        raise GatewayCommandError(str(error)) from error
    if json:
        print_json(as_json(chats))
        return
    if not chats:
        note("No run in this recording shows anything.")
    for number, (key, messages) in enumerate(chats.items()):
        if number:
            print()
        print_table([("chat", f"CHAT {key}")], [])
        print_table(
            [("run", "RUN"), ("done", "DONE"), ("tools", "TOOLS"), ("text", "TEXT")],
            [
                {
                    "run": message.run_id,
                    "done": message.done,
                    "tools": ", ".join(f"{card.name} {card.status}" for card in message.cards) or None,
                    "text": message.text or None,
                }
                for message in messages
            ],
            wide="text",
        )
