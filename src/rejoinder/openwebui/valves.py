"""The settings of the Functions. Names and defaults are those that people's deployments have stored."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Connection(BaseModel):
    """How the Gateway is reached."""

    GATEWAY_URL: str = Field(
        default="localhost:18789",
        description="The Gateway's address: host:port, ws://host:port, or wss://host for one behind TLS.",
    )
    GATEWAY_TOKEN: str = Field(
        default="",
        description="The Gateway's token (gateway.auth.token in its configuration). Required.",
        json_schema_extra={"input": {"type": "password"}},
    )
    DEVICE_IDENTITY: str = Field(
        default="",
        description="The device identity as JSON, for a Gateway on another machine. Empty: one is made and kept in "
        "STATE_DIR, and must be approved once on the Gateway's machine.",
        json_schema_extra={"input": {"type": "password"}},
    )
    STATE_DIR: str = Field(
        default="/data/openclaw-bridge",
        description="The folder for the device identity and the list of models. It must outlive the container.",
    )
    AGENT_ID: str = Field(default="main", description="The agent that answers.")


class PipeValves(Connection):
    """The pipe's settings."""

    SEND_STOP_ON_CANCEL: bool = Field(
        default=True,
        description="Also send /stop when a reply is stopped, which ends a tool that still runs.",
    )
    CONFIGURED_MODELS: str = Field(
        default="",
        description="The models to offer, separated by commas, such as openai/gpt-5.5. Empty: all the Gateway has.",
    )
    DEFAULT_MODEL: str = Field(
        default="",
        description="The model of the entry “OpenClaw · Default”. Empty: the agent's own.",
    )
    MAX_MODELS: int = Field(default=30, ge=1, le=100, description="The most models that are offered.")
    CHATGPT_MODEL: str = Field(
        default="openai/gpt-5.5", description="The model that a chat of the old entry “chatgpt” uses."
    )
    OPUS_MODEL: str = Field(
        default="anthropic/claude-opus-4-8", description="The model that a chat of the old entry “opus” uses."
    )
    SONNET_MODEL: str = Field(
        default="anthropic/claude-sonnet-5",
        description="The model that a chat of the old entry “sonnet” uses.",
    )
    GLM_MODEL: str = Field(
        default="openrouter/z-ai/glm-5.2", description="The model that a chat of the old entry “glm” uses."
    )
    AUTO_TITLE: bool = Field(
        default=True, description="Have an agent of its own name a new chat after its first exchange."
    )
    TITLE_GEN_AGENT_ID: str = Field(
        default="title-gen",
        description="The agent that names chats. Where the Gateway has none of this name, chats keep their titles.",
    )
    SHOW_USAGE: bool = Field(
        default=True, description="Show above a reply how full the context is and what is left of the limits."
    )


class EventValves(BaseModel):
    """The settings of a Function that uses the pipe's connection."""

    PIPE_ID: str = Field(
        default="openclaw_gateway", description="The id of the pipe whose settings are used."
    )
