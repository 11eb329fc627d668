"""The scripted model of the agents' tests."""

from __future__ import annotations

from tests.integration.agents.conftest import model

__all__ = ["model"]
