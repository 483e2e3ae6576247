"""Branch and bound on values of variables, which raises a lower bound that messages alone leave.

In a fixed point of messages every pair is consistent, a cycle of pairs need not be: two values of a variable that many
pairs share get half the weight each, and all cycles through it avoid their costs. Fixing that variable exposes them.
The problem is split into leaves, each with its own messages under the multipliers of the whole; the bound is the least
of theirs. Strong branching (Applegate et al. 1995) chooses the variable: some are tried with a few sweeps.
"""

from __future__ import annotations

import copy
import heapq
import time
from collections.abc import Callable
from itertools import count

import numpy as np

from instances.files.columns import Floats, Ints
from solvers.intraop._kernels import FORBIDDEN
from solvers.intraop.cfn.lagrangian import Dual
from solvers.intraop.network.model import Mask
from solvers.intraop.network.ragged import argmin

#: Sweeps of a leaf between two comparisons with other leaves.
SWEEPS = 20
#: A leaf is split if its last sweeps closed less than this fraction of the gap to the top.
STALLED = 0.005
#: Sweeps of each part when a variable is tried.
TRIAL = 5
#: Variables tried per split: the best of those tried before, and as many new ones.
OLD, NEW = 4, 4
#: Weight of the larger of both gains in the score of a variable.
LARGER = 1 / 6
#: Bytes for the messages of all leaves.
MEMORY = 2**28

#: Costs of values, messages and bound of a leaf, as in `Trws`.
State = tuple[Ints, Ints, int]


class Tree:
    """Leaves that together contain all assignments of a problem that cost less than ``top``, at first its bound's.

    ``bound``  lower bound on the cost of any assignment, in costs of the model; ``top`` if none costs less
    """

    def __init__(self, dual: Dual) -> None:
        self._dual, self._messages, self.top, self.bound = dual, copy.copy(dual.messages), dual.top, dual.bound
        model, weight = dual.problem.model, dual.weights()
        self._start, self._number, self._until = model.start, count(), 0.0
        self._order = -weight  # of equally promising values, the one of greatest weight is fixed
        degree = np.bincount(np.concatenate([model.tail, model.head]), minlength=model.variables)
        self._promise = degree * _second(weight, model.start)
        self._score = np.full(model.variables, -1.0)  # of the variables tried so far
        state, self._settled = dual.messages.state, dual.messages.top
        self._most_leaves = max(1, MEMORY // (state[0].nbytes + state[1].nbytes))
        self._leaves: list[tuple[int, int, bool, State]] = []
        self._add(state, stalled=True)

    @property
    def open(self) -> bool:
        """True if the bound may rise: the least leaf can be split, and there is memory for it."""
        return bool(self._leaves) and self._leaves[0][0] < self._settled and len(self._leaves) < self._most_leaves

    def grow(self, until: float, top: Callable[[], int], enough: Callable[[], bool]) -> None:
        """Sweep the leaf of least bound, or split it, until a time, until ``enough``, or until nothing is open.

        ``top`` returns the present top, which only falls.
        """
        self._until = until
        while self.open and time.monotonic() < until and not enough():
            self._lower(top())
            bound, _, stalled, state = heapq.heappop(self._leaves)
            if stalled:
                self._split(state)
            else:
                state = self._swept(state, SWEEPS)
                self._add(state, stalled=state[2] - bound < STALLED * (self._messages.top - bound))
            least = min([self._settled, *(leaf[0] for leaf in self._leaves[:1])])
            self.bound = min(self.top, self._dual.in_costs(least))

    def _lower(self, top: int) -> None:
        """Lower the top to that of a better solution: messages rule out more."""
        if top < self.top:
            self.top = top
            self._messages.top = min(self._messages.top, self._dual.scaled_top(top))
            self._settled = min(self._settled, self._messages.top)

    def _add(self, state: State, *, stalled: bool) -> None:
        if state[2] < self._messages.top:
            heapq.heappush(self._leaves, (state[2], next(self._number), stalled, state))

    def _swept(self, state: State, sweeps: int, without: Mask | None = None) -> State:
        """State after some sweeps; if a mask of values to exclude is given, shape (rows,), the old one is kept."""
        messages = self._messages
        if without is not None:
            state = np.where(without, FORBIDDEN, state[0]), state[1].copy(), state[2]
        messages.state = state
        for _ in range(sweeps):
            if time.monotonic() > self._until:
                break
            messages.sweep(1)
        return state[0], state[1], messages.bound

    def _split(self, state: State) -> None:
        """Replace a leaf by two: a value of a variable, and all its others; settle it if no variable has two."""
        best: tuple[float, list[State]] | None = None
        for variable in self._candidates(state[0]):
            parts = self._parts(state, variable)
            if time.monotonic() > self._until:  # the trial was cut short
                self._add(state, stalled=True)
                return
            gains = sorted(part[2] - state[2] for part in parts)
            score = self._score[variable] = (1 - LARGER) * gains[0] + LARGER * gains[1]
            if best is None or score > best[0]:
                best = score, parts
        if best is None:
            self._settled = min(self._settled, state[2])
            return
        for part in best[1]:
            self._add(part, stalled=False)

    def _candidates(self, cost: Ints) -> list[int]:
        """Variables to try: those of best scores, and of the others those of greatest promise."""
        several = np.add.reduceat((cost < FORBIDDEN).astype(np.int64), self._start[:-1]) > 1
        old, new = np.flatnonzero(several & (self._score >= 0)), np.flatnonzero(several & (self._score < 0))
        old = old[np.argsort(-self._score[old], kind="stable")[:OLD]]
        new = new[np.argsort(-self._promise[new], kind="stable")[:NEW]]
        return [int(variable) for variable in np.concatenate([old, new])]

    def _parts(self, state: State, variable: int) -> list[State]:
        """Split a leaf into a value of a variable and all others, each after a few sweeps."""
        first, last = int(self._start[variable]), int(self._start[variable + 1])
        allowed = state[0][first:last] < FORBIDDEN
        chosen = np.zeros(len(state[0]), dtype=bool)
        chosen[first + int(np.argmin(np.where(allowed, self._order[first:last], np.inf)))] = True
        others = np.zeros(len(chosen), dtype=bool)
        others[first:last] = ~chosen[first:last]
        return [self._swept(state, TRIAL, without) for without in (others, chosen)]


def _second(weight: Floats, start: Ints) -> Floats:
    """The second greatest weight of every variable, shape (v,); 0 for a single value."""
    rest = weight.copy()
    rest[start[:-1] + argmin(-weight, start)] = 0.0
    result: Floats = np.maximum.reduceat(rest, start[:-1])
    return result
