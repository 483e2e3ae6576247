"""Proofs for ``pipeline``: even shares of work, and trees of minimum cuts over the sets of nodes that can be stages.

``{"kind": "work"}`` proves Lemma 3.3: the work of the heaviest node, and the k-th part of all work.

``{"kind": "stages", ...}`` proves that some stage is expensive (docs/certificates/pipeline.md has the argument):

``scale``    times become integers in units of 2^-``scale``, rounded down; memory is unlimited
``merged``   nodes that move to the stage of their only reader, in order of the mergers
``weight``   weight of every node, not negative; a merged node's is its reader's
``places``   ``[closure, stages, need]``: so many stages weigh less than their need, or one of them is in ``trees``
``trees``    per place, a tree over the sets that weigh the need, in preorder; a node has ``price``, ``moved``,
             ``closed`` (each that of its parent if left out) and ``branch``, a node of the graph that is in the set
             in the first subtree and not in it in the second; a leaf has none
``cutoff``   sets that cost as much need not be bounded any further, in units

Instead of weight, places and trees, there can be ``cases``, a tree in preorder of the stages that nodes are in. Each of
its nodes has ``branch``, a node v and a stage b: v is in stage b or earlier in the first subtree, else later; or
``weight``, a ``need`` per stage, and ``trees``, one per stage.

``{"kind": "windows", ...}`` is in `pipeline_windows`, ``{"kind": "solutions"}`` in `solutions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from shardmark.harness.verify.certificates import Clock, Exact, Unproven, integer, integers
from shardmark.harness.verify.certificates.pipeline_sets import FIRST, LARGEST, LAST, MIDDLE, Network, Sets, bits
from shardmark.harness.verify.certificates.pipeline_windows import windows
from shardmark.harness.verify.certificates.solutions import least_cost
from shardmark.harness.verify.pipeline import verify
from shardmark.instances.files.columns import describe
from shardmark.instances.pipeline import Instance

MOST_SCALE = 1200


def work(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the greater of the heaviest node's work and an even share of all work."""
    times = [Fraction(time) for time in instance.work.tolist()]
    return max([sum(times, Fraction(0)) / instance.stages, *times])


def stages(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the cost that some stage of every partition reaches, by the places and the trees of a proof."""
    scale = integer(proof, "scale", -MOST_SCALE, MOST_SCALE)
    cutoff = integer(proof, "cutoff", 0, LARGEST)
    network = Network(instance, scale, clock)
    for u in integers(proof, "merged", instance.nodes):
        network.merge(u)
    if "cases" in proof:
        least = _Cases(network, instance.stages, cutoff).least(proof["cases"])
    else:
        weight = _weights(proof, network)
        places = [Sets(network, closure, weight, need, cutoff) for closure, need in _places(proof, instance, weight)]
        least = _least(proof, places, cutoff)
    return Fraction(max(0, least)) / Fraction(2) ** scale


def _least(proof: Mapping[str, Any], places: list[Sets], cutoff: int) -> int:
    """Return the least bound of the trees of places, or the cut-off."""
    trees = proof.get("trees")
    if not isinstance(trees, list) or len(trees) != len(places):
        raise Unproven(f"proof.trees: expected a list of {len(places)}, found {describe(trees)}")
    return min([cutoff, *(sets.least(tree) for sets, tree in zip(places, trees, strict=True))])


def _weights(proof: Mapping[str, Any], network: Network) -> list[int]:
    """Return the weights of all nodes; those of merged ones are added to the nodes that they were merged into."""
    weight = list(integers(proof, "weight", LARGEST, len(network.work)))
    if min(weight, default=0) < 0:
        raise Unproven("proof.weight: expected no negative numbers")
    for u, v in network.moved:
        weight[v] += weight[u]
        weight[u] = 0
    return weight


def _places(proof: Mapping[str, Any], instance: Instance, weight: list[int]) -> list[tuple[int, int]]:
    """Return the closures and needs of places; all stages below their needs would weigh less than all nodes."""
    count, total = instance.stages, sum(weight)
    places, found, number, most = proof.get("places"), [], dict.fromkeys((FIRST, MIDDLE, LAST), 0), 0
    for place in places if isinstance(places, list) else ():
        closure, stages, need = integers({"places": place}, "places", LARGEST, 3)
        if closure not in number or stages < 1 or need < 1:
            raise Unproven("proof.places: expected a closure of -1, 0 or 1, and numbers from 1 on")
        number[closure] += stages
        most += stages * (need - 1)
        found.append((closure, need))
    if max(number[FIRST], number[LAST]) > 1 or sum(number.values()) != count:
        raise Unproven(f"proof.places: expected {count} stages, and one at most that is first, or last")
    if most >= total:
        raise Unproven(f"proof.places: expected needs that some stage reaches, as all weights are {total}")
    return found


class _Cases:
    """Partitions into stages, numbered from 0 in topological order, that cost less than a cut-off.

    A case of them has the first and the last stage that each node can be in.
    """

    def __init__(self, network: Network, count: int, cutoff: int) -> None:
        self.network, self.count, self.cutoff = network, count, cutoff
        self.above, self.below = network.relatives
        self.merged = {u for u, _ in network.moved}

    def least(self, tree: Any) -> int:
        """Return the least bound of all leaves, or the cut-off."""
        if not isinstance(tree, list) or not all(isinstance(node, dict) for node in tree):
            raise Unproven(f"proof.cases: expected a list of objects, found {describe(tree)}")
        waiting, least = [self._ranges()], self.cutoff
        for node in tree:
            self.network.clock.tick()
            if not waiting:
                raise Unproven("proof.cases: expected no more nodes than the branches need")
            first, last = waiting.pop()
            if "branch" in node:
                waiting += self._divided(first, last, *integers(node, "branch", LARGEST, 2))
            elif all(begin <= end for begin, end in zip(first, last, strict=True)):
                least = min(least, self._bound(node, first, last))
        if waiting:
            raise Unproven("proof.cases: expected two subtrees of every branch")
        return least

    def _ranges(self) -> tuple[list[int], list[int]]:
        """Return the first and the last stage of each node: every stage does less work than the cut-off."""
        work, most, ranges = self.network.work, max(1, self.cutoff - 1), []
        for relatives in (self.above, self.below):
            stages = []
            for own, others in zip(work, relatives, strict=True):
                self.network.clock.tick()
                total = own + sum(work[u] for u in bits(others))
                stages.append(max(0, -(-total // most) - 1))
            ranges.append(stages)
        return ranges[0], [self.count - 1 - after for after in ranges[1]]

    def _divided(self, first: list[int], last: list[int], v: int, stage: int) -> list[tuple[list[int], list[int]]]:
        """Return the case in which v is in a later stage than one, and that in which it is not."""
        if not 0 <= v < len(first):
            raise Unproven(f"proof.cases.branch: expected a node, found {v}")
        later, earlier = first.copy(), last.copy()
        for w in [v, *bits(self.below[v])]:
            later[w] = max(later[w], stage + 1)
        for u in [v, *bits(self.above[v])]:
            earlier[u] = min(earlier[u], stage)
        return [(later, last), (first, earlier)]

    def _bound(self, node: Mapping[str, Any], first: list[int], last: list[int]) -> int:
        """Return a bound on the cost of the partitions of a case."""
        weight = _weights(node, self.network)
        needs = integers(node, "need", LARGEST, self.count)
        if min(needs) < 1 or sum(needs) - self.count >= sum(weight):
            raise Unproven(
                f"proof.cases.need: expected needs that some stage reaches, as all weights are {sum(weight)}"
            )
        places = []
        for stage, need in enumerate(needs):
            self.network.clock.tick()
            closure = FIRST if stage == 0 else LAST if stage == self.count - 1 else MIDDLE
            ends = list(enumerate(zip(first, last, strict=True)))
            inside = sum(1 << v for v, (begin, end) in ends if begin == end == stage and v not in self.merged)
            outside = sum(1 << v for v, (begin, end) in ends if not begin <= stage <= end)
            places.append(Sets(self.network, closure, weight, need, self.cutoff, inside, outside))
        return _least(node, places, self.cutoff)


def solutions(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the least cost of all partitions, if memory is limited with all orders of execution."""
    return least_cost(instance, verify, _solutions(instance), 1, clock)  # the referee rounds a cost once


def _solutions(instance: Instance) -> Iterator[Any]:
    """Yield all solutions; stages without nodes have no cost, so more stages than nodes make no difference."""
    nodes = range(instance.nodes)
    for stages in itertools.product(range(max(1, min(instance.stages, instance.nodes))), repeat=instance.nodes):
        if instance.memory is None:
            yield list(stages)
            continue
        for order in itertools.permutations(nodes):
            yield {"block": list(stages), "order": list(order)}


PROOFS = {"work": work, "stages": stages, "windows": windows, "solutions": solutions}
