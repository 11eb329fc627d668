"""The pages that readers see, cut into their parts: fenced blocks, links and headings.

A block's first word is its language, the words behind it say how it is checked:

sh                  its commands are looked up, not run (``make`` targets, ``rejoinder`` commands and options)
sh run [exit=N]     run in the page's folder, with a server at hand; the exit code is 0, or N. ``ID`` in it is the
                    newest open question (with ``tool=NAME``: of that tool), ``RUN`` the newest run
sh serve            ``rejoinder up`` or ``serve``, started in the place of the page's server
sh background       started and left; the next ``text background`` is what it prints in the end
text [background]   what the ``sh run`` or ``python run`` above printed; ``...`` stands for anything
text eventually     the same, where the block above may be run again until it prints that
text served         what the server of the page has printed
text plain          no output of anything
LANGUAGE file=NAME  written into the page's folder under that name
python              compiled; ``run`` runs it. All python is checked by mypy and ruff
console             the commands behind ``$`` are looked up; what is printed is not compared
json, yaml, toml    parsed
ini, nginx          systemd units and proxy settings: the settings and commands they name exist
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = frozenset(("sh", "console", "text", "python", "json", "yaml", "toml", "ini", "nginx", "http"))
WORDS = frozenset(("run", "serve", "background", "served", "plain", "eventually"))

_FENCE = re.compile(r"^( *)```+(.*)$")
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    words: frozenset[str]
    options: dict[str, str]
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Page:
    path: Path
    text: str
    blocks: list[Block] = field(default_factory=list)
    prose: str = ""

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        seen: dict[str, int] = {}
        found = set()
        for line in self.prose.splitlines():
            heading = _HEADING.match(line)
            if heading is None:
                continue
            words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
            number = seen.get(anchor, 0)
            seen[anchor] = number + 1
            found.add(anchor if number == 0 else f"{anchor}-{number}")
        return found


def paths() -> list[Path]:
    named = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*named, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


@lru_cache
def read(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    return Page(path, text, list(_blocks(path, text)), _prose(text))


def all_pages() -> list[Page]:
    return [read(path) for path in paths()]


def all_blocks() -> list[Block]:
    return [block for page in all_pages() for block in page.blocks]


def _blocks(path: Path, text: str) -> Iterator[Block]:
    start, indent, info, body = 0, 0, "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if start == 0:
            if fence is not None:
                start, indent, info, body = number, len(fence[1]), fence[2].strip(), []
        elif fence is not None and not fence[2].strip():
            language, *rest = info.split() or [""]
            options = dict(word.split("=", 1) for word in rest if "=" in word)
            words = frozenset(word for word in rest if "=" not in word)
            yield Block(path, start, language, words, options, "".join(f"{one}\n" for one in body))
            start = 0
        else:
            body.append(line[indent:] if line[:indent].isspace() else line)
    assert start == 0, f"{path}:{start}: this block is never closed"


def _prose(text: str) -> str:
    """The page without its blocks and its code spans."""
    kept, inside = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)
