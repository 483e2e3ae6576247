"""Branch and bound over all sets that can be stages of a partition below a target cost."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from shardmark.solvers.native import Floats, Longs, Words
from shardmark.solvers.pipeline._set_kernels import compatible_sets, packed, unpacked
from shardmark.solvers.pipeline.programs.incumbent import Incumbent
from shardmark.solvers.pipeline.trees.set_program import SetProgram, Weighing

#: Most sets tested in pairs: a second with 100 nodes.
MOST_PAIRED = 10_000

#: Sets are tested in pairs again once this share has been dropped.
DROPPED = 0.03

#: Divisions tried at a node: by the order of two nodes, and by whether two nodes are together.
ORDERS, PAIRS = 8, 4

#: Fraction of a set in a cover that counts as the whole set.
WHOLE = 0.99

#: A child without a gain counts with this share of the slack, so that the gain of the other child still matters.
LEAST_GAIN = 1e-3


@dataclass(frozen=True, eq=False)
class SetSubproblem:
    """Partitions into some of the sets whose stages, in some topological order, agree with an order of nodes.

    ``alive``  the sets, as indices
    ``below``  shape (n, words), uint64: bit w of row v is 1 if the stage of w is that of v or a later one
    """

    alive: Longs
    below: Words


class SetTree:
    """Prove that no k of the given sets partition the nodes without cycles, or find such a partition.

    A tree node is refuted by weights under which any k sets weigh less than all nodes together. Otherwise the slack is
    k times the heaviest set's weight less the total weight, and every set that is lighter than the heaviest by more
    than the slack is dropped; so is a set if all sets compatible with it lose too much together. A tree node is divided
    in one of two ways: u is in the stage of v or earlier, or in that of v or later; or u and v are in the same stage,
    or in different ones. Ordering u before v drops sets as an edge without a tensor does: every node on a path between
    two nodes of a stage is in that stage.
    """

    def __init__(self, member: Words, below: Words, incumbent: Incumbent, target: int, until: float) -> None:
        self._member, self._incumbent, self._target, self._until = member, incumbent, target, until
        self._stage_search = incumbent.stage_search
        self._stages = min(incumbent.instance.stages, self._stage_search.nodes)  # more would stay empty
        self._open = [SetSubproblem(np.arange(len(member)), below)]
        self._active = 0
        self._halted = False
        self._changed = Condition()

    def refute(self, cores: int) -> bool:
        """True if no partition costs less than the target; False if one does, or if time is over."""
        for one in [self._stage_search.pool.submit(self._work) for _ in range(cores)]:
            one.result()
        return not self._halted

    def _left(self) -> float:
        return max(0.0, self._stage_search.left() - self._until)

    def _work(self) -> None:
        """Visit open nodes until there are none left, or the result is decided."""
        program = SetProgram(self._member, self._stage_search.nodes, self._left)
        while (node := self._next()) is not None:
            children: list[SetSubproblem] | None = None
            try:
                children = self._visit(program, node)
            finally:
                with self._changed:
                    self._active -= 1
                    self._halted |= children is None
                    self._open += children or []
                    self._changed.notify_all()

    def _next(self) -> SetSubproblem | None:
        with self._changed:
            while not self._halted and not self._open and self._active:
                self._changed.wait()
            if self._halted or not self._open:
                return None
            self._active += 1
            return self._open.pop()

    def _visit(self, program: SetProgram, node: SetSubproblem) -> list[SetSubproblem] | None:
        """The unrefuted children of a node, the most promising last; None if the node remains open."""
        bounded = self._bound(program, node)
        if bounded is None:
            return None
        node, found = bounded
        if not len(node.alive):
            return []
        indices, share = program.cover()
        self._round(indices, share)
        if self._incumbent.limit < self._target or self._left() == 0:
            return None
        candidates = self._candidates(indices, share, node.below)
        if candidates:
            return self._divide(program, node, found, candidates)
        return self._without_cycle(node, indices[share > WHOLE]) or None

    def _bound(self, program: SetProgram, node: SetSubproblem) -> tuple[SetSubproblem, Weighing] | None:
        """Drop sets from a node, all if it is refuted; None if time is over."""
        alive = node.alive
        while True:
            found = self._weigh(program, alive)
            if found is None:
                return None
            slack = found.slack(self._stages)
            if slack < 0:
                return SetSubproblem(alive[:0], node.below), found
            loss = found.heaviest - found.weighs
            order = np.argsort(loss, kind="stable")
            order = order[loss[order] <= slack]
            alive, loss = alive[order], loss[order]
            if len(alive) > MOST_PAIRED:
                return SetSubproblem(alive, node.below), found
            member = np.ascontiguousarray(self._member[alive])
            keep = compatible_sets(member, loss, found.heaviest, found.weight, node.below, slack, self._left())
            if keep.mean() > 1 - DROPPED:
                return SetSubproblem(alive[keep], node.below), found
            alive = alive[keep]

    def _weigh(self, program: SetProgram, alive: Longs) -> Weighing | None:
        """Weights for some sets; if a node is in none of them, weights that refute the set list."""
        nodes = self._stage_search.nodes
        held = unpacked(np.bitwise_or.reduce(self._member[alive], axis=0, initial=0)[None], nodes)[0]
        if not held.all():
            return Weighing((~held).astype(np.int64), np.zeros(len(alive), dtype=np.int64))
        return program.weigh(alive, self._stages)

    def _divide(
        self, program: SetProgram, node: SetSubproblem, found: Weighing, candidates: list[tuple[bool, int, int]]
    ) -> list[SetSubproblem] | None:
        """The unrefuted children of the best division; None if there is no division."""
        best, chosen = -1.0, None
        slack = found.slack(self._stages) / max(1, found.heaviest)
        for ordered, u, v in candidates:
            children: list[tuple[float, int, SetSubproblem]] = []
            gains = []
            for child in self._ordered(node, u, v) if ordered else self._paired(node, u, v):
                weighed = self._weigh(program, child.alive)
                if weighed is None:
                    return None
                after = weighed.slack(self._stages) / max(1, weighed.heaviest)
                gains.append(min(1.0, max(0.0, (slack - after) / max(slack, 1e-12))) + (after < 0) + LEAST_GAIN)
                children += [(after, len(children), child)] if after >= 0 else []
            if gains[0] * gains[1] > best:
                best, chosen = gains[0] * gains[1], children
            if not children:
                break
        return None if chosen is None else [child for _, _, child in sorted(chosen, key=lambda one: one[:2])]

    def _candidates(self, indices: Longs, share: Floats, below: Words) -> list[tuple[bool, int, int]]:
        """Divisions whose both sides are far from a cover: True if by order, and two nodes each."""
        nodes = self._stage_search.nodes
        reach = unpacked(below, nodes)
        member = unpacked(self._member[indices], nodes)
        after = (member.astype(np.float32) @ reach.astype(np.float32) > 0) * share[:, None]
        before = member.astype(np.float32) @ reach.T.astype(np.float32) > 0
        both = (member * share[:, None]).T @ member
        dropped = after.T @ before - both
        order = np.where(reach | reach.T, 0.0, np.minimum(dropped, dropped.T))
        return [
            *((True, u, v) for u, v in _greatest(order, ORDERS)),
            *((False, u, v) for u, v in _greatest(np.minimum(both, 1 - both), PAIRS)),
        ]

    def _without_cycle(self, node: SetSubproblem, whole: Longs) -> list[SetSubproblem]:
        """Children that each exclude one set of a cycle and include those before it; none without a cycle."""
        member = unpacked(self._member[whole], self._stage_search.nodes).astype(np.float32)
        reach = unpacked(node.below, self._stage_search.nodes).astype(np.float32)
        overlap = np.argwhere(np.triu(member @ member.T, 1) > 0)
        leads = (member @ reach @ member.T > 0) & ~np.eye(len(whole), dtype=bool)
        children, rest = [], node.alive
        for index in whole[overlap[0] if len(overlap) else _cycle(leads)].tolist():
            children.append(SetSubproblem(rest[rest != index], node.below))
            disjoint = ~(self._member[rest] & self._member[index]).any(axis=1)
            rest = rest[disjoint | (rest == index)]
        return children

    def _ordered(self, node: SetSubproblem, u: int, v: int) -> list[SetSubproblem]:
        """The children in which u is in no later stage than v, and in no earlier one."""
        return [self._before(node, u, v), self._before(node, v, u)]

    def _paired(self, node: SetSubproblem, u: int, v: int) -> list[SetSubproblem]:
        """The children in which u and v are in the same stage, and in different ones."""
        with_u, with_v = self._holds(node.alive, u), self._holds(node.alive, v)
        together = SetSubproblem(node.alive[with_u == with_v], node.below)
        together = self._before(self._before(together, u, v), v, u)
        return [together, SetSubproblem(node.alive[~(with_u & with_v)], node.below)]

    def _before(self, node: SetSubproblem, u: int, v: int) -> SetSubproblem:
        """The partitions of a node in which u is in no later stage than v."""
        above_u = unpacked(node.below, self._stage_search.nodes)[:, u]
        member = self._member[node.alive]
        between = (member & packed(above_u[None])).any(axis=1) & (member & node.below[v]).any(axis=1)
        alive = node.alive[~between | (self._holds(node.alive, u) & self._holds(node.alive, v))]
        below = node.below.copy()
        below[above_u] |= node.below[v]
        return SetSubproblem(alive, below)

    def _holds(self, alive: Longs, v: int) -> NDArray[np.bool_]:
        """Mask of the sets that contain a node."""
        return (self._member[alive, v // 64] >> np.uint64(v % 64)) & np.uint64(1) > 0

    def _round(self, indices: Longs, share: Floats) -> None:
        """Slice the order that visits the sets of a cover one after another, by decreasing share."""
        nodes = self._stage_search.nodes
        stage = np.full(nodes, -1)
        for at, member in enumerate(unpacked(self._member[indices[np.argsort(-share, kind="stable")]], nodes)):
            stage[member & (stage < 0)] = at
        stage[stage < 0] = len(indices) + np.arange((stage < 0).sum())
        holds = stage == np.arange(stage.max() + 1)[:, None]
        leads = (
            holds.astype(np.float32) @ self._stage_search.descendants().astype(np.float32) @ holds.T.astype(np.float32)
        )
        rank = _closed((leads > 0) | np.eye(len(leads), dtype=bool)).sum(axis=0)
        with self._changed:
            self._incumbent.slice(-(rank[stage] * len(leads) + stage).astype(np.float64))


def _closed(leads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The transitive closure of a relation."""
    while True:
        further = leads.astype(np.float32) @ leads.astype(np.float32) > 0
        if (further == leads).all():
            return leads
        leads = further


def _cycle(leads: NDArray[np.bool_]) -> list[int]:
    """A shortest cycle of a graph without loops; empty if there is none."""
    best: list[int] = []
    for start in range(len(leads)):
        previous = {start: -1}
        layer = [start]
        while layer and not (ends := [v for v in layer if leads[v, start]]):
            found = {w: v for v in layer for w in np.flatnonzero(leads[v]).tolist() if w not in previous}
            previous |= found
            layer = list(found)
        if layer:
            path = ends[:1]
            while previous[path[-1]] >= 0:
                path.append(previous[path[-1]])
            best = path if not best or len(path) < len(best) else best
    return best


def _greatest(value: Floats, most: int) -> list[tuple[int, int]]:
    """Rows and columns of the greatest non-zero elements above the diagonal."""
    upper = np.triu(value, 1).ravel()
    best = np.argsort(-upper, kind="stable")[:most]
    return [divmod(int(at), len(value)) for at in best if upper[at] > 1e-6]
