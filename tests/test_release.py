"""The statements of a release about itself agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from shardmark.instances import tracks

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"


def test_version_and_date_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (newest, *_) = re.findall(r"^## ([0-9.]+), ([0-9-]+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    citation = dict(re.findall(r'^([a-z-]+): "?([^"\n]+)', (ROOT / "CITATION.cff").read_text(), re.M))
    assert newest == (citation["version"], citation["date-released"])
    assert project["version"] == citation["version"]
    assert project["license"] == citation["license"]


def test_every_change_has_one_line():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith(("#", "- ", "This file", "The first"))] == []


def test_forms_offer_the_tracks():
    for name in ("solver", "instance"):
        assert f"options: [{', '.join(tracks())}]" in (GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml").read_text()
