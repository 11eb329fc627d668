"""The words that the scripts need, in the reader's language."""

from __future__ import annotations

import json

from rejoinder.language.spoken import t


def script_words() -> str:
    """JSON for the page's ``data-words``. Where there are two texts, the first is for one and the second for many."""
    return json.dumps(
        {
            "moment": t("less than a minute"),
            "minutes": [t("{count} minute"), t("{count} minutes")],
            "hours": [t("about {count} hour"), t("about {count} hours")],
            "days": [t("about {count} day"), t("about {count} days")],
            "ahead": t("in {distance}"),
            "ago": t("{distance} ago"),
            "fresh": [t("{count} new question: show"), t("{count} new questions: show")],
            "freshSaid": [t("{count} new question in the list."), t("{count} new questions in the list.")],
            "freshFirst": [t("{count} new question."), t("{count} new questions.")],
            "gone": t("no longer open"),
            "signedOut": t("You are signed out. Reload this page to sign in again."),
            "written": t("What you had written:"),
            "ended": t("The question has ended"),
        },
        ensure_ascii=False,
    )
