"""The reproduction of the frontier: its runs, figures before and today, goals reached, missed and unmeasured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from referee import shardmark

from shardmark.cli.terminal import report as on_screen
from shardmark.instances import InputError, catalog, load
from shardmark.leaderboard.report import Report, Table
from shardmark.leaderboard.reproduction_page import render
from shardmark.leaderboard.reproductions import Cell
from shardmark.leaderboard.reproductions.frontier import frontier
from shardmark.leaderboard.reproductions.frontier._goals import figures
from tests.leaderboard.reproductions.test_reproduce import carried_out

SMALL = replace(frontier.DEFAULTS, graphs=2, stages=(2, 8), nodes=100, tight=3, timeout=1.0, bound_timeout=2.0)


@pytest.fixture(autouse=True)
def no_files_but_g(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file stands for contest-G, and files that come with the project are at hand."""
    embedded = catalog.at_hand
    diamond = catalog.locate(catalog.find("diamond"))

    def at_hand(entry: Any) -> Path | None:
        return diamond if entry.id == "contest-G" else embedded(entry) if entry.embedded else None

    monkeypatch.setattr(catalog, "at_hand", at_hand)


def outcome(cell: Cell) -> dict[str, Any]:
    """A cost of 217,041 with a bound of 217,040.5 for the contest; elsewhere costs of 102 and bounds of 102 or less."""
    part, _ = cell.about
    if part == "intraop":
        times = ((1.0, 4.0e5), (2.0, 217_500.0), (6.0, 217_041.0))
        exact = {"exact": ("217041", "217040.5"), "cost": 217_041.0, "bound": 217_040.5}
        return {**exact, "costs": times, "cost_s": 6.0, "bound_s": 8.0, "wall_s": 20.0, "cpu_s": 30.0, "cores": 2}
    if cell.kind == "solver":
        return {"cost": 102.0, "peak_mib": 80.0}
    return {"bound": {"simple": 53.0, "exact": 102.0, "reweighted": 100.0, "load": 100.0}.get(cell.method, 50.0)}


def made(folder: Path, **settings: Any) -> Report:
    chosen = replace(SMALL, **settings)
    found = frontier.report(chosen, carried_out(frontier.plan(chosen, folder), outcome))
    assert on_screen(found)
    assert render(found, leaderboard=False)
    return found


def table(found: Report, section: int, number: int = 0) -> Table:
    return found.sections[section].tables[number]


def goals(found: Report) -> dict[str, tuple[Any, ...]]:
    return {row["what"]: tuple(list(row.values())[1:]) for row in table(found, 0).rows}


def test_each_part_runs_its_own_methods_within_the_limits(tmp_path: Path) -> None:
    cells = frontier.plan(SMALL, tmp_path)
    parts = [cell.about[0] for cell in cells]
    assert {part: parts.count(part) for part in frontier.PARTS} == {
        "intraop": 1,
        "proofs": 2 * 2 * 5,
        "scale": 3 * 4,
        "placement": 2 * 6,
        "scheduling": 3 * 4,
        "tight": 3,
    }
    assert {cell.timeout_s for cell in cells if cell.kind == "solver"} == {1.0}
    large = load(next(cell for cell in cells if cell.about[0] == "scale").problem.path)
    assert (large.nodes, large.stages) == (100, 64)
    assert {cell.problem.instance.contiguity for cell in cells if cell.about[0] == "placement"} == {"free"}


def test_the_contest_s_own_limit_is_not_exceeded(tmp_path: Path) -> None:
    (cell,) = frontier.plan(replace(SMALL, parts=("intraop",), timeout=1e6), tmp_path)
    assert cell.timeout_s == catalog.find("contest-G").time_limit_s


def test_goals_show_before_today_the_papers_and_whether_they_are_reached(tmp_path: Path) -> None:
    found = goals(made(tmp_path, instances=("contest-G", "contest-B")))
    assert found["intraop: largest cost above the best published, %"] == (
        "2.2",
        pytest.approx(100 * 2 / 217_039),
        0.0,
        "≤ 0",
        "no",
    )
    assert found["intraop: largest proven gap, %"] == ("6.4", 0.0, 0.0, "≤ 1", "yes")
    assert found["intraop: proven optimal, of all but R and T, %"][1:] == (100.0, None, "≥ 100", "yes")
    assert found["intraop: least share of cores kept busy, %"] == ("50 to 73", 75.0, None, "≥ 90", "no")
    before, today, papers, _, reached = found["pipeline: share of the gap to simple that is closed, k = 8, %"]
    assert (before, today, round(papers), reached) == ("70 to 78", pytest.approx(100), 72, "yes")
    assert found["pipeline: share of the gap to simple that is closed, k = 2, %"][0] == "–"
    assert found["pipeline: 100 nodes, k = 64, transformer: gap, %"][1:] == (pytest.approx(2), None, "≤ 3", "yes")
    name = "placement: resnet-50-layers-training-free: gap, %"
    assert found[name] == ("0.86", None, 1.0, "≤ 1", "–")  # no file, so it is not measured
    assert found["placement: bert-12-operators-training-free: gap, %"][2] is None  # the program ran out of time
    assert found["scheduling: tight memory: decided, %"] == ("none", 100.0, None, "≥ 95", "yes")
    assert found["scheduling: recurrent-training: cost / bound"][1] == pytest.approx(1.02)


def test_goals_that_had_less_than_their_time_say_so(tmp_path: Path) -> None:
    short = table(made(tmp_path), 0).note
    assert "assume 600 s" in short
    assert "Here solvers had 1 s and bounds 2 s" in short
    assert "The goals assume" not in table(made(tmp_path, timeout=600.0, bound_timeout=600.0), 0).note


def test_sections_tell_costs_times_and_shares(tmp_path: Path) -> None:
    found = made(tmp_path, instances=("contest-R", "contest-G"))
    r, g = sorted(table(found, 1).rows, key=lambda row: row["instance"], reverse=True)
    assert (r["cost before"], r["cost"], r["gap before, %"]) == (352131354900, None, 6.4)
    assert (g["cost"], g["best published"], g["gap, %"]) == (217041, 217039, 0.0)
    (times,) = table(found, 1, 1).rows
    assert (times["within 1 %"], times["proven before"], times["proven"]) == (2.0, 0.9, 8.0)
    assert any("Files missing: R." in words for words in found.sections[1].words)
    shares = {(row["bounds"], row["figures"]): row["k=2"] for row in table(found, 2).rows}
    assert shares["exact", "here"] == pytest.approx(100)
    assert shares["reweighted", "here"] == pytest.approx(100 * 47 / 49)
    assert shares["anchored", "here"] == pytest.approx(0)
    assert [row["optimal"] for row in table(found, 2, 1).rows] == [2, 2]
    assert table(found, 3).rows[0]["MiB"] == 80.0
    assert table(found, 4, 1).rows[1]["gap, %"] == pytest.approx(2.0)


def test_without_files_embedded_instances_run_and_that_is_said(tmp_path: Path) -> None:
    found = made(tmp_path, parts=("intraop",), instances=("contest-A",))
    assert {row["instance"] for row in table(found, 1).rows} > {"A", "menus-150"}
    assert any("come with the project ran instead" in words for words in found.sections[1].words)
    assert {today for _, today, *_ in goals(found).values()} == {None}  # goals are for the contest's instances


def test_a_bound_that_a_cost_contradicts_proves_nothing(tmp_path: Path) -> None:
    chosen = replace(SMALL, parts=("intraop",), instances=("contest-G",))
    runs = carried_out(frontier.plan(chosen, tmp_path), lambda cell: {**outcome(cell), "contradicted": True})
    found = frontier.report(chosen, runs)
    assert table(found, 1).rows[0]["gap, %"] is None
    assert goals(found)["intraop: largest proven gap, %"][4] == "–"
    assert any("its bound is above a verified cost" in words for words in found.notes)


def test_a_proof_that_no_schedule_fits_decides_an_instance(tmp_path: Path) -> None:
    chosen = replace(SMALL, parts=("tight",))
    cells = frontier.plan(chosen, tmp_path)
    proof, unknown = (
        "no schedule fits the memory of the devices",
        "found no schedule that fits the memory of the devices, and no proof",
    )
    told = {cell.problem.id: words for cell, words in zip(cells, (proof, unknown, ""), strict=True)}

    def ends(cell: Cell) -> dict[str, Any]:
        words = told[cell.problem.id]
        return {"status": "declined", "reason": words} if words else {"cost": 5.0}

    found = frontier.report(chosen, carried_out(cells, ends))
    (row,) = table(found, 0).rows
    assert (row["today"], row["reached"]) == (pytest.approx(200 / 3), "no")
    rows = table(found, 1).rows
    totals = [sum(row[key] for row in rows) for key in ("instances", "with a schedule", "proven to have none")]
    assert (totals, sum(row["undecided"] for row in rows)) == ([3, 1, 1], 1)
    assert [note for note in found.notes if "1 of its runs ended with the status declined" in note]
    with pytest.raises(InputError, match="--tight: expected at most 200, found 201"):
        frontier.plan(replace(chosen, tight=201), tmp_path)


def test_large_graphs_have_at_least_a_node_per_stage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^reproduce frontier: --nodes: expected at least 64, found 63$"):
        frontier.plan(replace(SMALL, parts=("scale",), nodes=63), tmp_path)


def test_what_a_bound_leaves_open_is_not_called_optimal(tmp_path: Path) -> None:
    chosen = replace(SMALL, parts=("intraop", "proofs"), instances=("contest-G",))

    def weak(cell: Cell) -> dict[str, Any]:
        if cell.about[0] == "intraop":
            return outcome(cell) | {"exact": ("217041", "217040"), "bound": 217_040.0}
        return {"cost": 102.0} if cell.kind == "solver" else {"bound": 101.9 if cell.method == "exact" else 53.0}

    found = frontier.report(chosen, carried_out(frontier.plan(chosen, tmp_path), weak))
    (gap,), (times,) = table(found, 1).rows, table(found, 1, 1).rows
    assert gap["gap, %"] == pytest.approx(100 / 217_040)
    assert times["proven"] is None
    assert goals(found)["intraop: proven optimal, of all but R and T, %"][1] == 0.0
    assert [row["optimal"] for row in table(found, 2, 1).rows] == [0, 0]


def test_proven_optima_are_counted_by_the_number_of_stages(tmp_path: Path) -> None:
    chosen = replace(SMALL, parts=("proofs",))

    def proven_for_two(cell: Cell) -> dict[str, Any]:
        if cell.kind == "solver":
            return {"cost": 102.0}
        return {"bound": 102.0 if cell.problem.instance.stages == 2 and cell.method == "exact" else 51.0}

    found = frontier.report(chosen, carried_out(frontier.plan(chosen, tmp_path), proven_for_two))
    assert goals(found)["pipeline: optima proven, k = 2, up to 100 nodes, %"][1] == 100.0
    assert [(row["k"], row["optimal"], row["graphs"]) for row in table(found, 1, 1).rows] == [(2, 2, 2), (8, 0, 2)]


def test_a_bound_of_a_search_counts_as_well(tmp_path: Path) -> None:
    chosen = replace(SMALL, parts=("placement", "scheduling", "proofs", "scale"))

    def proven(cell: Cell) -> dict[str, Any]:
        return {"cost": 102.0, "bound": 102.0} if cell.kind == "solver" else outcome(cell)

    found = goals(frontier.report(chosen, carried_out(frontier.plan(chosen, tmp_path), proven)))
    assert found["scheduling: recurrent-training: cost / bound"][1] == 1.0
    assert found["placement: 100 operators: largest gap, %"][1] == 0.0
    assert found["pipeline: 100 nodes, k = 64, transformer: gap, %"][1] == 0.0
    assert found["pipeline: share of the gap to simple that is closed, k = 8, %"][1] == pytest.approx(100)


def test_before_is_told_apart_from_published(tmp_path: Path) -> None:
    assert "measured before" in figures()["measured"]
    begin = "The earlier figures were measured before the work began"
    assert any(words.startswith(begin) for words in made(tmp_path).notes)


@pytest.mark.parametrize(("parts", "found"), [((), "none"), (("intraop", "tables"), "intraop, tables")])
def test_unknown_parts_are_refused(parts: tuple[str, ...], found: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--parts: expected some of intraop, proofs, .*, found {found}"):
        frontier.plan(replace(SMALL, parts=parts), tmp_path)


@pytest.mark.gate
@pytest.mark.usefixtures("posix_for_auto")
def test_a_part_runs_from_end_to_end_and_resumes(tmp_path: Path) -> None:
    places = ["--results", tmp_path / "results", "--output", tmp_path / "site"]
    what = ["reproduce", "frontier", "--parts", "tight", "--tight", 2, "--timeout", 0.5]
    status, out, err = shardmark(*what, *places, "--json")
    assert status == 0, err
    rows = json.loads(out)["sections"][0]["tables"][0]["rows"]
    assert [row["today"] >= 0 for row in rows] == [True]
    assert Path(json.loads(out)["page"]).is_file()
    status, _, err = shardmark(*what, *places)
    assert (status, "2 of 2 runs are done already" in err) == (0, True)
