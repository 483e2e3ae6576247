"""The sets of nodes of a graph of ``pipeline`` that can be a stage at a place, and trees that bound their costs.

docs/certificates/pipeline.md has the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from shardmark.harness.verify.certificates import Clock, Unproven, integer, integers
from shardmark.instances.files.columns import describe
from shardmark.instances.pipeline import Instance

#: Greatest number in a proof, in absolute value.
LARGEST = 1 << 80
#: Most nodes of a graph whose ancestors are listed: they take nodes^2 bits.
MOST_NODES = 30_000
FIRST, MIDDLE, LAST = 1, 0, -1


class Network:
    """Work, tensors and edges in units of time, rounded down, while nodes are merged.

    ``work``, ``sent``    of every node; a time to send is capped at twice all work
    ``reads``, ``readers``  sets of nodes
    ``moved``             mergers so far: a node and its reader
    """

    def __init__(self, instance: Instance, scale: int, clock: Clock) -> None:
        factor, bandwidth = Fraction(2) ** scale, Fraction(instance.bandwidth)
        self.clock, self.graph = clock, instance.graph
        self.work = [int(Fraction(time) * factor) for time in instance.work.tolist()]
        most = 2 * sum(self.work)
        self.sent = [min(most, int(Fraction(size) / bandwidth * factor)) for size in instance.output_size.tolist()]
        self.reads: list[set[int]] = [set() for _ in self.work]
        self.readers: list[set[int]] = [set() for _ in self.work]
        for u, v in zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True):
            self.reads[v].add(u)
            self.readers[u].add(v)
        self.moved: list[tuple[int, int]] = []

    def merge(self, u: int) -> None:
        """Merge a node into its only reader if some optimal partition has both in one stage."""
        self.clock.tick()
        if not 0 <= u < len(self.work) or len(self.readers[u]) != 1:
            raise Unproven(f"proof.merged: expected a node with a single reader, found {u}")
        (v,) = self.readers[u]
        taken = sum(self.sent[w] for w in self.reads[u] - self.reads[v])
        forwards = self.work[u] + taken <= self.sent[u]
        backwards = self.work[v] + (self.sent[v] if self.readers[v] else 0) <= self.sent[u]
        if not forwards and not (backwards and self.reads[v] - {u} <= self.reads[u]):
            raise Unproven(f"proof.merged: expected a node that moves to the stage of node {v} at no cost, found {u}")
        self.work[v] += self.work[u]
        self.reads[v] = (self.reads[v] | self.reads[u]) - {u}
        for w in self.reads[u]:
            self.readers[w].remove(u)
            self.readers[w].add(v)
        self.reads[u], self.readers[u], self.work[u] = set(), set(), 0
        self.moved.append((u, v))

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Every node with each of its readers, in ascending order."""
        return [(u, v) for u, readers in enumerate(self.readers) for v in sorted(readers)]

    @cached_property
    def relatives(self) -> tuple[list[int], list[int]]:
        """The ancestors and the descendants of every node, as bits, without itself."""
        if len(self.work) > MOST_NODES:
            raise Unproven(f"proof.trees: expected no branches in a graph of over {MOST_NODES} nodes")
        order = self.graph.topological_order.tolist()  # mergers keep it
        return _reached(order, self.reads, self.clock), _reached(order[::-1], self.readers, self.clock)


def _reached(order: list[int], before: list[set[int]], clock: Clock) -> list[int]:
    """Return the nodes before every node, as bits, given its neighbours before it."""
    found = [0] * len(order)
    for v in order:
        clock.tick()
        for u in before[v]:
            found[v] |= found[u] | 1 << u
    return found


class Sets:
    """The sets of nodes that can be a stage at a place and weigh its need.

    All of them, and those of a case, contain the nodes of ``inside`` and none of ``outside``, as bits; ``told`` are the
    numbers of a node of the tree, and of the node above for those that it lacks; ``costs`` those of the nodes by them.
    """

    def __init__(
        self,
        network: Network,
        closure: int,
        weight: list[int],
        need: int,
        cutoff: int,
        inside: int = 0,
        outside: int = 0,
    ) -> None:
        self.network, self.closure, self.weight, self.need, self.cutoff = network, closure, weight, need, cutoff
        self.inside, self.outside = inside, outside | sum(1 << u for u, _ in network.moved)

    def least(self, tree: Any) -> int:
        """Return the least bound of all leaves of a tree, or the cut-off."""
        if not isinstance(tree, list) or not all(isinstance(node, dict) for node in tree):
            raise Unproven(f"proof.trees: expected a list of objects for each place, found {describe(tree)}")
        waiting: list[tuple[int, int, dict[str, Any], list[int]]] = [(self.inside, self.outside, {}, self._costs({}))]
        least = self.cutoff
        for node in tree:
            self.network.clock.tick()
            if not waiting:
                raise Unproven("proof.trees: expected no more nodes than the branches need")
            inside, outside, told, costs = waiting.pop()
            if fresh := {key: node[key] for key in ("price", "moved", "closed") if key in node}:
                told = told | fresh
                costs = self._costs(told)
            bound, inside, outside = self._bound(inside, outside, costs, integer(told, "price", 0, LARGEST))
            if "branch" not in node:
                least = min(least, bound)
                continue
            bit = 1 << integer(node, "branch", 0, len(self.weight) - 1)
            waiting += [(inside, outside | bit, told, costs), (inside | bit, outside, told, costs)]
        if waiting:
            raise Unproven("proof.trees: expected two subtrees of every branch")
        return least

    def _costs(self, told: Mapping[str, Any]) -> list[int]:
        """Return the costs of nodes by the numbers of a node of the tree."""
        price = integer(told, "price", 0, LARGEST)
        costs = [work - price * weight for work, weight in zip(self.network.work, self.weight, strict=True)]
        self._add_moved(costs, told)
        self._add_closed(costs, told)
        return costs

    def _bound(self, inside: int, outside: int, costs: list[int], price: int) -> tuple[int, int, int]:
        """Return a bound on the cost of the sets of a case, and the case of those that cost less than the cut-off."""
        inside, outside = self._decided(inside, outside)
        reach = sum(weight for v, weight in enumerate(self.weight) if not outside >> v & 1)
        if inside & outside or reach < self.need:
            return self.cutoff, inside, outside
        bound = price * self.need
        for v, cost in enumerate(costs):
            if inside >> v & 1 or (cost < 0 and not outside >> v & 1):
                bound += cost
        known = inside | outside
        for v, cost in enumerate(costs):
            if abs(cost) >= self.cutoff - bound and not known >> v & 1:
                inside |= (cost <= 0) << v
                outside |= (cost >= 0) << v
        return bound, inside, outside

    def _add_moved(self, costs: list[int], told: Mapping[str, Any]) -> None:
        """Add what the tensors move between nodes: no set gets more of a tensor than it costs."""
        if "moved" not in told:
            return
        given, taken = [0] * len(costs), [0] * len(costs)
        moved = integers(told, "moved", LARGEST, len(self.network.edges))
        for (u, v), amount in zip(self.network.edges, moved, strict=True):
            costs[v] += amount
            costs[u] -= amount
            given[u] += max(amount, 0)
            taken[u] += max(-amount, 0)
        for u, most in enumerate(self.network.sent):
            if max(given[u], taken[u]) > most:
                raise Unproven(f"proof.trees.moved: expected at most the {most} of the tensor of node {u}")

    def _add_closed(self, costs: list[int], told: Mapping[str, Any]) -> None:
        """Add the prices of edges: they add nothing to a set that contains one end only with the other."""
        if "closed" not in told:
            return
        prices = integers(told, "closed", LARGEST, len(self.network.edges))
        if min(prices, default=0) < 0 or self.closure == MIDDLE:
            raise Unproven("proof.trees.closed: expected numbers from 0 on, and a first or a last stage")
        for (u, v), price in zip(self.network.edges, prices, strict=True):
            costs[v] += self.closure * price
            costs[u] -= self.closure * price

    def _decided(self, inside: int, outside: int) -> tuple[int, int]:
        """Return the nodes that are in all sets of a case, and those in none: sets contain all paths between nodes."""
        if not inside and self.closure == MIDDLE:
            return inside, outside
        above, below = self.network.relatives
        over = under = 0
        for v in bits(inside):
            over |= above[v]
            under |= below[v]
        everything = (1 << len(self.weight)) - 1
        over = everything if self.closure == LAST else over
        under = everything if self.closure == FIRST else under
        inside |= over & under
        for v in bits(outside & under):
            outside |= below[v]
        for v in bits(outside & over):
            outside |= above[v]
        return inside, outside


def bits(numbers: int) -> list[int]:
    """Return the places of the bits of a number."""
    return [at for at, bit in enumerate(reversed(bin(numbers)[2:])) if bit == "1"]
