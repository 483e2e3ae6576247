"""Branch and bound on the values of variables, to raise a lower bound beyond the fixed point of messages.

At a fixed point of message passing every pair of variables is consistent, but a cycle of pairs need not be: a variable
with many neighbours can put half of its weight on each of two values, and thereby avoid the costs of all cycles through
it. Fixing its value makes these costs count. A leaf is split into all values of a variable at once; if only one value
were split off, messages would again put half of the weight on each of two others. Every leaf has its own messages and
memory prices; the lower bound is the least bound of all leaves. Strong branching (Applegate et al. 1995) chooses the
variable: several are tried with a few sweeps each. If a split gains little, softened messages and memory prices are
optimised again for the leaf; they are then rounded to an assignment, which is more specific than the root's messages,
an average over many solutions.
"""

from __future__ import annotations

import copy
import heapq
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop._kernels import FORBIDDEN
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.cfn.leaf_prices import (
    Split,
    State,
    forbid_unfitting,
    memory_splits,
    polyak,
    repriced,
)
from shardmark.solvers.intraop.network.ragged import argmin

#: Sweeps of a leaf before it is compared with other leaves again.
SWEEPS = 20
#: A leaf is split if its last sweeps closed less than this fraction of the gap to the top.
STALLED = 0.02
#: Sweeps of each part if a variable is tried.
TRIAL = 3
#: Variables tried per split: the best of those tried before, and new ones.
OLD, NEW = 4, 12
#: Weight of the second least gain of a part in the score of a variable.
SECOND = 1 / 6
#: Variables tried per split by memory use.
BY_MEMORY = 3
#: Price moves of a leaf that was split by memory use, and of a trial; sweeps after each move.
MOVES, TRIAL_MOVES, MOVE_SWEEPS = 6, 3, 4
#: Most parts of a leaf: single values, and one part with all other values.
PARTS = 32
#: Bytes for the states of all leaves; if they are used up, parts keep the state that their leaf began with.
MEMORY = 2**28
#: Number of latest assignments kept for the search.
KEPT = 8
#: Most leaves.
MOST_LEAVES = 2**16


class Part(NamedTuple):
    """The values of a variable, as rows, that a part of a leaf allows; new prices after a split by memory use."""

    variable: int
    rows: Ints
    prices: list[int] | None = None


class Leaf(NamedTuple):
    """The assignments that a state and all ``parts`` allow; they cost at least ``bound``.

    ``number`` breaks ties. A leaf that has ``stalled`` is split; if that gains little, its softened messages are
    optimised once, after which it has ``climbed``.
    """

    bound: int
    number: int
    stalled: bool
    climbed: bool
    state: State
    parts: tuple[Part, ...]


class Tree:
    """Leaves that together contain all assignments that cost less than ``top``, initially that of the dual.

    ``bound``     lower bound on the cost of any assignment, in costs of the model; ``top`` if none costs less
    ``found``     assignments below the top, which need not fit, with prices per byte of the binding steps
    ``solution``  the best of them that fits; None if none did
    """

    def __init__(self, dual: Dual) -> None:
        self._dual, self._messages, self.top, self.bound = dual, copy.copy(dual.messages), dual.top, dual.bound
        model = dual.problem.model
        self.found: deque[tuple[Ints, dict[int, float]]] = deque(maxlen=KEPT)
        self.solution: Ints | None = None
        self._least = dual.top  # cost of the solution
        self._offered: set[int] = set()
        self._start, self._number, self._until = model.start, count(), 0.0
        self._variable = dual.problem.variable
        self._enough: Callable[[], bool] = lambda: False
        self._degree = np.bincount(np.concatenate([model.tail, model.head]), minlength=model.variables)
        self._order_by_weight(dual.weights())
        self._score = np.full(model.variables, -1.0)  # of every variable tried so far, else -1
        self._settled = dual.messages.top
        self._climbing, self._splitting = 0.0, 0.0  # seconds spent on climbs, and on all else
        state = State(*dual.messages.state, tuple(dual.priced))
        self._most_states = MEMORY // (state.cost.nbytes + state.sent.nbytes)
        self._leaves: list[Leaf] = []
        self._add(state.bound, state, (), stalled=True, climbed=True)

    def _order_by_weight(self, weight: Floats) -> None:
        """Order the values of variables by weight, and variables by the weight of the second value."""
        self._order = -weight
        self._promise = self._degree * _second_weight(weight, self._start)

    @property
    def open(self) -> bool:
        """True if the bound may rise: the least leaf can be split."""
        return 0 < len(self._leaves) < MOST_LEAVES and self._leaves[0].bound < self._settled

    def grow(self, until: float, top: Callable[[], int], enough: Callable[[], bool]) -> None:
        """Sweep or split the leaf of least bound until time is up, ``enough`` returns True, or no leaf can be split.

        ``top`` returns the present top, which never rises. If memory runs out for a leaf, the bound never changes
        again.
        """
        self._until, self._enough = until, enough
        try:
            while self.open and not self._must_stop():
                self._lower(top())
                self._step()
        except MemoryError:  # the current leaf is lost, so the others no longer prove a bound
            self._leaves.clear()

    def _step(self) -> None:
        """Sweep the leaf of least bound, or split it."""
        began, climbing = time.monotonic(), self._climbing
        leaf = heapq.heappop(self._leaves)
        state = self._sweep(self._restricted_state(leaf), SWEEPS)
        if any(part.prices is not None for part in leaf.parts):
            state = self._move_prices(state, MOVES)
        bound = max(leaf.bound, state.bound)
        stalled = bound - leaf.bound < STALLED * (self._messages.top - leaf.bound)
        if stalled and leaf.stalled and not self._must_stop():
            self._split(leaf, state, bound)
        else:
            self._keep(leaf, state, bound, stalled=stalled, climbed=leaf.climbed)
        least = min([self._settled, *(leaf.bound for leaf in self._leaves[:1])])
        self.bound = min(self.top, self._dual.in_costs(least))
        self._splitting += time.monotonic() - began - (self._climbing - climbing)

    def _keep(self, leaf: Leaf, state: State, bound: int, *, stalled: bool, climbed: bool) -> None:
        """Put a leaf back, with a new state if there is memory for it."""
        base, parts = (state, ()) if self._keeps_states() else (leaf.state, leaf.parts)
        self._add(bound, base, parts, stalled=stalled, climbed=climbed)

    def _keeps_states(self) -> bool:
        """True if there is memory for another state."""
        return (
            len(self._leaves) < self._most_states or len({id(leaf.state) for leaf in self._leaves}) < self._most_states
        )

    def _must_stop(self) -> bool:
        return time.monotonic() >= self._until or self._enough()

    def _lower(self, top: int) -> None:
        """Lower the top to the cost of a better solution, so that messages rule out more."""
        if top < self.top:
            self.top = top
            self._messages.top = min(self._messages.top, self._dual.scaled_top(top))
            self._settled = min(self._settled, self._messages.top)

    def _add(self, bound: int, state: State, parts: tuple[Part, ...], *, stalled: bool, climbed: bool) -> None:
        if bound < self._messages.top:
            heapq.heappush(self._leaves, Leaf(bound, next(self._number), stalled, climbed, state, parts))

    def _restricted_state(self, leaf: Leaf) -> State:
        """The state of a leaf, restricted to its parts, in new arrays."""
        state = leaf.state._replace(cost=leaf.state.cost.copy(), sent=leaf.state.sent.copy())
        for variable, rows, prices in leaf.parts:
            first, kept = int(self._start[variable]), state.cost[rows]
            state.cost[first : int(self._start[variable + 1])] = FORBIDDEN
            state.cost[rows] = kept
            if prices is not None:
                state = forbid_unfitting(state, self._variable, self._messages.top)
        last = next((part.prices for part in reversed(leaf.parts) if part.prices is not None), None)
        return state if last is None else repriced(state, last, self._start)

    def _move_prices(self, state: State, moves: int) -> State:
        """The state of greatest bound after some price moves; a move without a gain shortens the next ones."""
        share = 0.5
        for _ in range(moves):
            if self._must_stop() or state.bound >= self._messages.top:
                break
            self._messages.state = state[:3]
            value = self._messages.round()
            self._offer(value, self._dual.per_byte(state.priced))
            above = share * (self._messages.top - state.bound)
            trial = repriced(state, polyak(state, self._start[:-1] + value, above), self._start)
            trial = self._sweep(trial._replace(sent=state.sent.copy()), MOVE_SWEEPS)
            if trial.bound > state.bound:
                state = trial
            else:
                share /= 2
        return state

    def _sweep(self, state: State, sweeps: int) -> State:
        """The state after some sweeps, which overwrite its arrays."""
        messages = self._messages
        messages.state = state[:3]
        messages.sweep(0)  # normalises costs
        for _ in range(sweeps):
            if self._must_stop():
                break
            messages.sweep(1)
        return state._replace(bound=messages.bound)

    def _offer(self, value: Ints, multipliers: dict[int, float]) -> None:
        """Record an assignment that costs less than the top, unless one of the same cost was offered before."""
        cost = self._dual.problem.model.cost(value)
        if cost < self._least and (self._dual.problem.overload(value) <= 0).all():
            self.solution, self._least = value, cost  # an earlier one of the same cost may not have fitted
        if cost < self.top and cost not in self._offered:
            self._offered.add(cost)
            self.found.append((value, multipliers))

    def _climb(self, state: State) -> State:
        """The state after optimising softened messages and prices again; their rounding goes to ``found``."""
        began, messages = time.monotonic(), copy.copy(self._messages)
        messages.state = state[:3]
        part = self._dual.part(messages, list(state.priced))
        part.climb(self._until, enough=self._enough)
        if not part.closed:
            self._offer(part.values(), part.multipliers)
            self._order_by_weight(part.weights())
        self._climbing += time.monotonic() - began
        return State(*messages.state, tuple(part.priced))

    def _split(self, leaf: Leaf, state: State, bound: int) -> None:
        """Replace a leaf by the parts of a split; settle it if every variable has a single value."""
        self._messages.state = state[:3]
        self._offer(self._messages.round(), self._dual.per_byte(state.priced))
        best: tuple[float, Split, list[Part], list[int]] | None = None
        for split in self._candidates(state):
            parts, bounds = self._try_split(state, split, bound, best[0] if best else -1.0)
            if self._must_stop():  # the trial was cut short
                self._add(bound, leaf.state, leaf.parts, stalled=True, climbed=leaf.climbed)
                return
            score = self._split_score(bounds, bound)
            if not split.by_memory:
                self._score[split.variable] = score
            if len(bounds) == len(split.groups) and (best is None or score > best[0]):
                best = score, split, parts, bounds
        if best is None:
            if not self._offer_only_assignment(state):
                self._settled = min(self._settled, bound)
            return
        _, split, parts, bounds = best
        little = min(bounds) - bound < STALLED * (self._messages.top - bound)
        if little and not leaf.climbed and self._climbing <= self._splitting:
            climbed = self._climb(state)
            self._keep(leaf, climbed, max(bound, climbed.bound), stalled=False, climbed=True)
            return
        base, given = (state, ()) if self._keeps_states() else (leaf.state, leaf.parts)
        for part, proved in zip(parts, bounds, strict=True):
            self._add(max(bound, proved), base, (*given, part), stalled=False, climbed=False)
            if not split.by_memory:
                self._order[part.rows] = proved

    def _offer_only_assignment(self, state: State) -> bool:
        """Offer the only assignment that a state allows; True if nothing below the new top remains in the state.

        Rounded memory proves nothing: then False.
        """
        self._offer(argmin(state.cost, self._start), self._dual.per_byte(state.priced))
        self._lower(self._least)  # the leaf is dropped, so the bound may rise to the cost of its solution
        return self._dual.problem.timeline.exact

    def _split_score(self, bounds: list[int], bound: int) -> float:
        """Score of a split from the bounds of its parts: mostly the least gain."""
        least = sorted(min(part, self._messages.top) - bound for part in bounds)[:2]
        return (1 - SECOND) * least[0] + SECOND * least[-1]

    def _try_split(self, state: State, split: Split, bound: int, best: float) -> tuple[list[Part], list[int]]:
        """The parts of a split and their bounds after a few sweeps each; stops as soon as it is worse than ``best``."""
        parts: list[Part] = []
        bounds: list[int] = []
        for rows in split.groups:
            part = Part(split.variable, rows, [price for _, price in state.priced] if split.by_memory else None)
            trial = self._sweep(self._restricted_state(Leaf(bound, 0, True, True, state, (part,))), TRIAL)
            if split.by_memory:
                trial = self._move_prices(trial, TRIAL_MOVES)
                part = part._replace(prices=[price for _, price in trial.priced])
            parts.append(part)
            bounds.append(max(bound, trial.bound))
            if self._must_stop() or (len(bounds) < len(split.groups) and self._split_score(bounds, bound) <= best):
                break
        return parts, bounds

    def _candidates(self, state: State) -> list[Split]:
        """Splits to try: by memory use, and by the values of variables of best score or (untried) greatest promise."""
        several = np.add.reduceat((state.cost < FORBIDDEN).astype(np.int64), self._start[:-1]) > 1
        old, new = np.flatnonzero(several & (self._score >= 0)), np.flatnonzero(several & (self._score < 0))
        old = old[np.argsort(-self._score[old], kind="stable")[:OLD]]
        new = new[np.argsort(-self._promise[new], kind="stable")[:NEW]]
        by_value = [self._split_by_value(state, int(variable)) for variable in np.concatenate([old, new])]
        return memory_splits(state, self._start, self._messages.top, BY_MEMORY) + by_value

    def _split_by_value(self, state: State, variable: int) -> Split:
        """Split the values of a variable by ``_order``, ascending: single values, and all others as the last group."""
        rows = np.arange(self._start[variable], self._start[variable + 1])
        rows = rows[state.cost[rows] < FORBIDDEN]
        rows = rows[np.argsort(self._order[rows], kind="stable")]
        return Split(variable, np.split(rows, range(1, min(len(rows), PARTS))), by_memory=False)


def _second_weight(weight: Floats, start: Ints) -> Floats:
    """The second greatest weight of the values of each variable, shape (v,); 0 if it has a single value."""
    rest = weight.copy()
    rest[start[:-1] + argmin(-weight, start)] = 0.0
    result: Floats = np.maximum.reduceat(rest, start[:-1])
    return result
