"""The linear program over the sets of a pool whose solutions are node weights: the dual of a cover of all nodes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from shardmark.solvers.native import Floats, Longs
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool

#: A weight may also grow by the reach times this share of the mean weight.
FLOOR = 0.02

#: Rows added at a time: the heaviest sets of all, and the heaviest that hold each node.
HEAVIEST, HOLDING = 60, 2

#: Sets weighed at a time: members as numbers take eight times the memory of flags.
SLICE = 1024

#: A set gets a row if its weight exceeds the heaviest by this; all weights add up to k.
VIOLATION = 1e-6


class Master:
    """Weights with sum k, near a center, that minimise the total weight of the heaviest sets of all places.

    Only sets of the pool that cost less than the target count. A set gets a row when it turns out too heavy.
    """

    def __init__(self, pool: SetPool, places: list[Place], target: int) -> None:
        from ortools.linear_solver import pywraplp

        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._pool, self._places, self._target = pool, places, target
        self._fitting: list[Longs] = [np.zeros(0, dtype=np.int64) for _ in places]
        self._seen = 0
        nodes, stages = pool.member.shape[1], sum(place.count for place in places)
        self._mean, self._most = stages / nodes, stages
        self._weights = [self._solver.NumVar(0.0, stages, "") for _ in range(nodes)]
        self._heaviest = [self._solver.NumVar(0.0, stages, "") for _ in places]
        self._rows: dict[tuple[int, int], Any] = {}
        self._solved = False
        self._solver.Minimize(sum(place.count * most for place, most in zip(places, self._heaviest, strict=True)))
        total = self._solver.Constraint(stages, stages)
        for weight in self._weights:
            total.SetCoefficient(weight, 1.0)

    def heaviest(self, weights: Floats) -> list[float]:
        """Weight of the heaviest set of each place, 0 if there is none."""
        return [float(self._weigh(at, weights).max(initial=0.0)) for at in range(len(self._places))]

    def solve(self, center: Floats, reach: float, seconds: float) -> Floats | None:
        """Weights within ``reach`` of ``center``; None if none were found."""
        least, most = center * (1 - reach), center * (1 + reach) + FLOOR * reach * self._mean
        for weight, lower, upper in zip(self._weights, least.clip(0).tolist(), most.tolist(), strict=True):
            weight.SetBounds(lower, upper)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._solver.SetTimeLimit(max(1, int(1000 * left)))
            self._solved = self._solver.Solve() == self._solver.OPTIMAL
            if not self._solved:
                return None
            weights = np.array([weight.solution_value() for weight in self._weights])
            if not np.isfinite(weights).all():
                return None
            weights = weights.clip(0, self._most)
            heaviest = [most.solution_value() for most in self._heaviest]
            if not self._add_rows(weights, heaviest):
                return weights
        self._solved = False
        return None

    def cover_fractions(self) -> Floats:
        """Fraction of each node in each place, in the cover dual to the last weights, shape (places, n)."""
        held = np.zeros((len(self._places), len(self._weights)))
        for (at, index), row in self._rows.items() if self._solved else ():
            held[at, self._pool.member[index]] += abs(row.dual_value())
        return np.nan_to_num(held).clip(0, 1)

    def _weigh(self, at: int, weights: Floats) -> Floats:
        """Weight of each set that fits a place."""
        self._look()
        fitting = self._fitting[at]
        slices = (self._pool.member[fitting[i : i + SLICE]] @ weights for i in range(0, len(fitting), SLICE))
        return np.concatenate([np.zeros(0), *slices])

    def _look(self) -> None:
        """Fetch the new sets of the pool."""
        since, self._seen = self._seen, len(self._pool)
        for at, place in enumerate(self._places if self._seen > since else ()):
            fresh = self._pool.fitting(place, self._target, since)
            self._fitting[at] = np.concatenate([self._fitting[at], fresh])

    def _add_rows(self, weights: Floats, heaviest: list[float]) -> bool:
        """Add rows for sets that weigh more than the heaviest in their place; False if there are none."""
        before = len(self._rows)
        for at, most in enumerate(heaviest):
            weighed = self._weigh(at, weights)
            heavy = np.flatnonzero(weighed > most + VIOLATION)
            heavy = self._fitting[at][heavy[np.argsort(-weighed[heavy], kind="stable")]]
            heavy = np.array([index for index in heavy.tolist() if (at, index) not in self._rows], dtype=np.int64)
            member = self._pool.member[heavy]
            chosen = [heavy[:HEAVIEST], *(heavy[member[:, v]][:HOLDING] for v in range(len(weights)))]
            for index in dict.fromkeys(np.concatenate(chosen).tolist()):
                self._add(at, index)
        return len(self._rows) > before

    def _add(self, at: int, index: int) -> None:
        """Require that a set weighs no more than the heaviest in its place."""
        row = self._rows[at, index] = self._solver.Constraint(-self._solver.infinity(), 0.0)
        row.SetCoefficient(self._heaviest[at], -1.0)
        for v in np.flatnonzero(self._pool.member[index]).tolist():
            row.SetCoefficient(self._weights[v], 1.0)
