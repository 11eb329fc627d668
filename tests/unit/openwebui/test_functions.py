"""What the Functions make of what Open WebUI hands them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rejoinder.openwebui import host
from rejoinder.openwebui.deployment import SettingError, access_of, state_dir
from rejoinder.openwebui.host import Host, UnknownHost
from rejoinder.openwebui.pipe import Pipe, _last_words, _notes, _text_of
from rejoinder.openwebui.thinking import Filter
from rejoinder.openwebui.turn import Asked, receipt
from rejoinder.openwebui.valves import Connection

PNG = "data:image/png;base64,QUJD"


@pytest.mark.parametrize(
    "task", ["title_generation", "tags_generation", "follow_up_generation", "emoji_generation"]
)
async def test_the_hosts_own_tasks_never_reach_the_agent(task: str) -> None:
    body = {"model": "openclaw_gateway.default", "messages": [{"role": "user", "content": "x"}]}
    assert await Pipe().pipe(body, __task__=task) == ""


@pytest.mark.parametrize("stream", [True, False])
async def test_a_missing_token_names_its_valve(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Host, "probe", classmethod(lambda cls, app=None: SimpleNamespace(anchor=SimpleNamespace()))
    )
    body = {
        "model": "openclaw_gateway.default",
        "stream": stream,
        "messages": [{"role": "user", "content": "x"}],
    }
    answer = await Pipe().pipe(body)
    told = [event async for event in answer] if stream else [answer]
    assert "GATEWAY_TOKEN" in str(told[-1]["error"])


async def test_a_fault_of_ours_has_an_id_that_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("rejoinder.openwebui.pipe.bridge_for", broken)
    body = {"model": "openclaw_gateway.default", "messages": [{"role": "user", "content": "x"}]}
    told = (await Pipe().pipe(body))["error"]["detail"]
    assert "secret" not in told
    assert told.split()[-1].rstrip(".") in caplog.text


async def test_without_a_gateway_there_is_still_a_model_to_choose() -> None:
    pipe = Pipe()
    assert await pipe.pipes() == [{"id": "default", "name": "OpenClaw · Default"}]
    pipe.valves.CONFIGURED_MODELS = "openai/gpt-5.5, , anthropic/claude"
    assert [one["id"] for one in await pipe.pipes()] == ["default", "openai/gpt-5.5", "anthropic/claude"]


@pytest.mark.parametrize(
    ("content", "text", "images", "notes"),
    [
        ("hello", "hello", 0, 0),
        ([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PNG}}], "look", 1, 0),
        ([{"type": "image_url", "image_url": {"url": "https://elsewhere/x.png"}}], "", 0, 1),
        ([{"type": "image_url", "image_url": PNG}, {"type": "input_audio", "input_audio": {}}], "", 1, 1),
        (None, "", 0, 0),
        ([None, "x", 7], "", 0, 0),
    ],
)
def test_the_last_words_and_images_of_a_person(content: Any, text: str, images: int, notes: int) -> None:
    body = {"messages": [{"role": "user", "content": "before"}, {"role": "user", "content": content}]}
    found, attachments = _last_words(body)
    assert (found, len(attachments), len(_notes(body))) == (text, images, notes)
    for one in attachments:
        assert one == {"type": "image", "mimeType": "image/png", "fileName": "image-1.png", "content": "QUJD"}


@pytest.mark.parametrize(
    ("chosen", "model"),
    [
        ("default", None),
        ("", None),
        ("chatgpt", "openai/gpt-5.5"),
        ("opus", "anthropic/claude-opus-4-8"),
        ("sonnet", "anthropic/claude-sonnet-5"),
        ("glm", "openrouter/z-ai/glm-5.2"),
        ("openai/gpt-5.5-mini", "openai/gpt-5.5-mini"),
    ],
)
def test_old_entries_and_the_default_become_models(chosen: str, model: str | None) -> None:
    pipe = Pipe()
    assert pipe._asked({}, {}, {}, chosen).model == model
    pipe.valves.DEFAULT_MODEL = pipe.valves.OPUS_MODEL = " my/own "
    if chosen in ("", "default", "opus"):
        assert pipe._asked({}, {}, {}, chosen).model == "my/own"


def test_an_agents_words_are_not_sent_back_to_it() -> None:
    body = {"messages": [{"role": "user", "content": "mine"}, {"role": "assistant", "content": "its"}]}
    assert _last_words(body) == ("mine", [])


async def test_a_reply_without_a_stream_is_its_text() -> None:
    async def events() -> Any:
        message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "One "}]}
        yield {"type": "response.output_item.added", "output_index": 0, "item": message}
        yield {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "two."}
        yield {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"type": "function_call", "id": "f"},
        }

    assert await _text_of(events()) == "One two."


@pytest.mark.parametrize("url", ["", "http://", "not a url", "ftp://x"])
def test_a_bad_address_names_its_valve(url: str) -> None:
    with pytest.raises(SettingError, match="GATEWAY_URL"):
        access_of(Connection(GATEWAY_URL=url, GATEWAY_TOKEN="x"))


def test_a_gateway_elsewhere_gets_a_device_that_is_kept(tmp_path: Any) -> None:
    valves = Connection(GATEWAY_URL="wss://far.example", GATEWAY_TOKEN="x", STATE_DIR=str(tmp_path))
    first, second = access_of(valves), access_of(valves)
    assert first.device is not None
    assert second.device is not None
    assert first.device.id == second.device.id
    assert access_of(Connection(GATEWAY_TOKEN="x")).device is None  # on this machine none is needed


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "file").write_text("x")
    assert state_dir(str(tmp_path / "file" / "below")) == tmp_path / "data" / "openclaw-bridge"
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "lost"))
    assert state_dir("") == tmp_path / "lost" / "openclaw-bridge"
    assert "STATE_DIR" in caplog.text


def test_what_the_agent_is_told_of_the_sender() -> None:
    asked = Asked(agent="main", user=None, chat="c", message="m", text="x")
    assert '"chat_id": "c"' in receipt(asked)
    assert "user_id" not in receipt(asked)


@pytest.mark.parametrize(
    ("model", "base", "level", "own", "override", "expected"),
    [
        ("openclaw_gateway.default", None, "high", None, True, "high"),
        ("openclaw_gateway.default", None, "default", None, True, None),
        ("openclaw_gateway.default", None, "low", "high", True, "low"),
        ("openclaw_gateway.default", None, "low", "high", False, "high"),
        ("mine", "openclaw_gateway.openai/gpt", "max", None, True, "max"),
        ("gpt-5.5", None, "max", None, True, None),
    ],
)
async def test_the_thinking_level_goes_where_the_chats_controls_put_it(
    model: str, base: str | None, level: str, own: str | None, override: bool, expected: str | None
) -> None:
    thinking = Filter()
    thinking.valves.override_advanced_params = override
    body: dict[str, Any] = {"model": model, **({"reasoning_effort": own} if own else {})}
    user = {"valves": Filter.UserValves(level=level)}  # type: ignore[arg-type]
    found = await thinking.inlet(body, user, {"info": {"base_model_id": base}})
    assert found.get("reasoning_effort") == expected


def test_an_unknown_host_is_refused_with_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownHost, match=r"open_webui\.models\.chats"):
        Host.probe()
    for module, path, _ in host._NEEDED:
        found = sys.modules.get(module) if module in sys.modules else None
        if found is None or not isinstance(found, ModuleType):
            found = ModuleType(module)
            monkeypatch.setitem(sys.modules, module, found)
        owner: Any = found
        steps = path.split(".")
        for step in steps[:-1]:
            owner.__dict__.setdefault(step, SimpleNamespace())
            owner = getattr(owner, step)
        setattr(owner, steps[-1], lambda: None)
    with pytest.raises(UnknownHost, match="takes no id"):
        Host.probe()


def test_what_is_not_handed_to_the_agent_is_named() -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,QUJD"}},
        {"type": "input_audio", "input_audio": {}},
        {"type": "file", "file": {}},
        {"type": "file", "file": {}},
        {"type": "image_url", "image_url": {"url": "https://elsewhere.test/x.png"}},
    ]
    assert _notes({"messages": [{"role": "user", "content": parts}]}) == [
        "Not handed to the agent, which takes images only: a video, a sound, a file (× 2), an image that is only an address"
    ]
