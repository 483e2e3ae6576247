"""Values that another value of the same variable can replace: in no solution does that cost or use more."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Unproven
from shardmark.harness.verify.certificates.intraop.network import Mask, Network


class Replacement:
    """Leaves out values and entries of a network that can be replaced.

    Only memory at steps that can exceed the limit counts: those at which the greatest memory of all nodes does.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        network.propagate()
        sizes = network.sizes
        self.variable = network.variable()
        self.fixed = {variable for wide in network.wide for variable in wide.scope}
        self.pairs: list[list[int]] = [[] for _ in sizes]
        for pair, ends in enumerate(zip(network.tail.tolist(), network.head.tolist(), strict=True)):
            for end in ends:
                self.pairs[end].append(pair)
        self.nodes: list[list[int]] = [[] for _ in sizes]
        for node, owner in enumerate(network.owner.tolist()):
            self.nodes[owner].append(node)
        self._memory: dict[int, Any] = {}
        self._binding = np.concatenate([[0], np.cumsum(network.may_exceed())])  # of such steps, those before each one

    def value(self, old: int, new: int) -> None:
        """Leave out a row that another one can replace, or that has no entry left in some pair if ``new`` is -1."""
        network, variable = self.network, int(self.variable[old])
        if not network.alive[old]:
            return
        if not self._unsupported(old, variable) if new < 0 else not self._replaces(old, new, variable):
            raise Unproven(f"proof.steps.replaced: row {old} cannot be left out for row {new}")
        network.alive[old] = False

    def _unsupported(self, old: int, variable: int) -> bool:
        return any(not self._row(pair, old, variable)[1].any() for pair in self.pairs[variable])

    def _replaces(self, old: int, new: int, variable: int) -> bool:
        network = self.network
        if variable in self.fixed or self.variable[new] != variable or not network.alive[new] or new == old:
            return False
        gain = int(network.cost[old]) - int(network.cost[new])
        for pair in self.pairs[variable]:
            (cost, open_), (other, other_open) = self._row(pair, old, variable), self._row(pair, new, variable)
            if (open_ & ~other_open).any():
                return False
            if open_.any():
                gain += int((cost - other)[open_].min())
        start = network.start[variable]
        return gain >= 0 and bool(
            (self.memory(variable)[:, new - start] <= self.memory(variable)[:, old - start]).all()
        )

    def _row(self, pair: int, row: int, variable: int) -> tuple[Any, Mask]:
        """Return the entries of a pair under a row of one end, and those left, by the values of the other end."""
        network = self.network
        tail, head = int(network.tail[pair]), int(network.head[pair])
        first, last = int(network.first[pair]), int(network.first[pair + 1])
        columns = int(network.start[head + 1] - network.start[head])
        at = row - int(network.start[variable])
        some = (
            slice(first + at * columns, first + (at + 1) * columns)
            if variable == tail
            else slice(first + at, last, columns)
        )
        other = head if variable == tail else tail
        alive = network.alive[network.start[other] : network.start[other + 1]]
        return network.cell[some], network.open[some] & alive

    def memory(self, variable: int) -> Any:
        """Return what each value of a variable uses in each span of steps with the same nodes that may bind."""
        if variable not in self._memory:
            network, nodes = self.network, self.nodes[variable]
            since, until = network.since[nodes], network.until[nodes]
            cuts = np.unique(np.concatenate([since, until]))
            change = np.zeros((len(cuts), int(network.sizes[variable])), dtype=network.usage.dtype)
            for at, node in enumerate(nodes):
                usage = network.usage[network.used[node] : network.used[node + 1]]
                change[np.searchsorted(cuts, since[at])] += usage
                change[np.searchsorted(cuts, until[at])] -= usage
            matters = np.diff(self._binding[cuts]) > 0
            self._memory[variable] = np.cumsum(change, axis=0)[:-1][matters]
        return self._memory[variable]

    def leaf(self, variable: int, values: list[int]) -> None:
        """Leave out the entries of a variable's only pair, except for one for each value of the other end."""
        network = self.network
        start, end = int(network.start[variable]), int(network.start[variable + 1])
        if variable in self.fixed or len(self.pairs[variable]) != 1:
            raise Unproven(f"proof.steps.leaves: expected a variable of one pair, found {variable}")
        (pair,) = self.pairs[variable]
        shape = np.diff(network.start)[[network.tail[pair], network.head[pair]]]
        part = slice(network.first[pair], network.first[pair + 1])
        cell, open_ = network.cell[part].reshape(shape), network.open[part].reshape(shape)
        if network.head[pair] != variable:
            cell, open_ = cell.T, open_.T
        if len(values) != len(cell) or not all(0 <= value < end - start for value in values):
            raise Unproven(f"proof.steps.leaves: expected a value of {variable} for each value of the other end")
        cost, memory, alive = network.cost[start:end], self.memory(variable), network.alive[start:end]
        for other, value in enumerate(values):
            network.clock.tick()
            costs, others = cell[other], open_[other] & alive
            if not others.any():
                continue
            sums = cost + costs
            least = others[value] and sums[value] == sums[others].min()
            if not least or not (memory[:, value, None] <= memory[:, others]).all():
                raise Unproven(f"proof.steps.leaves: value {value} of variable {variable} is not always the best one")
            open_[other] = False
            open_[other, value] = True
