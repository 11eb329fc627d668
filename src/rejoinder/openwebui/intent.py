"""Stop or Send now: the Host tells the two apart from nobody, so the page itself is asked.

A script notes in the page which of the two was used last; asked a moment later it answers `stop` or `send`. A page that
does not know, or does not answer within three seconds, is taken for Send now, because then nothing is lost: the run
goes on and its reply with it. Where no page shows the chat at all, a program asked to stop, and means it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal

from rejoinder.openwebui.host import Host

log = logging.getLogger("rejoinder.openwebui")

Intent = Literal["stop", "send"]
SECONDS = 3.0

#: Notes what the person did last. The Stop button is known by its icon, because its words are translated; whatever
#: else is pressed before the Host is asked to stop was Send now.
INSTALL = """
if (!window.__rejoinderIntent) {
  const noted = window.__rejoinderIntent = {what: null, at: 0};
  const note = (what) => { noted.what = what; noted.at = Date.now(); };
  const stops = (button) => {
    const label = (button.getAttribute('aria-label') || '').toLowerCase();
    if (label === 'stop') return true;
    return [...button.querySelectorAll('svg path')].some((path) => (path.getAttribute('d') || '').includes('6-2.438c0-.724'))
      || button.querySelector('svg rect[rx="2"][width="12"]') !== null;
  };
  document.addEventListener('click', (event) => {
    const button = event.target && event.target.closest && event.target.closest('button');
    if (button) note(stops(button) ? 'stop' : 'send');
  }, true);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') note('stop');
    else if (event.key === 'Enter' && !event.shiftKey) note('send');
  }, true);
}
return true;
"""
#: What was done last, and how many milliseconds ago; null for nothing, or nothing lately.
ASK = """
const noted = window.__rejoinderIntent;
const age = noted && noted.what ? Date.now() - noted.at : Infinity;
return age < 10000 ? [noted.what, age] : null;
"""


class Hook:
    """Has every page that shows a message note what is done in it, also those that come later.

    spawn: runs work beside.
    """

    def __init__(
        self,
        host: Host,
        user_id: str,
        chat_id: str,
        message_id: str,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._host, self._spawn = host, spawn
        self._where = (user_id, chat_id, message_id)
        self._pages: set[str] = set()

    def look(self) -> None:
        """See whether a page came. Cheap: call it whenever something is told."""
        pages = set(self._host.pages(self._where[1]))
        new, self._pages = pages - self._pages, pages
        if new:
            self._spawn(self._install(new))

    async def _install(self, pages: set[str]) -> None:
        await _ask(self._host, *self._where, pages, INSTALL)


async def intent(host: Host, user_id: str, chat_id: str, message_id: str) -> Intent:
    """What was meant by the cancel that has just come."""
    if not host.pages(chat_id):
        return "stop"
    answers = await _ask(host, user_id, chat_id, message_id, host.pages(chat_id), ASK)
    done = [
        (float(one[1]), str(one[0])) for one in answers if isinstance(one, (list, tuple)) and len(one) == 2
    ]
    return "stop" if done and min(done)[1] == "stop" else "send"


async def _ask(
    host: Host, user_id: str, chat_id: str, message_id: str, pages: Iterable[str], code: str
) -> list[object]:
    async def one(session_id: str) -> object:
        try:
            return await asyncio.wait_for(
                host.ask_page(user_id, chat_id, message_id, session_id, code), SECONDS
            )
        except Exception as error:
            log.info("A page of the chat did not answer (%s).", type(error).__name__)
            return None

    return list(await asyncio.gather(*(one(session) for session in pages)))
