"""The scripted model that agents under test ask: a real server, in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.rig.model import Model


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    started = Model().start()
    monkeypatch.setenv("SCRIPTED_BASE_URL", started.url)
    monkeypatch.setenv("SCRIPTED_API_KEY", "none")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    yield started
    started.stop()
