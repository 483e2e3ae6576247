"""Exact reduction of a network: remove values without support, merge variables that others determine.

On the crosscutting edges of the contest's instances, and with most forbidden entries, the strategy of one node
determines that of its neighbour; see "Soft Constraints, Strong Solutions", Appendix A, on crosscuts.
"""

from __future__ import annotations

import math
import time

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop._kernels import CostNetwork
from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.model import Contraction, Mask, Model, build, contract, exact_cost
from shardmark.solvers.intraop.network.ragged import offsets, spread, within
from shardmark.solvers.intraop.search.construction import construct

#: Variables are merged unless that leaves more than twice as many table entries and this many.
MORE_CELLS = 2**22


def prepare(instance: Instance, timeline: Timeline, *, tolerant: bool = False, until: float = math.inf) -> Model | None:
    """Return the reduced model of an instance, without strategies that never fit; see `build` and `reduce`.

    If a few large costs force a shift, the cost of a greedy assignment rules out entries that no better solution has.
    Stops at the time ``until``.
    """
    never_fits = timeline.never_fits()
    model = reduce(build(instance, never_fits, tolerant=tolerant), until)
    if model is None or not model.shift:
        return model
    search = construct(Footprint(instance, timeline, model), np.zeros(len(model.unary)), until)
    if not search.repair(until):
        return model
    search.descend(until)
    known = exact_cost(instance, model.lift(instance, search.value))
    return reduce(build(instance, never_fits, tolerant=tolerant, known=known), until)


def reduce(model: Model, until: float = math.inf) -> Model | None:
    """Return an equivalent model with fewer variables and values; None if every assignment has a forbidden entry.

    Every assignment of ``model`` without forbidden entries corresponds to one of the result with the same cost and
    strategies. Stops at the time ``until``.
    """
    while time.monotonic() < until:
        support = _Support(model)
        if not support.is_consistent():
            if model.record is not None:
                model.record.nothing_left()
            return None
        functions = _functions(support)
        how = _plan(support, functions)
        if _cells(model, how) > 2 * len(model.cell) + MORE_CELLS:
            functions = _NO_FUNCTIONS
            how = _plan(support, functions)
        if len(how.sizes) == model.variables and how.sizes.sum() == len(model.unary):
            return model
        if model.record is not None:
            model.record.merged(support.alive, _parents(support, functions))
        model = contract(model, how)
    return model


class _Support:
    """Arc consistency on forbidden entries: the remaining values, and pairs in which one end determines the other.

    ``alive``       shape (rows,): the value has an allowed cell in every pair
    ``determines``  shape (2, p): every remaining value of the tail (the head) allows one value of the head (the tail)
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._network = CostNetwork(model.start, model.tail, model.head, model.cell)
        self.alive, self.determines = self._network.consistent(model.unary < model.forbidden, model.forbidden)

    def maps(self, pairs: Ints, by_tail: Mask) -> Ints:
        """For each pair in order: the remaining value of the child for each remaining value of the parent."""
        left = self.left()
        parents = np.where(by_tail, self.model.tail[pairs], self.model.head[pairs])
        return self._network.function_maps(self.alive, self.model.forbidden, pairs, by_tail, int(left[parents].sum()))

    def is_consistent(self) -> bool:
        """True if no domain is empty."""
        return bool((self.left() > 0).all())

    def left(self) -> Ints:
        """Number of remaining values of every variable, shape (v,)."""
        return np.diff(offsets(self.alive.astype(np.int64))[self.model.start])


def _cells(model: Model, how: Contraction) -> int:
    """Number of table entries after a contraction."""
    ends = np.sort(how.root[np.stack([model.tail, model.head])], axis=0)
    joined = np.unique((ends[0] * len(how.sizes) + ends[1])[ends[0] != ends[1]])
    return int((how.sizes[joined // len(how.sizes)] * how.sizes[joined % len(how.sizes)]).sum()) if len(joined) else 0


def _plan(support: _Support, functions: tuple[Ints, Ints, Mask]) -> Contraction:
    """Drop removed values; merge determined variables into their parents, and all variables with a single value."""
    model, left = support.model, support.left()
    parent = _parents(support, functions)
    child, pair, by_tail = functions
    start = offsets(left[parent])
    rank = within(left[parent])  # remaining value for each value of the parent; identity by default
    rank[spread(start[child], left[parent[child]])] = support.maps(pair, by_tail)
    parent, start, rank = _to_roots(parent, left, start, rank)
    roots, root = np.unique(parent, return_inverse=True)
    living = np.flatnonzero(support.alive)[np.repeat(offsets(left)[:-1], left[parent]) + rank]
    return Contraction(left[roots], root, start, living - np.repeat(model.start[:-1], left[parent]))


def _parents(support: _Support, functions: tuple[Ints, Ints, Mask]) -> Ints:
    """Variable that each variable merges into, shape (v,), which may itself merge into another."""
    parent = np.arange(support.model.variables)
    fixed = np.flatnonzero(support.left() == 1)
    parent[fixed] = fixed[:1]
    child, pair, by_tail = functions
    parent[child] = np.where(by_tail, support.model.tail[pair], support.model.head[pair])
    return parent


_NO_FUNCTIONS = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))


def _functions(support: _Support) -> tuple[Ints, Ints, Mask]:
    """Return ``(child, pair, by_tail)``: variables and, for each, a pair in which its parent determines it.

    A parent has more remaining values than its child, or as many and a lower index, so there are no cycles. Of several
    possible parents, the one with the fewest values is chosen. Variables of wide tables do not merge into larger
    variables, as the tables would grow.
    """
    model, left = support.model, support.left()
    wide = np.zeros(model.variables, dtype=bool)
    for scope, _ in model.wide:
        wide[list(scope)] = True
    by_tail = np.repeat([True, False], len(model.tail))
    pair = np.tile(np.arange(len(model.tail)), 2)
    parent = np.concatenate([model.tail, model.head])
    child = np.concatenate([model.head, model.tail])
    larger = ((left[parent] > left[child]) & ~wide[child]) | ((left[parent] == left[child]) & (parent < child))
    take = np.flatnonzero(support.determines.ravel() & larger & (left[child] > 1))
    take = take[np.lexsort((parent[take], left[parent[take]], child[take]))]
    take = take[np.unique(child[take], return_index=True)[1]]
    return child[take], pair[take], by_tail[take]


def _to_roots(parent: Ints, left: Ints, start: Ints, rank: Ints) -> tuple[Ints, Ints, Ints]:
    """Replace parents by roots, composing the maps by pointer doubling."""
    while (parent[parent] != parent).any():
        grand = parent[parent]
        count = left[grand]
        of_parent = rank[spread(start[parent], count)]
        rank = rank[np.repeat(start[:-1], count) + of_parent]
        parent, start = grand, offsets(count)
    return parent, start, rank
