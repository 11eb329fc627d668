"""The files that an agent's words attach, and the tokens that its rows name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.turns.finish import finish, joined
from rejoinder.turns.media import split
from rejoinder.turns.usage import Usage, usage_of


@pytest.mark.parametrize(
    ("text", "shown", "files"),
    [
        ("Here it is.\n\nMEDIA:picture.png\n\nDone.", "Here it is.\n\nDone.", ("picture.png",)),
        ("MEDIA:./a.pdf", "", ("./a.pdf",)),
        ("One\nMEDIA: /tmp/x/b.csv", "One", ("/tmp/x/b.csv",)),
        ("  media:a.png  \nMEDIA:a.png\nMEDIA:b.png", "", ("a.png", "b.png")),
        ('MEDIA:"two words.png"', "", ("two words.png",)),
        ("MEDIA:`c.jpeg`\nafter", "after", ("c.jpeg",)),
        ("MEDIA:https://example.test/a?b=c", "", ("https://example.test/a?b=c",)),
        ("MEDIA: our coverage of the vote", "MEDIA: our coverage of the vote", ()),
        ("Here is your image: MEDIA:a.png", "Here is your image: MEDIA:a.png", ()),
        ("**MEDIA:a.png**", "**MEDIA:a.png**", ()),
        ("```\nMEDIA:a.png\n```", "```\nMEDIA:a.png\n```", ()),
        ("~~~\nMEDIA:a.png\n~~~\nMEDIA:b.png", "~~~\nMEDIA:a.png\n~~~", ("b.png",)),
        ("MEDIA:", "MEDIA:", ()),
        ("", "", ()),
    ],
)
def test_only_a_line_of_its_own_outside_of_code_attaches_a_file(
    text: str, shown: str, files: tuple[str, ...]
) -> None:
    assert split(text) == (shown, files)


_LINES = st.lists(
    st.sampled_from(["words", "", "MEDIA:a.png", " MEDIA:b.pdf", "MEDIA: no file", "```", "more words"])
    | st.text(alphabet=st.characters(exclude_characters="\n\r"), max_size=12)
)


@given(_LINES)
def test_no_word_is_lost_and_nothing_is_taken_twice(lines: list[str]) -> None:
    shown, files = split("\n".join(lines))
    assert split(shown)[1] == ()
    left = [line.strip() for line in lines if line.strip()]
    for line in shown.split("\n"):
        if line.strip():
            assert line.strip() == left.pop(next(i for i, one in enumerate(left) if one == line.strip()))
    assert all(line.lower().startswith("media:") for line in left)
    assert len(files) <= len(left)


def row(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **more}


def test_a_finished_message_shows_no_such_line_and_knows_its_files() -> None:
    final = finish([row("Look.\n\nMEDIA:a.png"), row("MEDIA:a.png\nMEDIA:b.png")], None)
    assert (final.text, final.files) == ("Look.", ("a.png", "b.png"))
    alone = finish([row("MEDIA:a.png")], None)
    assert (alone.text, alone.files, alone.visible) == ("", ("a.png",), True)
    assert joined([final, alone]).files == ("a.png", "b.png")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"input": 10, "output": 5, "totalTokens": 15}, Usage(10, 5)),
        ({"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 7}, Usage(117, 5, 100)),
        ({"input": None, "output": "5", "cacheRead": -1, "cacheWrite": True}, Usage()),
        ({}, Usage()),
        (None, Usage()),
        ("10", Usage()),
    ],
)
def test_the_tokens_of_a_run_are_those_of_its_answers(named: Any, expected: Usage) -> None:
    rows = [row("One.", usage=named), {"role": "toolResult", "usage": {"input": 1_000}}, row("Two.")]
    assert usage_of(rows) == expected
    assert finish(rows, None).usage == expected
    assert joined([finish(rows, None), finish(rows, None)]).usage == expected + expected


def test_tokens_are_told_as_a_response_tells_them() -> None:
    assert Usage(117, 5, 100).told == {
        "input_tokens": 117,
        "output_tokens": 5,
        "total_tokens": 122,
        "input_tokens_details": {"cached_tokens": 100},
    }
    assert not Usage()
