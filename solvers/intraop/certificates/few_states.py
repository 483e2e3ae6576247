"""A dynamic program over the few values that a bound leaves, with which a certificate can end."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.certificates.rounded_bound import RoundedBound
from shardmark.solvers.intraop.network.dominance import may_bind
from shardmark.solvers.intraop.network.model import Mask
from shardmark.solvers.intraop.network.reduced_problem import Problem

#: Most values, steps that may bind, states after a variable, and comparisons of their numbers.
MOST_VALUES, MOST_STEPS, MOST_STATES, MOST_WORK = 400, 200, 1000, 1 << 23


def refuting_order(problem: Problem, bound: RoundedBound) -> list[int] | None:
    """Return an order of the variables in which a dynamic program refutes everything below the cut-off.

    ``bound`` is an exact one of the problem. None if something is left, or if there would be too many states.
    """
    if bound.left[0].sum() > MOST_VALUES or problem.model.wide:
        return None
    steps = np.flatnonzero(may_bind(problem.footprint))
    if len(steps) > MOST_STEPS:
        return None
    neighbours = [set[int]() for _ in range(problem.model.variables)]
    for tail, head in zip(problem.model.tail.tolist(), problem.model.head.tolist(), strict=True):
        neighbours[tail].add(head)
        neighbours[head].add(tail)
    order, states = _order(neighbours), _States(problem, bound, steps)
    for at, variable in enumerate(order):
        decided = set(order[: at + 1])
        if not states.extend(variable, decided, [v for v in decided if neighbours[v] <= decided]):
            return None
        if not len(states.above):
            return order
    return order if states.reach_cutoff() else None


def _order(neighbours: list[set[int]]) -> list[int]:
    """Return the variables such that few of those decided have undecided neighbours; lower numbers first of equals."""
    order, left = list[int](), set(range(len(neighbours)))
    undecided = [len(near) for near in neighbours]

    def added(v: int) -> tuple[int, int]:
        closed = sum(undecided[u] == 1 for u in neighbours[v] - left)
        return (undecided[v] > 0) - closed, v

    while left:
        order.append(min(left, key=added))
        left.remove(order[-1])
        for u in neighbours[order[-1]]:
            undecided[u] -= 1
    return order


class _States:
    """Values of some variables that can be part of an assignment below the cut-off; the referee finds no more.

    ``above``   their cost above the least ones of the bound, with prices of memory; ``priced``: the part that is prices
    ``used``    their memory in every step
    ``taken``   rows of the variables with undecided neighbours, 0 for others
    """

    def __init__(self, problem: Problem, bound: RoundedBound, steps: Ints) -> None:
        model = problem.model
        self._problem, self._bound, (self._alive, self._allowed) = problem, bound, bound.left
        memory = np.array([problem.memory(step) for step in steps.tolist()]).reshape(len(steps), len(problem.variable))
        memory, of_step = np.unique(memory, axis=0, return_inverse=True)
        room = np.full(len(memory), np.iinfo(np.int64).max)
        np.minimum.at(room, of_step, problem.room[steps])
        least = np.minimum.reduceat(np.where(self._alive, memory, np.iinfo(np.int64).max), model.start[:-1], axis=1)
        self._work = 0
        self._memory = (memory - least[:, problem.variable]).T
        self._room = room - least.sum(axis=1)
        self.above = np.zeros(1, dtype=bound.above[0].dtype)
        self.priced = self.above
        self.used = np.zeros((1, len(memory)), dtype=np.int64)
        self.taken = np.zeros((1, model.variables), dtype=np.int64)

    def extend(self, variable: int, decided: set[int], done: list[int]) -> bool:
        """Give a variable each of its values; False if these are too many states."""
        model, bound = self._problem.model, self._bound
        rows = model.start[variable] + np.flatnonzero(self._alive[model.start[variable] : model.start[variable + 1]])
        if len(rows) * len(self.above) > MOST_STATES or self._work > MOST_WORK:
            return False
        self._keep(np.repeat(np.arange(len(self.above)), len(rows)))
        row = np.tile(rows, len(self.above) // len(rows))
        self.above, self.priced = self.above + bound.above[0][row], self.priced + bound.paid[row]
        self.used, self.taken[:, variable] = self.used + self._memory[row], row
        possible: Mask = (self.used <= self._room).all(axis=1)
        for pair in np.flatnonzero((model.tail == variable) | (model.head == variable)).tolist():
            tail, head = int(model.tail[pair]), int(model.head[pair])
            if {tail, head} <= decided:
                at = (self.taken[:, tail] - model.start[tail]) * model.sizes[head]
                at += model.cell_start[pair] + self.taken[:, head] - model.start[head]
                self.above = self.above + bound.above[1][at]
                possible &= self._allowed[at]
        self._keep(possible & (self.above < bound.room).astype(bool))
        self.taken[:, done] = 0
        self._keep(self._undominated())
        return True

    def _keep(self, chosen: Ints | Mask) -> None:
        self.above, self.priced = self.above[chosen], self.priced[chosen]
        self.used, self.taken = self.used[chosen], self.taken[chosen]

    def _undominated(self) -> Ints:
        """The states, by ascending cost, that no other one with the same rows replaces by cost and memory."""
        order = np.argsort(self.above - self.priced, kind="stable")
        matters = self.taken[order][:, self.taken.any(axis=0)]
        used = self.used[order].T
        self._work += len(order) ** 2 * (1 + len(used) + len(matters.T))
        replaced = np.tri(len(order), k=-1, dtype=bool)  # each one by any before it
        for column in matters.T:
            replaced &= column[:, None] == column
        for column in used:
            replaced &= column[:, None] >= column
        return order[~replaced.any(axis=1)]

    def reach_cutoff(self) -> bool:
        """True if all of these, then whole assignments, cost the cut-off or more."""
        return all(cost >= self._bound.room + self._bound.charged for cost in (self.above - self.priced).tolist())
