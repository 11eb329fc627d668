"""A window in the page of the person who asked for it, filled part by part, that tells what is pressed in it.

The page runs scripts that it is sent and answers with their value. Whatever is shown is set as text and never as
markup. A page that went away never answers: every wait is bounded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Call = Callable[[Mapping[str, Any]], Awaitable[Any]]

ANSWER_SECONDS = 5.0
#: How long a window that nobody touches is listened to.
OPEN_SECONDS = 900.0


class Gone(Exception):
    """There is no page that shows the window."""


@dataclass(frozen=True, slots=True)
class Line:
    """One fact. percent: drawn as a bar; presses: what is told when the line is pressed, None for one that is not."""

    label: str
    text: str = ""
    percent: float | None = None
    presses: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the window. button: the label of what can be done here and what is told when it is pressed."""

    title: str
    lines: Sequence[Line] = ()
    note: str = ""
    button: tuple[str, str] | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """As the page's script takes it."""
        return {
            "title": self.title,
            "note": self.note,
            "button": list(self.button) if self.button else None,
            "lines": [
                {"label": one.label, "text": one.text, "percent": one.percent, "presses": one.presses}
                for one in self.lines
            ],
        }


class Dialog:
    """The window. Every call raises Gone where no page answers."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def open(self, title: str, names: Sequence[str]) -> None:
        """Show the window with these parts, still empty."""
        await self._run(f"{_SCRIPT}\nreturn view.open({json.dumps(title)}, {json.dumps(list(names))});")

    async def put(self, name: str, part: Part) -> None:
        """Fill a part."""
        await self._run(f"{_SCRIPT}\nreturn view.put({json.dumps(name)}, {json.dumps(part.plain)});")

    async def detail(self, part: Part) -> None:
        """Show one thing alone, with a way back."""
        await self._run(f"{_SCRIPT}\nreturn view.detail({json.dumps(part.plain)});")

    async def pressed(self) -> str | None:
        """What was pressed next; None when the window is closed."""
        told = await self._run(f"{_SCRIPT}\nreturn await view.next();", OPEN_SECONDS)
        return told if isinstance(told, str) else None

    async def _run(self, code: str, seconds: float = ANSWER_SECONDS) -> Any:
        try:
            answer = await asyncio.wait_for(self._call({"type": "execute", "data": {"code": code}}), seconds)
        except Exception as error:
            raise Gone from error
        if answer is False or (isinstance(answer, dict) and "error" in answer):
            raise Gone
        return answer


_SCRIPT = """
const view = window.__rejoinderStatus ??= (() => {
  let box = null, parts = {}, main = null, aside = null, waiting = null, told = [];
  const dark = () => document.documentElement.classList.contains('dark');
  const node = (tag, text, style) => {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    Object.assign(made.style, style || {});
    return made;
  };
  const tell = (what) => { if (waiting) { waiting(what); waiting = null; } else told.push(what); };
  const line = (one) => {
    const row = node(one.presses ? 'button' : 'div', '', {
      display: 'block', width: '100%', textAlign: 'start', padding: '6px 0', minHeight: one.presses ? '44px' : '0',
      background: 'none', border: '0', font: 'inherit', color: 'inherit', cursor: one.presses ? 'pointer' : 'default',
    });
    row.append(node('span', one.label, {fontWeight: '600', overflowWrap: 'anywhere'}));
    if (one.text) row.append(node('span', (one.label ? '  ' : '') + one.text, {whiteSpace: 'pre-wrap', overflowWrap: 'anywhere'}));
    if (one.percent !== null) {
      const bar = node('div', '', {height: '6px', borderRadius: '3px', marginTop: '4px', background: dark() ? '#333' : '#ddd'});
      bar.setAttribute('role', 'meter');
      bar.setAttribute('aria-valuenow', String(one.percent));
      bar.setAttribute('aria-label', one.label);
      const tone = one.percent >= 85 ? '#dc2626' : one.percent >= 60 ? '#d97706' : '#16a34a';
      bar.append(node('div', '', {height: '100%', borderRadius: '3px', width: Math.min(100, one.percent) + '%', background: tone}));
      row.append(bar);
    }
    if (one.presses) row.addEventListener('click', () => tell(one.presses));
    return row;
  };
  const fill = (section, part) => {
    section.replaceChildren(node('h3', part.title, {font: 'inherit', fontWeight: '700', margin: '14px 0 4px'}));
    part.lines.forEach((one) => section.append(line(one)));
    if (part.note) section.append(node('p', part.note, {margin: '4px 0', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere'}));
    if (part.button) section.append(press(part.button[0], () => tell(part.button[1])));
  };
  const press = (label, act) => {
    const made = node('button', label, {
      minHeight: '44px', padding: '0 16px', margin: '6px 8px 0 0', borderRadius: '22px', cursor: 'pointer', font: 'inherit',
      border: '1px solid ' + (dark() ? '#555' : '#bbb'), background: 'none', color: 'inherit',
    });
    made.type = 'button';
    made.addEventListener('click', act);
    return made;
  };
  return {
    open(title, names) {
      if (box) box.remove();
      told = []; parts = {};
      box = node('dialog', '', {
        boxSizing: 'border-box', width: 'min(640px, 94vw)', maxHeight: '86vh', overflow: 'auto', padding: '16px 20px', borderRadius: '16px',
        border: '1px solid ' + (dark() ? '#444' : '#ccc'), font: '15px/1.45 system-ui, sans-serif', margin: 'auto',
        background: dark() ? '#171717' : '#fff', color: dark() ? '#eee' : '#111',
      });
      box.id = 'openclaw-status';
      box.setAttribute('aria-label', title);
      box.append(node('h2', title, {font: 'inherit', fontSize: '18px', fontWeight: '700', margin: '0'}));
      main = node('div'); aside = node('div'); aside.hidden = true;
      names.forEach((name) => {
        const section = parts[name] = node('section');
        section.dataset.part = name;
        fill(section, {title: name, lines: [], note: '\\u2026', button: null});
        main.append(section);
      });
      box.append(main, aside, press('Close', () => box.close()));
      const mine = box;
      box.addEventListener('close', () => { mine.remove(); if (box === mine) { box = null; tell(null); } });
      document.body.append(box);
      box.showModal();
      return true;
    },
    put(name, part) {
      if (!box || !parts[name]) return false;
      fill(parts[name], part);
      return true;
    },
    detail(part) {
      if (!box) return false;
      const section = node('section');
      fill(section, part);
      aside.replaceChildren(press('Back', () => { aside.hidden = true; main.hidden = false; }), section);
      main.hidden = true; aside.hidden = false;
      return true;
    },
    next() {
      if (told.length) return told.shift();
      if (!box) return null;
      return new Promise((done) => { waiting = done; });
    },
  };
})();
"""
