"""Schedules of the three training networks: their makespans as multiples of the best bound."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from harness.campaign.problems import Problem
from instances.generate import families
from leaderboard.report import Section, Table
from leaderboard.reproductions import Cell, Run, Settings
from leaderboard.reproductions._frame import ratio, written
from leaderboard.reproductions.frontier._goals import Row, before, goal
from leaderboard.reproductions.pipeline.pipeline_bounds import best_cost, bound_of
from leaderboard.reproductions.scheduling.scheduling import published

SOLVER = "search"
BOUNDS = ("critical-path", "load", "energetic")


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
        bounds.append(bound_of(there, *BOUNDS))
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
        note="Before: after 20 s on one core. The paper has no bounds.",
    )
    words = f"Draws of weights and devices for every network: {settings.runs}, on {published()['devices']} devices."
    return Section("scheduling: certified schedules", [words], [table])
