"""Integer work, times to send and edges of an instance, with nodes merged that some optimal partition keeps together.

See `shardmark.solvers.pipeline.programs.contraction` for the mergers; a certificate needs them in exact integers.
"""

from __future__ import annotations

import math

import numpy as np

from shardmark.instances.pipeline import Instance

#: All work and time to send becomes less than 2 to this power, in units of a certificate.
BITS = 44

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
        self.order = instance.graph.topological_order.tolist()
        self.merged: list[int] = []
        self._into: list[int] = []
        waiting = list(range(len(self.work)))
        while waiting:
            waiting += self._merge(waiting.pop())
        self._relatives: tuple[list[int], list[int]] | None = None

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
        self._into.append(v)
        return [v, *self.reads[v], *self.readers[v]]

    def carried(self, weight: list[int]) -> list[int]:
        """Carry the weights of merged nodes to those that they were merged into."""
        for u, v in zip(self.merged, self._into, strict=True):
            weight[v] += weight[u]
            weight[u] = 0
        return weight

    def relatives(self) -> tuple[list[int], list[int]]:
        """Return the ancestors and the descendants of every node, as bits."""
        if self._relatives is None:
            self._relatives = _reached(self.order, self.reads), _reached(self.order[::-1], self.readers)
        return self._relatives


def whole_units(value: float, scale: int) -> int:
    """A number that is not negative in units of 2^-scale, rounded down."""
    over, under = value.as_integer_ratio()
    return (over << max(scale, 0)) // (under << max(-scale, 0))


def _quotient(size: float, bandwidth: float, scale: int) -> int:
    (a, b), (c, d) = size.as_integer_ratio(), bandwidth.as_integer_ratio()
    return (a * d << max(scale, 0)) // (b * c << max(-scale, 0))


def _reached(order: list[int], before: list[set[int]]) -> list[int]:
    found = [0] * len(order)
    for v in order:
        for u in before[v]:
            found[v] |= found[u] | 1 << u
    return found
