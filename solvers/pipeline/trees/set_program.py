"""The linear program that covers all nodes by the fewest listed sets, and what its dual weights prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardmark.solvers.native import Floats, Longs, Words
from shardmark.solvers.pipeline._set_kernels import unpacked, weigh_sets
from shardmark.solvers.pipeline.programs.master import HEAVIEST, HOLDING
from shardmark.solvers.pipeline.programs.stage_search import WEIGHT_BITS, whole_weights

#: Most bytes for the flags of too heavy sets, per program, one per core; lighter sets may be added later.
MOST_FLAGS = 2**24

#: A set gets a variable if its weight exceeds 1 by this.
VIOLATION = 1e-5

#: Weights count as optimal once the heaviest set exceeds 1 by no more than this.
CLOSE = 1e-4

#: The cost of a single node outside all listed sets: greater than that of any set.
ALONE = 3.0


@dataclass(frozen=True)
class Weighing:
    """Node weights, and the weights of some sets.

    ``weight``  shape (n,), int64
    ``weighs``  shape (sets,), int64: weight of each requested set
    """

    weight: Longs
    weighs: Longs

    @property
    def total(self) -> int:
        """Weight of all nodes."""
        return int(self.weight.sum())

    @property
    def heaviest(self) -> int:
        """Weight of the heaviest set."""
        return int(self.weighs.max(initial=0))

    def slack(self, stages: int) -> int:
        """``stages`` times the heaviest weight, less that of all nodes; if negative, there is no partition."""
        return stages * self.heaviest - self.total


class SetProgram:
    """Node weights that minimise the heaviest of some of the listed sets.

    Only sets that turn out too heavy get variables.
    """

    def __init__(self, member: Words, nodes: int, left: Callable[[], float]) -> None:
        from ortools.linear_solver import pywraplp

        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._member, self._left = member, left
        self._rows = [self._solver.Constraint(1.0, self._solver.infinity()) for _ in range(nodes)]
        self._chosen: list[Any] = []
        self._at: dict[int, int] = {}
        self._objective = self._solver.Objective()
        self._objective.SetMinimization()
        for row in self._rows:
            row.SetCoefficient(self._variable(ALONE), 1.0)

    def weigh(self, alive: Longs, stages: int) -> Weighing | None:
        """Weights that nearly minimise the heaviest set of ``alive``, or prove that ``stages`` sets do not suffice.

        None if the program was not solved in time.
        """
        allowed = np.zeros(len(self._member), dtype=bool)
        allowed[alive] = True
        for index, at in self._at.items():
            self._chosen[at].SetUb(self._solver.infinity() if allowed[index] else 0.0)
        member = self._member[alive]
        while (left := self._left()) > 0:
            self._solver.SetTimeLimit(max(1, int(1000 * left)))
            if self._solver.Solve() != self._solver.OPTIMAL:
                return None
            dual = np.array([row.dual_value() for row in self._rows]).clip(0, ALONE)
            if not (np.isfinite(dual).all() and dual.any()):
                return None
            unit = 2**WEIGHT_BITS / dual.sum()
            weight = whole_weights(dual)
            found = Weighing(weight, weigh_sets(member, weight))
            if found.slack(stages) < 0 or found.heaviest <= (1 + CLOSE) * unit or not self._add(alive, found, unit):
                return found
        return None

    def cover(self) -> tuple[Longs, Floats]:
        """The sets in the last cover, and the fraction of each."""
        values = [self._chosen[at].solution_value() for at in self._at.values()]
        share = dict(zip(self._at, np.nan_to_num(values).clip(0, 1).tolist(), strict=True))
        indices = np.array([index for index, value in share.items() if value > 1e-7], dtype=np.int64)
        return indices, np.array([share[index] for index in indices.tolist()])

    def _variable(self, cost: float) -> Any:
        variable = self._solver.NumVar(0.0, self._solver.infinity(), "")
        self._objective.SetCoefficient(variable, cost)
        return variable

    def _add(self, alive: Longs, found: Weighing, unit: float) -> bool:
        """Add variables for sets that are too heavy; False if there are none."""
        heavy = np.flatnonzero(found.weighs > (1 + VIOLATION) * unit)
        heavy = heavy[np.argsort(-found.weighs[heavy], kind="stable")]
        heavy = alive[heavy[: max(1, MOST_FLAGS // len(self._rows))]]
        member = unpacked(self._member[heavy], len(self._rows))
        picked = [heavy[:HEAVIEST], *(heavy[holding][:HOLDING] for holding in member.T)]
        fresh = [index for index in dict.fromkeys(np.concatenate(picked).tolist()) if index not in self._at]
        for index in fresh:
            self._at[index] = len(self._chosen)
            self._chosen.append(self._variable(1.0))
            for v in np.flatnonzero(unpacked(self._member[index : index + 1], len(self._rows))[0]).tolist():
                self._rows[v].SetCoefficient(self._chosen[-1], 1.0)
        return bool(fresh)
