"""What an option that takes JSON says of text that is none."""

from __future__ import annotations

import pytest

from rejoinder.cli.arguments import UsageError, read_json


@pytest.mark.parametrize(("text", "quotes"), [("yes", True), ("", True), ("{broken", False), (" [1,", False)])
def test_quotes_are_advised_where_a_text_was_meant(text: str, quotes: bool) -> None:
    with pytest.raises(UsageError) as refused:
        read_json("--answer", text)
    assert str(refused.value).startswith("--answer is not valid JSON.")
    assert ("quotes" in str(refused.value)) is quotes
