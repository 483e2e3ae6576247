"""Branch and bound on values of variables, which raises a lower bound that messages alone leave.

In a fixed point of messages every pair is consistent, a cycle of pairs need not be: two values of a variable that many
pairs share get half the weight each, and all cycles through it avoid their costs. Fixing that variable exposes them.
The problem is split into leaves, each with its own messages and prices of memory; the bound is the least of theirs.
Strong branching (Applegate et al. 1995) chooses the variable: some are tried with a few sweeps. Before a leaf is split
its prices move along a subgradient (Polyak 1969).
"""

from __future__ import annotations

import copy
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np

from instances.files.columns import Floats, Ints
from solvers.intraop._kernels import FORBIDDEN
from solvers.intraop.cfn.lagrangian import Dual, largest_multiplier
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
#: Bytes for the messages of all leaves, of which a split takes some: the leaf, two halves of it, and the best two.
MEMORY, TRIED = 2**28, 5

#: Step along a subgradient of the prices, as a fraction of Polyak's: least of a new part, and least that is tried.
STEP, LEAST_STEP = 0.1, 1e-4
#: Factor on the step after a gain, and after a loss.
LONGER, SHORTER = 1.5, 0.3
#: Costs of values stay below this in absolute value, see `trws.h`.
RANGE = 2**58


class State(NamedTuple):
    """Costs of values, messages and bound of a leaf, as in `Trws`, the price of each memory row, and the next step."""

    cost: Ints
    sent: Ints
    bound: int
    prices: tuple[int, ...]
    step: float


class Tree:
    """Leaves that together contain all assignments that cost less than ``top``, which is at first the dual's.

    ``bound``  lower bound on the cost of any assignment, in costs of the model; ``top`` if none costs less
    """

    def __init__(self, dual: Dual) -> None:
        self._dual, self._messages, self.top, self.bound = dual, copy.copy(dual.messages), dual.top, dual.bound
        model, weight = dual.problem.model, dual.weights()
        self._start, self._number, self._until = model.start, count(), 0.0
        self._enough: Callable[[], bool] = lambda: False
        self._order = -weight  # of equally promising values, the one of greatest weight is fixed
        degree = np.bincount(np.concatenate([model.tail, model.head]), minlength=model.variables)
        self._promise = degree * _second(weight, model.start)
        self._score = np.full(model.variables, -1.0)  # of the variables tried so far
        self._rows, self._settled = [row for row, _ in dual.priced], dual.messages.top
        state = State(*dual.messages.state, tuple(price for _, price in dual.priced), STEP)
        self._most_leaves = MEMORY // (state.cost.nbytes + state.sent.nbytes) - TRIED
        self._leaves: list[tuple[int, int, bool, State]] = []
        self._add(state, stalled=True)

    @property
    def open(self) -> bool:
        """True if the bound may rise: the least leaf can be split, and there is memory for it."""
        return bool(self._leaves) and self._leaves[0][0] < self._settled and len(self._leaves) < self._most_leaves

    def grow(self, until: float, top: Callable[[], int], enough: Callable[[], bool]) -> None:
        """Sweep the leaf of least bound, or split it, until a time, until ``enough``, or until nothing is open.

        ``top`` returns the present top, which only falls. Without memory for a leaf, the bound stays as it is for good.
        """
        self._until, self._enough = until, enough
        try:
            while self.open and not self._over():
                self._lower(top())
                self._step()
        except MemoryError:  # the leaf at work is lost, so the others prove nothing any more
            self._leaves.clear()

    def _step(self) -> None:
        """Sweep the leaf of least bound, move its prices, or split it."""
        bound, _, stalled, state = heapq.heappop(self._leaves)
        state = self._repriced(state) if stalled else self._swept(state, SWEEPS)
        if state.bound - bound >= STALLED * (self._messages.top - bound) or not stalled:
            self._add(state, stalled=state.bound - bound < STALLED * (self._messages.top - bound))
        else:
            self._split(state)
        least = min([self._settled, *(leaf[0] for leaf in self._leaves[:1])])
        self.bound = min(self.top, self._dual.in_costs(least))

    def _over(self) -> bool:
        return time.monotonic() >= self._until or self._enough()

    def _lower(self, top: int) -> None:
        """Lower the top to that of a better solution: messages rule out more."""
        if top < self.top:
            self.top = top
            self._messages.top = min(self._messages.top, self._dual.scaled_top(top))
            self._settled = min(self._settled, self._messages.top)

    def _add(self, state: State, *, stalled: bool) -> None:
        if state.bound < self._messages.top:
            heapq.heappush(self._leaves, (state.bound, next(self._number), stalled, state))

    def _swept(self, state: State, sweeps: int) -> State:
        """State after some sweeps, which change its arrays."""
        messages = self._messages
        messages.state = state[:3]
        for _ in range(sweeps):
            if self._over():
                break
            messages.sweep(1)
        return state._replace(bound=messages.bound)

    def _repriced(self, state: State) -> State:
        """Move the prices of memory along a subgradient, and sweep; only the step changes if the bound falls."""
        chosen = np.zeros(len(state.cost), dtype=np.int64)
        chosen[self._start[:-1] + argmin(state.cost, self._start)] = 1
        excess = np.array([float(row.usage @ chosen[row.at] - row.room) for row in self._rows])
        excess = np.where((excess > 0) | (np.array(state.prices) > 0), excess, 0.0)
        length = float(excess @ excess)
        if not length or state.step < LEAST_STEP:
            return state
        moves = state.step * (self._messages.top - state.bound) / length * excess
        moved = self._with_prices(state, [price + int(move) for price, move in zip(state.prices, moves, strict=True)])
        if moved is not None:
            moved = self._swept(moved, SWEEPS)
            if moved.bound > state.bound:
                return moved._replace(step=min(1.0, LONGER * state.step))
        return state._replace(step=SHORTER * state.step)

    def _with_prices(self, state: State, prices: list[int]) -> State | None:
        """The same leaf under other prices, at least 0; None if numbers become too large."""
        cost, bound, kept = state.cost.copy(), state.bound, []
        for row, before, wanted in zip(self._rows, state.prices, prices, strict=True):
            price = min(max(0, wanted), largest_multiplier(row))
            cost[row.at] += np.where(state.cost[row.at] < FORBIDDEN, (price - before) * row.usage, 0)
            bound -= (price - before) * row.room
            kept.append(price)
        if max(abs(bound), int(np.abs(cost[state.cost < FORBIDDEN]).max(initial=0))) >= RANGE:
            return None
        return State(cost, state.sent.copy(), bound, tuple(kept), state.step)

    def _split(self, state: State) -> None:
        """Replace a leaf by two: a value of a variable, and all its others; settle it if no variable has two."""
        best: tuple[float, list[State]] | None = None
        for variable in self._candidates(state.cost):
            parts = self._parts(state, variable)
            if self._over():  # the trial was cut short
                self._add(state, stalled=True)
                return
            gains = sorted(part.bound - state.bound for part in parts)
            score = self._score[variable] = (1 - LARGER) * gains[0] + LARGER * gains[1]
            if best is None or score > best[0]:
                best = score, parts
        if best is None:
            self._settled = min(self._settled, state.bound)
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
        allowed = state.cost[first:last] < FORBIDDEN
        chosen = np.zeros(len(state.cost), dtype=bool)
        chosen[first + int(np.argmin(np.where(allowed, self._order[first:last], np.inf)))] = True
        others = np.zeros(len(chosen), dtype=bool)
        others[first:last] = ~chosen[first:last]
        step = max(STEP, state.step)
        costs = [np.where(without, FORBIDDEN, state.cost) for without in (others, chosen)]
        return [self._swept(state._replace(cost=cost, sent=state.sent.copy(), step=step), TRIAL) for cost in costs]


def _second(weight: Floats, start: Ints) -> Floats:
    """The second greatest weight of every variable, shape (v,); 0 for a single value."""
    rest = weight.copy()
    rest[start[:-1] + argmin(-weight, start)] = 0.0
    result: Floats = np.maximum.reduceat(rest, start[:-1])
    return result
