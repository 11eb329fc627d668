"""The one bridge of this deploy in this process, made from the valves and made anew when they change."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rejoinder.openclaw.calls import Model, list_models
from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import GatewayError
from rejoinder.openclaw.handshake import READ, WRITE, Access, gateway_url
from rejoinder.openwebui.afterwards import Wishes
from rejoinder.openwebui.bridge import Bridge
from rejoinder.openwebui.host import Host, UnknownHost
from rejoinder.openwebui.valves import Connection, PipeValves

log = logging.getLogger("rejoinder.openwebui")

IDENTITY, MODELS = "device-identity.json", "models.json"
#: Open WebUI's whole list of models waits for ours: a slow Gateway must not keep it.
MODELS_SECONDS = 3.0


class SettingError(Exception):
    """A valve, or the Host, is not as it must be. The text names the valve."""


class _Deployment:
    def __init__(self) -> None:
        self.bridge: Bridge | None = None
        self.settings: tuple[Any, ...] | None = None


_deployment = _Deployment()


def bridge_for(valves: PipeValves, app: Any = None, *, pipe_id: str | None = None) -> Bridge:
    """The bridge of these settings, connecting if it is new. `pipe_id`: the pipe's own, where it is known.
    Raises SettingError."""
    settings = _settings(valves)
    found = _deployment.bridge
    if found is None or _deployment.settings != settings or found.retired:
        try:
            host = Host.probe(app)
        except UnknownHost as error:
            raise SettingError(str(error)) from error
        found = Bridge(host, access_of(valves), send_stop=valves.SEND_STOP_ON_CANCEL)
        _deployment.bridge, _deployment.settings = found, settings
        found.start()
    agent = valves.TITLE_GEN_AGENT_ID.strip() if valves.AUTO_TITLE else ""
    found.afterwards.wishes = Wishes(title_agent=agent or None, facts=valves.SHOW_USAGE)
    if pipe_id is not None:
        found.models = f"{pipe_id}."
    return found


@asynccontextmanager
async def client_for(valves: PipeValves) -> AsyncIterator[GatewayClient]:
    """A way to the Gateway for who writes no messages: the bridge's own where it is of this deploy, else another that
    listens to nothing and takes nothing over. Raises SettingError."""
    bridge = _deployment.bridge
    if bridge is not None and not bridge.retired and _deployment.settings == _settings(valves):
        yield bridge.client
        return
    async with GatewayClient(access_of(valves)) as client:
        yield client


def _settings(valves: PipeValves) -> tuple[Any, ...]:
    return (
        valves.GATEWAY_URL,
        valves.GATEWAY_TOKEN,
        valves.DEVICE_IDENTITY,
        valves.STATE_DIR,
        valves.SEND_STOP_ON_CANCEL,
    )


def access_of(valves: Connection) -> Access:
    """How to connect. Raises SettingError."""
    try:
        url = gateway_url(valves.GATEWAY_URL)
    except GatewayError as error:
        raise SettingError(f"{error.message} Valve: GATEWAY_URL.") from error
    access = Access(url, token=valves.GATEWAY_TOKEN.strip(), needed=(READ, WRITE))
    if not access.token and not valves.DEVICE_IDENTITY.strip():
        raise SettingError(
            "No token for the Gateway is set. Copy gateway.auth.token from its configuration. Valve: GATEWAY_TOKEN."
        )
    try:
        device = None
        if valves.DEVICE_IDENTITY.strip():
            device = Device.parse(valves.DEVICE_IDENTITY)
        elif not access.loopback:
            device = Device.load(state_dir(valves.STATE_DIR) / IDENTITY)
    except GatewayError as error:
        raise SettingError(f"{error.message} Valves: DEVICE_IDENTITY, STATE_DIR.") from error
    return Access(url, token=access.token, needed=(READ, WRITE), device=device)


def state_dir(wanted: str) -> Path:
    """The folder that is kept: the wanted one, else one in the Host's data folder, else a temporary one."""
    choices = [Path(wanted)] if wanted.strip() else []
    if os.environ.get("DATA_DIR"):
        choices.append(Path(os.environ["DATA_DIR"]) / "openclaw-bridge")
    for choice in choices:
        try:
            choice.mkdir(parents=True, exist_ok=True)
            if os.access(choice, os.W_OK):
                return choice
        except OSError:
            continue
    lost = Path(tempfile.gettempdir()) / "openclaw-bridge"
    lost.mkdir(parents=True, exist_ok=True)
    log.warning(
        "Neither %s can be written, so the device identity is kept in %s, where a restart of the machine loses it. "
        "Set the valve STATE_DIR to a folder that stays.",
        " nor ".join(map(str, choices)) or "STATE_DIR",
        lost,
    )
    return lost


async def models_of(bridge: Bridge, valves: PipeValves) -> list[dict[str, str]]:
    """The Gateway's models as `{ref, name, provider}`: its own word if it is connected, else what it last said."""
    kept = state_dir(valves.STATE_DIR) / MODELS
    if bridge.client.connected:
        try:
            listed = await asyncio.wait_for(list_models(bridge.client), MODELS_SECONDS)
            found = [_plain(model) for model in listed]
            kept.write_text(json.dumps(found), encoding="utf-8")
            return found
        except (GatewayError, OSError, TimeoutError) as error:
            log.info("The models could not be listed: %s", error or type(error).__name__)
    try:
        known = json.loads(kept.read_text(encoding="utf-8"))
        return [one for one in known if isinstance(one, dict) and one.get("ref")]
    except (OSError, ValueError):
        return []


def _plain(model: Model) -> dict[str, str]:
    return {"ref": model.ref, "name": model.name, "provider": model.provider}
