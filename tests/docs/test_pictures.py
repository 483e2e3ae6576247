"""The pictures on the pages of the tracks are those of the examples there."""

from __future__ import annotations

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
