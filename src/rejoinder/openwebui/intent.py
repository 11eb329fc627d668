"""Stop or Send now: the Host tells the two apart from nobody, so the page itself is asked.

A script notes in the page which of the two was used last; asked a moment later it answers `stop` or `send`. A page that
does not know, or does not answer within three seconds, is taken for Send now, because then nothing is lost: the run
goes on and its reply with it. Where no page shows the chat at all, a program asked to stop, and means it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

from rejoinder.openwebui.host import Host

log = logging.getLogger("rejoinder.openwebui")

Intent = Literal["stop", "send"]
SECONDS = 3.0

#: Notes what the person did last: a click on Stop or Escape, or a message sent while a reply streams.
INSTALL = """
if (!window.__rejoinderIntent) {
  const noted = window.__rejoinderIntent = {what: null, at: 0};
  const note = (what) => { noted.what = what; noted.at = Date.now(); };
  document.addEventListener('click', (event) => {
    const button = event.target && event.target.closest && event.target.closest('button');
    if (!button) return;
    const words = [button.id, button.getAttribute('aria-label'), button.title, button.textContent]
      .filter(Boolean).join(' ').toLowerCase();
    const parent = button.parentElement && (button.parentElement.getAttribute('aria-label') || '').toLowerCase();
    if (/send/.test(words) || /send/.test(parent || '')) note('send');
    else if (/stop/.test(words) || /stop/.test(parent || '')) note('stop');
  }, true);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') note('stop');
    else if (event.key === 'Enter' && !event.shiftKey) note('send');
  }, true);
}
return true;
"""
ASK = """
const noted = window.__rejoinderIntent;
if (!noted || !noted.what || Date.now() - noted.at > 10000) return null;
return noted.what;
"""


async def install(host: Host, user_id: str, chat_id: str, message_id: str) -> None:
    """Have every page of a chat note what is done in it. Failing is no fault: it is asked again later."""
    await _ask_all(host, user_id, chat_id, message_id, INSTALL)


async def intent(host: Host, user_id: str, chat_id: str, message_id: str) -> Intent:
    """What was meant by the cancel that has just come."""
    if not host.pages(chat_id):
        return "stop"
    answers = await _ask_all(host, user_id, chat_id, message_id, ASK)
    return "stop" if "stop" in answers and "send" not in answers else "send"


async def _ask_all(host: Host, user_id: str, chat_id: str, message_id: str, code: str) -> list[object]:
    async def one(session_id: str) -> object:
        try:
            return await asyncio.wait_for(
                host.ask_page(user_id, chat_id, message_id, session_id, code), SECONDS
            )
        except Exception as error:
            log.info("A page of the chat did not answer (%s).", type(error).__name__)
            return None

    return list(await asyncio.gather(*(one(session) for session in host.pages(chat_id))))
