"""Reproductions of the winner's curves: medians in steps, reductions of pairs, records, both from end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from referee import shardmark

from shardmark.cli.terminal import report as on_screen
from shardmark.harness.results import published
from shardmark.instances import InputError, catalog
from shardmark.leaderboard.report import HERE, PAPER, Report, Section
from shardmark.leaderboard.reproduction_page import render
from shardmark.leaderboard.reproductions import Cell, reproductions
from shardmark.leaderboard.reproductions.intraop import _curves
from tests.leaderboard.reproductions.test_reproduce import carried_out

CONVERGENCE, POSTPROCESSING = (reproductions()[name] for name in ("convergence", "postprocessing"))

Costs = tuple[tuple[float, float], ...]


@pytest.fixture(autouse=True)
def s_and_x_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file stands for S and X, nothing for the others."""
    path = catalog.locate(catalog.find("diamond"))
    only(monkeypatch, {"contest-S": path, "contest-X": path})


def only(monkeypatch: pytest.MonkeyPatch, here: dict[str, Path]) -> None:
    """Have files at hand for these instances of the contest, and for those that come with the project."""
    real = catalog.at_hand
    monkeypatch.setattr(
        catalog, "at_hand", lambda entry, mirror=None: real(entry) if entry.embedded else here.get(entry.id)
    )


def found(module: Any, costs: Callable[[Cell], Costs], **settings: Any) -> Report:
    """The report on runs whose solutions came so."""
    chosen = replace(module.DEFAULTS, **settings)

    def all_of(cell: Cell) -> dict[str, Any]:
        curve = costs(cell)
        return {"costs": curve, "cost": curve[-1][1] if curve else None}

    made: Report = module.report(chosen, carried_out(module.plan(chosen, Path()), all_of))
    assert on_screen(made)
    assert "<svg" in render(made, leaderboard=False)
    return made


def section(made: Report, number: int) -> Section:
    """The section of a figure."""
    [one] = [x for x in made.sections if x.title.startswith(f"Figure {number}:")]
    return one


def rows(part: Section, instance: str, whose: str) -> list[dict[str, Any]]:
    """The rows of one instance, ours or the paper's."""
    return [dict(row) for row in part.tables[0].rows if row["instance"] == instance and row["figures"] == whose]


def test_the_record_is_of_curves_that_fall_within_the_time_limit():
    record = _curves.record()
    shown = {name for figure in record["figure"].values() for name in figure["instances"]}
    assert set(record["nodes"]) == set(record["global"]) == set(_curves.DEFAULTS.instances) == shown
    for of_method in (record["nodes"], record["global"]):
        for name, curve in of_method.items():
            times, costs = zip(*curve, strict=True)
            assert list(times) == sorted(times)
            assert list(costs) == sorted(set(costs), reverse=True)
            assert times[-1] < catalog.find(name).time_limit_s
            best = published.best_cost(name)
            assert best is not None
            assert float(best.value or 0) * (1 - 1e-8) < costs[-1] < 2.5 * float(best.value or 0)


def test_a_median_begins_when_all_have_begun_and_holds_its_value():
    line, spread = _curves.median_curve([[(1.0, 9.0), (4.0, 5.0)], [(2.0, 7.0)], [(3.0, 8.0), (9.0, 1.0)]], 6.0)
    assert line == [(3.0, 8.0), (4.0, 7.0), (6.0, 7.0)]
    assert spread == [(3.0, 7.0, 9.0), (4.0, 5.0, 8.0), (6.0, 5.0, 8.0)]
    assert _curves.median_curve([[(1.0, 9.0)], []], 6.0) == ([], [])
    assert _curves.median_curve([], 6.0) == ([], [])


def test_a_curve_has_settled_when_it_stays_within_one_percent():
    assert _curves.settled([(1.0, 300.0), (2.0, 101.0), (5.0, 100.0)]) == 2.0
    assert _curves.settled([]) is None


def test_the_difference_of_two_curves_begins_with_the_later_one_and_may_be_negative():
    without, full = [(1.0, 200.0), (5.0, 100.0)], [(2.0, 150.0), (4.0, 125.0), (4.5, 125.0)]
    assert _curves.difference(without, full) == [(2.0, 25.0), (4.0, 37.5), (5.0, -25.0)]
    assert _curves.difference([], full) == []
    assert _curves.difference([(1.0, 0.0)], [(1.0, 0.0)]) == [(1.0, 0.0)]


def test_costs_over_time_and_published_costs_share_a_table():
    best = 1521949307.0  # of S, published

    def costs(cell: Cell) -> Costs:
        late = 2.0 * cell.seed + (10.0 if cell.method == "cfn-penalty-global" else 0.0)
        return (0.1, 1e15), (1.0 + late, 3 * best), (20.0 + late, 1.1 * best)

    made = found(CONVERGENCE, costs, seeds=3, percent=50)
    assert [x.title.split(":")[0] for x in made.sections] == ["Figure 6", "Figure 8"]
    part = section(made, 6)
    nodes, glob = rows(part, "S", HERE)
    assert (nodes["runs"], nodes["solved"], nodes["first after, s"], nodes["last after, s"]) == (3, 3, 3.0, 22.0)
    assert nodes["first / best"] == pytest.approx(3.0)
    assert nodes["last / best"] == pytest.approx(1.1)
    assert glob["first after, s"] == 13.0
    theirs, _ = rows(part, "S", PAPER)
    assert theirs["last / best"] == pytest.approx(1.53010023e9 / best)
    assert not rows(part, "A", HERE)
    assert len(rows(part, "A", PAPER)) == 2
    [plot] = [x for x in part.pictures if x.title == "S"]
    assert [line.name.endswith("published") for line in plot.lines] == [False, True, False, True]  # type: ignore[union-attr]
    assert plot.lines[0].points[-1] == (120.0, pytest.approx(0.1))  # type: ignore[union-attr]
    assert made.facts["Seeds"] == "0 to 2"
    assert "S 120, X 150" in made.facts["Time limit"]
    assert "50 % of the contest's time limit" in made.notes[0]
    assert made.notes[-1].startswith("Files missing: A, K, L, M, R, F, W, Y.")


def test_runs_without_a_solution_are_counted_and_drawn_nowhere():
    made = found(CONVERGENCE, lambda cell: () if cell.seed else ((0.1, 5e9), (1.0, 4e9)), seeds=2)
    nodes, _ = rows(section(made, 6), "S", HERE)
    assert (nodes["runs"], nodes["solved"], nodes["first after, s"]) == (2, 1, 1.0)
    [plot] = [x for x in section(made, 6).pictures if x.title == "S"]
    assert all(line.published for line in plot.lines)  # type: ignore[union-attr]


def test_instances_of_the_project_stand_in_where_none_is_at_hand(monkeypatch):
    only(monkeypatch, {})
    made = found(CONVERGENCE, lambda cell: ((0.1, 9.0), (0.5, 4.0)), percent=10)
    assert made.sections[-1].title == "Other instances"
    captions = {part.title: {picture.caption for picture in part.pictures} for part in made.sections}
    assert captions.pop("Other instances") == {"Median of the seeds; shaded: their range."}
    assert all("Dashed: as published" in words for part in captions.values() for words in part)
    assert {row["instance"] for row in made.sections[-1].tables[0].rows} == set(_curves.EMBEDDED)
    assert "menus-150 2" in made.facts["Time limit"]
    assert made.notes[-1].startswith("Instances that come with the project ran instead")
    assert "10 %" not in made.notes[0]


def test_instances_of_another_track_are_refused():
    with pytest.raises(InputError, match="expected instances of intraop"):
        CONVERGENCE.plan(replace(CONVERGENCE.DEFAULTS, instances=("diamond", "quick")), Path())


def test_reductions_are_of_pairs_with_the_same_seed():
    def costs(cell: Cell) -> Costs:
        times = 1.0 + cell.seed
        if cell.method == "cfn-penalty":
            return (0.1, 1e15), (times, 8e9), (60.0, 5e9)
        return (0.1, 1e15), (times, 1e10), (100.0, 5e9)

    made = found(POSTPROCESSING, costs, seeds=2)
    [ours] = rows(section(made, 9), "S", HERE)
    assert (ours["pairs of runs"], ours["first"]) == (2, pytest.approx(20.0))
    assert (ours["at 25 %"], ours["at 50 %"], ours["at 100 %"]) == (pytest.approx(50.0), 0.0, 0.0)
    assert rows(section(made, 9), "R", PAPER) == [
        {
            "instance": "R",
            "figures": PAPER,
            "pairs of runs": 1,
            "first": 26.91,
            "at 25 %": None,
            "at 50 %": None,
            "at 100 %": 1.7,
        }
    ]
    [plot] = section(made, 9).pictures
    assert [line.name for line in plot.lines] == ["S"]  # type: ignore[union-attr]
    assert plot.lines[0].points[0][0] == 2.0  # type: ignore[union-attr]
    assert plot.rules == [(0.0, "without")]  # type: ignore[union-attr]
    assert [row["instance"] for row in section(made, 10).tables[0].rows] == ["X"]


@pytest.mark.gate
@pytest.mark.usefixtures("posix_for_auto")
def test_both_run_from_end_to_end_and_share_what_they_have_in_common(tmp_path):
    asked = ("--instances", "diamond", "--jobs", "2", "--quiet", "--json")
    folders = ("--results", str(tmp_path / "results"), "--output", str(tmp_path / "site"))
    status, text, _ = shardmark("reproduce", "convergence", "--seeds", "2", *asked, *folders)
    rows_of = {row["solver"]: row for row in json.loads(text)["sections"][-1]["tables"][0]["rows"]}
    assert status == 0
    assert {name: row["runs"] for name, row in rows_of.items()} == {"cfn-penalty": 2, "cfn-penalty-global": 2}
    status, text, told = shardmark("reproduce", "postprocessing", *(x for x in asked if x != "--quiet"), *folders)
    assert status == 0
    assert "1 of 2 runs are done already" in told
    assert Path(json.loads(text)["page"]).is_file()
