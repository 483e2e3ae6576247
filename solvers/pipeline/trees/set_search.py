"""Branch and bound over lists of all possible stages, for targets between the bound and the known cost."""

from __future__ import annotations

import numpy as np

from shardmark.solvers.native import Floats, Longs
from shardmark.solvers.pipeline._set_kernels import packed, weigh_sets
from shardmark.solvers.pipeline.programs.cover import FARTHEST
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Incumbent
from shardmark.solvers.pipeline.programs.master import Master
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool
from shardmark.solvers.pipeline.programs.stage_search import MIDDLE, whole_weights
from shardmark.solvers.pipeline.trees.set_tree import SetTree
from shardmark.solvers.registry import Run

#: Most sets listed; if there are more, the slack is so great that a tree rarely ends.
MOST_SETS = 300_000

#: Share of the memory for their members, a byte per node.
MEMORY = 0.1

#: Share of the time at the beginning that one target may take at first.
PATIENCE = 0.2

#: Share of a target's time for listing its sets: trees take a tenth of a second, or far too long.
LISTING = 0.85

#: Position of the next target between the last proof and the last failure, as a share of that gap.
STEP = 0.4

#: Least difference of targets, as a share of the first gap.
FINEST = 0.01

#: Weights count as optimal if their heaviest set exceeds its lower bound by no more than this.
CLOSE = 2e-4


class SetSearch:
    """Raise the bound and find better partitions by a `SetTree` for one target after another.

    If no set below the target weighs more than ``heaviest``, each of the k stages of a partition below the target
    weighs at least the total weight less k - 1 times ``heaviest``. All sets of at least that weight are listed.
    """

    def __init__(self, incumbent: Incumbent, run: Run, bounds: Bounds, pool: SetPool, center: Floats) -> None:
        self._incumbent, self._run, self._bounds, self._pool = incumbent, run, bounds, pool
        nodes = incumbent.stage_search.nodes
        self._stage_search, self._stages = incumbent.stage_search, min(incumbent.instance.stages, nodes)
        self._center = center * (self._stages / center.sum())
        self._most = min(MOST_SETS, int(MEMORY * run.memory * 2**20 / nodes))
        self._below = packed(self._stage_search.descendants() | np.eye(nodes, dtype=bool))

    def climb(self, proved: int) -> None:
        """Prove targets between the bound and the known cost until these meet or time is over."""
        failed, finest = self._incumbent.limit, FINEST * (self._incumbent.limit - proved)
        seconds = PATIENCE * self._stage_search.left()
        while proved < self._incumbent.limit and not self._stage_search.over():
            failed = min(failed, self._incumbent.limit)
            target = min(failed, proved + max(1, int(max(finest, STEP * (failed - proved)))))
            if self._prove(target, min(seconds, self._stage_search.left())):
                proved = target
                self._bounds.offer(self._stage_search.bound(target))
            elif target - proved > finest:
                failed = target
            else:
                failed, seconds = self._incumbent.limit, 2 * seconds

    def _prove(self, target: int, seconds: float) -> bool:
        """True if no partition costs less than the target; False if one was found, or if time was too short.

        A set loses the difference between its weight and that of the heaviest set; the stages of a partition together
        lose the slack at most. Sets that lose at most half of the slack come first: they are listed quickly, and better
        partitions mostly consist of them.
        """
        until = self._stage_search.left() - seconds
        settled = self._settle(target, until)
        if settled is None:
            return False
        weight, heaviest = settled
        slack = self._stages * heaviest - int(weight.sum())
        needs = () if slack < 0 else (heaviest - slack // 2, heaviest - slack)
        return all(self._refute(target, until, weight, need) for need in needs)

    def _refute(self, target: int, until: float, weight: Longs, need: int) -> bool:
        """True if no partition into sets of weight ``need`` or more costs less than the target.

        If the list is incomplete, or stages of weight 0 are possible, which are not listed, the listed sets may still
        form a better partition.
        """
        left = self._stage_search.left() - until
        listed = self._stage_search.list_sets(weight, max(1, need), target, LISTING * left, most=self._most)
        member = packed(listed.member)
        if self._run.cores > 1:
            member = np.unique(member, axis=0)
        member = np.ascontiguousarray(member[np.argsort(-weigh_sets(member, weight), kind="stable")])
        tree = SetTree(member, self._below, self._incumbent, target, until)
        return tree.refute(self._run.cores) and need > 0 and listed.proved >= target

    def _settle(self, target: int, until: float) -> tuple[Longs, int] | None:
        """Nearly optimal weights for a target, and the greatest weight of any set; None if time is too short."""
        master = Master(self._pool, [Place(MIDDLE, self._stages)], target)
        best, settled = np.inf, None
        while (left := self._stage_search.left() - until) > 0:
            weights = master.solve(self._center, FARTHEST, left)
            if weights is None:
                return None
            least = master.heaviest(weights)[0]
            for candidate in ((self._center + weights) / 2, weights):
                most = max(master.heaviest(candidate)[0], least * (1 + CLOSE / 2)) * (1 + CLOSE / 10)
                whole = whole_weights(candidate)
                need = int(most / self._stages * whole.sum()) + 1
                listed = self._stage_search.list_sets(
                    whole, need, target, max(0.0, self._stage_search.left() - until), MIDDLE
                )
                if len(listed.cost):
                    if self._pool.add(listed, MIDDLE):
                        break
                    return settled
                if listed.proved < target:
                    return None
                if most < best:
                    best, settled, self._center = most, (whole, need - 1), candidate
            if best <= least * (1 + CLOSE):
                return settled
        return None
