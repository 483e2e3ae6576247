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

``{"kind": "windows", ...}`` is in `pipeline_windows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from shardmark.harness.verify.certificates import Clock, Exact, Unproven, integer, integers
from shardmark.harness.verify.certificates.pipeline_windows import windows
from shardmark.instances.files.columns import describe
from shardmark.instances.pipeline import Instance

MOST_SCALE = 1200
#: Greatest number in a proof, in absolute value.
LARGEST = 1 << 80
#: Most nodes of a graph whose ancestors are listed: they take nodes^2 bits.
MOST_NODES = 30_000
FIRST, MIDDLE, LAST = 1, 0, -1


def work(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the greater of the heaviest node's work and an even share of all work."""
    times = [Fraction(time) for time in instance.work.tolist()]
    return max([sum(times, Fraction(0)) / instance.stages, *times])


def stages(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the cost that some stage of every partition reaches, by the places and the trees of a proof."""
    scale = integer(proof, "scale", -MOST_SCALE, MOST_SCALE)
    cutoff = integer(proof, "cutoff", 0, LARGEST)
    network = _Network(instance, scale, clock)
    for u in integers(proof, "merged", instance.nodes):
        network.merge(u)
    weight = _weights(proof, network)
    needs = _needs(proof, instance.stages, sum(weight))
    trees = proof.get("trees")
    if not isinstance(trees, list) or len(trees) != len(needs):
        raise Unproven(f"proof.trees: expected a list of {len(needs)}, found {describe(trees)}")
    least = cutoff
    for (closure, need), tree in zip(needs, trees, strict=True):
        least = min(least, _Sets(network, closure, weight, need, cutoff).least(tree))
    return Fraction(max(0, least)) / Fraction(2) ** scale


def _weights(proof: Mapping[str, Any], network: _Network) -> list[int]:
    """Return the weights of all nodes; those of merged ones are added to the nodes that they were merged into."""
    weight = list(integers(proof, "weight", LARGEST, len(network.work)))
    if min(weight, default=0) < 0:
        raise Unproven("proof.weight: expected no negative numbers")
    for u, v in network.moved:
        weight[v] += weight[u]
        weight[u] = 0
    return weight


def _needs(proof: Mapping[str, Any], count: int, total: int) -> list[tuple[int, int]]:
    """Return the closures and needs of places; all stages below their needs would weigh less than all nodes."""
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


class _Network:
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


class _Sets:
    """The sets of nodes that can be a stage at a place and weigh its need.

    A case of them contains the nodes of ``inside`` and none of ``outside``, as bits; ``told`` are the numbers of its
    node of the tree, and of the node above for those that it lacks.
    """

    def __init__(self, network: _Network, closure: int, weight: list[int], need: int, cutoff: int) -> None:
        self.network, self.closure, self.weight, self.need, self.cutoff = network, closure, weight, need, cutoff

    def least(self, tree: Any) -> int:
        """Return the least bound of all leaves, or the cut-off."""
        if not isinstance(tree, list) or not all(isinstance(node, dict) for node in tree):
            raise Unproven(f"proof.trees: expected a list of objects for each place, found {describe(tree)}")
        waiting: list[tuple[int, int, dict[str, Any]]] = [(0, sum(1 << u for u, _ in self.network.moved), {})]
        least = self.cutoff
        for node in tree:
            if not waiting:
                raise Unproven("proof.trees: expected no more nodes than the branches need")
            inside, outside, told = waiting.pop()
            told = told | {key: node[key] for key in ("price", "moved", "closed") if key in node}
            bound, inside, outside = self._bound(inside, outside, told)
            if "branch" not in node:
                least = min(least, bound)
                continue
            bit = 1 << integer(node, "branch", 0, len(self.weight) - 1)
            waiting += [(inside, outside | bit, told), (inside | bit, outside, told)]
        if waiting:
            raise Unproven("proof.trees: expected two subtrees of every branch")
        return least

    def _bound(self, inside: int, outside: int, told: Mapping[str, Any]) -> tuple[int, int, int]:
        """Return a bound on the cost of the sets of a case, and the case of those that cost less than the cut-off."""
        self.network.clock.tick()
        price = integer(told, "price", 0, LARGEST)
        costs = [work - price * weight for work, weight in zip(self.network.work, self.weight, strict=True)]
        self._add_moved(costs, told)
        self._add_closed(costs, told)
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
        if not inside:
            return inside, outside
        above, below = self.network.relatives
        over = under = 0
        for v in _bits(inside):
            over |= above[v]
            under |= below[v]
        everything = (1 << len(self.weight)) - 1
        over = everything if self.closure == LAST else over
        under = everything if self.closure == FIRST else under
        inside |= over & under
        for v in _bits(outside & under):
            outside |= below[v]
        for v in _bits(outside & over):
            outside |= above[v]
        return inside, outside


def _bits(numbers: int) -> list[int]:
    """Return the places of the bits of a number."""
    return [at for at, bit in enumerate(reversed(bin(numbers)[2:])) if bit == "1"]


PROOFS = {"work": work, "stages": stages, "windows": windows}
