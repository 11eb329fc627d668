"""What a finished message gets besides its words: the agent's files, lines about the session, and the chat's title."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from rejoinder.openwebui import afterwards
from rejoinder.openwebui.afterwards import MOST_FILES, Wishes
from rejoinder.openwebui.bridge import Bridge
from rejoinder.openwebui.turn import reply
from rejoinder.turns.finish import finish
from tests.fake_gateway import FakeGateway, Fault
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, stub, user_says
from tests.integration.openwebui.test_bridge import asked_by, done, new_run, remember, sent, tell, text
from tests.support import assert_eventually
from tests.unit.turns.script import Frames

PNG = b"\x89PNG not really"


def says(gateway: FakeGateway, f: Frames, words: str, streamed: str | None = None, **more: Any) -> None:
    """A run that says this, with rows that say it."""
    shown = words if streamed is None else streamed
    remember(gateway, f.key, f.asked(), f.said(words, **more))
    tell(gateway, *f.begin(), f.row(f.asked()), f.says(shown, shown, "i"), *f.final(shown), f.settled())


def artifacts(gateway: FakeGateway, **runs: list[dict[str, Any]]) -> None:
    """What the transcript has of each run. `data` and `url` of one are what a download answers."""
    known = {one["id"]: one for found in runs.values() for one in found}

    def listed(params: dict[str, Any]) -> Any:
        found = runs.get(params["runId"], [])
        return {"artifacts": [{k: v for k, v in one.items() if k not in ("data", "url")} for one in found]}

    def download(params: dict[str, Any]) -> Any:
        one = known[params["artifactId"]]
        return {"artifact": {"id": one["id"]}, **{k: v for k, v in one.items() if k in ("data", "url")}}

    gateway.handlers |= {"artifacts.list": listed, "artifacts.download": download}


async def with_field(world: World, chat_id: str, field: str, count: int = 1) -> list[dict[str, Any]]:
    """The last reply's field, once it has so many entries."""

    async def there() -> list[dict[str, Any]]:
        found = (await world.replies(chat_id))[-1].get(field) or []
        return found if len(found) >= count else []

    found: list[dict[str, Any]] = await assert_eventually(there, f"the reply has no {field}")
    return found


async def settled_down(world: World, bridge: Bridge) -> None:
    """Until nothing is done beside any more."""
    await assert_eventually(lambda: not bridge._tasks, "something is still being added")


async def test_files_of_the_transcript_are_shown_in_the_message(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("draw"))
    bridge = await connect()
    run = new_run()
    gateway.files["/api/chat/media/1?mediaTicket=t"] = PNG
    artifacts(
        gateway,
        **{
            run: [
                {
                    "id": "artifact_1",
                    "title": "picture.png",
                    "mimeType": "image/png",
                    "url": "/api/chat/media/1?mediaTicket=t",
                },
                {
                    "id": "artifact_2",
                    "title": "notes.txt",
                    "mimeType": "text/plain",
                    "data": base64.b64encode(b"hello").decode(),
                },
            ]
        },
    )
    f = Frames(run, key_of(world, chat_id))
    # The file comes into the transcript, then the run is settled; before that nothing is asked for.
    says(gateway, f, "Here it is.")
    (message,) = await done(world, chat_id, 1)
    assert text(message) == "Here it is."
    image, file = await with_field(world, chat_id, "files", 2)
    assert (image["type"], image["name"], image["url"]) == (
        "image",
        "picture.png",
        f"/api/v1/files/{image['id']}/content",
    )
    assert (file["type"], file["name"], file["url"], file["size"]) == ("file", "notes.txt", file["id"], 5)
    assert await world.stored(image["id"]) == ("picture.png", "image/png", PNG)
    assert await world.stored(file["id"]) == ("notes.txt", "text/plain", b"hello")
    told = [one.data for one in world.seen(chat_id, message["id"]) if one.type == "files"]
    assert told == [{"files": [image, file]}]
    await settled_down(world, bridge)


async def test_files_that_only_the_words_name_come_from_the_workspace(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("draw"))
    bridge = await connect()
    asked: list[str] = []

    def get(params: dict[str, Any]) -> Any:
        asked.append(params["path"])
        if params["path"].endswith(".zip"):
            return Fault({"code": "INVALID_REQUEST", "message": "workspace file is not UTF-8 text"})
        content = base64.b64encode(PNG).decode()
        return {"file": {"name": "a.png", "mimeType": "image/png", "encoding": "base64", "content": content}}

    gateway.handlers["agents.workspace.get"] = get
    gateway.handlers["agents.list"] = lambda _: {"agents": [{"id": "main", "workspace": "/home/x/ws"}]}
    f = Frames(new_run(), key_of(world, chat_id))
    words = (
        "Look.\n\nMEDIA:a.png\nMEDIA:/home/x/ws/sub/b.zip\nMEDIA:/etc/passwd.txt\nMEDIA:https://x.test/c.png"
    )
    says(gateway, f, words, streamed="Look.")
    (message,) = await done(world, chat_id, 1)
    assert text(message) == "Look."
    (image,) = await with_field(world, chat_id, "files")
    assert (image["name"], (await world.stored(image["id"]))[2]) == ("a.png", PNG)
    lines = [one["description"] for one in await with_field(world, chat_id, "statusHistory", 3)]
    assert asked == ["a.png", "sub/b.zip"]
    assert "b.zip" in lines[0]
    assert "outside of the agent's workspace" in lines[1]
    assert "does not lie on the Gateway" in lines[2]
    await settled_down(world, bridge)


@pytest.mark.parametrize(
    "one",
    [
        {"url": "https://elsewhere.test/a.png"},
        {"url": "//elsewhere.test/a.png"},
        {"url": "/nothing/is/here"},
        {"data": "%%%"},
        {"data": ""},
        {},
    ],
)
async def test_a_file_that_cannot_be_had_is_said_and_the_reply_stays(
    gateway: FakeGateway, world: World, connect: Connect, one: dict[str, Any]
) -> None:
    chat_id = await world.chat(user_says("draw"))
    bridge = await connect()
    f = Frames(new_run(), key_of(world, chat_id))
    artifacts(gateway, **{f.run: [{"id": "artifact_1", "title": "picture.png", **one}]})
    says(gateway, f, "Here it is.")
    (message,) = await done(world, chat_id, 1)
    (line,) = await with_field(world, chat_id, "statusHistory")
    assert "picture.png" in line["description"]
    assert "mediaTicket" not in line["description"]
    assert (text(message), (await world.replies(chat_id))[0].get("files")) == ("Here it is.", None)
    await settled_down(world, bridge)


async def test_more_files_than_a_reply_shows_are_counted_off(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("draw"))
    bridge = await connect()
    f = Frames(new_run(), key_of(world, chat_id))
    data = base64.b64encode(PNG).decode()
    many = [{"id": f"a{n}", "title": f"{n}.png", "mimeType": "image/png", "data": data} for n in range(22)]
    artifacts(gateway, **{f.run: many})
    says(gateway, f, "Here they are.")
    await done(world, chat_id, 1)
    assert len(await with_field(world, chat_id, "files", MOST_FILES)) == MOST_FILES
    assert len(await with_field(world, chat_id, "statusHistory", 2)) == 2
    await settled_down(world, bridge)


async def test_the_lines_above_a_reply_say_what_is_left(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("go"))
    bridge = await connect()
    session = {
        "totalTokens": 64_000,
        "contextTokens": 128_000,
        "goal": {"objective": "Ship it", "status": "active"},
    }
    windows = [
        {"label": "5h", "usedPercent": 40, "resetAt": 4_000_000_000_000},
        {"label": "Extra", "usedPercent": 1},
    ]
    gateway.handlers["sessions.describe"] = lambda _: {"session": session}
    gateway.handlers["usage.status"] = lambda _: {"providers": [{"displayName": "Acme", "windows": windows}]}
    f = Frames(new_run(), key_of(world, chat_id))
    says(gateway, f, "Done.", usage={"input": 10, "output": 5})
    (message,) = await done(world, chat_id, 1)
    assert message["usage"]["total_tokens"] == 15
    lines = [one["description"] for one in await with_field(world, chat_id, "statusHistory", 3)]
    assert lines[0] == "Goal: Ship it (active)"
    assert lines[1].startswith("Acme 5h: 60 % left, resets in ")
    assert lines[2] == "Context 64k of 128k (50 %) · Acme 5h 60 % left"
    told = [one.data["description"] for one in world.seen(chat_id, message["id"]) if one.type == "status"]
    assert told == lines

    bridge.afterwards.wishes = Wishes(facts=False)
    f = Frames(new_run(), key_of(world, chat_id))
    says(gateway, f, "And again.")
    await done(world, chat_id, 2)
    await settled_down(world, bridge)
    assert "statusHistory" not in (await world.replies(chat_id))[-1]


def standing(gateway: FakeGateway) -> None:
    """What there is to be said above a reply."""
    session = {"totalTokens": 64_000, "contextTokens": 128_000}
    gateway.handlers["sessions.describe"] = lambda _: {"session": session}
    gateway.handlers["usage.status"] = lambda _: {"providers": []}


async def test_an_agents_run_writes_the_chat_twice_with_the_lines_above_it(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("go"))
    bridge = await connect()
    standing(gateway)
    world.count_writes()
    says(gateway, Frames(new_run(), key_of(world, chat_id)), "Done.")
    (message,) = await done(world, chat_id, 1)
    await settled_down(world, bridge)
    assert [one["description"] for one in message["statusHistory"]] == ["Context 64k of 128k (50 %)"]
    assert world.written == [chat_id, chat_id]  # claimed, and finished


async def test_a_run_that_nobody_watched_writes_the_chat_once(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("go"), at=1_000)
    f = Frames(new_run(), key_of(world, chat_id))
    standing(gateway)
    row = f.said("Missed.")
    row["__openclaw"] = {**row["__openclaw"], "recordTimestampMs": 2_000_000}
    remember(gateway, f.key, f.asked(), row)
    gateway.sessions = [{"key": f.key, "sessionId": f.session, "status": "done", "updatedAt": 2_000_001}]
    world.count_writes()
    bridge = await connect()
    (message,) = await done(world, chat_id, 1)
    await settled_down(world, bridge)
    assert [one["description"] for one in message["statusHistory"]] == ["Context 64k of 128k (50 %)"]
    assert world.written == [chat_id]


async def test_lines_that_are_not_there_at_the_end_keep_no_reply_waiting(
    gateway: FakeGateway, world: World, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, read = asyncio.Event(), afterwards.Afterwards._read_lines

    async def late(self: afterwards.Afterwards, *about: Any) -> None:
        await written.wait()
        await read(self, *about)

    monkeypatch.setattr(afterwards.Afterwards, "_read_lines", late)
    monkeypatch.setattr(afterwards, "LINES_SECONDS", 0)
    chat_id = await world.chat(user_says("go"))
    bridge = await connect()
    standing(gateway)
    world.count_writes()
    says(gateway, Frames(new_run(), key_of(world, chat_id)), "Done.")
    await done(world, chat_id, 1)
    written.set()
    await settled_down(world, bridge)
    assert "statusHistory" not in (await world.replies(chat_id))[0]
    assert world.written == [chat_id, chat_id]


async def test_a_persons_turn_is_written_once_more_than_the_host_writes_it(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    bridge = await connect()
    standing(gateway)
    data = base64.b64encode(PNG).decode()
    gateway.handlers["artifacts.list"] = lambda _: {
        "artifacts": [{"id": "a1", "title": "p.png", "mimeType": "image/png"}]
    }
    gateway.handlers["artifacts.download"] = lambda _: {"data": data}
    world.count_writes()
    chat_id = await Turn(gateway, world, bridge)("Draw.", "Drawn.")
    await with_field(world, chat_id, "files")
    await settled_down(world, bridge)
    (message,) = await world.replies(chat_id)
    assert [one["description"] for one in message["statusHistory"]] == ["Context 64k of 128k (50 %)"]
    assert world.written == [chat_id, chat_id]  # the Host's own, and one for the files and the lines


class Turn:
    """A person's turn whose reply a request streams, as the Host does it."""

    def __init__(self, gateway: FakeGateway, world: World, bridge: Bridge) -> None:
        self.gateway, self.world, self.bridge = gateway, world, bridge

    async def __call__(self, question: str, answer: str, **more: Any) -> str:
        """Returns the chat's id once the reply is written."""
        message = stub()
        chat_id = await self.world.chat(user_says(question), message)
        task = asyncio.create_task(self._request(chat_id, message["id"]))
        params = await sent(self.gateway)
        f = Frames(params["idempotencyKey"], params["sessionKey"])
        says(self.gateway, f, answer, **more)
        await asyncio.wait_for(task, 20)
        return chat_id

    async def _request(self, chat_id: str, message_id: str) -> None:
        async def quiet(words: str, over: bool) -> None:
            pass

        content = ""
        usage = None
        async for event in reply(self.bridge, asked_by(self.world, chat_id, message_id), quiet):
            content += event.get("delta", "")
            if "item" in event:
                content += event["item"]["content"][0]["text"]
            if event.get("type") == "response.completed":
                usage = event["response"].get("usage")
        async with self.world.host.edit(chat_id) as chat:
            assert chat is not None
            fields = {"content": content, "done": True, **({"usage": usage} if usage else {})}
            await chat.put(message_id, fields)


def titles(gateway: FakeGateway, answer: str | Fault, state: str = "final") -> list[dict[str, Any]]:
    """Let the title's agent answer this. Returns what it is asked."""
    asked: list[dict[str, Any]] = []
    before = gateway.handlers["chat.send"]

    def send(params: dict[str, Any]) -> Any:
        if not params["sessionKey"].startswith("agent:title-gen:"):
            return before(params)
        asked.append(params)
        if isinstance(answer, Fault):
            return answer
        f = Frames(params["idempotencyKey"], params["sessionKey"])
        tell(gateway, *f.begin(), f.chat(state, answer))
        return before(params)

    gateway.handlers["chat.send"] = send
    return asked


async def test_a_new_chat_is_named_by_an_agent_of_its_own(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    bridge = await connect()
    bridge.afterwards.wishes = Wishes(title_agent="title-gen", facts=False)
    asked = titles(gateway, '"🐦 How birds fly"\nIt is about birds.')
    chat_id = await Turn(gateway, world, bridge)("How do birds fly?", "With wings.")

    async def named() -> bool:
        return bool(await world.title(chat_id) == "🐦 How birds fly")

    await assert_eventually(named, "the chat has no title")
    (request,) = asked
    assert request["idempotencyKey"].startswith("owui-action-title-")
    assert request["deliver"] is False
    assert "How do birds fly?" in request["message"]
    assert "With wings." in request["message"]
    await settled_down(world, bridge)
    assert next(one.data for one in world.told if one.type == "chat:title") == "🐦 How birds fly"
    # It is a run without a message.
    assert len(await world.replies(chat_id)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Fault({"code": "INVALID_REQUEST", "message": 'Agent "title-gen" no longer exists in configuration'}),
        "",
        '"" \n  ',
    ],
)
async def test_without_a_title_the_chat_keeps_its_own(
    gateway: FakeGateway, world: World, connect: Connect, answer: Any
) -> None:
    bridge = await connect()
    bridge.afterwards.wishes = Wishes(title_agent="title-gen", facts=False)
    asked = titles(gateway, answer)
    chat_id = await Turn(gateway, world, bridge)("How do birds fly?", "With wings.")
    await assert_eventually(lambda: len(asked) == 1, "no title was asked for")
    await settled_down(world, bridge)
    assert await world.title(chat_id) == "New Chat"


async def test_a_title_run_that_fails_names_nothing(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    bridge = await connect()
    bridge.afterwards.wishes = Wishes(title_agent="title-gen", facts=False)
    asked = titles(gateway, "half a tit", state="aborted")
    chat_id = await Turn(gateway, world, bridge)("How do birds fly?", "With wings.")
    await assert_eventually(lambda: len(asked) == 1, "no title was asked for")
    await settled_down(world, bridge)
    assert await world.title(chat_id) == "New Chat"


async def test_a_title_that_a_person_wrote_is_kept(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    bridge = await connect()
    bridge.afterwards.wishes = Wishes(title_agent="title-gen", facts=False)
    asked = titles(gateway, "Another title")
    turn = Turn(gateway, world, bridge)
    before = turn._request

    async def renamed(chat_id: str, message_id: str) -> None:
        async with world.host.edit(chat_id) as chat:
            assert chat is not None
            chat.rename("Mine")
        await before(chat_id, message_id)

    turn._request = renamed  # type: ignore[method-assign]
    chat_id = await turn("How do birds fly?", "With wings.")
    await settled_down(world, bridge)
    assert (await world.title(chat_id), asked) == ("Mine", [])


async def test_a_run_of_the_agents_own_names_no_chat(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    bridge = await connect()
    bridge.afterwards.wishes = Wishes(title_agent="title-gen", facts=False)
    asked = titles(gateway, "Another title")
    chat_id = await world.chat(user_says("hello"))
    says(gateway, Frames(new_run(), key_of(world, chat_id)), "By myself.")
    await done(world, chat_id, 1)
    await settled_down(world, bridge)
    assert asked == []


async def test_a_persons_reply_gets_its_files_and_its_tokens_once(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    bridge = await connect()
    data = base64.b64encode(PNG).decode()
    gateway.handlers["artifacts.list"] = lambda _: {
        "artifacts": [{"id": "a1", "title": "p.png", "mimeType": "image/png"}]
    }
    gateway.handlers["artifacts.download"] = lambda _: {"data": data}
    chat_id = await Turn(gateway, world, bridge)("Draw.", "Drawn.", usage={"input": 10, "output": 5})
    await with_field(world, chat_id, "files")
    await settled_down(world, bridge)
    (message,) = await world.replies(chat_id)
    assert message["usage"] == {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    # The same message finished a second time (another process, a restart): nothing is there twice.
    f = Frames(f"msg-{chat_id}-{message['id']}-2", key_of(world, chat_id))
    run = SimpleRun(f, message["id"])
    bridge.afterwards.ended(run, run.final)  # type: ignore[arg-type]
    bridge.afterwards.finished(message["id"])
    await settled_down(world, bridge)
    assert (await world.replies(chat_id))[0]["files"] == message["files"]


class SimpleRun:
    """As much of a run as is looked at after its end."""

    def __init__(self, f: Frames, message_id: str) -> None:
        self.key, self.run_id, self.message_id = f.key, f.run, message_id
        self.sources: list[Any] = []
        self.final = finish([f.said("Drawn.")], None)
