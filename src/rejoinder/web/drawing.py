"""The templates of the pages, and what they may call."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rejoinder.forms.wording import filled
from rejoinder.language.spoken import language, n, t
from rejoinder.web import safe, words
from rejoinder.web.assets import asset_path
from rejoinder.web.reasons import in_words
from rejoinder.web.script_words import script_words


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("rejoinder.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(shown=safe.shown, plain=safe.plain, first_line=safe.first_line, pretty=safe.pretty)
    made.globals.update(
        asset=asset_path,
        link=link,
        fold=safe.fold,
        headed=safe.headed,
        words=words,
        in_words=in_words,
        t=t,
        n=n,
        fill=filled,
        th=_marked_up,
        shown=safe.shown,
        strong=_strong,
        language=language,
        script_words=script_words,
    )
    return made


def _marked_up(sentence: str, /, **values: object) -> Markup:
    """A sentence of ours with HTML in its places; what is no mark-up is escaped."""
    return escape(t(sentence)).format(**values)


def _strong(text: str) -> Markup:
    return Markup("<strong>{}</strong>").format(safe.shown(text))


def link(path: str, **query: str | None) -> str:
    """A path with the query parameters that are set."""
    given = {key: value for key, value in query.items() if value}
    return path + ("?" + urlencode(given, quote_via=quote) if given else "")
