"""Balanced stages that all have the same degrees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid.uniform.runs import Best, Degree, Runs
from shardmark.solvers.registry import Declined, Run, solver

MOST_CUTS = 256  # places between stages that are tried; every pair of them is a candidate


@solver(track="hybrid", source="PipeDream's partitioning, Narayanan et al. 2019, equal degrees", proves_bounds=False)
def same_degrees(instance: Instance, run: Run) -> None:
    """Cut one order into stages of even time, each with or without recomputation, for every pair of degrees."""
    runs = Runs(instance)
    best, places = Best(runs, run), _places(runs)
    for degree in runs.degrees:
        spans = Spans(runs, degree, places)
        most = min(len(places) - 1, instance.devices // degree.t, instance.batch)
        for d in runs.replicas(degree.t, 1):
            for cut, kind in spans.balanced(d, min(most, instance.devices // (degree.t * d), instance.batch // d)):
                if not run.remaining():
                    return
                best.offer(degree, cut, kind)
    if best.cost == np.inf:
        raise Declined("no stages with the same degrees fit the devices and the memory")


def _places(runs: Runs) -> Ints:
    """Places between nodes of the order, with both ends: all, or `MOST_CUTS` at even distances in time."""
    work = runs.instance
    if work.nodes <= MOST_CUTS:
        return np.arange(work.nodes + 1)
    time = np.cumsum(work.time[work.start[:-1]][runs.order])
    at = np.searchsorted(time, np.linspace(0, time[-1], MOST_CUTS + 1)[1:-1]) + 1
    return np.unique(np.concatenate([[0], np.minimum(at, work.nodes), [work.nodes]]))


class Spans:
    """Sums of every run between two places, for each kind of configuration: arrays of shape (kinds, p, p)."""

    def __init__(self, runs: Runs, degree: Degree, places: Ints) -> None:
        self.runs, self.degree, self.places = runs, degree, places
        work, count = runs.instance, len(places)
        self.inner = np.triu(np.ones((count, count), dtype=bool), 1)
        bound = np.searchsorted(places, np.arange(work.nodes), side="right") - 1
        tail, head = (bound[runs.position[ends]] for ends in (work.graph.tail, work.graph.head))
        self.time, self.gathered, self.parameters, self.stashed, self.fixed, self.shared = (
            np.array([self._between(column[chosen]) for chosen in degree.chosen])
            for column in (work.time, work.gathered, work.parameters, work.stashed, work.fixed, work.shared)
        )
        for kind in range(len(degree.kinds)):
            self.time[kind] += _crossing(tail, head, degree.into[kind], degree.out[kind], count)

    def _between(self, column: Floats) -> Floats:
        total = np.concatenate([[0.0], np.cumsum(column)])[self.places]
        return total[None, :] - total[:, None]

    def balanced(self, d: int, most: int) -> Iterator[tuple[list[int], Ints]]:
        """Yield the stages with the least time of the slowest, for every number of stages up to ``most``."""
        work, count = self.runs.instance, len(self.places)
        speed, share = work.speed(d, self.degree.t), (d - 1) / d
        cost = (self.time + self.gathered / speed * share) / d + 4 * (self.parameters / speed) * share / work.batch
        held = self.fixed + self.shared / d
        best = np.full(count, np.inf)
        best[-1] = 0.0
        steps: list[tuple[Ints, Ints]] = []
        for stages in range(1, most + 1):
            fits = (held + self.stashed * stages <= work.memory) & self.inner
            options = np.where(fits, cost, np.inf)
            kind = options.argmin(axis=0)
            value = np.maximum(options.min(axis=0), best[None, :])
            following = value.argmin(axis=1)
            rows = np.arange(count)
            best = value[rows, following]
            steps.append((following, kind[rows, following]))
            if not np.isfinite(best).any():
                return
            if np.isfinite(best[0]):
                yield self._walk(steps)

    def _walk(self, steps: list[tuple[Ints, Ints]]) -> tuple[list[int], Ints]:
        at, cut, kinds = 0, [0], []
        for following, kind in reversed(steps):
            kinds.append(int(kind[at]))
            at = int(following[at])
            cut.append(int(self.places[at]))
        return cut, np.array(kinds)


def _crossing(tail: Ints, head: Ints, into: Floats, out: Floats, count: int) -> Floats:
    """Seconds for the edges that enter or leave each run ``i:j`` of places, shape (p, p)."""
    entering, leaving = (np.zeros((count, count)) for _ in range(2))
    np.add.at(entering, (tail, head), into)
    np.add.at(leaving, (tail, head), out)
    # sums over tails before i and heads before j
    entering, leaving = (
        np.pad(table.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))[:count, :count] for table in (entering, leaving)
    )
    rows = np.arange(count)
    enters = entering - entering[rows, rows][:, None]
    sent = leaving[:, -1]
    leaves = sent[None, :] - sent[:, None] - (leaving[rows, rows][None, :] - leaving)
    return np.triu(enters + leaves, 1)
