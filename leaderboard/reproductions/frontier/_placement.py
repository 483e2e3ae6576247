"""Placements without restrictions: gaps on the paper's open files, and on generated graphs of 100,000 operators."""

from __future__ import annotations

from pathlib import Path

from shardmark.harness.campaign.problems import Problem
from shardmark.instances import catalog
from shardmark.instances.generate import families
from shardmark.leaderboard.report import Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings
from shardmark.leaderboard.reproductions._frame import percent_above, written
from shardmark.leaderboard.reproductions.frontier._goals import Row, before, figures, goal, greatest
from shardmark.leaderboard.reproductions.pipeline.pipeline_bounds import best_cost, bound_of
from shardmark.leaderboard.reproductions.placement._shared import figures as published

SOLVER = "search"
BOUNDS = ("load", "node", "anchored", "lp", "configurations")
#: The paper's program for placements of this kind stops at a gap of 1 %, or after 20 minutes without a gap.
PROGRAM, STOPPED = "ip-noncontiguous", 1.0


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """The search and all bounds on the open files at hand, and on an inference and a training graph."""
    cells = []
    for about, problem in [*_files(), *_generated(settings, folder)]:
        cells.append(Cell(problem, "solver", SOLVER, settings.timeout, settings.seed, about))
        cells += [Cell(problem, "bound", x, settings.bound_timeout, settings.seed, about) for x in BOUNDS]
    return cells


def _names() -> list[str]:
    return list(figures()["before"]["placement"])


def _files() -> list[tuple[str, Problem]]:
    entries = [catalog.find(name) for name in _names()]
    return [(x.id, Problem.of(x, path)) for x in entries if (path := catalog.at_hand(x)) is not None]


def _generated(settings: Settings, folder: Path) -> list[tuple[str, Problem]]:
    """An inference graph and a training graph; the latter has a backward operator for each of half as many."""
    found = []
    for training, kind in ((0, "inference"), (1, "training")):
        graph = families()["operators"].build(
            settings.seed, nodes=max(settings.nodes // (1 + training), 1), training=training
        )
        name = f"{graph.name}-{kind}-{settings.nodes}"
        found.append((kind, Problem(name, written(graph, folder), "placement", {"contiguity": "free"})))
    return found


def _gap(runs: list[Run], about: str) -> tuple[float | None, float | None, float | None]:
    """The least cost, the greatest bound, and the gap in percent."""
    there = {run.cell.method: run for run in runs if run.cell.about == about}
    cost, bound = best_cost(there), bound_of(there, SOLVER, *BOUNDS)
    return cost, bound, percent_above(cost, bound)


def _printed(name: str) -> tuple[float | None, float | None]:
    """The paper's cost, and the gap that its program proved; None if it ran out of time."""
    row = published()["throughput"].get(name.removesuffix("-free"), {})
    cost, time = row.get("cost", {}).get(PROGRAM), row.get("time", {}).get(PROGRAM, ">")
    return (None if cost is None else float(cost)), (None if time.startswith(">") else STOPPED)


def goals(settings: Settings, runs: list[Run]) -> list[Row]:
    """The gap of every open file, and the greatest of the generated graphs."""
    rows = []
    for name in _names():
        cost, bound = map(float, before("placement", name))
        then = f"{percent_above(cost, bound):.2f}"
        rows.append(goal("placement", _gap(runs, name)[2], name, before=then, papers=_printed(name)[1]))
    large = greatest([_gap(runs, kind)[2] for kind in ("inference", "training")])
    return [*rows, goal("operators", large, f"{settings.nodes:,}")]


def section(settings: Settings, runs: list[Run]) -> Section:
    """Costs and bounds before and after, and the paper's costs."""
    rows = []
    for name in _names():
        then_cost, then_bound = map(float, before("placement", name))
        cost, bound, gap = _gap(runs, name)
        rows.append(
            {
                "instance": name,
                "cost before": then_cost,
                "cost": cost,
                "paper's cost": _printed(name)[0],
                "bound before": then_bound,
                "bound": bound,
                "gap, %": gap,
                "paper's gap, %": _printed(name)[1],
            }
        )
    large = [
        {"graph": kind, "cost": cost, "bound": bound, "gap, %": gap}
        for kind in ("inference", "training")
        for cost, bound, gap in [_gap(runs, kind)]
    ]
    missing = [name for name in _names() if not any(run.cell.about == name for run in runs)]
    words = (
        [f"Files missing: {', '.join(missing)}. `shardmark fetch placement-free` downloads them."] if missing else []
    )
    note = f"The paper's program stops at a gap of {STOPPED:g} %; without a gap it ran out of its 20 minutes."
    return Section(
        "placement: any sets of operators",
        words,
        [
            Table("The paper's open files", rows, note=note),
            Table(f"Generated graphs of {settings.nodes:,} operators", large),
        ],
    )
