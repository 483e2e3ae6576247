"""Goals of the frontier: a figure measured before, today's, the papers', and the one to reach."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("frontier.toml")

Row = dict[str, Any]


@cache
def figures() -> Mapping[str, Any]:
    """The content of the file: ``measured papers goals before``."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def before(part: str, name: str) -> Any:
    """The figures of an instance, measured before; None without any."""
    return figures()["before"][part].get(name)


def goal(key: str, today: float | None, *names: str, before: str | None = None, papers: float | None = None) -> Row:
    """A row for a goal; ``names`` fill its name, ``before`` stands for the figure of the file.

    A goal whose figure was not measured is neither reached nor missed.
    """
    found = figures()["goals"][key]
    target, most = found["target"], found["at"] == "most"
    reached = "–"
    if today is not None:
        reached = "yes" if (today <= target if most else today >= target) else "no"
    return {
        "what": found["what"].format(*names),
        "before": before or found.get("before", "–"),
        "today": today,
        "papers": papers,
        "target": f"{'≤' if most else '≥'} {target:g}",
        "reached": reached,
    }


def greatest(values: list[float | None]) -> float | None:
    """The greatest of some figures; None if one is missing, or without any."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def percent(part: int, whole: int) -> float | None:
    """A share in percent; None of nothing."""
    return 100 * part / whole if whole else None
