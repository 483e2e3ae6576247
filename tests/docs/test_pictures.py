"""The pictures on the pages of the tracks are those of the examples there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS / "machinery"))

import pictures  # noqa: E402 a script of the documentation


@pytest.mark.parametrize("track", sorted(pictures.PICTURES))
def test_a_picture_is_that_of_the_page(track):
    """If an example changed, ``python docs/machinery/pictures.py`` draws it again."""
    assert (DOCS / "pictures" / f"{track}.svg").read_text(encoding="utf-8") == pictures.PICTURES[track]()


def test_what_scrolls_sideways_has_a_shadow_at_its_edge() -> None:
    css = (DOCS / "assets" / "docs.css").read_text(encoding="utf-8")
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL))
    scrolling, shaded = (
        {name.strip() for names, body in rules if words in body for name in names.split(",")}
        for words in ("overflow-x: auto", "linear-gradient")
    )
    assert scrolling | {".md-typeset__scrollwrap", ".md-typeset pre > code"} == shaded
    covers = [body.strip() for names, body in rules if "table:not([class])" in names]
    assert "background: none;" in covers  # a table's own would lie on the shadow
