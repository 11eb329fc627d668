"""How the installed Gateway words the ends of runs: which are resumed, and which said nothing, hangs on these words."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rejoinder.turns.owner import outside_kill
from rejoinder.turns.sentinels import NOTHING_SAID
from tests.live.rig import places

RECORDED = Path(__file__).parents[1] / "unit" / "turns" / "exit_texts.json"
#: A template of the program's source that says how the process of an agent ended.
WORDED = re.compile(r"`(Claude Code process exited with [^`]*)`")
VALUE = re.compile(r"\$?\{[^}]*\}")


def test_the_installed_gateway_words_it_as_recorded() -> None:
    folder = places.gateway_script(places.gateway_version()).parent / "dist"
    sources = (path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.mjs"))
    worded = {VALUE.sub("<>", text) for source in sources for text in WORDED.findall(source)}
    recorded = {VALUE.sub("<>", text) for text in json.loads(RECORDED.read_text("utf-8"))["templates"]}
    assert worded == recorded


def test_the_installed_gateways_own_words_are_understood() -> None:
    folder = places.gateway_script(places.gateway_version()).parent / "dist"
    sources = (path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.mjs"))
    worded = sorted({text for source in sources for text in WORDED.findall(source)})
    assert worded
    for text in worded:
        for value, outside in (("143", True), ("137", True), ("1", False), ("0", False)):
            if "code" in text.split("with")[1]:
                assert outside_kill(VALUE.sub(value, text)) is outside
        if "signal" in text.split("with")[1]:
            assert outside_kill(VALUE.sub("SIGTERM", text))


def test_the_installed_gateway_words_a_run_that_said_nothing_as_recorded() -> None:
    folder = places.gateway_script(places.gateway_version()).parent / "dist"
    sources = (path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.mjs"))
    assert any(f'return "⚠️ {NOTHING_SAID}. Please try again.";' in source for source in sources)
