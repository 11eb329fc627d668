"""The text of a run, put together from several streams that tell the same words, each word once.

Recorded facts (Gateway 2026.9.3) each rule stands on:

- The chat stream and the agent's stream `assistant` tell the same text, in either order, under the same run
  `seq` (s02_plain: agent first; s07_noreply: chat first). Every event has the whole text so far of the current
  assistant message and, nearly always, what it added. An event without a `delta` is a resend (c_claudecli).
- With API runtimes the whole begins anew with each assistant message, and an agent event names it by `itemId`
  (s03_tools). With CLI runtimes there is no `itemId` and the whole runs on over the tools: `Let me check.`,
  two tools, then `Let me check.\\n\\nDone` (c_claudecli).
- Text before a tool is a `preamble` item with its own id; the chat stream does not carry it (s03_tools).
- `replace` takes back what an item said (s07_noreply: an empty one after NO_REPLY).
- A final repeats the last assistant message (API) or everything (CLI); a second final may be the only place
  where a fallback text is said (t02_noreply).

So: a *scope* is one stretch of cumulative text. A stream that tells a scope's text again adds nothing; one that
tells more adds the rest; a scope that grows after a tool began goes on in a new item after that tool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rejoinder.turns.items import Card, Text, Thought
from rejoinder.turns.sentinels import held_from, without_sentinel


@dataclass(slots=True)
class Part:
    """A stretch of a scope between two tools. `before` is the card that ended it."""

    start: int
    item: Text | Thought | None = None
    before: Card | None = None


@dataclass(slots=True)
class Scope:
    """One stretch of cumulative text. `closed_at` is the run `seq` of the tool that came after it."""

    text: str = ""
    item_id: str | None = None
    preamble: bool = False
    parts: list[Part] = field(default_factory=lambda: [Part(0)])
    open: bool = True
    closed_at: int | None = None


@dataclass(slots=True)
class Source:
    """What one stream has told so far of the message it is in."""

    whole: str = ""
    seq: int | None = None
    scope: Scope | None = None
    tools: int = 0
    partial: bool = False


Create = Callable[[Card | None], "Text | Thought"]
Change = Callable[["Text | Thought", str], None]


class TextFlow:
    """The text of one run. `create` puts a new item before a card (None: at the end); `change` sets its text."""

    def __init__(self, create: Create, change: Change, *, hold: bool = True) -> None:
        self._create = create
        self._change = change
        self._hold = hold
        self._scopes: list[Scope] = []
        self._sources: dict[tuple[str, str | None], Source] = {}
        self._tools = 0
        self.told = False
        """Whether a final told the whole: pieces that come after it are in it."""

    @property
    def scopes(self) -> list[Scope]:
        """The stretches so far, in order."""
        return self._scopes

    @property
    def held(self) -> bool:
        """Whether something was received that is not shown, because it may be a sentinel."""
        return any(part.item is None for scope in self._scopes for part in scope.parts if scope.text.strip())

    def feed(
        self,
        stream: str,
        *,
        whole: str | None = None,
        delta: str | None = None,
        item_id: str | None = None,
        seq: int | None = None,
        replace: bool = False,
    ) -> None:
        """One event of a stream: the whole text so far of its message, or only what it added, or both."""
        source = self._sources.get((stream, item_id))
        if source is None:
            source = self._sources[stream, item_id] = Source(tools=self._tools)
        if seq is not None:
            if source.seq is not None and seq <= source.seq and not replace:
                return  # said before: frames come in order, so an old number is a repeated frame
            source.seq = seq
        if whole is None:
            if not delta or self.told:
                return
            source.partial = True
            # A stream without wholes cannot say that a new message began; a tool in between says it.
            restarted = source.tools != self._tools and item_id is None
            base = "" if restarted else source.whole
            whole, fresh = base + delta, restarted
        else:
            fresh = delta is not None and delta == whole and bool(source.whole) and item_id is None
            if fresh and seq is None and whole == source.whole:
                fresh = False
        scope = self._scope_of(source, stream, item_id, whole, delta, seq, fresh)
        source.tools = self._tools
        source.whole = whole
        if scope is None:
            return
        source.scope = scope
        self._set(scope, whole, seq, replace=replace, sure=item_id is not None or scope.item_id is None)

    def tell(self, text: str, *, doubted: bool = False) -> None:
        """A whole message as a final or a row of the transcript repeats it: what is missing of it is added.

        doubted: frames were lost, so an unfinished text that differs is replaced.
        """
        said = text.strip()
        if not said:
            return
        rest = self._unseen(text)
        if rest is not None and not rest.strip():
            return
        told = [scope for scope in self._scopes if scope.text.strip()]
        last = told[-1] if told else None
        if rest is not None and last is not None and len(told) > 1:
            if last.open:
                # No tool came since: the words that are missing are the end of the last stretch.
                self._set(last, last.text.rstrip() + rest, None, replace=True, sure=True)
            else:
                more = self._new(None, False, text, len(text) - len(rest))
                self._set(more, text, None, replace=True, sure=True)
            return
        if last is not None:
            have = last.text.strip()
            if have.startswith(said):
                return
            if said.startswith(have):
                self._set(last, text if text.startswith(last.text) else said, None, replace=True, sure=True)
                return
        if self._ends_with(said):
            return
        if last is not None and last.open and (doubted or self._guessed(last)):
            self._set(last, text, None, replace=True, sure=True)
            return
        self._set(self._new(None, False), text, None, replace=True, sure=True)

    def answer(self, text: str) -> None:
        """The run's closing answer as its end repeats it (it may be clipped): said only if nothing else was."""
        last = self._scopes[-1] if self._scopes else None
        if last is None or not last.open or not last.text.strip():
            self.tell(text)

    def close(self, card: Card, seq: int | None) -> None:
        """A tool begins: text that comes later belongs after it."""
        self._tools += 1
        for scope in self._scopes:
            if scope.open:
                scope.open = False
                scope.closed_at = seq
                for part in scope.parts:
                    part.before = part.before or card
                self._render(scope)

    def flush(self) -> None:
        """The run is over: what was held is shown, unless it is a sentinel."""
        for scope in self._scopes:
            scope.open = False
            self._render(scope)

    def _scope_of(
        self,
        source: Source,
        stream: str,
        item_id: str | None,
        whole: str,
        delta: str | None,
        seq: int | None,
        fresh: bool,
    ) -> Scope | None:
        mine = source.scope
        if mine is not None and not fresh and (item_id is not None or _related(whole, mine.text)):
            return mine
        after = self._scopes.index(mine) + 1 if mine is not None else 0
        for scope in reversed(self._scopes[after:]):
            late = seq is not None and scope.closed_at is not None and seq <= scope.closed_at
            free = item_id is None or scope.item_id is None or scope.preamble
            if free and scope.text and (scope.open or late) and _related(whole, scope.text):
                if item_id is not None and scope.item_id is None:
                    scope.item_id = item_id
                return scope
        if item_id is None and not fresh and delta != whole:
            rest = self._unseen(whole, preambles=False)
            if rest is not None:
                return self._new(None, False, whole, len(whole) - len(rest)) if rest.strip() else None
        return self._new(item_id, stream == "preamble")

    def _new(self, item_id: str | None, preamble: bool, known: str = "", start: int = 0) -> Scope:
        scope = Scope(known[:start], item_id, preamble, [Part(start)])
        self._scopes.append(scope)
        return scope

    def _set(self, scope: Scope, whole: str, seq: int | None, *, replace: bool, sure: bool) -> None:
        old = scope.text
        if whole == old:
            return
        if whole.startswith(old):
            late = seq is not None and scope.closed_at is not None and seq <= scope.closed_at
            if scope.parts[-1].before is not None and old and not late:
                scope.parts.append(Part(len(old)))
                scope.open = True
                scope.closed_at = None
        elif not replace and (old.startswith(whole) or not sure):
            return
        else:
            self._cut(scope, _common(old, whole))
        scope.text = whole
        self._render(scope)

    def _cut(self, scope: Scope, common: int) -> None:
        # What differs belongs to the part it differs in; later parts of the old text are gone.
        for index, part in enumerate(scope.parts):
            if index and part.start > common and part.item is not None:
                self._change(part.item, "")
        scope.parts = [part for index, part in enumerate(scope.parts) if not index or part.start <= common]
        scope.open = scope.parts[-1].before is None

    def _render(self, scope: Scope) -> None:
        newest = scope.open and scope is self._scopes[-1]
        for index, part in enumerate(scope.parts):
            last = index + 1 == len(scope.parts)
            shown = scope.text[part.start : None if last else scope.parts[index + 1].start].lstrip("\r\n")
            if self._hold:
                shown = shown[: held_from(shown)] if newest and last else without_sentinel(shown)
            if part.item is None:
                if not shown.strip():
                    continue
                part.item = self._create(part.before)
            if part.item.text != shown:
                self._change(part.item, shown)

    def _unseen(self, whole: str, *, preambles: bool = True) -> str | None:
        # The rest of a text that tells everything again, or None if it does not. No stream repeats preambles.
        place, seen = 0, False
        for scope in self._scopes:
            told = scope.text.strip()
            if not told or (scope.preamble and not preambles):
                continue
            seen = True
            while place < len(whole) and whole[place].isspace():
                place += 1
            if whole.startswith(told, place):
                place += len(told)
            elif told.startswith(whole[place:].strip()):
                return ""
            else:
                return None
        return whole[place:] if seen else None

    def _ends_with(self, said: str) -> bool:
        told = "".join("".join(scope.text.split()) for scope in self._scopes)
        return told.endswith("".join(said.split()))

    def _guessed(self, scope: Scope) -> bool:
        told = [source for source in self._sources.values() if source.scope is scope]
        return bool(told) and all(source.partial for source in told)


def _related(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
