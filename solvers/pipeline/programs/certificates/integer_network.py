"""Integer work, times to send and edges of an instance, with nodes merged that some optimal partition keeps together.

See `shardmark.solvers.pipeline.programs.contraction` for the mergers; a certificate needs them in exact integers.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Longs, Words
from shardmark.solvers.pipeline._set_kernels import SetCosts
from shardmark.solvers.pipeline.programs.stage_search import descendants

#: All work and time to send becomes less than 2 to this power, in units of a certificate.
BITS = 49

#: All weights together become about 2 to this power: a price of weight is a whole number of units.
WEIGHT_BITS = 28

#: Largest scale: all numbers stay far from subnormal ones.
LARGEST_SCALE = 900


class IntegerNetwork:
    """Work, tensors and edges in units of 2^-``scale``, rounded down, after mergers."""

    def __init__(self, instance: Instance) -> None:
        sent = np.minimum(instance.output_size / instance.bandwidth, 2 * float(instance.work.sum()))
        whole = float(instance.work.sum() + sent.sum())
        self.scale = min(LARGEST_SCALE, BITS - math.frexp(whole)[1]) if whole > 0 else 0
        self.work = [whole_units(time, self.scale) for time in instance.work.tolist()]
        most = 2 * sum(self.work)
        exact = [_quotient(size, instance.bandwidth, self.scale) for size in instance.output_size.tolist()]
        self.sent = [min(most, size) for size in exact]
        self.reads: list[set[int]] = [set() for _ in self.work]
        self.readers: list[set[int]] = [set() for _ in self.work]
        for u, v in zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True):
            self.reads[v].add(u)
            self.readers[u].add(v)
        self.merged: list[int] = []
        self._into: dict[int, int] = {}
        waiting = list(range(len(self.work)))
        while waiting:
            waiting += self._merge(waiting.pop())
        self._costs: dict[int, SetCosts] = {}

    def _merge(self, u: int) -> list[int]:
        """Merge a node into its only reader if that costs nothing; return the nodes to look at again."""
        if len(self.readers[u]) != 1:
            return []
        (v,) = self.readers[u]
        taken = sum(self.sent[w] for w in self.reads[u] - self.reads[v])
        if self.work[u] + taken > self.sent[u]:
            costly = self.work[v] + (self.sent[v] if self.readers[v] else 0) > self.sent[u]
            if costly or not self.reads[v] - {u} <= self.reads[u]:
                return []
        self.work[v] += self.work[u]
        self.reads[v] = (self.reads[v] | self.reads[u]) - {u}
        for w in self.reads[u]:
            self.readers[w] = (self.readers[w] | {v}) - {u}
        self.reads[u], self.readers[u], self.work[u] = set(), set(), 0
        self.merged.append(u)
        self._into[u] = v
        return [v, *self.reads[v], *self.readers[v]]

    def stands_for(self, v: int) -> int:
        """The node that a node was merged into, or itself."""
        while v in self._into:
            v = self._into[v]
        return v

    def weights(self, weight: Longs, needs: list[int], counts: list[int]) -> tuple[list[int], list[int]]:
        """Weights of few bits, those of merged nodes carried to others; and needs that some stage must reach.

        ``needs``, of ``counts`` stages each, are such needs for the given weights, shape (n,), which are not all 0.
        """
        carried = weight.tolist()
        for u in self.merged:
            carried[self._into[u]] += carried[u]
            carried[u] = 0
        shift = max(0, sum(carried).bit_length() - WEIGHT_BITS)
        light = [(each + (1 << shift >> 1)) >> shift for each in carried]
        total, before = sum(light), sum(count * need for count, need in zip(counts, needs, strict=True))
        found = [max(1, need * total // before) for need in needs]
        for at in sorted(range(len(found)), key=counts.__getitem__):
            spare = total - 1 - sum(count * (need - 1) for count, need in zip(counts, found, strict=True))
            found[at] += max(0, spare // counts[at])
        return light, found

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Every node with each of its readers, in ascending order."""
        return [(u, v) for u, readers in enumerate(self.readers) for v in sorted(readers)]

    @cached_property
    def graph(self) -> Graph:
        """The graph after mergers; merged nodes have no edges."""
        tail, head = np.array(self.edges, dtype=np.int32).reshape(-1, 2).T
        return Graph(len(self.work), np.ascontiguousarray(tail), np.ascontiguousarray(head))

    @cached_property
    def reach(self) -> tuple[Words, Words]:
        """Descendants and ancestors of every node as bits, shape (n, words) each; see `descendants`."""
        return descendants(self.graph, forwards=True), descendants(self.graph, forwards=False)

    def costs(self, closure: int) -> SetCosts:
        """Costs of the sets of a place."""
        if closure not in self._costs:
            work, sent = (np.array(each, dtype=np.int64) for each in (self.work, self.sent))
            self._costs[closure] = SetCosts(self.graph, work, sent, *self.reach, None, closure)
        return self._costs[closure]


def whole_units(value: float, scale: int) -> int:
    """A number that is not negative in units of 2^-scale, rounded down."""
    over, under = value.as_integer_ratio()
    return (over << max(scale, 0)) // (under << max(-scale, 0))


def _quotient(size: float, bandwidth: float, scale: int) -> int:
    (a, b), (c, d) = size.as_integer_ratio(), bandwidth.as_integer_ratio()
    return (a * d << max(scale, 0)) // (b * c << max(-scale, 0))
