"""What the page of an instance tells of bad solvers, of seeds, and of runs at their limit."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from harness.results.ranking import tables
from harness.results.records import Incumbent
from leaderboard.build import build
from tests.leaderboard.conftest import filled
from tests.leaderboard.sites import of_class, sections, tree, words

#: Solver -> status and cost of each seed.
RUNS = {
    "good": [("ok", 10.0), ("timeout", 12.0)],
    "bad": [("ok", 95.0)],
    "hopeless": [("ok", 1e13), ("timeout", None)],
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ET.Element:
    folder = tmp_path_factory.mktemp("one")
    with filled(folder, "pipeline") as filler:
        filler.store.add_instance("pipeline-x", "x", "pipeline", {"nodes": 3}, {})
        for solver, runs in RUNS.items():
            filler.declare(solver, "solver")
            for seed, (status, cost) in enumerate(runs):
                found = [] if cost is None else [Incumbent(0.1, True, 2 * cost), Incumbent(0.2, True, cost)]
                filler.add(solver, "solver", seed, "x", status, "" if status == "ok" else "slow", cost, found, [])
        return tree(build(tables(filler.store), folder / "site").parent / "instances" / "pipeline" / "x.html")


def test_a_hopeless_solver_does_not_flatten_the_others(page: ET.Element) -> None:
    (section,) = sections(page, "convergence")
    assert "Beyond the axis, at many times the best cost: 1 solver." in words(section)
    drawn = {part.get("data-solver") for part in section.iter("g")} - {None}
    assert drawn == {"good", "bad"}
    assert [mark.text for mark in of_class(section, "tick") if "×" in (mark.text or "")] == ["2×", "10×"] * 2


def test_costs_of_seeds_that_differ_are_shown(page: ET.Element) -> None:
    (region,) = [part for part in page.iter("div") if part.get("aria-labelledby") == "seeds"]
    rows = [[words(cell) for cell in row] for row in region.iter("tr")]
    assert rows[0] == ["Solver", "Seed 0", "Seed 1"]
    assert sorted(rows[1:]) == [["good", "10", "12"], ["hopeless", "10,000,000,000,000", "timeout"]]


def test_a_run_that_reached_its_limit_with_an_answer_is_no_failure(page: ET.Element) -> None:
    (section,) = sections(page, "failures")
    assert [words(item) for item in section.iter("li")] == ["timeout hopeless, seed 1: slow"]
