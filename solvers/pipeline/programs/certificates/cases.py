"""Cases of partitions, by the stages that nodes are in, each refuted by weights of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Longs
from shardmark.solvers.pipeline._set_kernels import unpacked
from shardmark.solvers.pipeline.programs.certificates.integer_network import IntegerNetwork
from shardmark.solvers.pipeline.programs.certificates.set_tree import grown
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MIDDLE, whole_weights

#: Share of the time left that one tree may take; nearly all take a few milliseconds.
PATIENCE = 0.25

Trees = list[list[dict[str, Any]]]


@dataclass(eq=False)
class Case:
    """Partitions into numbered stages, some of which weigh their needs, or the two cases that they are divided into.

    ``weight``    shape (n,), not negative     ``needs``  of every stage
    ``branch``    node v and stage b; the first child has v in stage b or earlier, the second in a later one
    """

    weight: Longs
    needs: list[int]
    branch: tuple[int, int] | None = None
    children: list[Case] = field(default_factory=list)

    def divide(self, v: int, stage: int) -> list[Case]:
        """Divide the case; return its children, which the same weights refute."""
        self.branch, self.children = (v, stage), [Case(self.weight, self.needs) for _ in range(2)]
        return self.children

    def spread(self, kept: Ints, nodes: int) -> Case:
        """The same about a graph with more nodes, among them ``kept``, shape (n,); the others weigh nothing."""
        weight = np.zeros(nodes, dtype=np.int64)
        weight[kept] = self.weight
        branch = self.branch and (int(kept[self.branch[0]]), self.branch[1])
        return Case(weight, self.needs, branch, [child.spread(kept, nodes) for child in self.children])


def even_case(instance: Instance) -> Case:
    """All partitions, some stage of which does an even share of the work."""
    weight = whole_weights(instance.work) + 1  # which are not all 0
    return Case(weight, [-(-int(weight.sum()) // instance.stages)] * instance.stages)


class CaseProofs:
    """Proofs of the bounds of cases; ``least`` is what they prove so far, at most a cut-off."""

    def __init__(self, network: IntegerNetwork, stages: int, cutoff: int, until: float) -> None:
        self.network, self.stages, self.least, self._until = network, stages, cutoff, until
        nodes = len(network.work)
        self._below = unpacked(network.reach[0], nodes) | np.eye(nodes, dtype=bool)
        work, most = np.array(network.work, dtype=np.int64), max(1, cutoff - 1)
        before, after = (-(-(work @ reach) // most) - 1 for reach in (self._below, self._below.T))
        self._first, self._last = before.clip(0), stages - 1 - after.clip(0)

    def prove(self, case: Case) -> list[dict[str, Any]]:
        """Prove bounds on the leaves of a case; return its nodes in preorder."""
        return list(self._told(case, self._first, self._last))

    def _told(self, case: Case, first: Longs, last: Longs) -> Iterator[dict[str, Any]]:
        """Yield what a certificate says of a case whose nodes are in given stages, and of its children."""
        if case.branch is None:
            yield self._leaf(case, first, last) if (first <= last).all() else {}
            return
        v, stage = self.network.stands_for(case.branch[0]), case.branch[1]
        yield {"branch": [v, stage]}
        earlier, later = last.copy(), first.copy()
        earlier[self._below[:, v]] = earlier[self._below[:, v]].clip(None, stage)
        later[self._below[v]] = later[self._below[v]].clip(stage + 1)
        yield from self._told(case.children[0], first, earlier)
        yield from self._told(case.children[1], later, last)

    def _leaf(self, case: Case, first: Longs, last: Longs) -> dict[str, Any]:
        weight, needs = self.network.weights(case.weight, case.needs, [1] * self.stages)
        trees: Trees = []
        for stage, need in enumerate(needs):
            closure = FIRST if stage == 0 else LAST if stage == self.stages - 1 else MIDDLE
            fixed = np.where((first <= stage) & (stage <= last), 0, -1)
            fixed[(first == stage) & (last == stage)] = 1
            now = time.monotonic()
            until = now + PATIENCE * (self._until - now)
            found = grown(self.network, closure, weight, need, self.least, fixed.astype(np.int8), until)
            self.least, tree = found
            trees.append(tree)
        return {"weight": weight, "need": needs, "trees": trees}
