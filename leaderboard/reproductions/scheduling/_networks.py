"""The paper's figures, and the outcomes of the draws of a network: makespans by method, and the greatest bounds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from shardmark.leaderboard.reproductions import Run, Settings

FILE = Path(__file__).with_name("scheduling2017.toml")
#: The paper's methods in the order of its figure; each solver is named by both, as in hash-fifo.
PARTITIONERS = ("hash", "batch-split", "critical-path", "mite", "dfs", "heft")
SCHEDULERS = ("fifo", "pct", "msr")
PAIRS = tuple(f"{partitioner}-{scheduler}" for partitioner in PARTITIONERS for scheduler in SCHEDULERS)


Row = Mapping[str, Any]


@cache
def published() -> Mapping[str, Any]:
    """The content of the file: ``papers runs devices best worst ratio networks``."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Network:
    """Outcomes of all draws of one network: makespans by method and draw, and the greatest bound per draw."""

    name: str
    costs: Mapping[str, Mapping[int, float]]
    bounds: Mapping[int, float]

    def mean(self, method: str) -> float | None:
        """The mean makespan of a method over the draws that it solved."""
        costs = self.costs.get(method)
        return fmean(costs.values()) if costs else None

    def deviation(self, method: str) -> float | None:
        """The sample standard deviation; None for a single draw."""
        costs = list(self.costs[method].values())
        return stdev(costs) if len(costs) > 1 else None

    def over(self, method: str, below: Mapping[int, float]) -> float | None:
        """The mean of makespan / ``below`` over the draws that have both."""
        quotients = [cost / below[i] for i, cost in self.costs.get(method, {}).items() if below.get(i)]
        return fmean(quotients) if quotients else None

    @property
    def least(self) -> float | None:
        """The least mean of a pair."""
        return min((mean for pair in PAIRS if (mean := self.mean(pair)) is not None), default=None)

    @property
    def slowest(self) -> str:
        """The partitioner whose mean over its pairs is the greatest."""
        means = {
            name: [mean for scheduler in SCHEDULERS if (mean := self.mean(f"{name}-{scheduler}")) is not None]
            for name in PARTITIONERS
        }
        return max((name for name in means if means[name]), key=lambda name: fmean(means[name]), default="–")

    def solved(self, methods: Iterable[str]) -> list[str]:
        """Methods sorted by mean makespan; methods without any are left out."""
        found = [(mean, method) for method in methods if (mean := self.mean(method)) is not None]
        return [method for _, method in sorted(found)]


def collected(name: str, runs: Iterable[Run]) -> Network:
    """Collect the runs on a network; bounds that a cost contradicts are dropped."""
    costs: dict[str, dict[int, float]] = {}
    bounds: dict[int, float] = {}
    for run in runs:
        if run.cell.about == name and run.cell.kind == "solver" and run.cost is not None:
            costs.setdefault(run.cell.method, {})[run.cell.seed] = run.cost
        if run.cell.about == name and run.bound is not None:
            bounds[run.cell.seed] = max(run.bound, bounds.get(run.cell.seed, 0.0))
    return Network(name, costs, bounds)


def draws(settings: Settings) -> str:
    """The number of draws in words."""
    return f"{settings.runs} draw{'' if settings.runs == 1 else 's'}"


def spread(values: Sequence[float]) -> str:
    """The range of values, with two digits after the point."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
