"""The template environment of all pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from shardmark.leaderboard import explain, table_html, text
from shardmark.leaderboard.pages.tracks import Row, grouped
from shardmark.leaderboard.text import exact, page_of, printable, score_text, seconds

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"


@cache
def environment() -> jinja2.Environment:
    """The template environment: all values are escaped, and undefined names are errors.

    All sites share it, as it takes longer to compile the templates than to render a small site; what they know of a
    site is passed when a page is rendered.
    """
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    plain = (
        text.percent,
        text.chance,
        text.rough,
        text.fact,
        text.count,
        text.tail,
        text.heat,
        text.tone,
        text.meaning,
    )
    shown: tuple[Callable[..., str], ...] = (exact, score_text, seconds, printable, text.times, text.shorten, *plain)
    made.filters.update({function.__name__: function for function in (*shown, text.sort_key, text.log_file)})
    made.filters.update(slug=text.slug, gap=text.gap)
    made.filters["label"] = lambda key: key.replace("_", " ").capitalize()
    made.filters["sentence"] = lambda words: words[:1].upper() + words[1:]
    made.filters["code"] = code
    made.filters["load"] = json.loads
    made.filters.update(sizes=explain.sizes, modes=explain.modes)
    made.globals.update(table_html=table_html, page_of=page_of, alike=alike, terms=explain.terms)
    made.globals.update(grade_meanings=explain.GRADES)
    made.globals.update(
        edition=None,
        yours=frozenset(),
        menu={},
        newest={},
        regressions=False,
        docs=False,
        made_from="",
        data_files={},
        recorded={},
    )
    return made


def code(words: str) -> Markup:
    """Mark the parts of a text that are between backticks as code; everything is escaped."""
    parts = re.split("`([^`]+)`", printable(words))
    return Markup("").join(Markup("<code>{}</code>").format(x) if i % 2 else escape(x) for i, x in enumerate(parts))


def alike(runs: Iterable[Row]) -> list[list[Row]]:
    """Group runs by status and reason, in the order of each group's first run."""
    return list(grouped(runs, "status", "reason").values())
