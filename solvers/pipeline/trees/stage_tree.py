"""Branch and bound on the stages of nodes, for partitions into few stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from shardmark.solvers.native import Floats, Longs
from shardmark.solvers.pipeline.programs.certificates.cases import Case
from shardmark.solvers.pipeline.programs.cover import Cover
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Incumbent
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MIDDLE
from shardmark.solvers.registry import Run

#: Share of the time at the beginning that one target of a node may take, whatever time remains.
PATIENCE = 0.05

#: Share of the gap to the known cost that a node's first target closes.
STEP = 0.3

#: Factor by which the step grows after a proof, and shrinks if there is none.
GROWTH, SHRINKAGE = 1.5, 0.3

#: Targets of a node that may fail before it is divided.
FAILURES = 2


@dataclass(order=True)
class StageSubproblem:
    """Partitions whose nodes are in certain stages, numbered 0 to k - 1 in topological order.

    ``proved``            proved lower bound on their cost, in the units of `StageSearch`
    ``number``            of the tree node, in order of creation
    ``earliest, latest``  shape (n,): first and last stage that each node may be in
    ``center``            shape (n,): weights that proved the last target
    ``case``              why the bound holds
    """

    proved: int
    number: int
    earliest: Longs = field(compare=False)
    latest: Longs = field(compare=False)
    center: Floats = field(compare=False)
    case: Case = field(compare=False)


class StageTree:
    """Bound the cost of partitions into k stages by dividing them until node weights refute each part.

    In a partition cheaper than the best known one, every stage does less work than the best known cost. So a node's
    stage is no earlier than the work of its ancestors allows, and no later than that of its descendants allows. A tree
    node has two children: in one, some v and all its ancestors are in stage b or earlier; in the other, v and all its
    descendants are in a later stage. The sets of a `Cover` must agree with that. The bound is the least over all
    leaves. The chosen division is the one whose both sides are farthest from the best cover found.
    """

    def __init__(
        self,
        incumbent: Incumbent,
        run: Run,
        bounds: Bounds,
        pool: SetPool,
        *,
        step: float = STEP,
        failures: int = FAILURES,
    ) -> None:
        self._incumbent, self._stage_search, self._run, self._bounds = incumbent, incumbent.stage_search, run, bounds
        self._stages = incumbent.instance.stages
        self._below = self._stage_search.descendants() | np.eye(self._stage_search.nodes, dtype=bool)
        self._pool = pool
        self._open: list[StageSubproblem] = []
        self._patience = PATIENCE * self._stage_search.left()
        self._count = 0
        self._step, self._failures = step, failures

    def grow(self, center: Floats, proved: int, root: Case) -> None:
        """Raise the bounds until the best known partition is proved optimal or time is over.

        ``root`` says why ``proved`` is a bound, and then why the last one is.
        """
        if self._incumbent.limit <= max(proved, 1):
            return
        self._push(proved, *self._ranges(), center, root)
        while self._open and self._open[0].proved < self._incumbent.limit and not self._stage_search.over():
            node = heappop(self._open)
            failed = self._climb(node)
            if node.proved >= self._incumbent.limit:
                continue
            if self._stage_search.over() or not self._divide(node, failed):
                return
        if not self._stage_search.over():
            self._offer(self._incumbent.limit)

    def _ranges(self) -> tuple[Longs, Longs]:
        """The earliest and the latest stage of each node in a partition below the limit."""
        most, work = self._incumbent.limit - 1, self._stage_search.work
        before = -(-(work @ self._below) // most) - 1
        after = -(-(self._below @ work) // most) - 1
        return before.clip(0), self._stages - 1 - after.clip(0)

    def _push(self, proved: int, earliest: Longs, latest: Longs, center: Floats, case: Case) -> None:
        """Add a tree node, unless some node has no stage left."""
        if (earliest <= latest).all():
            heappush(self._open, StageSubproblem(proved, self._count, earliest, latest, center, case))
            self._count += 1

    def _offer(self, proved: int) -> None:
        least = min([proved, self._incumbent.limit, *(node.proved for node in self._open[:1])])
        self._bounds.offer(self._stage_search.bound(least))

    def _cover(self, node: StageSubproblem) -> Cover:
        last = self._stages - 1
        places = []
        for stage in range(last + 1):
            fixed = np.where((node.earliest <= stage) & (stage <= node.latest), 0, -1).astype(np.int8)
            fixed[(node.earliest == stage) & (node.latest == stage)] = 1
            places.append(Place(FIRST if stage == 0 else LAST if stage == last else MIDDLE, 1, fixed))
        patience = min(1.0, self._patience / max(self._stage_search.left(), 1e-9))
        return Cover(self._stage_search, self._run, places, node.center, patience, self._pool)

    def _climb(self, node: StageSubproblem) -> Floats:
        """Prove ever greater targets; return the fractions of the best cover under the last that failed."""
        cover, failures = self._cover(node), 0
        step = self._step * (self._incumbent.limit - node.proved)
        target = self._incumbent.limit
        while node.proved < self._incumbent.limit and failures < self._failures and not self._stage_search.over():
            target = min(self._incumbent.limit, node.proved + max(1, int(step)))
            if cover.prove(target):
                node.proved, node.center = target, cover.center
                node.case.weight, node.case.needs = cover.needs()
                self._offer(node.proved)
                step *= GROWTH
            else:
                failures += 1
                step *= SHRINKAGE
        return cover.fractions(target)

    def _divide(self, node: StageSubproblem, held: Floats) -> bool:
        """Add the two children of a tree node; False if the stages of all nodes are decided."""
        before = _before(held, node)
        self._incumbent.slice(before.sum(axis=0))
        v, stage = self._choose(node, before)
        if v < 0:
            return False
        earliest, latest = node.earliest.copy(), node.latest.copy()
        earliest[self._below[v]] = earliest[self._below[v]].clip(stage + 1)
        latest[self._below[:, v]] = latest[self._below[:, v]].clip(None, stage)
        first, second = node.case.divide(v, stage)
        self._push(node.proved, node.earliest, latest, node.center, first)
        self._push(node.proved, earliest, node.latest, node.center, second)
        return True

    def _choose(self, node: StageSubproblem, before: Floats) -> tuple[int, int]:
        """The node and the stage by which partitions are divided; -1 if all are decided."""
        mass = (self._stage_search.work + self._stage_search.sent).astype(np.float64) + 1.0
        best, chosen = -1.0, (-1, 0)
        for stage, share in enumerate(before):
            moved = np.minimum(((1 - share) * mass) @ self._below, self._below @ (share * mass))
            moved += 1e-9 * mass
            moved[(node.earliest > stage) | (node.latest <= stage)] = -1.0
            v = int(np.argmax(moved))
            if moved[v] > best:
                best, chosen = float(moved[v]), (v, stage)
        return chosen


def _before(held: Floats, node: StageSubproblem) -> NDArray[np.float64]:
    """Share of each node in stage b or earlier, shape (k - 1, n), from its shares in each stage."""
    stage = np.arange(len(held))[:, None]
    allowed = (node.earliest <= stage) & (stage <= node.latest)
    shares = held * allowed + 1e-6 * allowed
    return (np.cumsum(shares, axis=0) / shares.sum(axis=0))[:-1]
