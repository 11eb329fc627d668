"""Images of questions: taken out of them, served by an id that nobody can guess, and gone with them."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.media import MAX_PICTURES, PATH, check_media, detach, is_media_id, referred
from rejoinder.store.media import Media
from tests.integration.doors.edge import Edge, edge
from tests.support import MovableClock

REFERENCE = re.compile(PATH + r"/([A-Za-z0-9_-]{43})")


def png(shade: int = 0, extra: int = 0) -> bytes:
    """A whole image of one pixel; ``extra`` bytes lengthen it."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes([0, shade])))
        + (chunk(b"teXt", b"x" * extra) if extra else b"")
        + chunk(b"IEND", b"")
    )


def data_url(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def image(content: bytes, kind: str = "png") -> dict[str, str]:
    return {"kind": "image", "url": data_url(content, kind)}


async def shown(e: Edge, identifier: str) -> list[dict[str, Any]]:
    item = (await e.owner.get(f"/api/interactions/{identifier}")).json()["data"]
    media: list[dict[str, Any]] = item["media"]
    return media


async def stored(e: Edge) -> int:
    return int(await e.node.database.value("SELECT count(*) FROM rejoinder.media"))


async def refused(e: Edge, media: list[dict[str, Any]]) -> dict[str, Any]:
    call = {"tool_name": "ask", "arguments": {"question": "?", "media": media}}
    reply = await e.owner.post("/api/run-tool", json=call)
    assert reply.status_code == 400
    problem: dict[str, Any] = reply.json()
    return problem


async def test_an_image_is_served_by_reference(database_url: str) -> None:
    async with edge(database_url) as e:
        first, second = png(1), png(2)
        media = [
            image(first) | {"caption": "One"},
            {"kind": "link", "url": "https://example.com/a"},
            image(second, "webp"),
            image(first),
        ]
        asked = await e.ask(media=media)
        told = await shown(e, asked.id)
        assert told[1] == media[1]
        assert told[0]["caption"] == "One"
        # The same image twice is stored once.
        assert told[0]["url"] == told[3]["url"] != told[2]["url"]
        assert await stored(e) == 2
        for item, content, kind in ((told[0], first, "image/png"), (told[2], second, "image/webp")):
            assert REFERENCE.fullmatch(item["url"])
            reply = await e.anonymous().get(item["url"])
            assert (reply.status_code, reply.content, reply.headers["content-type"]) == (200, content, kind)
            head = await e.anonymous().head(item["url"])
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == str(len(content))
            for one in (reply, head):
                kept = re.fullmatch(r"private, max-age=(\d+)", one.headers["cache-control"])
                assert kept is not None
                # An hour to answer, and a day after that.
                assert 3_600 + 86_400 - 60 <= int(kept[1]) <= 3_600 + 86_400
                assert one.headers["x-content-type-options"] == "nosniff"
                assert one.headers["content-security-policy"] == "default-src 'none'; sandbox"
        # Nowhere is the image itself told: not in the list, not in the stream's frames, not on the page.
        assert b"base64" not in (await e.owner.get("/api/interactions")).content
        page = await e.owner.get(f"/inbox/{asked.id}")
        assert f'<img src="{told[0]["url"]}"' in page.text
        assert "base64" not in page.text
        await asked.end()


async def test_what_is_no_id_and_what_is_nothing(database_url: str) -> None:
    async with edge(database_url) as e:
        for text in (
            "x",
            "a" * 42,
            "a" * 44,
            "a" * 42 + "=",
            "a" * 42 + "%00",
            "%E2%80%AE" + "a" * 42,
            "a" * 9_000,
        ):
            reply = await e.anonymous().get(f"{PATH}/{text}")
            assert (reply.status_code, reply.json()["field"]) == (400, "media_id")
        reply = await e.anonymous().get(f"{PATH}/{'a' * 43}")
        assert (reply.status_code, reply.json()["code"]) == (404, "media-not-found")
        assert (await e.anonymous().head(f"{PATH}/{'a' * 43}")).content == b""
        await e.node.database.close()
        reply = await e.anonymous().get(f"{PATH}/{'a' * 43}")
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        await e.node.database.open()


async def test_it_lives_as_long_as_its_question_is_shown(database_url: str, clock: MovableClock) -> None:
    async with edge(database_url) as e:
        await clock.hold()
        asked = await e.ask(media=[image(png())], timeout=1_000)
        url = (await shown(e, asked.id))[0]["url"]
        assert (await e.anonymous().get(url)).headers["cache-control"] == "private, max-age=87400"
        await clock.advance(600)
        answered = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "x"})
        assert answered.status_code == 200
        await asked.call
        assert (await e.anonymous().get(url)).headers["cache-control"] == "private, max-age=86400"
        await clock.advance(86_399)
        assert (await e.anonymous().get(url)).status_code == 200
        assert await e.node.media.prune(after="", kept=86_400) == ("", 0)
        await clock.advance(1.5)
        assert (await e.anonymous().get(url)).status_code == 404
        assert await e.node.media.prune(after="", kept=86_400) == ("", 1)
        assert await stored(e) == 0


async def test_housekeeping_walks_all_of_them_and_takes_what_nobody_shows(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rejoinder.store.media.LOOKED_AT_ONCE", 3)
    async with edge(database_url) as e:
        asked = await e.ask(media=[image(png(n)) for n in range(4)])
        await e.node.database.execute(
            "INSERT INTO rejoinder.media (id, question_id, content_type, content)"
            " SELECT 'left' || g, gen_random_uuid(), 'image/png', 'x' FROM generate_series(1, 7) AS g"
        )
        media, place, gone, rounds = Media(e.node.database), "", 0, 0
        while True:
            place, went = await media.prune(after=place, kept=86_400)
            gone, rounds = gone + went, rounds + 1
            if not place:
                break
        assert (gone, rounds, await stored(e)) == (7, 4, 4)
        await asked.end()


async def test_nothing_is_stored_of_a_question_that_is_not(database_url: str) -> None:
    async with edge(database_url, interactions_max_concurrent=1) as e:
        asked = await e.ask(media=[image(png())])
        call = {"tool_name": "ask", "arguments": {"question": "?", "media": [image(png(1))]}}
        assert (await e.owner.post("/api/run-tool", json=call)).status_code == 503
        for media in (
            [image(png(1)), {"kind": "image", "url": "http://example.com/a.png"}],
            [image(png(1)) for _ in range(51)],
            [image(png(n, 270_000)) for n in range(3)],
            [image(b"")],
            [image(png(1)), {"kind": "image", "url": "data:image/svg+xml;base64,PHN2Zy8+"}],
            [image(png(1)), {"kind": "image", "url": "data:image/png;base64,@@@@"}],
            [image(png(1)), {"kind": "link", "url": data_url(png())}],
        ):
            assert (await refused(e, media))["field"].startswith("media")
        assert await stored(e) == 1
        await asked.end()


async def test_a_reference_may_be_asked_with_again(database_url: str, clock: MovableClock) -> None:
    async with edge(database_url) as e:
        await clock.hold()
        content = png(7)
        first = await e.ask(media=[image(content)], timeout=100)
        old = (await shown(e, first.id))[0]["url"]
        second = await e.ask(media=[{"kind": "image", "url": old, "caption": "again"}], timeout=500_000)
        new = (await shown(e, second.id))[0]["url"]
        assert new != old
        assert (await e.anonymous().get(new)).content == content
        # Each lives with its own question.
        await e.owner.post(f"/api/interactions/{first.id}/answer", json={"answer": "x"})
        await first.call
        await clock.advance(86_500)
        assert await e.node.media.prune(after="", kept=86_400) == ("", 1)
        assert (await e.anonymous().get(old)).status_code == 404
        assert (await e.anonymous().get(new)).content == content
        problem = await refused(
            e, [{"kind": "link", "url": "https://example.com"}, {"kind": "image", "url": old}]
        )
        assert problem["field"] == "media[1].url"
        trail = (await e.owner.get("/api/audit", params={"kind": "ask"})).json()["data"]["items"]
        assert trail[0]["kind"] == "ask.refused"
        assert trail[0]["detail"]["field"] == "media[1].url"
        await second.end()


async def test_references_do_not_multiply_what_is_stored(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(media=[image(png(n, 380_000)) for n in range(2)])
        urls = [item["url"] for item in await shown(e, asked.id)]
        again = await e.ask(media=[{"kind": "image", "url": urls[0]} for _ in range(50)])
        assert await stored(e) == 3
        problem = await refused(e, [*({"kind": "image", "url": url} for url in urls), image(png(9, 30_000))])
        assert (problem["field"], str(MAX_PICTURES) in problem["error"]) == ("media", True)
        assert await stored(e) == 3
        await again.end()
        await asked.end()


@pytest.mark.parametrize(
    "url",
    [
        PATH,
        f"{PATH}/",
        f"{PATH}/{'a' * 42}",
        f"{PATH}/{'a' * 44}",
        f"{PATH}/{'a' * 43}/",
        f"{PATH}/{'a' * 43}?x",
        f"{PATH}/../{'a' * 43}",
        f"{PATH}//{'a' * 43}",
        f"/{PATH}/{'a' * 43}",
        f"{PATH}/{'ａ' * 43}",
        f"{PATH}/{'a' * 43}\n",
        "/api/keys",
        f"/inbox/{'a' * 43}",
    ],
)
def test_what_is_hardly_a_reference_is_refused(url: str) -> None:
    with pytest.raises(AskArgumentError):
        check_media([{"kind": "image", "url": url}])
    assert referred(url) is None


def test_a_reference_shows_an_image_only() -> None:
    url = f"{PATH}/{'a' * 43}"
    assert check_media([{"kind": "image", "url": url}]) == [{"kind": "image", "url": url}]
    for kind in ("link", "document", "video", "audio"):
        with pytest.raises(AskArgumentError):
            check_media([{"kind": kind, "url": url}])


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=12))
def test_every_image_gets_one_id_and_keeps_its_bytes(contents: list[bytes]) -> None:
    checked = check_media([image(content) for content in contents])
    told, pictures = detach(checked)
    assert told is not None
    by_id = {one.id: one.content for one in pictures}
    assert len(by_id) == len(set(contents))
    for item, content in zip(told, contents, strict=True):
        name = referred(item["url"])
        assert name is not None
        assert is_media_id(name)
        assert by_id[name] == content
        assert "data:" not in item["url"]


async def test_lists_stay_small(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(media=[image(png(3, 100_000))])
        listed: httpx2.Response = await e.owner.get("/api/interactions")
        assert len(listed.content) < 3_000
        assert REFERENCE.search(listed.text)
        await asked.end()
