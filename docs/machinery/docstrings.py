"""A griffe extension: the project's docstrings, made for `help()`, as Markdown.

Lines that begin with a name in double backticks and two spaces are a list of definitions; a line ``>>>`` begins code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

DEFINITION = re.compile(r"^(``[^`]+``(?:, ``[^`]+``)*)(?: {2,}(.*))?$")


class ProjectDocstrings(griffe.Extension):
    """Rewrites each docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was loaded."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring: str) -> str:
    """Return a docstring with lists of definitions and examples as Markdown has them.

    >>> to_markdown("``seed``  of random numbers,\\n          0 by default")
    '- ``seed``: of random numbers, 0 by default'
    """
    lines: list[str] = []
    kind = ""  # of the line before: "definition", "example" or ""
    for line in docstring.splitlines():
        found = DEFINITION.match(line)
        if kind == "example" and not line.strip():
            lines += ["```"]
            kind = ""
        if found:
            if kind != "definition" and lines and lines[-1]:
                lines.append("")
            lines.append(f"- {found[1]}: {found[2] or ''}".rstrip())
            kind = "definition"
        elif kind == "definition" and line.startswith("  "):
            lines[-1] += f" {line.strip()}"
        elif line.startswith(">>>") and kind != "example":
            lines += ["```pycon", line]
            kind = "example"
        else:
            kind = kind if kind == "example" else ""
            lines.append(line)
    return "\n".join([*lines, "```"] if kind == "example" else lines)
