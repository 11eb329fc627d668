"""What a person who sees an error in the chat can do about it, with the name of the valve that is wrong."""

from __future__ import annotations

from rejoinder.openclaw.errors import CallFailed, Dropped, GatewayError, Kind, NotConnected, Refused, TimedOut

_VALVES: dict[Kind, str] = {
    "token": "Valve: GATEWAY_TOKEN.",
    "rate": "Valve: GATEWAY_TOKEN.",
    "unreachable": "Valve: GATEWAY_URL.",
    "timeout": "Valve: GATEWAY_URL.",
    "other": "Valve: GATEWAY_URL.",
    "device": "Valves: DEVICE_IDENTITY, STATE_DIR.",
    # What mends these is done on the Gateway's machine: the refusal itself has the commands and the settings.
    "pairing": "",
    "scopes": "",
    "origin": "",
    "client": "",
    "protocol": "",
    "starting": "Send the message again in a moment.",
    "draining": "Send the message again in a moment.",
}
#: How the Gateway says that an agent is unknown, from 2026.9.3 on.
_NO_AGENT = ("unknown", "not found", "no such", "no longer exists", "does not exist")
#: And that a model is; from inside a run as well, where it ends the reply.
_NO_MODEL = ("unknown model", "unknown provider", "model not allowed", "not allowed for")


def advice(error: GatewayError) -> str:
    """The error as a person is told it, with what mends it."""
    if isinstance(error, Refused):
        # A login that something in front of the Gateway asks for is not the Gateway's token.
        valve = "Valve: GATEWAY_URL." if error.code.startswith("HTTP_") else _VALVES[error.kind]
        return f"{error} {valve}".strip()
    if isinstance(error, (NotConnected, Dropped, TimedOut)):
        return f"{error.message} Send the message again in a moment."
    return error.message


def refused_message(error: CallFailed, agent: str) -> str:
    """Why the Gateway did not take a message for this agent."""
    said = error.message.lower()
    if "agent" in said and any(words in said for words in _NO_AGENT):
        return f"The Gateway has no agent named {agent}. Valve: AGENT_ID. It said: {error.message}"
    if "model" in said:
        return f"The Gateway does not take the model. {model_advice(error.message)}"
    return f"The Gateway did not take the message: {error.message}"


def refused_model(error: CallFailed, model: str) -> str:
    """Why the Gateway does not let a session use this model."""
    return f"The Gateway does not take the model {model}: {error.message} {_MODEL_VALVES}"


def model_advice(told: str) -> str:
    """A run's error as it is shown: where the model is unknown, with the valves that name one."""
    return f"{told} {_MODEL_VALVES}" if any(words in told.lower() for words in _NO_MODEL) else told


_MODEL_VALVES = (
    "Choose another model in the chat. Valves: DEFAULT_MODEL, CONFIGURED_MODELS, CHATGPT_MODEL, OPUS_MODEL, "
    "SONNET_MODEL, GLM_MODEL."
)
