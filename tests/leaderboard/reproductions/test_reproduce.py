"""Reproductions: samples that repeat, means as the paper takes them, figures as printed, one from end to end."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from referee import shardmark

from shardmark.cli.terminal import report as on_screen
from shardmark.cli.values import PARSERS_BY_KIND
from shardmark.instances import InputError, load
from shardmark.leaderboard.report import HERE, PAPER, Table
from shardmark.leaderboard.reproductions import Cell, Run, failures, options, reproductions
from shardmark.leaderboard.reproductions.pipeline import _shared
from shardmark.leaderboard.reproductions.pipeline._shared import Settings

SMALL = Settings(
    seed=0, graphs=2, models=0, costs_from="all", stages=(2, 16), bounds=_shared.OURS, timeout=1.0, bound_timeout=2.0
)
EVERY = reproductions()

Outcome = Callable[[Cell], dict[str, Any]]


def carried_out(cells: list[Cell], outcome: Outcome) -> list[Run]:
    """Runs of cells that never ran."""
    nothing = Run(cells[0], "ok", "", 1.0, None, None, None, None, False)
    return [replace(nothing, cell=cell, **outcome(cell)) for cell in cells]


def column(table: Table, name: str) -> dict[tuple[str, str], Any]:
    """A column of a table, by the first two others."""
    return {tuple(list(row.values())[:2]): row[name] for row in table.rows}


def test_each_says_what_it_is_and_the_command_line_knows_its_options():
    of_pipeline = {"models", "pipeline-bounds", "pipeline-orderings", "pipeline-times", "practitioner"}
    assert set(EVERY) >= of_pipeline | {"contest", "contest-bounds"}
    for name, module in EVERY.items():
        assert (module.__doc__ or "").split("\n")[0].endswith((".", ":")), name
        kinds = {option.kind for option in options(module.DEFAULTS).values()}
        assert kinds <= set(PARSERS_BY_KIND), name
        assert isinstance(module.DEFAULTS.seed, int)


def test_published_figures_agree_with_each_other():
    figures = _shared.published()
    assert len(figures["stages"]) == 6
    for group in _shared.GROUPS:
        bounds, orderings, gains = (figures[kind][group] for kind in ("bounds", "orderings", "gains"))
        for rows in (bounds, orderings, gains):
            assert all(len(row) == 6 for name, row in rows.items() if name != "table")
        for k in range(6):
            so_far = [bounds[name][k] for name in _shared.HIERARCHY]
            assert so_far == sorted(so_far)
            assert bounds["simple"][k] == pytest.approx(1 / orderings["brkga-10000"][k], rel=1e-3)
            assert bounds["bottleneck"][k] == pytest.approx(so_far[0] * gains["bottleneck"][k], rel=2e-3)


def test_the_sample_repeats_and_grows_at_its_end(tmp_path):
    def graphs(folder: str, **settings: Any) -> dict[str, Any]:
        found = _shared.sample(replace(SMALL, stages=(4,), **settings), tmp_path / folder)
        return {case.graph: load(problem.path, stages=4) for case, problem in found}

    large = graphs("large", graphs=5, models=6, seed=3)
    small = graphs("small", graphs=2, models=1, seed=3)
    families = ["erdos-renyi", "barabasi-albert", "watts-strogatz", "block-model", "erdos-renyi"]
    assert list(large)[:5] == [f"{family}-{3000 + i}" for i, family in enumerate(families)]
    assert len({graph.rsplit("-", 1)[0] for graph in list(large)[5:]}) == 5
    assert all(50 <= graph.nodes <= 200 for graph in list(large.values())[:5])
    assert len({graph.nodes for graph in large.values()}) > 6
    assert set(small) < set(large)
    assert all((graph.work == large[name].work).all() for name, graph in small.items())
    assert not set(large) & set(graphs("other", graphs=5, models=6, seed=4))


def test_costs_are_drawn_as_asked(tmp_path):
    def heaviest(costs: str) -> float:
        [(_, problem)] = _shared.sample(replace(SMALL, graphs=1, stages=(4,), costs_from=costs), tmp_path)
        return float(problem.instance.work.max())

    assert heaviest("all") > 2 * heaviest("own")


def test_samples_in_one_folder_leave_each_other_alone(tmp_path):
    def files() -> dict[Path, tuple[int, int, bytes]]:
        return {x: (x.stat().st_ino, x.stat().st_mtime_ns, x.read_bytes()) for x in tmp_path.iterdir()}

    _shared.sample(SMALL, tmp_path)
    first = files()
    assert len(first) == 2
    _shared.sample(replace(SMALL, costs_from="own"), tmp_path)
    _shared.sample(SMALL, tmp_path)
    assert len(files()) == 4
    assert first.items() <= files().items()


def test_a_graph_whose_file_was_changed_is_refused(tmp_path):
    (_, problem), *_ = _shared.sample(SMALL, tmp_path)
    problem.path.write_bytes(b"{}")
    with pytest.raises(InputError, match=r"erdos-renyi-0-[0-9a-f]{12}.json: expected the graph .*: delete the file"):
        _shared.sample(SMALL, tmp_path)


@pytest.mark.parametrize("settings", [{"graphs": 0, "models": 0}, {"graphs": 1001}, {"models": 1001}])
def test_a_sample_of_none_or_too_many_is_refused(tmp_path, settings):
    with pytest.raises(InputError, match="at most 1000 of a kind"):
        _shared.sample(replace(SMALL, **settings), tmp_path)


#: Bounds in units of the best partition of the first graph; those of the second are half as good.
BOUNDS = {
    "simple": 0.5,
    "bottleneck": 0.6,
    "bottleneck-guess": 0.55,
    "exact": 0.8,
    "anchored": 0.8 * (1 + 1e-7),
    "reweighted": 0.9,
}


def bounds(cell: Cell) -> dict[str, Any]:
    first = cell.about.graph.startswith("erdos")
    best = 100.0 if first else 40.0
    if cell.method in _shared.SEARCHES:
        return {"cost": best if cell.method == "annealing" else 1.5 * best}
    share = BOUNDS.get(cell.method, 0.5) * (1 if first else 0.5)
    return {"bound": share * best, "bound_s": 3.0 if first else 5.0}


def test_bounds_are_means_of_the_best_so_far_over_the_best_partition(tmp_path):
    module = EVERY["pipeline-bounds"]
    cells = module.plan(SMALL, tmp_path)
    assert len(cells) == 2 * 2 * 10
    assert {cell.timeout_s for cell in cells if cell.method in _shared.SEARCHES} == {1.0}
    assert {cell.timeout_s for cell in cells if cell.method == "exact"} == {2.0}
    found = module.report(SMALL, carried_out(cells, bounds))
    [section] = found.sections
    fractions, closed, gains, winners = section.tables

    k16 = column(fractions, "k=16")
    half = math.sqrt(0.5)  # the mean of 1 and 1/2
    assert k16["simple", HERE] == pytest.approx(0.5 * half)
    assert k16["bottleneck-guess", HERE] == pytest.approx(0.6 * half)  # the row above is better
    assert k16["reweighted", HERE] == pytest.approx(0.9 * half)
    assert k16["exact", PAPER] == 0.8929
    assert ("reweighted", PAPER) not in k16

    share = column(closed, "k=2")
    assert share["the paper's programs", HERE] == pytest.approx(100 * 0.3 * half / (1 - 0.5 * half))
    assert share["the paper's programs", PAPER] == pytest.approx(53.4, abs=0.1)
    assert share["all bounds", HERE] == pytest.approx(100 * 0.4 * half / (1 - 0.5 * half))

    assert share["anchored alone", HERE] == pytest.approx(100 * 0.3 * half / (1 - 0.5 * half))
    assert ("bottleneck alone", HERE) not in share

    assert column(gains, "k=2")["bottleneck-guess", HERE] == pytest.approx(1.1)
    assert column(gains, "k=2")["exact", PAPER] == 1.023
    assert column(winners, "k=2")["reweighted", "graphs"] == 2
    assert column(winners, "k=2")["reweighted", "seconds"] == 4.0
    assert found.facts["Sample"].startswith("2 REGAL-style graphs of ")
    assert (found.facts["Seed"], found.facts["Time limit"]) == ("0", "1 s for each search, 2 s for each bound")
    assert not found.notes


def test_of_bounds_that_are_the_same_the_first_wins(tmp_path):
    module = EVERY["pipeline-bounds"]
    cells = [cell for cell in module.plan(SMALL, tmp_path) if cell.method != "reweighted"]
    winners = module.report(SMALL, carried_out(cells, bounds)).sections[0].tables[3]
    assert column(winners, "k=2")["exact", "graphs"] == 2
    assert column(winners, "k=2")["anchored", "graphs"] == 0


def test_other_bounds_can_be_asked_for(tmp_path):
    module = EVERY["pipeline-bounds"]
    settings = replace(SMALL, bounds=("exact", "reweighted", "reweighted"))
    cells = module.plan(settings, tmp_path)
    assert [cell.method for cell in cells if cell.about == cells[0].about].count("reweighted") == 1
    assert "anchored" not in {cell.method for cell in cells}
    fractions, *_ = module.report(settings, carried_out(cells, bounds)).sections[0].tables
    assert [name for name, whose in column(fractions, "k=2") if whose == HERE] == [*_shared.HIERARCHY, "reweighted"]


def test_what_has_no_figure_is_left_out_and_named(tmp_path):
    module = EVERY["pipeline-bounds"]

    def outcome(cell: Cell) -> dict[str, Any]:
        lost = cell.about.graph.startswith("barabasi") and cell.method in _shared.SEARCHES
        return {"status": "error", "reason": "KeyError: 'x'"} if lost else bounds(cell)

    found = module.report(SMALL, carried_out(module.plan(SMALL, tmp_path), outcome))
    assert column(found.sections[0].tables[0], "k=2")["simple", HERE] == pytest.approx(0.5)
    crashed, left_out = found.notes[0], found.notes[-1]
    assert crashed == "brkga-10000: 2 of its runs ended with the status error, the first because: KeyError: 'x'."
    assert left_out.endswith("barabasi-albert-1 with k = 2, barabasi-albert-1 with k = 16.")


def test_stages_that_the_paper_does_not_have_and_graphs_without_a_gap(tmp_path):
    module = EVERY["pipeline-bounds"]
    settings = replace(SMALL, stages=(3,))
    cells = module.plan(settings, tmp_path)
    tight = carried_out(cells, lambda cell: {"cost": 7.0, "bound": 7.0, "bound_s": 1.0})
    fractions, closed, *_ = module.report(settings, tight).sections[0].tables
    assert column(fractions, "k=3")["exact", PAPER] is None
    assert column(fractions, "k=3")["simple", HERE] == 1.0
    assert set(column(closed, "k=3").values()) == {None}


def test_orderings_are_means_over_the_simple_bound(tmp_path):
    module = EVERY["pipeline-orderings"]
    cells = module.plan(SMALL, tmp_path)

    def outcome(cell: Cell) -> dict[str, Any]:
        factor = {"random-1": 4.0, "mla": 1.0}.get(cell.method, 2.0)
        second = 1.0 if cell.about.graph.startswith("erdos") else 4.0
        return {"cost": factor * second * cell.problem.summary["simple_bound"]}

    found = module.report(SMALL, carried_out(cells, outcome))
    [table], [plot] = found.sections[0].tables, found.sections[0].pictures
    assert column(table, "k=16")["random-1", HERE] == pytest.approx(8.0)
    assert column(table, "k=16")["mla", HERE] == pytest.approx(2.0)
    assert column(table, "k=16")["random-1", PAPER] == 1.849
    lines = {line.name: dict(line.points) for line in plot.lines}
    assert lines["random-1"][16] == pytest.approx(100.0)
    assert lines["random-1, published"][16] == pytest.approx(100 * (1.849 / 1.718 - 1))


def test_times_are_those_of_whole_runs(tmp_path):
    module = EVERY["pipeline-times"]
    settings = replace(SMALL, graphs=3, stages=(4,))

    def outcome(cell: Cell) -> dict[str, Any]:
        return {"wall_s": cell.about.nodes / 10 if cell.method == "exact" else 0.25}

    runs = carried_out(module.plan(settings, tmp_path), outcome)
    nodes = sorted({run.cell.about.nodes for run in runs})
    [section] = module.report(settings, runs).sections
    [row] = [row for row in section.tables[0].rows if row["run"] == "exact"]
    assert (row["k=4"], row["k=4, longest"]) == (nodes[1] / 10, nodes[2] / 10)
    [plot] = section.pictures
    [line] = [line for line in plot.lines if line.name == "exact"]
    assert (plot.x.logarithmic, plot.y.logarithmic, line.shape) == (True, True, "dots")
    assert line.points == [(n, n / 10) for n in nodes]
    assert (0.25, "start of a run") in plot.rules


def story(outcome: Outcome) -> tuple[list[str], Table]:
    module = EVERY["practitioner"]
    [section] = module.report(module.DEFAULTS, carried_out(module.plan(module.DEFAULTS, Path()), outcome)).sections
    return list(section.words), section.tables[0]


def test_the_story_tells_what_each_bound_leaves():
    shares = {
        "simple": 0.5,
        "bottleneck": 0.75,
        "bottleneck-guess": 0.6,
        "exact": 0.96,
        "anchored": 0.3,
        "reweighted": 0.9,
    }
    words, table = story(
        lambda cell: {"cost": 50.0} if cell.method == "brkga-10000" else {"bound": 50 * shares[cell.method]}
    )
    assert "takes 50" in words[0]
    assert words[1].endswith("0.5000. No other split saves more than 50 %.")
    assert words[2].endswith("0.7500, 1.50 times as much. No other split saves more than 25 %.")
    assert words[3].endswith("0.6000, no better than before.")
    assert words[-1] == "In the end no split saves more than 4 % of this one."
    best = {row["bound"]: (row[HERE], row[PAPER], row["best so far"]) for row in table.rows}
    assert best["bottleneck-guess"] == (0.6, 0.9152, 0.75)
    assert best["reweighted"] == (0.9, None, 0.96)


def test_the_story_ends_with_a_proof_or_a_better_split():
    words, _ = story(lambda cell: {"cost": 50.0, "bound": 50.0 * (1 - 1e-7)})
    assert words[-1] == "The split was optimal from the start: now you know."
    words, _ = story(lambda cell: {"cost": 40.0 if cell.method == "exact" else 50.0, "bound": 30.0})
    assert words[-1].endswith("A better split turned up on the way, at 0.8000 by exact.")


def test_a_split_without_cost_is_optimal():
    words, table = story(lambda cell: {"cost": 0.0} if cell.method == "brkga-10000" else {"bound": 0.0})
    assert "takes 0, after" in words[0]
    assert words[-1] == "The split was optimal from the start: now you know."
    assert {row["saved at most, %"] for row in table.rows} == {0.0}


@pytest.mark.parametrize("name", ["pipeline-bounds", "pipeline-orderings", "pipeline-times"])
def test_graphs_without_cost_count_in_no_mean(name, tmp_path):
    module = EVERY[name]
    cells = module.plan(SMALL, tmp_path)
    for cell in cells:
        if cell.about.graph.startswith("barabasi"):
            vars(cell.problem)["summary"] = {**cell.problem.summary, "simple_bound": 0.0}

    def outcome(cell: Cell) -> dict[str, Any]:
        nothing = cell.about.graph.startswith("barabasi")
        return {"cost": 0.0 if nothing else 100.0, "bound": 0.0 if nothing else 50.0, "bound_s": 1.0}

    found = module.report(SMALL, carried_out(cells, outcome))
    assert on_screen(found)
    if name != "pipeline-times":  # which has no means of costs
        assert found.notes[-1].endswith(
            "as a figure is missing or 0: barabasi-albert-1 with k = 2, barabasi-albert-1 with k = 16."
        )
        [first, *_] = column(found.sections[0].tables[0], "k=2").values()
        assert first == pytest.approx(
            0.5 if name == "pipeline-bounds" else 100 / cells[0].problem.summary["simple_bound"]
        )


def test_a_split_that_was_not_found_is_no_story():
    module = EVERY["practitioner"]
    found = module.report(module.DEFAULTS, carried_out(module.plan(module.DEFAULTS, Path()), lambda cell: {}))
    assert not found.sections
    assert found.notes[-1] == "brkga-10000 found no split."


def test_a_contradicted_bound_is_named():
    cell = EVERY["practitioner"].plan(EVERY["practitioner"].DEFAULTS, Path())[-1]
    [words] = failures([Run(cell, "ok", "", 1.0, None, None, None, None, True)])
    assert words == "reweighted on u-net-5: its bound is above a verified cost and is not counted."


@pytest.mark.gate
@pytest.mark.usefixtures("posix_for_auto")
def test_a_campaign_runs_resumes_and_leaves_a_page(chain, tmp_path):
    places = ["--results", tmp_path / "results", "--output", tmp_path / "site"]
    what = [
        "reproduce",
        "practitioner",
        "--instance",
        chain.path,
        *["--stages", "2", "--timeout", "60", "--bound-timeout", "60"],
    ]
    status, out, err = shardmark(*what, *places, "--json")
    assert status == 0, err
    found = json.loads(out)
    rows = {row["bound"]: row for row in found["sections"][0]["tables"][0]["rows"]}
    assert rows["simple"]["here"] == pytest.approx(5 / 6)
    assert rows["exact"]["here"] == pytest.approx(1.0, abs=1e-5)
    assert found["sections"][0]["words"][-1] == "The split was optimal from the start: now you know."
    assert "[7/7]" in err
    page = Path(found["page"])
    assert page == tmp_path / "site" / "reproduce" / "practitioner.html"
    assert page.is_file()

    status, out, err = shardmark(*what, *places)
    assert (status, "7 of 7 runs are done already" in err, "[1/7]" in err) == (0, True, False)
    for words in ("Is this split good enough?", "0.2775", "60 s for each bound", "Seed", "Machine", str(page)):
        assert words in out

    with closing(sqlite3.connect(tmp_path / "results" / "results.sqlite")) as database, database:
        database.execute("UPDATE runs SET status = 'error', reason = 'of the disk' WHERE solver = 'anchored'")
    status, out, err = shardmark(*what, *places)
    assert status == 3
    assert "1 of 7 runs failed; --retry-failed repeats them" in err
    assert "note: anchored: 1 of its runs ended with the status error, the first because: of the disk." in out
    status, out, err = shardmark(*what, *places, "--retry-failed")
    assert (status, "6 of 7 runs are done already" in err, "note:" in out) == (0, True, False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pipeline-bounds", "--stages", ""], "expected a whole number from 1 to 2147483647, found ''"),
        (["pipeline-bounds", "--graphs", 0, "--models", 0], "and at most 1000 of a kind, found 0 and 0"),
        (["pipeline-bounds", "--stages", "0,2"], "expected a whole number from 1 to 2147483647, found '0'"),
        (["pipeline-bounds", "--stages", "two,"], "expected a whole number"),
        (["pipeline-bounds", "--stages", 2**40], "expected a whole number from 1 to 2147483647"),
        (["pipeline-bounds", "--seed", 10**20], "expected a whole number from 0 to 2147483647"),
        (["contest", "--percent", -4], "expected a whole number from 1 to 2147483647, found '-4'"),
        (["contest-bounds", "--percent", 0], "expected a whole number from 1 to 2147483647, found '0'"),
        (["convergence", "--seeds", 0], "expected a whole number from 1 to 2147483647, found '0'"),
        (["pipeline-orderings", "--costs-from", "mine"], "invalid choice: 'mine' (choose from"),
        (["pipeline-times", "--bound-timeout", 0], "expected a positive number"),
        (["pipeline-times", "--instance", "chain"], "unrecognized arguments"),
        (["practitioner", "--stages", "2,4"], "--stages: expected one number of stages"),
        (["practitioner", "--instance", "nothing"], "nothing: expected a file or an id of the catalog"),
        (["practitioner", "--instance", "diamond"], "diamond: expected an instance of pipeline, found intraop"),
        (["practitioner", "--bounds", "no-such"], "bound: 'no-such': expected one of anchored, borders"),
        (["practitioner", "--bounds", "annealing"], "bound: 'annealing': expected one of anchored, borders"),
        (["practitioner", "--output", Path(__file__).parent], "expected a folder that is empty or holds an earlier"),
        (["practitioner", "--output", Path(__file__) / "site"], "site: expected a folder that can be written (Not a d"),
        (["practitioner", "--output", "a" * 9000], "File name too long"),
        (["no-such"], "invalid choice"),
    ],
)
def test_bad_options_give_one_sentence_before_anything_runs(arguments, sentence, tmp_path):
    status, out, err = shardmark("reproduce", *arguments, "--results", tmp_path / "results")
    assert (status, out) == (2, "")
    assert sentence in err.splitlines()[-1]
    assert not (tmp_path / "results" / "results.sqlite").exists()


def test_the_screen_shows_all_but_the_pictures(tmp_path):
    module = EVERY["pipeline-bounds"]
    text = on_screen(module.report(SMALL, carried_out(module.plan(SMALL, tmp_path), bounds)))
    lines = text.splitlines()
    assert "== REGAL-style random graphs" in lines
    assert "simple            paper    0.9579  0.5821" in lines
    assert any(line.startswith("all bounds") for line in lines)
