"""What the page of an instance tells of bad solvers, of seeds, and of runs at their limit."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from shardmark.harness.records.best import BestKnown
from shardmark.harness.records.history import Improvement
from shardmark.harness.results import ranking
from shardmark.harness.results.ranking import tables
from shardmark.harness.results.ranking.frames import frame
from shardmark.harness.results.records import Incumbent
from shardmark.instances import catalog
from shardmark.leaderboard.build import build
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with an infinite best cost, a finite one among infinite ones, and costs proven by a record's bound."""
    folder = tmp_path_factory.mktemp("site")
    entry = catalog.find("diamond")
    runs = {"x": 10**18 + 7, "y": 12, "z": 3 * 10**18}
    made = ("", "m", "v", 0, 1.0, 64.0, 1, 1.0, "a machine", "2025-01-02", "Ada")
    held = BestKnown(entry, [Improvement(entry.id, "intraop-y", "bound", "12", *made)])
    with filled(folder, "intraop") as filler, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "by_checksum", lambda records: {"intraop-y": held})
        patch.setattr("shardmark.leaderboard.pages.site.best_known", lambda: [held])
        for solver in ("good", "bad"):
            filler.declare(solver, "solver")
        for name in ("x", "y"):
            filler.store.add_instance(f"intraop-{name}", name, "intraop", {"nodes": 3}, {})
            found = [Incumbent(0.2, True, runs[name])]
            filler.add("good", "solver", 0, name, "ok", "", runs[name], found, [])
        filler.add("bad", "solver", 0, "y", "ok", "", runs["z"], [Incumbent(0.2, True, runs["z"])], [])
        return build(ranking.tables(filler.store), folder / "site").parent


def test_infinite_costs_are_called_so(site: Path) -> None:
    x, y = (tree(site / "instances" / "intraop" / f"{name}.html") for name in ("x", "y"))
    (tile,) = [part for part in x.iter("div") if words(part).startswith("Best cost here")]
    assert "infinite, by good" in words(tile)
    assert not any("infinite, by" in words(part) for part in y.iter("div"))
    for page in (x, y):
        assert any("infinite: the file writes infinity as" in words(part) for part in page.iter("p"))


def test_a_proven_gap_is_called_optimal_everywhere(site: Path) -> None:
    y = tree(site / "instances" / "intraop" / "y.html")
    (tile,) = [part for part in y.iter("div") if words(part).startswith("Gap")]
    assert words(tile).startswith("Gapoptimal")
    for page in ("tracks/intraop.html", "instances.html"):
        rows = [[words(cell) for cell in row] for row in tree(site / page).iter("tr")]
        assert any(row[0] == "y" and "optimal" in row for row in rows), page
    (row,) = [x for x in y.iter("tr") if x.get("id") == "solver-good"]
    assert [words(cell) for cell in row].count("optimal") == 1


def test_records_link_the_row_of_their_instance(site: Path) -> None:
    for page in ("instances/intraop/y.html", "tracks/intraop.html", "instances.html"):
        links = [x.get("href", "") for x in tree(site / page).iter("a") if words(x) == "records"]
        assert any(link.endswith("records.html#diamond") for link in links), page
    assert any(x.get("id") == "diamond" for x in tree(site / "records.html").iter("tr"))


def test_numbers_of_seeds_and_counts_have_names_of_their_own(page: ET.Element) -> None:
    heads = [words(x) for x in page.iter("th")]
    assert "Seed" in heads
    assert "Seeds" not in heads


def test_a_row_with_too_few_values_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        frame(["id", "track"], [("a",)])
    assert frame(["id", "track"], []).columns == ["id", "track"]
