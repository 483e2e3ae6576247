"""The table of what each bound rests on: it has every method that proves bounds, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from shardmark.harness.campaign.discover import discover

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "bounds.md"
METHOD = re.compile(r"`([a-z0-9-]+)`")


def rows() -> list[list[str]]:
    """The cells of each row of the table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_method_that_proves_bounds_is_in_the_table() -> None:
    table = {(row[0], name) for row in rows() for name in METHOD.findall(row[1])}
    infos = [info for info in discover() if not info.command and info.proves_bounds]
    assert table == {(info.track, info.variant_of or info.name) for info in infos}


def test_highs_is_believed_nowhere() -> None:
    assert {row[4] for row in rows() if "HiGHS" in row[2]} == {"nothing"}


def test_what_needs_no_engine_believes_nothing() -> None:
    assert all(row[4] == "nothing" for row in rows() if row[2] == "none")
    assert all(len(row) == 5 and all(row) for row in rows())
