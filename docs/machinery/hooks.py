"""MkDocs hooks: formulas become MathML, and the reference is generated from the program when the site is built.

A block ```` ```math ```` and an inline ``$`x`$`` hold LaTeX, which GitHub renders as well. A comment such as
``<!-- generated: commands -->`` stands for a section that `reference` writes.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import reference  # noqa: E402 the folder of this file is on the path now

BLOCK = re.compile(r"^```math\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$`(.+?)`\$")
GENERATED = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)


#: Weights in the search: pages that explain rank above pages that list.
BOOST = {
    "tutorial.md": 2,
    "tracks/": 3,
    "tracks/index.md": 1,
    "how-to/": 2,
    "how-to/own-instance.md": 8,
    "how-to/external-program.md": 3,
    "how-to/track-regressions.md": 1,
    "reference/": 0.5,
    "reference/python.md": 0.2,
    "glossary.md": 2.5,
    "measuring.md": 2,
    "methods/": 0.7,
    "plans.md": 2,
    "reproductions.md": 0.7,
}


def on_config(config: Any) -> Any:
    """Leave out the theme's page 404.html: opened from disk, it looks for its files in the root folder."""
    config.theme.static_templates.discard("404.html")
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace formulas and the places of generated sections in the text of a page; weigh it in the search."""
    for beginning, boost in BOOST.items():
        if page.file.src_uri.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    markdown = GENERATED.sub(lambda place: reference.SECTIONS[place[1]](), markdown)
    markdown = BLOCK.sub(lambda formula: f'<div class="formula">{_mathml(formula[1], "block")}</div>', markdown)
    # Markdown takes <math> for a block of its own at the beginning of a line, but not <span>.
    return INLINE.sub(lambda formula: f"<span>{_mathml(formula[1], 'inline')}</span>", markdown)


def _mathml(latex: str, display: str) -> str:
    """Return a formula as MathML, with its LaTeX for readers of the page's source."""
    tag, rest = convert(latex.strip(), display=display).split(">", 1)
    return f'{tag} alttext="{escape(" ".join(latex.split()))}">{rest}'
