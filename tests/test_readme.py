"""The README is short; the documentation's counts of embedded files and suites are true."""

from __future__ import annotations

import re
from pathlib import Path

from shardmark import instances
from shardmark.instances.catalog import entries, locate, suite

ROOT = Path(__file__).parents[1]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_embedded_files_are_counted():
    page = (ROOT / "docs" / "reference" / "instances.md").read_text()
    (files,) = re.findall(r"(\d+) files come with\s+the project, with instances of (\d+) to ([\d,]+) nodes", page)
    embedded = [entry for entry in entries() if entry.embedded]
    sizes = [instances.load(locate(entry), entry.track).nodes for entry in embedded]
    counted = len({locate(entry) for entry in embedded}), min(sizes), max(sizes)
    assert tuple(int(number.replace(",", "")) for number in files) == counted
    assert all(entry.embedded for entry in suite("quick"))
