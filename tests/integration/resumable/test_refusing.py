"""What a resumable tool may not do is refused before anything is stored; code that changed is found out."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rejoinder import StepFailedError, ask, step, tool
from rejoinder.contract.errors import ConfigurationError, RejoinderError
from rejoinder.runs import resumable
from rejoinder.runs.manifest import load_manifest
from rejoinder.runs.tools import Tool
from rejoinder.store.database import Database
from tests.integration.agents.support import finished
from tests.integration.core.support import assert_sound, run_reaches, the_question
from tests.integration.nodes import ANN, running
from tests.integration.resumable.test_once import answer, asked_for, begin, sure

effects: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    effects.clear()


def done(what: str) -> str:
    effects[what] += 1
    return what


def made(code: Callable[..., Any], **options: Any) -> Tool:
    return tool(name="work", resumable=True, **options)(code)


@made
async def work() -> Any:
    await step("first", done, "first")
    return await sure("Go on?")


@pytest.mark.parametrize("provider", ["memory", "off", "sqlite"])
async def test_checkpoints_that_no_other_worker_reads_refuse_the_run(
    database_url: str, database: Database, provider: str
) -> None:
    async with running(database_url, work, llm_provider_checkpoint=provider) as node:
        for attempt in (
            lambda: node.run_service.call("work", {}, by=ANN, door="run-tool"),
            lambda: node.run_service.start_background("work", {}, by=ANN),
        ):
            with pytest.raises(RejoinderError) as refused:
                await attempt()
            assert refused.value.code == "cannot-park"
            assert "LLM_PROVIDER_CHECKPOINT" in refused.value.message
    assert await database.value("SELECT count(*) FROM rejoinder.run") == 0
    assert effects == Counter()


def test_a_manifest_without_the_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools.py").write_text(
        "from rejoinder import tool\n\n@tool(resumable=True)\nasync def work() -> None: ...\n",
        encoding="utf-8",
    )
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("tools: [{module: ./tools.py}]", encoding="utf-8")
    assert "work" in load_manifest(manifest)
    monkeypatch.setattr(resumable, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"work is resumable.*rejoinder\[agents\]"):
        load_manifest(manifest)


def test_its_definition_is_checked() -> None:
    def plain() -> None: ...

    with pytest.raises(ConfigurationError, match="async"):
        made(plain)
    with pytest.raises(ConfigurationError, match="continuation"):
        work.continuation(lambda ask_result: None)
    with pytest.raises(ValueError, match="name"):
        step("a:b", done, "x")
    with pytest.raises(TypeError, match="function"):
        step("a")  # type: ignore[call-overload]


async def fails(url: str, code: Callable[..., Any], **options: Any) -> tuple[str, str, bool]:
    """``(code, error, held)`` of a run that fails before it asks anything."""
    async with running(url, made(code, **options), worker=True) as node:
        run_id = await begin(node, "work")
        assert await run_reaches(node, run_id, "failed", "succeeded", "parked") == "failed"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.error is not None
        return run.error["code"], run.error["error"], run.held


async def test_a_result_that_is_not_json_names_the_step(database_url: str) -> None:
    async def code() -> Any:
        await step("open it", object)

    assert await fails(database_url, code) == (
        "step-failed",
        "the result of the step open it is not JSON, or holds a secret that was not revealed",
        False,
    )


async def test_a_result_that_is_too_large_names_the_step(database_url: str) -> None:
    async def code() -> Any:
        await step("read it", lambda: "x" * 2**20)

    kind, error, _ = await fails(database_url, code)
    assert (kind, "read it" in error, "1 MiB" in error) == ("step-failed", True, True)


async def test_a_step_neither_parks_nor_has_steps(database_url: str) -> None:
    async def parks() -> Any:
        await step("inner", sure, "In here?")

    async def nests() -> Any:
        async def inner() -> None:
            await step("deeper", done, "x")

        await step("inner", inner)

    for code in (parks, nests):
        kind, error, _ = await fails(database_url, code)
        assert (kind, "inner" in error or "deeper" in error) == ("cannot-park", True)


async def test_a_step_outside_of_a_resumable_tool_is_refused(database_url: str) -> None:
    @tool
    async def plain() -> Any:
        await step("x", done, "x")

    async with running(database_url, plain) as node:
        with pytest.raises(RejoinderError, match="not resumable"):
            await node.run_service.call("plain", {}, by=ANN, door="run-tool")


async def test_a_secret_answer_is_refused(database_url: str) -> None:
    async def code() -> Any:
        await ask("Password?", sensitive=True)

    kind, error, _ = await fails(database_url, code)
    assert (kind, "sensitive" in error) == ("bad-argument", True)


async def test_a_deadline_beyond_the_retention_is_refused(database_url: str, database: Database) -> None:
    async def code() -> Any:
        await ask("Late?", mode="async", expiry_at=datetime.now(UTC) + timedelta(days=6, hours=1))

    kind, error, _ = await fails(database_url, code)
    assert (kind, "Late?" in error) == ("bad-argument", True)
    assert await database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_a_question_that_is_left_open_is_a_fault(database_url: str) -> None:
    async def code() -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await sure("Quickly?")
        asking = asyncio.create_task(sure("Left?"))
        await asyncio.sleep(0)
        await step("work", done, "work")
        return asking.done()

    kind, error, _ = await fails(database_url, code)
    assert (kind, "await every question" in error) == ("cannot-park", True)
    await assert_sound(database_url)


async def changed(
    url: str, before: Callable[..., Any], after: Callable[..., Any]
) -> tuple[str, bool, str | None, str]:
    """Begin with one code and go on with another; the state of the run then, and its error."""
    async with running(url, made(before), worker=True) as node:
        run_id = await begin(node, "work")
        await run_reaches(node, run_id, "parked")
    async with running(url, made(after), worker=True) as node:
        await answer(node, await the_question(node), True)
        await run_reaches(node, run_id, "failed", "succeeded")
        run = await node.runs.by_id(run_id)
        assert run is not None
        found = run.state, run.held, (run.error or {}).get("code"), (run.error or {}).get("error", "")
    # The old code is brought back, and the run retried.
    async with running(url, made(before), worker=True) as node:
        await node.run_service.retry(run_id, by=ANN)
        assert await finished(node, run_id) is True
    return found


async def _renamed() -> Any:
    await step("second", done, "second")
    return await sure("Go on?")


async def _reworded() -> Any:
    await step("first", done, "first")
    return await sure("Destroy everything?")


async def _other_arguments() -> Any:
    await step("first", done, "second")
    return await sure("Go on?")


async def _swapped() -> Any:
    said = await sure("Go on?")
    await step("first", done, "first")
    return said


async def _left_out() -> Any:
    return True


@pytest.mark.parametrize(
    "after", [_renamed, _reworded, _other_arguments, _swapped, _left_out], ids=lambda code: code.__name__
)
async def test_code_that_does_something_else_is_held_and_goes_on_when_it_is_brought_back(
    database_url: str, after: Callable[..., Any]
) -> None:
    state, held, code, error = await changed(database_url, work.function, after)
    assert (state, held, code) == ("failed", True, "steps-diverged")
    assert error.startswith("work ")
    assert effects == Counter({"first": 1})
    await assert_sound(database_url)


async def test_a_failed_step_is_done_anew_by_a_retry_and_those_before_it_are_not(database_url: str) -> None:
    async def flaky() -> str:
        effects["flaky"] += 1
        if effects["flaky"] == 1:
            raise OSError("down")
        return "up"

    async def code() -> Any:
        await step("first", done, "first")
        said = await sure("Go on?")
        try:
            return [said, await step("flaky", flaky)]
        except StepFailedError as error:
            raise RuntimeError("wrapped") from error

    async with running(database_url, made(code), worker=True) as node:
        run_id = await begin(node, "work")
        await answer(node, await the_question(node), True)
        assert await run_reaches(node, run_id, "failed", "succeeded") == "failed"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.held
        await node.run_service.retry(run_id, by=ANN)
        assert await finished(node, run_id) == [True, "up"]
    assert effects == Counter({"first": 1, "flaky": 2})


async def test_an_idempotent_tool_is_tried_again_by_itself(database_url: str) -> None:
    async def flaky() -> str:
        effects["flaky"] += 1
        if effects["flaky"] < 3:
            raise OSError("down")
        return str(uuid.UUID(int=effects["flaky"]))

    async def code() -> Any:
        await step("first", done, "first")
        return await step("flaky", flaky)

    async with running(database_url, made(code, idempotent=True), worker=True) as node:
        run_id = await begin(node, "work")
        assert str(await finished(node, run_id)).endswith("3")
    assert effects == Counter({"first": 1, "flaky": 3})


async def test_a_question_withdrawn_takes_the_run_down(database_url: str) -> None:
    async with running(database_url, work, worker=True) as node:
        run_id = await begin(node, "work")
        question = await asked_for(node, "Go on?")
        await run_reaches(node, run_id, "parked")
        await node.asks.cancel(question.id, by=ANN, via="test")
        assert await run_reaches(node, run_id, "cancelled", "failed") == "cancelled"
    await assert_sound(database_url)


async def test_a_caller_that_goes_away_ends_the_run_and_what_it_does(database_url: str) -> None:
    begun = asyncio.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            effects["given up"] += 1
            raise

    async def code() -> Any:
        await step("slow", slow)

    async with running(database_url, made(code)) as node:
        calling = asyncio.create_task(node.run_service.call("work", {}, by=ANN, door="run-tool"))
        await asyncio.wait_for(begun.wait(), 20)
        calling.cancel()
        await asyncio.wait({calling})
        [run] = await node.run_service.newest(by=ANN)
        await run_reaches(node, run.id, "cancelled")
    assert effects == Counter({"given up": 1})
    await assert_sound(database_url)
