"""Gain of a split by operators over one by layers: Table 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.harness.campaign.problems import Problem
from shardmark.leaderboard.report import HERE, PAPER, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions._frame import ratio, written
from shardmark.leaderboard.reproductions.placement import _shared as placement
from shardmark.leaderboard.reproductions.placement._layers import by_layers, without_cyclic_layers
from shardmark.leaderboard.reproductions.placement._shared import Case, Row, Settings, Workload, figures

#: Graphs of operators: only in these can a layer have several nodes.
OPERATORS = (
    "bert-3-operators-inference",
    "bert-6-operators-inference",
    "bert-12-operators-inference",
    "resnet-50-operators-inference",
    "bert-3-operators-training",
    "bert-6-operators-training",
    "bert-12-operators-training",
    "resnet-50-operators-training",
)
DEFAULTS = Settings(seed=0, instances=OPERATORS, solvers=("dp",), timeout=120.0)
#: Granularities, the finest first: a placement in one is a placement in all before it.
ON_OPERATORS, UNTANGLED, ON_LAYERS = GRANULARITIES = ("operators", "layers, untangled", "layers")


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every solver on every available file, by operators, and by layers if the file has layers."""
    every = [work for work in placement.workloads(settings.instances or (), "throughput") if work.path]
    return [
        Cell(problem, "solver", solver, settings.timeout, settings.seed, (work.name, granularity))
        for work in every
        for granularity, problem in _problems(work, folder)
        for solver in settings.solvers
    ]


def _problems(work: Workload, folder: Path) -> list[tuple[str, Problem]]:
    """The acyclic problems by operators and, if the file has layers, by layers, untangled and as in the file."""
    problem = work.problem("acyclic")
    if problem is None or not (problem.instance.layer >= 0).any():
        return [(ON_OPERATORS, problem)] if problem else []
    instances = {UNTANGLED: by_layers(without_cyclic_layers(problem.instance)), ON_LAYERS: by_layers(problem.instance)}
    found = [
        (granularity, Problem(f"{work.name}-{name}-acyclic", written(instance, folder), "placement", problem.options))
        for (granularity, instance), name in zip(instances.items(), ("by-layers-untangled", "by-layers"), strict=True)
    ]
    return [(ON_OPERATORS, problem), *found]


@dataclass(frozen=True)
class Pair:
    """A workload with the runs of a solver on its operators and its layers."""

    case: Case
    solver: str

    def run(self, granularity: str) -> Run | None:
        """The run at a granularity, if there is one."""
        return self.case.runs.get((self.solver, granularity))

    def cost(self, granularity: str) -> float | None:
        """The cost of the run."""
        run = self.run(granularity)
        return None if run is None else run.cost


def report(settings: Settings, runs: list[Run]) -> Report:
    """Loads by operators and by layers, and the gain."""
    every = placement.cases(settings, "throughput", runs, GRANULARITIES[::-1])
    pairs = [Pair(case, solver) for case in every for solver in settings.solvers]
    return placement.report(
        every,
        settings,
        [Section("Operators and layers", [], [_loads(pairs), *_proofs(pairs)])],
        _without_layers(every),
        name="placement-granularity",
        title="How much do operators gain over layers?",
        about="The largest load of a device if operators are placed one by one, and if those of a layer stay together: "
        "on the paper's graphs of operators, as published, and found here if the file has layers. Devices follow one "
        "another (acyclic), as in the paper's dynamic program. Untangled: without operators that put layers on a "
        "cycle, such as weights shared by the first and the last layer. Otherwise layers on a cycle are merged, as in "
        "the published program.",
    )


def _loads(pairs: Sequence[Pair]) -> Table:
    rows = []
    for pair in pairs:
        if pair.case.name in figures()["layers"]:
            rows.append(_row(pair, PAPER, None, {by: _printed_cost(pair.case, by) for by in GRANULARITIES}))
        if pair.case.here:
            rows.append(_row(pair, HERE, _layers(pair.case), {by: pair.cost(by) for by in GRANULARITIES}))
    return Table(
        "Largest load, and Table 3",
        rows,
        digits=2,
        note="Gain: load by untangled layers / load by operators − 1. Some nodes may have no layer in the file. The "
        "paper has one load by layers; we compare it with ours by untangled layers. Merged layers must share a "
        "device, so their load can be many times as large.",
    )


def _printed_cost(case: Case, granularity: str) -> float | None:
    """The paper's load; the one by layers is for untangled layers, and none is printed for the others."""
    text = figures()["layers"].get(case.name) if granularity == UNTANGLED else None
    return case.printed("dp") if granularity == ON_OPERATORS else None if text is None else float(text)


def _row(pair: Pair, whose: str, layers: int | None, by: dict[str, float | None]) -> dict[str, Any]:
    gain = ratio(by[UNTANGLED], by[ON_OPERATORS])
    return {
        "instance": pair.case.name,
        "figures": whose,
        "solver": pair.solver,
        "layers in the file": layers,
        **by,
        "gain, %": None if gain is None else 100 * (gain - 1),
    }


def _layers(case: Case) -> int | None:
    problem = case.work.problem("acyclic")
    if problem is None:
        return None
    layer = problem.instance.layer
    return len(np.unique(layer[layer >= 0]))


def _proofs(pairs: Sequence[Pair]) -> list[Table]:
    """A table with a row per run; empty if nothing ran."""
    rows = [_proof(pair, by, run) for pair in pairs for by in GRANULARITIES if (run := pair.run(by))]
    note = "Bound: the run's own. Gap: here / bound − 1. Here / paper: our cost is rounded to the printed digits."
    title = "Row by row, with bounds"
    return [Table(title, rows, note=note, coarse=["time, s"], as_printed=["paper"])] if rows else []


def _proof(pair: Pair, granularity: str, run: Run) -> Row:
    return {
        "instance": pair.case.name,
        "nodes": granularity,
        "solver": pair.solver,
        **placement.proof(_printed_cost(pair.case, granularity), run.cost, run.bound),
        "time, s": run.wall_s,
        "ended": run.status,
    }


def _without_layers(every: Sequence[Case]) -> list[str]:
    names = [case.name for case in every if case.here and not _layers(case)]
    told = f"By operators only, as the file has no layers: {', '.join(names)}."
    return [told] if names else []
