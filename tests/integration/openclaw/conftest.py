"""A Gateway and a clock for each test of its client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fake_gateway import FakeGateway, HandClock


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as server:
        yield server


@pytest.fixture
def clock() -> HandClock:
    return HandClock()
