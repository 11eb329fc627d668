"""``ask``: the one call that tool authors learn. The overloads tell a type checker what each format answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, overload

from pydantic import BaseModel

from rejoinder.asks.request import build_request
from rejoinder.contract.answers import AskAnswer, SecretValue, SuspendedInteraction
from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.forms import FormData, FormPage
from rejoinder.contract.media import MediaItem
from rejoinder.contract.public import PublicUrlError
from rejoinder.contract.questions import Link
from rejoinder.contract.verifiers import Binding
from rejoinder.runs.context import current_run

Media: TypeAlias = "Sequence[MediaItem | dict[str, Any]]"
Schema: TypeAlias = "type[BaseModel] | dict[str, Any]"
#: A catalogue of the sender's own words, as ``docs/reference/forms.md`` lists them.
Wording: TypeAlias = "BaseModel | dict[str, Any]"

if TYPE_CHECKING:
    T = TypeVar("T")

    # No object is both; a type that is lets either kind of tool be written without a cast.
    class AskedLater(AskAnswer[T], SuspendedInteraction):  # type: ignore[misc]
        """What ``mode="async"`` returns is the one in a tool with a continuation, and the other in a resumable tool."""


@overload
async def ask(
    question: str,
    *,
    answer_format: Literal["text"] = "text",
    options: Sequence[str] | None = None,
    group_id: str | None = None,
    timeout: float | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    sensitive: Literal[False] = False,
    mode: Literal["sync"] = "sync",
) -> AskAnswer[str]: ...
@overload
async def ask(
    question: str,
    *,
    answer_format: Literal["confirm"],
    group_id: str | None = None,
    timeout: float | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    sensitive: Literal[False] = False,
    mode: Literal["sync"] = "sync",
) -> AskAnswer[bool]: ...
@overload
async def ask(
    question: str,
    *,
    answer_format: Literal["select"],
    options: Sequence[str],
    group_id: str | None = None,
    timeout: float | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    sensitive: Literal[False] = False,
    mode: Literal["sync"] = "sync",
) -> AskAnswer[str]: ...
@overload
async def ask(
    question: str,
    *,
    answer_format: Literal["form"],
    schema: Schema,
    data: FormData | None = None,
    pages: Sequence[FormPage] | None = None,
    group_id: str | None = None,
    timeout: float | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    sensitive: Literal[False] = False,
    mode: Literal["sync"] = "sync",
) -> AskAnswer[dict[str, Any]]: ...
@overload
async def ask(
    question: str,
    *,
    answer_format: Literal["external"],
    link: Link,
    schema: Schema | None = None,
    verifier: Binding | dict[str, Any] | None = None,
    group_id: str | None = None,
    timeout: float | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    sensitive: Literal[False] = False,
    mode: Literal["sync"] = "sync",
) -> AskAnswer[dict[str, Any]]: ...
@overload
async def ask(
    question: str,
    *,
    answer_format: Literal["external"],
    link: Link,
    schema: Schema | None = None,
    verifier: Binding | dict[str, Any] | None = None,
    group_id: str | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    mode: Literal["async"],
    expiry_at: datetime,
    on_expiry: Literal["kill", "resume"] = "kill",
) -> AskedLater[dict[str, Any]]: ...
@overload
async def ask(
    question: str,
    *,
    sensitive: Literal[True],
    answer_format: Literal["text", "confirm", "select", "form", "external"] = "text",
    options: Sequence[str] | None = None,
    schema: Schema | None = None,
    data: FormData | None = None,
    pages: Sequence[FormPage] | None = None,
    link: Link | None = None,
    verifier: Binding | dict[str, Any] | None = None,
    group_id: str | None = None,
    timeout: float | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    mode: Literal["sync"] = "sync",
) -> AskAnswer[SecretValue[Any]]: ...
@overload
async def ask(
    question: str,
    *,
    mode: Literal["async"],
    expiry_at: datetime,
    answer_format: Literal["text", "select"] = "text",
    options: Sequence[str] | None = None,
    group_id: str | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    on_expiry: Literal["kill", "resume"] = "kill",
) -> AskedLater[str]: ...
@overload
async def ask(
    question: str,
    *,
    mode: Literal["async"],
    expiry_at: datetime,
    answer_format: Literal["confirm"],
    group_id: str | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    on_expiry: Literal["kill", "resume"] = "kill",
) -> AskedLater[bool]: ...
@overload
async def ask(
    question: str,
    *,
    mode: Literal["async"],
    expiry_at: datetime,
    answer_format: Literal["form"],
    schema: Schema,
    data: FormData | None = None,
    pages: Sequence[FormPage] | None = None,
    group_id: str | None = None,
    audience: str | None = None,
    media: Media | None = None,
    wording: Wording | None = None,
    on_expiry: Literal["kill", "resume"] = "kill",
) -> AskedLater[dict[str, Any]]: ...
@overload
async def ask(
    question: str | None = None,
    *,
    to: Literal["caller"],
    mode: Literal["async"],
    expiry_at: datetime,
    payload: Any = None,
    answer_format: Literal["text", "confirm", "select", "form", "free"] = "text",
    options: Sequence[str] | None = None,
    schema: Schema | None = None,
    group_id: str | None = None,
    media: Media | None = None,
    on_expiry: Literal["kill", "resume"] = "kill",
) -> AskedLater[Any]: ...
async def ask(question: str | None = None, **arguments: Any) -> Any:
    """Ask a person, from inside a tool that Rejoinder runs.

    ``mode="sync"`` blocks until somebody answers, at most ``timeout`` seconds, and returns an
    ``AskAnswer(answer, reply_to, params)`` whose ``answer`` is a str (text, select), a bool (confirm) or a dict
    (form, external). ``mode="async"`` records the question and returns a ``SuspendedInteraction`` at once; return it from the
    tool, and the tool's continuation is called with the answer, on any worker, once. In a resumable tool it returns the
    ``AskAnswer`` as well, and the code goes on with it, on any worker.

    ``to="caller"`` asks whoever called this run in the place of a person: a run that used ``call_tool``, a program over
    HTTP, an MCP client. It takes a ``question``, a ``payload`` of JSON, or both; the caller reads them as the result of
    its call and resumes the run with the answer. ``answer_format="free"`` takes any JSON but null.

    ``answer_format="external"`` is answered by an outside system through a callback URL: ``link`` sends a person
    there, ``schema`` is what the answer must fit, ``verifier`` says how the system proves itself.

    Raises AskArgumentError (an argument is wrong; nothing was stored), InteractionTimeoutError (nobody answered),
    InteractionCancelledError (the question was withdrawn), InteractionLimitError (too many are open) and
    SuspensionError (this run cannot park).
    """
    return await ask_with(question, arguments)


async def ask_with(question: object, arguments: dict[str, Any]) -> AskAnswer[Any] | SuspendedInteraction:
    run = current_run()
    if asyncio.get_running_loop() is not run.loop:
        # Such as asyncio.run() in a thread of the tool's own: the connections belong to the run's loop.
        asked = asyncio.run_coroutine_threadsafe(ask_with(question, arguments), run.loop)
        return await asyncio.wrap_future(asked)
    try:
        request = build_request(
            question,
            identity=run.identity,
            default_timeout=run.settings.interactions_answer_timeout_seconds,
            verifiers=run.asks.verifiers,
            public_base_url=run.settings.interactions_public_base_url,
            **arguments,
        )
    except (AskArgumentError, PublicUrlError) as error:
        await run.asks.note_refused_ask(run.asker, error)
        raise
    if run.replay is not None:
        return await run.replay.ask(request)
    return await run.asks.ask(run.asker, request)


def ask_blocking(question: str, **arguments: Any) -> AskAnswer[Any]:
    """``ask`` for tools written as plain functions (they run in a thread). Takes the same arguments, sync mode only.

    Raises TypeError on the event loop, which it would stop for everybody: an async tool awaits ``ask``."""
    run = current_run()
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("ask_blocking would stop the event loop; in an async function, await ask")
    if arguments.get("mode", "sync") != "sync":
        raise TypeError("ask_blocking waits for the answer; a parked question is asked by an async tool")
    future = asyncio.run_coroutine_threadsafe(ask_with(question, arguments), run.loop)
    return cast("AskAnswer[Any]", future.result())
