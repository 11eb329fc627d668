"""What an operator can set, by environment variable. A bad value fails when the process starts, naming the variable.

The ``INTERACTIONS_*``, ``TAI_*`` and ``ACCESS_CONTROL_ENABLE`` names are those of the interface this product serves;
the ones of that interface which have no meaning here are listed in ``docs/reference/settings.md``.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from rejoinder.contract.errors import ConfigurationError

CheckpointProvider = Literal["postgres", "redis", "memory", "sqlite", "off"]


class FamilyBudget(BaseModel):
    """What an operator sets for one family of public doors: requests a minute, and in ten seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: PositiveInt | None = None
    burst: PositiveInt | None = None


class Settings(BaseSettings):
    """Read once at the start of a process. Durations are seconds, sizes bytes."""

    model_config = SettingsConfigDict(
        extra="ignore", frozen=True, env_ignore_empty=True, env_nested_delimiter="__"
    )

    # The store
    rejoinder_database_url: str | None = None
    rejoinder_database_pool: PositiveInt = 8
    rejoinder_statement_timeout_seconds: PositiveFloat = 30

    # Questions
    interactions_answer_timeout_seconds: PositiveFloat = 3600
    interactions_idle_ttl_seconds: PositiveFloat = 86_400
    interactions_public_base_url: str | None = None
    interactions_callback_max_body_bytes: PositiveInt = 65_536
    #: What a callback URL answers that is unknown or over, and one whose page cannot be drawn.
    interactions_callback_gone_text: str = "Not Found"
    interactions_callback_fault_text: str = "Internal Server Error"
    interactions_max_concurrent: PositiveInt | None = 1000
    interactions_max_concurrent_caller: PositiveInt | None = 10_000

    # Runs
    tai_tool_runs_recent_runs_limit: PositiveInt = 50
    tai_tool_runs_result_ttl_seconds: PositiveFloat = 86_400
    tai_tool_runs_max_concurrent_runs: PositiveInt = 32
    tai_tool_runs_shutdown_drain_seconds: PositiveFloat = 10
    rejoinder_run_max_starts: PositiveInt = 3
    rejoinder_run_retry_base_seconds: PositiveFloat = 1
    rejoinder_run_retry_cap_seconds: PositiveFloat = 600
    #: A worker whose job has not beaten for this long has its job handed to another.
    rejoinder_job_heartbeat_timeout_seconds: PositiveFloat = 10

    # Events from outside, and what hooks make of them
    webhook_ingress_max_body_bytes: PositiveInt = 65_536
    #: Topics to which a GET is an event. Everywhere else a GET changes nothing.
    webhook_get_topics: Annotated[tuple[str, ...], NoDecode] = ()
    #: Hook runs of one topic without a verifier that may wait or be held.
    webhook_open_topic_max_outstanding: PositiveInt = 1_000
    hooks_max_workers: PositiveInt = 10
    hooks_run_max_attempts: PositiveInt = 5
    hooks_run_retry_base_seconds: PositiveFloat = 10
    hooks_run_retry_cap_seconds: PositiveFloat = 600
    hooks_run_lease_seconds: PositiveFloat = 60
    hooks_run_sweep_seconds: PositiveFloat = 5
    hooks_run_shutdown_grace_seconds: PositiveFloat = 20
    rejoinder_delivery_retention_seconds: PositiveFloat = 7 * 86_400
    rejoinder_open_delivery_retention_seconds: PositiveFloat = 86_400

    # Agents
    llm_provider_checkpoint: CheckpointProvider = "postgres"
    llm_provider_checkpoint_conn_string: str | None = None
    llm_provider_checkpoint_retention_waiting_minutes: PositiveFloat = 10_080
    llm_provider_checkpoint_retention_finished_minutes: PositiveFloat = 1_440
    tai_agents_default_recursion_limit: PositiveInt = 50
    #: How long a run waits for one that it called and that is parked, whatever that one's deadline.
    tai_agents_chained_park_horizon_cap_hours: PositiveFloat = 168

    # Schedules
    #: False: the doors of schedules answer 501, and this process takes no turns of theirs.
    schedules_enable: bool = True

    # Approvals
    #: How long a call that waits for approval stays open where its run is parked.
    rejoinder_approval_seconds: PositiveFloat = 86_400

    # MCP
    #: How long one call is held for a person. Many clients give a call 60 seconds.
    rejoinder_mcp_hold_seconds: PositiveFloat = 50

    # Who is alive
    rejoinder_beat_seconds: PositiveFloat = 1
    rejoinder_stale_seconds: PositiveFloat = 2.5
    rejoinder_half_open_seconds: PositiveFloat = 30
    #: Floor of every wait: nothing depends on a notification having arrived.
    rejoinder_poll_seconds: PositiveFloat = 5

    # Access
    access_control_enable: bool = True
    rejoinder_session_seconds: PositiveFloat = 30 * 86_400
    rejoinder_allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    #: Hosts, host:port and networks that may be called although they are not out in the world.
    rejoinder_outbound_allow: Annotated[tuple[str, ...], NoDecode] = ()

    # Presets
    #: Environment variables that the fixed arguments of presets may refer to.
    rejoinder_preset_variables: Annotated[tuple[str, ...], NoDecode] = ()

    # Flood control of public doors
    tai_rate_limit_default_enabled: bool = True
    tai_rate_limit_default_limit: PositiveInt = 600
    tai_rate_limit_default_burst: PositiveInt = 120
    tai_rate_limit_families: dict[str, FamilyBudget] | None = None
    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = ()
    trusted_hops: NonNegativeInt = 0

    # Pages
    #: For readers whose browser asks for no language that there is.
    rejoinder_language: Literal["en", "de"] = "en"

    # Keeping
    rejoinder_audit_retention_days: PositiveInt = 90

    # Seeing
    rejoinder_log_level: Literal["debug", "info", "warning", "error"] = "info"
    rejoinder_log_format: Literal["json", "text"] = "json"

    @field_validator("interactions_max_concurrent", "interactions_max_concurrent_caller", mode="before")
    @classmethod
    def _none_is_unlimited(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().lower() == "none" else value

    @field_validator(
        "rejoinder_allowed_hosts", "rejoinder_outbound_allow", "rejoinder_preset_variables", mode="before"
    )
    @classmethod
    def _comma_list(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("webhook_get_topics", mode="before")
    @classmethod
    def _topics(cls, value: object) -> object:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _networks(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(ip_network(part.strip(), strict=False) for part in value.split(",") if part.strip())
        return value

    @field_validator("tai_rate_limit_families")
    @classmethod
    def _lower_case(cls, value: dict[str, FamilyBudget] | None) -> dict[str, FamilyBudget] | None:
        return None if value is None else {family.lower(): budget for family, budget in value.items()}

    @field_validator("tai_rate_limit_default_enabled")
    @classmethod
    def _always_limited(cls, value: bool) -> bool:
        if not value:
            raise ValueError(
                "flood control is always on; raise TAI_RATE_LIMIT_DEFAULT_LIMIT and _BURST instead"
            )
        return value

    @model_validator(mode="after")
    def _finished_is_kept_no_longer_than_waiting(self) -> Self:
        waiting = self.llm_provider_checkpoint_retention_waiting_minutes
        if self.llm_provider_checkpoint_retention_finished_minutes > waiting:
            raise ConfigurationError(
                "LLM_PROVIDER_CHECKPOINT_RETENTION_FINISHED_MINUTES must be at most "
                f"LLM_PROVIDER_CHECKPOINT_RETENTION_WAITING_MINUTES, which is {waiting:g}"
            )
        return self

    @classmethod
    def load(cls, **overrides: object) -> Settings:
        """The settings of this process. Raises ConfigurationError naming each variable that is wrong."""
        try:
            return cls(**overrides)  # type: ignore[arg-type]
        except ValidationError as error:
            wrong = "; ".join(
                f"{'_'.join(str(p) for p in fault['loc'][:1]).upper()}: {fault['msg']}"
                for fault in error.errors()
            )
            raise ConfigurationError(f"a setting is wrong: {wrong}") from None
