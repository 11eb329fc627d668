"""The rig's fixtures. One Gateway and one Host serve the whole session; a test takes fresh chats and session keys.

A test may kill, stop and start either: the next test that asks for it finds it running.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.live.rig import places
from tests.live.rig.gateway import Gateway
from tests.live.rig.host import Host
from tests.live.rig.model import Model
from tests.live.rig.page import ChatPage, chat_page
from tests.live.rig.process import Running

_RUNNING = pytest.StashKey[list[Running]]()


@pytest.fixture(scope="session")
def rig_folder() -> Iterator[Path]:
    """Where the programs of this session keep what they have; removed at the end."""
    wanted = places.missing()
    assert not wanted, f"{', '.join(wanted)} is not installed; make live installs it"
    folder = Path(tempfile.mkdtemp(prefix="rj-live-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def session_model() -> Iterator[Model]:
    started = Model().start()
    yield started
    started.stop()


@pytest.fixture
def model(session_model: Model) -> Iterator[Model]:
    """The scripted model, without rules; what a test left held is let go at its end."""
    session_model.reset()
    yield session_model
    session_model.reset()


@pytest.fixture(scope="session")
def session_gateway(rig_folder: Path, session_model: Model) -> Iterator[Gateway]:
    made = Gateway(rig_folder / "gateway", session_model)
    yield made
    # It would wait minutes for a run that a failed test left.
    made.kill()


@pytest.fixture
def gateway(session_gateway: Gateway, model: Model, request: pytest.FixtureRequest) -> Gateway:
    """The Gateway, running."""
    _up(session_gateway, request)
    return session_gateway


@pytest.fixture(scope="session")
def session_host(rig_folder: Path) -> Iterator[Host]:
    made = Host(rig_folder / "host")
    yield made
    made.stop()


@pytest.fixture
def host(session_host: Host, request: pytest.FixtureRequest) -> Host:
    """The Host, running, its administrator signed in."""
    _up(session_host, request)
    return session_host


@pytest.fixture
async def host_page(host: Host, browser: Browser) -> AsyncIterator[ChatPage]:
    """The Host's page in Chromium."""
    async with chat_page(browser, host) as shown:
        yield shown
    assert shown.foreign == []


def _up(process: Gateway | Host, request: pytest.FixtureRequest) -> None:
    request.node.stash.setdefault(_RUNNING, []).append(process)
    if not process.running:
        process.start()


def report(item: pytest.Item, found: pytest.TestReport) -> None:
    """Put the end of the logs under a failure."""
    if found.failed:
        for process in item.stash.get(_RUNNING, []):
            found.sections.append((f"log of {process.name}", process.tail()))
