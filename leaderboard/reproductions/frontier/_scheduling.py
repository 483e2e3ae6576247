"""Schedules of the three training networks as multiples of their bounds, and instances with tight memory."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from shardmark.harness.campaign.problems import Problem
from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.instances.generate.dataflows import tight_memory
from shardmark.instances.generate.portable_random import Draws
from shardmark.leaderboard.report import Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings
from shardmark.leaderboard.reproductions._frame import ratio, written
from shardmark.leaderboard.reproductions.frontier._goals import Row, before, goal, percent
from shardmark.leaderboard.reproductions.pipeline.pipeline_bounds import best_cost, bound_of
from shardmark.leaderboard.reproductions.scheduling._networks import published

SOLVER = "search"
BOUNDS = ("critical-path", "load", "energetic")
#: It finds a schedule that fits, or declines an instance with a proof, in these words, that it has none.
MEMORY_SOLVER, PROOF = "memory-first", "no schedule fits the memory"
#: Instances from which those with tight memory are drawn.
SAMPLE = 200


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """The search and all bounds on every draw of every network."""
    cells = []
    for network in published()["networks"]:
        for seed in range(settings.seed, settings.seed + settings.runs):
            instance = families()[network].build(seed, devices=published()["devices"])
            problem = Problem(instance.name, written(instance, folder), "scheduling")
            cells.append(Cell(problem, "solver", SOLVER, settings.timeout, seed, network))
            cells += [Cell(problem, "bound", x, settings.bound_timeout, seed, network) for x in BOUNDS]
    return cells


def _row(settings: Settings, runs: list[Run], network: str) -> Row:
    """Means over the draws; None if a draw has no cost or no bound."""
    costs, bounds = [], []
    for seed in range(settings.seed, settings.seed + settings.runs):
        there = {run.cell.method: run for run in runs if run.cell.about == network and run.cell.seed == seed}
        costs.append(best_cost(there))
        bounds.append(bound_of(there, SOLVER, *BOUNDS))
    ratios = [ratio(cost, bound) for cost, bound in zip(costs, bounds, strict=True)]
    return {
        "network": network,
        "cost": _mean(costs),
        "bound": _mean(bounds),
        "before": before("scheduling", network),
        "cost / bound": _mean(ratios),
    }


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def goals(settings: Settings, runs: list[Run]) -> list[Row]:
    """Makespan / bound of every network."""
    found = [_row(settings, runs, network) for network in published()["networks"]]
    return [goal("scheduling", row["cost / bound"], row["network"], before=row["before"]) for row in found]


def section(settings: Settings, runs: list[Run]) -> Section:
    """Makespans, bounds and their ratios."""
    table = Table(
        "Makespans and bounds, means over the draws",
        [_row(settings, runs, network) for network in published()["networks"]],
        note="Before: values after 20 s on one core. The paper has no bounds.",
    )
    words = f"Draws of weights and devices for every network: {settings.runs}, on {published()['devices']} devices."
    return Section("scheduling: certified schedules", [words], [table])


def plan_tight(settings: Settings, folder: Path) -> list[Cell]:
    """The solver for tight memory on instances drawn from the sample; InputError for more than it has."""
    if settings.tight > SAMPLE:
        raise InputError("reproduce frontier", "--tight", f"expected at most {SAMPLE}, found {settings.tight}")
    drawn = sorted(Draws(settings.seed).permutation(SAMPLE)[: settings.tight].tolist())
    return [
        Cell(problem, "solver", MEMORY_SOLVER, settings.timeout, settings.seed, (instance.links, instance.holding))
        for instance in map(tight_memory, drawn)
        for problem in [Problem(instance.name, written(instance, folder), "scheduling")]
    ]


def refuted(run: Run) -> bool:
    """Return True if a run proved that no schedule fits."""
    return run.status == "declined" and PROOF in run.reason


def decided(run: Run) -> bool:
    """Return True if a run found a schedule or proved that none fits."""
    return run.cell.method == MEMORY_SOLVER and (run.cost is not None or refuted(run))


def goals_tight(settings: Settings, runs: list[Run]) -> list[Row]:
    """The share of instances with a schedule or a proof."""
    return [goal("tight", percent(sum(map(decided, runs)), len(runs)))]


def section_tight(settings: Settings, runs: list[Run]) -> Section:
    """Schedules and proofs, by the rules for links and for what is held."""
    rows = [
        {
            "links": links,
            "holding": holding,
            "instances": len(there),
            "with a schedule": sum(run.cost is not None for run in there),
            "proven to have none": sum(map(refuted, there)),
            "undecided": sum(not decided(run) for run in there),
        }
        for links, holding in sorted({run.cell.about for run in runs})
        for there in [[run for run in runs if run.cell.about == (links, holding)]]
    ]
    words = (
        f"{len(runs)} instances of 60 to 2,000 vertices. The memory of a device is 1, 1.1 or 1.5 times the largest "
        "total input of a vertex."
    )
    return Section("scheduling: tight memory", [words], [Table("Schedules and proofs", rows)])
