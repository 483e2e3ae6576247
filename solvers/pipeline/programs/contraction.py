"""Pairs of nodes that some optimal partition keeps together, merged before a bound is searched for.

Let v be the only reader of u. Suppose that a partition has u in stage a and v in a later stage b. Under one of two
conditions, moving a node makes no stage more expensive:

- Forwards: the work of u, and the time to send all tensors that u reads and v does not, are together at most the time
  to send the tensor of u. Then u moves to stage b. Stage a sends, and stage b receives, at most those tensors instead
  of the tensor of u.
- Backwards: besides u, v only reads what u reads too, and the work of v and the time to send its tensor are together
  at most the time to send the tensor of u. Then v moves to stage a, which has or receives all that v reads. Stage a
  sends, and stage b receives, at most the tensor of v instead of that of u.

No other stage changes, and stages keep their order. So if nothing but work and transfers counts, some optimal partition
has u and v in one stage. The same holds for the graph in which they are one node, with the tensor of v.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, Index
from shardmark.instances.pipeline import Instance
from shardmark.solvers.registry import Proof, Run

#: Share of the time after which no further pairs are merged.
SHARE = 0.05


def contracted(instance: Instance, run: Run) -> tuple[Instance, Run, Ints]:
    """The graph with such pairs merged, a run that hands on its partitions for all nodes, and the nodes that are left.

    A lower bound on the result is one on the instance, as sums of work are rounded down. With a memory limit, which the
    argument ignores, both are returned unchanged.
    """
    if instance.memory is not None:
        return instance, run, np.arange(instance.nodes)
    pairs = _Pairs(instance)
    kept, node = np.unique(pairs.merge(run).astype(np.int64), return_inverse=True)
    if len(kept) == instance.nodes:
        return instance, run, kept
    tail, head = node[instance.graph.tail], node[instance.graph.head]
    merged = replace(
        instance,
        graph=Graph(len(kept), *np.unique(np.stack([tail, head])[:, tail != head], axis=1)),
        node_names=tuple(instance.node_names[v] for v in kept),
        work=np.array(pairs.work)[kept],
        output_size=instance.output_size[kept],
        param_size=instance.param_size[kept],
    )
    return merged, _Expanded(run, node), kept


class _Pairs:
    """The work and the neighbours of each node while pairs are merged into their second node."""

    def __init__(self, instance: Instance) -> None:
        self._graph = graph = instance.graph
        nodes = range(instance.nodes)
        self._readers = [set(graph.successors(v).tolist()) for v in nodes]
        self._read = [set(graph.predecessors(v).tolist()) for v in nodes]
        self._sent = np.where(np.diff(graph.out_csr[0]) > 0, instance.output_size / instance.bandwidth, 0.0).tolist()
        self.work: list[float] = instance.work.tolist()

    def merge(self, run: Run) -> Index:
        """Merge all pairs that time allows; return the node that each node ends up in, shape (n,)."""
        home = np.arange(len(self.work), dtype=np.int32)
        enough = (1 - SHARE) * run.remaining()
        waiting = home.tolist()
        while waiting and run.remaining() > enough:
            u = waiting.pop()
            if home[u] == u and len(self._readers[u]) == 1:
                (v,) = self._readers[u]
                if self._together(u, v):
                    home[u] = v
                    self._join(u, v)
                    waiting += [v, *self._read[v], *self._readers[v]]
        for u in self._graph.topological_order[::-1]:
            home[u] = home[home[u]]
        return home

    def _together(self, u: int, v: int) -> bool:
        """True if moving u forwards or v backwards costs no more than the tensor of u; sums have the exact sign."""
        taken = [self._sent[w] for w in self._read[u] - self._read[v]]
        if math.fsum([self.work[u], *taken, -self._sent[u]]) <= 0:
            return True
        cheap = math.fsum([self.work[v], self._sent[v], -self._sent[u]]) <= 0
        return cheap and self._read[v] - {u} <= self._read[u]

    def _join(self, u: int, v: int) -> None:
        total = self.work[u] + self.work[v]
        above = math.fsum([total, -self.work[u], -self.work[v]]) > 0
        self.work[v] = math.nextafter(total, 0.0) if above else total
        self._read[v] = (self._read[v] | self._read[u]) - {u}
        for w in self._read[u]:
            self._readers[w] = (self._readers[w] | {v}) - {u}


class _Expanded(Run):
    """A run on merged nodes, which hands on partitions of all nodes; ``node`` is what each was merged into."""

    def __init__(self, run: Run, node: Ints) -> None:
        super().__init__(seed=run.seed, cores=run.cores, memory=run.memory, timeout=run.remaining())
        self._run, self._node = run, node.tolist()

    def report(self, solution: Any, cost: float | None = None) -> None:
        """Hand on a partition."""
        self._run.report([solution[node] for node in self._node], cost)

    def bound(self, value: float, certificate: Proof | None = None) -> None:
        """Hand on a bound; its certificate would be about the merged nodes."""
        self._run.bound(value)
