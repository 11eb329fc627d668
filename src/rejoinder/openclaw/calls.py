"""The calls of the Gateway that are used, with their answers typed. Each raises what `GatewayClient.call` raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rejoinder.openclaw.connection import LongCall
from rejoinder.openclaw.frames import Payload, mapping, rows
from rejoinder.openclaw.sessions import Caller

QueueMode = Literal["steer", "followup", "collect", "interrupt"]


class LongCaller(Caller, Protocol):
    """A caller that also makes calls with two answers."""

    async def call_long(self, method: str, params: Payload, *, seconds: float = ...) -> LongCall: ...


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a message. `status`: `started`; `in_flight` or `ok` for an id that was sent before and whose run
    goes on or has ended. `interrupted`: it cut the run that was active."""

    run_id: str
    status: str
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Aborted:
    """Whether anything was stopped, and which runs."""

    aborted: bool
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A model the Gateway offers. `ref` is `provider/id`, the name to choose it by."""

    id: str
    provider: str
    name: str
    raw: Payload

    @property
    def ref(self) -> str:
        return f"{self.provider}/{self.id}" if self.provider else self.id


async def send_chat(
    caller: Caller,
    key: str,
    message: str,
    run_id: str,
    *,
    queue_mode: QueueMode | None = None,
    attachments: Sequence[Payload] = (),
    thinking: str | None = None,
    deliver: bool | None = None,
    receipt: str | None = None,
) -> Sent:
    """Send a person's message; `run_id` becomes the id of its run, and sending it again starts no second one.

    attachments: `{type, mimeType, fileName, content}` with base64 content. thinking: a level the model knows.
    receipt: text about the sender that the agent sees beside the message.
    """
    params: dict[str, Any] = {"sessionKey": key, "message": message, "idempotencyKey": run_id}
    optional = {
        "queueMode": queue_mode,
        "thinking": thinking,
        "deliver": deliver,
        "systemProvenanceReceipt": receipt,
        "attachments": [dict(one) for one in attachments] or None,
    }
    params.update({name: value for name, value in optional.items() if value is not None})
    reply = mapping(await caller.call("chat.send", params))
    return Sent(
        str(reply.get("runId") or run_id),
        str(reply.get("status") or "started"),
        reply.get("interruptedActiveRun") is True,
    )


async def abort_chat(caller: Caller, key: str, run_id: str | None = None) -> Aborted:
    """Stop one run of a session, or whatever runs there. Nothing to stop is no error."""
    params = {"sessionKey": key} if run_id is None else {"sessionKey": key, "runId": run_id}
    reply = mapping(await caller.call("chat.abort", params))
    ids = reply.get("runIds")
    return Aborted(reply.get("aborted") is True, tuple(map(str, ids)) if isinstance(ids, list) else ())


async def run_agent(
    caller: LongCaller, key: str, message: str, run_id: str, *, provenance: Mapping[str, str] | None = None
) -> LongCall:
    """Start an agent's run on a session without delivering its reply anywhere else. The answer comes twice."""
    params: dict[str, Any] = {
        "sessionKey": key,
        "message": message,
        "idempotencyKey": run_id,
        "deliver": False,
    }
    if provenance:
        params["inputProvenance"] = dict(provenance)
    return await caller.call_long("agent", params)


async def list_models(caller: Caller, *, agent_id: str | None = None) -> list[Model]:
    """The models an agent may use, in the Gateway's order."""
    reply = mapping(await caller.call("models.list", {"agentId": agent_id} if agent_id else {}))
    found = []
    for item in rows(reply.get("models")):
        model = item.get("id")
        if isinstance(model, str) and model:
            provider = item.get("provider")
            name = item.get("name")
            found.append(
                Model(
                    model,
                    provider if isinstance(provider, str) else "",
                    name if isinstance(name, str) and name else model,
                    item,
                )
            )
    return found


async def list_jobs(caller: Caller) -> list[Payload]:
    """The scheduled jobs."""
    return rows(mapping(await caller.call("cron.list", {})).get("jobs"))


async def add_job(caller: Caller, job: Payload) -> str:
    """Add a scheduled job. Returns its id."""
    return str(mapping(await caller.call("cron.add", job)).get("id") or "")


async def run_job(caller: Caller, job_id: str) -> str:
    """Run a scheduled job now, due or not. Returns the id of this manual start (not of the agent's run)."""
    return str(mapping(await caller.call("cron.run", {"id": job_id, "mode": "force"})).get("runId") or "")


async def remove_job(caller: Caller, job_id: str) -> None:
    """Remove a scheduled job."""
    await caller.call("cron.remove", {"id": job_id})
