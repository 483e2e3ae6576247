"""The master program of column generation: the best worths of items, given the sets found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats
from shardmark.solvers.native import Longs
from shardmark.solvers.placement.configuration.set_diagram import Written
from shardmark.solvers.placement.configuration.weights import Weights
from shardmark.solvers.placement.kernels.loads import Nets
from shardmark.solvers.placement.kernels.sets import SetDiagram

Flags = NDArray[np.bool_]

#: A worth of 0 may change as much as this share of the mean worth.
FLOOR = 0.3
#: Memory below this has no price: prices per size would leave the range of float64.
LEAST_ROOM = 1e-250


@dataclass(frozen=True, eq=False)
class Memory:
    """Sizes of items, shape (items,), at most ``room`` in a set; 0 for items that no set may contain."""

    size: Floats
    room: float

    @property
    def tight(self) -> bool:
        """True if memory can bind, and so has a price."""
        return float(self.size.sum()) > self.room > LEAST_ROOM

    @property
    def unit(self) -> float:
        """A unit of price for which all sizes cost 1, so that coefficients are near 1; 0 if memory never binds."""
        return 1 / float(self.size.sum()) if self.tight else 0.0


@dataclass(eq=False)
class Kind:
    """Equal devices and the sets found that one of them can hold.

    ``told``  how a checker builds the diagram, see `set_diagram`
    """

    count: int
    nets: Nets
    cost: Longs
    work: Longs
    diagram: SetDiagram
    told: Written
    weights: Weights
    memory: Memory
    sets: list[Flags] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    known: set[bytes] = field(default_factory=set)

    def load(self, members: Flags) -> int:
        """The load of a set, shape (items,)."""
        pins = np.repeat(members, np.diff(self.nets.start))
        count = np.bincount(self.nets.of[pins], minlength=len(self.cost))
        cut = (count > 0) & (count < self.nets.members)
        return int(self.work[members].sum()) + int(self.cost[cut].sum())

    def add(self, members: Flags) -> None:
        """Keep a set, shape (items,), if it is new."""
        if (self.work[members] >= 0).all() and members.tobytes() not in self.known:
            self.known.add(members.tobytes())
            self.sets.append(members.copy())
            self.loads.append(self.load(members))

    def within(self, limit: int) -> list[Flags]:
        """The sets with a load of at most ``limit``."""
        return [members for members, load in zip(self.sets, self.loads, strict=True) if load <= limit]


@dataclass(frozen=True, eq=False)
class Proof:
    """Worths of items, and memory prices per kind, scaled so that all devices together hold at most 1.

    ``value``  the total worth of all items, which proves the target if it exceeds 1
    """

    worth: Floats
    price: Floats
    value: float


class Master:
    """The dual of the program with the sets found so far: the best worths near those of the best proof."""

    def __init__(self, items: int, kinds: Sequence[Kind], target: int) -> None:
        from ortools.linear_solver import pywraplp

        self._kinds, self._target = kinds, target
        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        solver, infinity = self._solver, self._solver.infinity()
        self._worth = [solver.NumVar(-infinity, infinity, "") for _ in range(items)]
        self._held = [solver.NumVar(0.0, infinity, "") for _ in kinds]
        self._price = [solver.NumVar(0.0, infinity if kind.memory.tight else 0.0, "") for kind in kinds]
        self._rows = [0] * len(kinds)
        all_held = solver.Constraint(1.0, 1.0)
        for kind, held, price in zip(kinds, self._held, self._price, strict=True):
            all_held.SetCoefficient(held, float(kind.count))
            all_held.SetCoefficient(price, kind.count * kind.memory.room * kind.memory.unit)
        solver.Objective().SetMaximization()
        for worth in self._worth:
            solver.Objective().SetCoefficient(worth, 1.0)

    def _add_rows(self) -> None:
        for number, kind in enumerate(self._kinds):
            for at in range(self._rows[number], len(kind.sets)):
                if kind.loads[at] > self._target:
                    continue
                row = self._solver.Constraint(-self._solver.infinity(), 0.0)
                row.SetCoefficient(self._held[number], -1.0)
                row.SetCoefficient(
                    self._price[number], -float(kind.memory.size[kind.sets[at]].sum()) * kind.memory.unit
                )
                for v in np.flatnonzero(kind.sets[at]).tolist():
                    row.SetCoefficient(self._worth[v], 1.0)
            self._rows[number] = len(kind.sets)

    def step(self, center: Proof, reach: float, seconds: float) -> tuple[Floats, Floats, float, bool] | None:
        """Worths, prices, their value for the known sets, and True if every worth is strictly within the reach.

        None if there are none within ``seconds``.
        """
        self._add_rows()
        span = reach * (np.abs(center.worth) + FLOOR * float(np.abs(center.worth).mean()))
        low, high = center.worth - span, center.worth + span
        for variable, *ends in zip(self._worth, low.tolist(), high.tolist(), strict=True):
            variable.SetBounds(*ends)
        self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
        if self._solver.Solve() != self._solver.OPTIMAL:
            return None
        worth = np.array([variable.solution_value() for variable in self._worth])
        price = [p.solution_value() * kind.memory.unit for p, kind in zip(self._price, self._kinds, strict=True)]
        if not (np.isfinite(worth).all() and np.isfinite(price).all() and worth.any()):
            return None
        inside = bool((np.abs(worth - center.worth) < span * (1 - 1e-6)).all())
        return worth, np.array(price).clip(0), float(self._solver.Objective().Value()), inside
