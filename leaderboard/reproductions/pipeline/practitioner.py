"""The practitioner's dilemma: one model, one split, lower bounds that close in on it, as in Section 5."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardmark.harness.campaign.problems import Problem
from shardmark.instances import InputError, catalog
from shardmark.leaderboard.report import HERE, PAPER, Bracket, Ladder, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, failures
from shardmark.leaderboard.reproductions.pipeline import _shared as archer
from shardmark.leaderboard.reproductions.pipeline._shared import OURS, SAME, Row, Settings

DEFAULTS = Settings(seed=0, instance="u-net-5", stages=(4,), bounds=OURS, timeout=10.0, bound_timeout=60.0)

SEARCH = "brkga-10000"
#: Words for each step, by its bound.
STEPS = {
    "simple": "The simple bound (Lemma 3.3) only adds up work",
    "bottleneck": "The bottleneck program (Section 3.2) adds the tensors that enter and leave one stage",
    "bottleneck-guess": "Guessing which stage is the bottleneck (Section 3.3) adds its surroundings",
    "exact": "The exact program (Section 3.1) models every stage",
    "anchored": "Ours: the cheapest set around the most expensive node",
    "reweighted": "Ours: the cheapest set that has 1/k of the weight, under the best weights",
}


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """A search for a split of one model, and every bound; InputError unless there is one number of stages."""
    if len(settings.stages) != 1:
        raise InputError("reproduce practitioner", "--stages", "expected one number of stages")
    path, entry = catalog.resolve(settings.instance or "")
    name = entry.id if entry else path.name
    if entry and entry.track != "pipeline":
        raise InputError("reproduce practitioner", name, f"expected an instance of pipeline, found {entry.track}")
    problem = Problem(name, path, "pipeline", {"stages": settings.stages[0]})
    if not problem.instance.nodes:  # reports a bad file before anything runs
        raise InputError(path, "nodes", "expected at least one")
    limit, seed = settings.bound_timeout or 0.0, settings.seed
    search = Cell(problem, "solver", SEARCH, settings.timeout, seed)
    return [search, *(Cell(problem, "bound", method, limit, seed) for method in archer.ladder(settings))]


def report(settings: Settings, runs: list[Run]) -> Report:
    """The story, step by step, with the paper's figures for its own model."""
    found = {run.cell.method: run for run in runs}
    split = found[SEARCH]
    model, nodes = split.cell.problem.id, split.cell.problem.summary["nodes"]
    [k] = settings.stages
    return Report(
        name="practitioner",
        title="Is this split good enough?",
        about=f"One model, {model} with {nodes} nodes, one split into k = {k} stages, and lower bounds that say, one "
        "after another, how much better any split could be.",
        facts={
            "Model": f"{model}, {nodes} nodes, k = {k}; the paper's: {archer.published()['practitioner']['model']}",
            "Seed": str(settings.seed),
            "Time limit": f"{settings.timeout:g} s for the split, {settings.bound_timeout:g} s for each bound",
            "Published with": archer.published()["setup"],
        },
        sections=[_story(found, split.cost, settings)] if split.cost is not None else [],
        notes=failures(runs) + ([] if split.cost is not None else [f"{SEARCH} found no split."]),
        sources=archer.published()["papers"],
    )


def _story(found: dict[str, Run], cost: float, settings: Settings) -> Section:
    steps = archer.ladder(settings)
    bounds = {
        method: run.bound / cost if cost else 1.0  # a bound is at least 0, so a split without cost is optimal
        for method in steps
        if (run := found.get(method)) and run.bound is not None
    }
    proved = max(bounds.values(), default=0.0)
    words = [
        f"{SEARCH} finds a split whose slowest stage takes {cost:.6g}, after {found[SEARCH].cost_s or 0:.1f} s. "
        "Is that good? How hard should you work to improve it? Below, bounds are relative to this cost.",
        *_steps(bounds),
        f"{_verdict(proved)}{_better(found, cost)}",
    ]
    table = Table(
        f"Bounds in units of the split, and {archer.published()['practitioner']['table']}",
        [_row(steps[: place + 1], bounds, found) for place in range(len(steps))],
        note="Saved at most: the part of the split's cost that lies above the best bound so far.",
        coarse=["saved at most, %", "seconds"],
    )
    return Section("Bound by bound", words, [table], [_ladder(bounds)])


def _steps(bounds: dict[str, float]) -> list[str]:
    """A sentence for each bound that was found."""
    words, best = [], 0.0
    for method, value in bounds.items():
        if value > best * (1 + SAME):
            times = f", {value / best:.2f} times as much" if best else ""
            words.append(f"{STEPS.get(method, f'Ours: {method}')}: {value:.4f}{times}. {_room(value)}")
        else:
            words.append(f"{STEPS.get(method, f'Ours: {method}')}: {value:.4f}, no better than before.")
        best = max(best, value)
    return words


def _room(value: float) -> str:
    """Return the improvement that a bound still allows."""
    if value >= 1 - SAME:
        return "No split is better."
    return f"No other split saves more than {_percent(1 - value)}."


def _percent(share: float) -> str:
    return f"{100 * max(share, 0.0):.2g} %" if share < 0.0995 else f"{100 * share:.0f} %"


def _verdict(proved: float) -> str:
    if proved >= 1 - SAME:
        return "The split was optimal from the start: now you know."
    return f"In the end no split saves more than {_percent(1 - proved)} of this one."


def _better(found: dict[str, Run], cost: float) -> str:
    """List the better splits found along with the bounds."""
    least, method = min((run.cost, method) for method, run in found.items() if run.cost is not None)
    if least >= cost * (1 - SAME):
        return ""
    return f" A better split turned up on the way, at {least / cost:.4f} by {method}."


def _row(steps: Sequence[str], bounds: dict[str, float], found: dict[str, Run]) -> Row:
    """Return the best cost and bound known after some steps; the row is that of the last step."""
    method, so_far = steps[-1], max((bounds[step] for step in steps if step in bounds), default=0.0)
    return {
        "bound": method,
        HERE: bounds.get(method),
        PAPER: archer.published()["practitioner"].get(method),
        "best so far": so_far,
        "saved at most, %": 100 * max(0.0, 1 - so_far),
        "seconds": found[method].wall_s if method in found else None,
    }


def _ladder(bounds: dict[str, float]) -> Ladder:
    figures = archer.published()["practitioner"]
    rungs = []
    for method, value in bounds.items():
        rungs.append(Bracket(method, value))
        if method in figures:
            rungs.append(Bracket("as published", figures[method], published=True))
    return Ladder(
        "The bounds close in",
        "From each bound up to the split, which is 1: the optimum lies on the bar. Grey: the paper's model and split.",
        "bound / split",
        rungs,
    )
