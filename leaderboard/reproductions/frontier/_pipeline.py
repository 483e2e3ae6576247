"""Pipelines: the share of the gap above the simple bound that is closed, and partitions of 100,000 nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.claims import proves
from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.leaderboard.report import HERE, PAPER, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings
from shardmark.leaderboard.reproductions._frame import percent_above, written
from shardmark.leaderboard.reproductions.frontier._goals import Row, before, goal, percent
from shardmark.leaderboard.reproductions.pipeline import _shared as archer
from shardmark.leaderboard.reproductions.pipeline.pipeline_bounds import best_cost, bound_of, fraction, share

SEARCHES = ("annealing",)
#: The hierarchy whose last step is to close the gap, from the bound with which it begins.
BOUNDS = ("simple", "exact", "anchored", "reweighted")
#: All that may prove a bound: searches do, if they end with a proof.
ALL = (*BOUNDS, *SEARCHES)
#: Bounds that are still quick on graphs of 100,000 nodes.
QUICK = ("simple", "windows", "reweighted")
#: Optima are to be proven for these numbers of stages, on graphs of up to that many nodes.
PROVEN, PROVEN_NODES = (2, 4), 100
#: Large graphs: families, how a node's cost is drawn, and nodes per layer. With a random fraction of all tensors per
#: node, work hides all transfers of so many nodes; with one of its own tensors, transfers are nearly all.
LARGE: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
    "ring, work prevails": ("watts-strogatz", {"costs_from": "all"}, 0),
    "ring, transfers prevail": ("watts-strogatz", {"costs_from": "own"}, 0),
    "transformer": ("transformer", {}, 14),
}
LARGE_STAGES = 64


def plan_proofs(settings: Settings, folder: Path) -> list[Cell]:
    """The search and the bounds on the sample of the reproductions of bounds."""
    return archer.cells(settings, folder, SEARCHES, BOUNDS)


def goals_proofs(settings: Settings, runs: list[Run]) -> list[Row]:
    """The share of the gap that is closed, for each number of stages, and the share of optima that are proven."""
    cases = _measured(runs)
    rows = [
        goal("proofs", _closed(cases, k), str(k), before=before("proofs", str(k)), papers=share(_printed, "exact", k))
        for k in settings.stages
    ]
    optima = [(k, optimal, of) for k in PROVEN if k in settings.stages for optimal, of in [_proven(cases, k)]]
    return rows + [goal("optima", percent(optimal, of), str(k)) for k, optimal, of in optima]


def _printed(method: str, stages: int) -> float | None:
    """The paper's figure for its random graphs."""
    return archer.printed("bounds", "regal", method, stages)


def _measured(runs: list[Run]) -> archer.Cases:
    """Cases with a positive cost and a positive simple bound: others have no share of a gap."""
    cases = archer.by_case(runs)
    return {
        x: found for x, found in cases.items() if (best_cost(found) or 0) > 0 and (bound_of(found, "simple") or 0) > 0
    }


def _closed(cases: archer.Cases, stages: int) -> float | None:
    return share(partial(fraction, cases, ALL), ALL[-1], stages)


def _proven(cases: archer.Cases, stages: int) -> tuple[int, int]:
    """Count the small graphs whose partition is proven optimal, and all small ones."""
    small = [found for case, found in cases.items() if case.stages == stages and case.nodes <= PROVEN_NODES]
    return sum(_optimal(found) for found in small), len(small)


def _optimal(found: dict[str, Run]) -> bool:
    cost, bound = best_cost(found), bound_of(found, *ALL)
    return cost is not None and bound is not None and proves(bound, cost, False)


def section_proofs(settings: Settings, runs: list[Run]) -> Section:
    """The share closed by each bound, and proven optima, by number of stages."""
    cases = _measured(runs)
    alone = [
        archer.row("bounds", name, HERE, settings, partial(share, partial(fraction, cases, ("simple", name)), name))
        for name in BOUNDS[1:]
    ]
    closed = Table(
        "Share of the gap between simple and the best partition that is closed, %",
        [
            *alone,
            archer.row("bounds", "all together", HERE, settings, partial(_closed, cases)),
            archer.row("bounds", "the paper's programs", PAPER, settings, partial(share, _printed, "exact")),
        ],
        digits=0,
        note="From geometric means: (best bound − simple) / (1 − simple), as fractions of the best partition.",
    )
    optima = Table(
        "Numbers of partitions proven optimal, and of graphs",
        [
            {"k": k, "optimal": sum(map(_optimal, there)), "graphs": len(there)}
            for k in settings.stages
            for there in [[found for case, found in cases.items() if case.stages == k]]
        ],
    )
    return Section("pipeline: proofs", [archer.STANDS_FOR["regal"]], [closed, optima])


def plan_scale(settings: Settings, folder: Path) -> list[Cell]:
    """The search and the quick bounds on every large graph; InputError for fewer nodes than stages."""
    if settings.nodes < LARGE_STAGES:
        raise InputError("reproduce frontier", "--nodes", f"expected at least {LARGE_STAGES}, found {settings.nodes}")
    cells = []
    for name, (family, given, of_layer) in LARGE.items():
        size = {"layers": max(settings.nodes // of_layer, 1)} if of_layer else {"nodes": settings.nodes}
        graph = families()[family].build(settings.seed, stages=LARGE_STAGES, **size, **given)
        problem = Problem(
            f"{graph.name}-{graph.nodes}{given.get('costs_from', '')}", written(graph, folder), "pipeline"
        )
        cells += [Cell(problem, "solver", x, settings.timeout, settings.seed, name) for x in SEARCHES]
        cells += [Cell(problem, "bound", x, settings.bound_timeout, settings.seed, name) for x in QUICK]
    return cells


def _scale(runs: list[Run]) -> list[Row]:
    rows = []
    for name in LARGE:
        there = {run.cell.method: run for run in runs if run.cell.about == name}
        cost, bound = best_cost(there), bound_of(there, *SEARCHES, *QUICK)
        memory = max((run.peak_mib for run in there.values()), default=None)
        rows.append({"graph": name, "cost": cost, "bound": bound, "gap, %": percent_above(cost, bound), "MiB": memory})
    return rows


def goals_scale(settings: Settings, runs: list[Run]) -> list[Row]:
    """The gap of every large graph."""
    return [goal("scale", row["gap, %"], f"{settings.nodes:,}", row["graph"]) for row in _scale(runs)]


def section_scale(settings: Settings, runs: list[Run]) -> Section:
    """Cost, bound and memory for each graph."""
    table = Table(
        "Partitions and bounds",
        _scale(runs),
        digits=2,
        coarse=["MiB"],
        note="MiB: the greatest memory that the search or a bound used.",
    )
    words = (
        f"Graphs of about {settings.nodes:,} nodes on {LARGE_STAGES} stages: Watts-Strogatz graphs and a "
        "transformer. In the random graphs, a node's work is the sizes of the tensors that it reads and writes, plus "
        "a random fraction of these (own) or of all tensors (all)."
    )
    return Section("pipeline: scale", [words], [table])
