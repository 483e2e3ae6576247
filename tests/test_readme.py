"""The README's counts and lists are true: the embedded instances, and the solvers of every track."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import instances
from harness.campaign.discover import discover
from instances.catalog import entries, locate, suite

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_embedded_files_are_counted():
    (files,) = re.findall(r"(\d+) files come with the project, with instances of (\d+) to ([\d,]+) nodes", README)
    (quick,) = re.findall(r"has (\d+) instances from these files", README)
    (models,) = re.findall(r"suite `models` has (\d+) from real models", README)
    embedded = [entry for entry in entries() if entry.embedded]
    sizes = [instances.load(locate(entry), entry.track).nodes for entry in embedded]
    counted = len({locate(entry) for entry in embedded}), min(sizes), max(sizes)
    assert tuple(int(number.replace(",", "")) for number in files) == counted
    assert (int(quick), int(models)) == (len(suite("quick")), len(suite("models")))
    assert all(entry.embedded for entry in suite("quick"))


@pytest.fixture(scope="module")
def known():
    return [(info.track, info.name) for info in discover()]


@pytest.mark.parametrize("track", instances.tracks())
def test_every_solver_of_a_track_is_listed(track, known):
    """By its name, or by that of which it is a variant: what stands before a hyphen."""
    row = next(line for line in README.splitlines() if line.startswith(f"| `{track}` |"))
    listed = set(re.findall(r"`([a-z][^`]*)`", row)) - {track}
    names = {name for of, name in known if of == track}
    beginnings = {name: {name[: m.start()] for m in re.finditer("-|$", name)} for name in names}
    assert {name for name in names if not beginnings[name] & listed} == set()
    assert listed <= set().union(*beginnings.values())
