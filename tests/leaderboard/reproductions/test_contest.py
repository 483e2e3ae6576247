"""Reproductions of the contest: published figures and runs, exact to the last digit, contradictions in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from referee import shardmark

from shardmark.cli.terminal import report as on_screen
from shardmark.harness.campaign.discover import discover
from shardmark.harness.results import published
from shardmark.harness.results.ranking import tables
from shardmark.harness.results.records import Bound, Incumbent
from shardmark.instances import InputError, catalog
from shardmark.leaderboard.report import HERE, PAPER, Report, Table
from shardmark.leaderboard.reproduction_page import render
from shardmark.leaderboard.reproductions import Cell, Run, finished, reproductions
from shardmark.leaderboard.reproductions.intraop import _shared
from tests.leaderboard.conftest import filled
from tests.leaderboard.reproductions.test_reproduce import carried_out, column

COSTS, BOUNDS = (reproductions()[name] for name in ("contest", "contest-bounds"))
ASKED = ("contest-B", "contest-C", "contest-G")
AT_HAND = catalog.at_hand

Outcome = Callable[[Cell], dict[str, Any]]


@pytest.fixture(autouse=True)
def b_and_g_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file stands for B and G, nothing for the others."""
    path = catalog.locate(catalog.find("diamond"))
    here = {"contest-B": path, "contest-G": path}
    monkeypatch.setattr(catalog, "at_hand", lambda entry: here.get(entry.id))


def found(module: Any, outcome: Callable[[str, str], tuple[int | None, str | None]], **settings: Any) -> Report:
    """The report on runs with the costs and bounds that ``outcome`` has for instance and method."""
    chosen = replace(module.DEFAULTS, instances=ASKED, **settings)
    cells = module.plan(chosen, Path())

    def all_of(cell: Cell) -> dict[str, Any]:
        cost, bound = outcome(cell.about, cell.method)
        text = None if cost is None else str(cost)
        times = () if cost is None else ((1.5, 2.0 * cost), (6.0, float(cost)))
        return {"exact": (text, bound), "costs": times, "bound_s": None if bound is None else 4.0}

    made: Report = module.report(chosen, carried_out(cells, all_of) if cells else [])
    assert on_screen(made)
    assert "<svg" in render(made, leaderboard=False)
    return made


def table(made: Report, title: str) -> Table:
    """The table whose title begins so."""
    [one] = [x for section in made.sections for x in section.tables if x.title.startswith(title)]
    return one


def fine(instance: str, method: str) -> tuple[int | None, str | None]:
    """cfn-native is optimal and proves it, cfn-penalty finds nothing on G."""
    best = {"contest-B": 532843, "contest-G": 217039}[instance]
    if method == "cfn-native":
        return best, str(best)
    if method == "cfn-penalty":
        return (2 * best, None) if instance == "contest-B" else (None, None)
    return None, str(best - 1000) if method == "cfn-relaxed" else "10.5"


def test_limits_are_the_contests_and_what_is_not_at_hand_does_not_run():
    cells = COSTS.plan(replace(COSTS.DEFAULTS, instances=ASKED, percent=50), Path())
    assert [(cell.about, cell.method, cell.kind, cell.timeout_s) for cell in cells] == [
        ("contest-B", "cfn-native", "solver", 30.0),
        ("contest-B", "cfn-penalty", "solver", 30.0),
        ("contest-G", "cfn-native", "solver", 60.0),
        ("contest-G", "cfn-penalty", "solver", 60.0),
    ]
    assert cells[0].problem.published["best_cost"] == "532843"
    cells = BOUNDS.plan(replace(BOUNDS.DEFAULTS, instances=("contest-B",), bound_timeout=7.0), Path())
    limits = {cell.method: (cell.kind, cell.timeout_s) for cell in cells}
    assert limits["simple"] == ("bound", 7.0)
    assert limits["cfn-native"] == ("solver", 60.0)


def test_what_runs_by_default_exists():
    known = {(info.name, info.kind) for info in discover() if info.track == "intraop"}
    for module in (COSTS, BOUNDS):
        assert {(name, "solver") for name in module.DEFAULTS.solvers} <= known
        assert {(name, "bound") for name in module.DEFAULTS.bounds or ()} <= known


def test_a_suite_stands_for_its_instances():
    entries = _shared.entries(replace(COSTS.DEFAULTS, instances=("contest",)))
    assert [entry.id for entry in entries] == list(published.instances())
    some = _shared.entries(replace(COSTS.DEFAULTS, instances=("contest-Y", "contest-public")))
    assert [entry.id for entry in some] == [f"contest-{letter}" for letter in "AGMSY"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"instances": ("contest-Z",)}, "'contest-Z': expected the id of an instance in the catalog"),
        ({"instances": ("diamond",)}, "expected instances of the contest, found 'diamond'"),
    ],
)
def test_what_the_contest_does_not_have_is_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        COSTS.plan(replace(COSTS.DEFAULTS, **settings), Path())


def test_what_came_of_a_run_is_exact_and_only_improves(tmp_path):
    facts = {"best_cost": "217039"}
    costs = [(0.1, True, 10**21), (0.2, False, 7), (0.3, True, 10**22), (0.4, True, 10**20 + 1)]
    found = [Incumbent(time, feasible, cost) for time, feasible, cost in costs]
    cell = COSTS.plan(replace(COSTS.DEFAULTS, instances=("contest-G",)), Path())[0]
    with filled(tmp_path, "intraop") as filler:
        filler.store.add_instance("intraop-contest-G", "contest-G", "intraop", {"nodes": 816}, facts)
        filler.declare("ours", "solver")
        filler.add("ours", "solver", 0, "contest-G", "ok", "", 10**20 + 1, found, [Bound(0.5, 217040)])
        [run] = finished({"intraop-contest-G ours 0": cell}, tables(filler.store))
    assert run.exact == (str(10**20 + 1), "217040")
    assert run.costs == ((0.1, 1e21), (0.4, 1e20))
    assert (run.bound, run.contradicted) == (None, True)  # a published cost is below it


def test_costs_and_published_costs_have_all_digits():
    made = found(COSTS, fine)
    rows = {row["instance"]: row for row in table(made, "Costs").rows}
    assert list(rows) == ["B", "C", "G"]
    assert [
        rows["G"][name] for name in ("contest's limit, s", "cfn-native", "cfn-penalty", "1st place", "6th place", "XLA")
    ] == [
        *(120, 217039, None),
        *(217039, 55761085, 1264777),
    ]
    assert (rows["C"]["figures"], rows["C"]["cfn-native"], rows["C"]["2nd place"]) == (PAPER, None, 91709251064)
    assert made.facts["Sample"] == "2 of 3 instances run here: B, G"
    assert made.facts["Time limit"] == "the contest's 60 to 120 s for each solver"
    assert made.notes[-1].startswith("Files missing, so published figures only: C.")
    assert "not run here" in made.notes[0]


def test_scores_are_the_contests_and_ours_take_part():
    made = found(COSTS, fine)
    points = table(made, "Points").rows
    of_two = {row["who"]: row["points of 2"] for row in points}
    assert of_two["cfn-native"] == 2.0
    assert of_two["cfn-penalty"] == 0.5  # half of a point on B, nothing on G
    assert of_two["XLA"] == pytest.approx(532843 / 990205 + 217039 / 1264777)
    assert table(made, "Points").decimals["points of 2"] == 3
    assert '<td class="n" data-sort="18.74">18.74</td>' in render(made, leaderboard=False)
    means = {row["who"]: row["geometric mean"] for row in points}
    assert means["cfn-penalty"] == 0.5
    printed = {row["who"]: row["printed, of 20"] for row in points}
    assert (printed["1st place"], printed["6th place"], printed["XLA"]) == (18.74, 6.56, None)
    assert {row["who"] for row in points if row["figures"] == HERE} == {"cfn-native", "cfn-penalty"}
    score = {row["instance"]: row for row in table(made, "Score").rows}
    assert score["C"]["3rd place"] == pytest.approx(84102445260 / 138148126682)
    assert (score["C"]["cfn-native"], score["G"]["cfn-penalty"]) == (None, 0.0)


def test_ours_are_compared_with_the_best_that_anybody_published():
    rows = {(row["instance"], row["solver"]): row for row in table(found(COSTS, fine), "Ours").rows}
    assert len(rows) == 4
    native = rows["B", "cfn-native"]
    assert (native["best published"], native["by"], native["cost / best published"]) == (532843, "1st place", 1.0)
    assert (native["first, %"], native["last, %"], native["gap, %"]) == (2.5, 10.0, 0.0)
    assert rows["B", "cfn-penalty"]["gap, %"] == pytest.approx(100.0)
    assert rows["G", "cfn-penalty"]["cost"] is None


def test_without_any_instance_the_published_figures_remain():
    made = found(COSTS, fine, solvers=("cfn-native",))
    only = COSTS.report(replace(COSTS.DEFAULTS, instances=("contest-W",)), [])
    [row] = table(only, "Costs").rows
    assert (row["1st place"], row["2nd place"], row["XLA"]) == (None, 11818845467155, None)
    assert len(only.sections) == 2 < len(made.sections)
    assert only.notes[0] == "Nothing was run here: all figures are published ones."
    assert (only.empty, made.empty) == (True, False)
    assert "Nothing was run here" not in on_screen(made)
    assert on_screen(only)


def test_bounds_and_published_bounds_share_a_table():
    made = found(BOUNDS, fine, solvers=("cfn-native", "cfn-penalty"))
    bounds = {row["instance"]: row for row in table(made, "Lower bounds").rows}
    assert [bounds["B"][name] for name in ("simple", "cfn-relaxed", "cfn-native", "cfn-penalty", "published")] == [
        *(10.5, 531843, 532843),
        *(None, 532843),
    ]
    assert bounds["B"]["best here / published"] == 1.0
    assert bounds["C"]["published"] == pytest.approx(82509087987.22325)
    gaps = {row["instance"]: row for row in table(made, "Lower bound /").rows}
    assert gaps["B"]["cfn-relaxed"] == pytest.approx(531843 / 532843)
    assert (gaps["B"]["open here, %"], gaps["B"]["open, %"]) == (0.0, 0.0)
    assert gaps["C"]["open, %"] == pytest.approx(100 * (84102445244 / 82509087987.22325 - 1))
    assert (gaps["C"]["winner's cost / published"], gaps["C"]["open here, %"]) == (1.02, None)
    assert '<td class="n" data-sort="1.02">1.02</td>' in render(made, leaderboard=False)
    assert column(table(made, "Seconds"), "cfn-relaxed") == {("B", 4.0): 4.0, ("G", 4.0): 4.0}


def case(cost: int | None, bound: str | None, other: int | None = None) -> _shared.Case:
    """contest-B with a run of this cost and bound, and another run of this cost."""
    cell = COSTS.plan(replace(COSTS.DEFAULTS, instances=("contest-B",)), Path())[0]
    run = Run(cell, "ok", "", 1.0, None, None, None, None, False)
    texts = [None if value is None else str(value) for value in (cost, other)]
    runs = {"one": replace(run, exact=(texts[0], bound)), "two": replace(run, exact=(texts[1], None))}
    return _shared.Case(catalog.find("contest-B"), runs)


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ((532843, "532843"), []),
        ((532842, "532842"), ["B: the published bound, 532843, is above a cost verified here, 532842: it is wrong."]),
        (
            (532850, "532843.5"),
            ["B: the bound of one, 532843.5, is above a published cost, 532843: one of the two is wrong."],
        ),
        (
            (532860, "532859", 532858),
            ["B: the bound of one, 532859, is above a cost verified here, 532858: the bound is wrong."],
        ),
        ((None, None), []),
    ],
)
def test_contradictions_with_what_is_published_are_told(given, sentences):
    assert _shared.contradictions([case(*given)]) == sentences


def test_a_contradiction_stands_on_the_page_and_on_the_screen():
    made = found(COSTS, lambda instance, method: (500000, "7") if instance == "contest-B" else (217039, "217039"))
    [words] = made.contradictions
    assert words == "B: the published bound, 532843, is above a cost verified here, 500000: it is wrong."
    assert f"contradiction: {words}" in on_screen(made).splitlines()
    page = render(made, leaderboard=False)
    assert f"<li>{words}</li>" in page[page.index('class="alarm"') :]
    assert "alarm" not in render(found(COSTS, fine), leaderboard=False)


def test_a_refuted_bound_counts_nowhere_and_one_above_a_published_cost_is_shown():
    refuted = case(532860, "532859", 532858)
    assert refuted.bound("one") is None
    assert refuted.best_bound == 532843
    above = case(532850, "532844")
    assert above.bound("one") == Fraction(532844)
    assert above.best_bound == 532843  # which the published cost does not contradict
    better = case(532842, "532842")
    assert (better.best, better.best_bound) == (532842, 532842)


@pytest.mark.usefixtures("posix_for_auto")
def test_a_campaign_on_the_contests_own_file(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    monkeypatch.setenv("SHARDMARK_MIRROR", str(mirror))
    places = ["--results", tmp_path / "results", "--output", tmp_path / "site", "--json"]
    what = [
        "reproduce",
        "contest-bounds",
        "--instances",
        "contest-G,contest-W",
        "--solvers",
        "greedy",
        "--bounds",
        "simple",
    ]
    what += ["--percent", "5", "--bound-timeout", "5"]
    status, out, err = shardmark(*what, *places)
    assert status == 0, err
    made = json.loads(out)
    assert made["facts"]["Sample"] == "1 of 2 instances run here: G"
    bounds, _ = made["sections"][0]["tables"][0]["rows"]
    assert 0 < bounds["simple"] < bounds["published"] == 217039
    assert Path(made["page"]).is_file()
    status, out, err = shardmark(*what, *places)
    assert "2 of 2 runs are done already" in err
