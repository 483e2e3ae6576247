"""Elements of SVG, and charts drawn for wide and for narrow screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from markupsafe import Markup, escape

from shardmark.leaderboard.text import printable

WIDE, HALF, NARROW = 1000, 544, 340  # full page width, one of two columns, a phone
COLOURS = 6  # classes s1..s6 of the style sheet; s0 is the neutral one for all others


def tag(name: str, *content: str, **attributes: object) -> Markup:
    """An element; underscores in names become dashes, ``class_`` is class, floats get one decimal, None is left out."""
    words = name
    for key, value in attributes.items():
        if value is not None:
            text = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value))
            words += f' {_attribute(key)}="{text}"'
    inner = "".join(part if isinstance(part, Markup) else escape(part) for part in content)
    return Markup(f"<{words}>{inner}</{name}>") if content else Markup(f"<{words}/>")


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def text(words: str, x: float, y: float, **attributes: object) -> Markup:
    """A text element at a position."""
    return tag("text", escape(printable(words)), x=x, y=y, **attributes)


def tooltip(words: str) -> Markup:
    """Tooltip of the element whose first child this is."""
    return tag("title", escape(printable(words)))


def named(solver: str | None) -> str | None:
    """The value of the attribute ``data-solver``, by which the page's script finds what belongs to a solver."""
    return printable(solver) if solver else None


def svg(width: int, height: float, label: str, parts: Iterable[Markup]) -> Markup:
    """A drawing; one with links is a group, as the parts of an image cannot be reached by keyboard."""
    inner = list(parts)
    box, role = f"0 0 {width} {height:g}", "group" if any("<a " in part for part in inner) else "img"
    return tag("svg", *inner, viewBox=box, width=width, height=f"{height:g}", role=role, aria_label=label)


def responsive(draw: Callable[[int], Markup], wide: int = WIDE) -> Markup:
    """A chart drawn for wide and for narrow screens."""
    return tag("div", draw(wide), class_="wide") + tag("div", draw(NARROW), class_="narrow")
