"""Sharding strategies for ``intraop``: a network's operators and weights over a mesh of devices.

The cost model follows Alpa (Zheng et al., OSDI 2022): a strategy splits loops over mesh axes; a node costs its
arithmetic and the reduction of partial results; an edge costs the change from the layout in which a tensor is
produced to the one in which it is read. Costs are nanoseconds, memory is bytes per device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from instances import intraop
from instances.errors import InputError
from instances.generate import networks
from instances.generate.draws import Draws
from instances.generate.menus import with_limit
from instances.models.model import Access, Model, Operator

FLOPS = 100e12 / 1e9  # per nanosecond and device
MEMORY_BANDWIDTH = 1e12 / 1e9  # bytes per nanosecond
FAST_LINK, SLOW_LINK = 100e9 / 1e9, 25e9 / 1e9  # along the last axis of the mesh, along the others
LATENCY = 5000.0  # nanoseconds per collective
IMPOSSIBLE = 10**18
TRAINING_STATE = 8  # bytes kept for each byte of a weight: weight, gradient, master copy and two moments

Layout = tuple[int, ...]  # per mesh axis, the tensor dimension that it splits; -1: none
Dims = tuple[str | None, ...]  # per tensor dimension, the loop that runs over it
Strategy = tuple[str | None, ...]  # per mesh axis, the loop that it splits


def transformer(draws: Draws, **options: Any) -> intraop.Instance:
    """Transformer decoder: splits heads, hidden units, batch or vocabulary."""
    return _sharded(draws, networks.transformer, options)


def mixture_of_experts(draws: Draws, **options: Any) -> intraop.Instance:
    """Transformer with experts, which may be on different devices."""
    return _sharded(draws, networks.mixture_of_experts, options)


def residual_network(draws: Draws, **options: Any) -> intraop.Instance:
    """ResNet: splits batch or channels, with fused chains."""
    return _sharded(draws, networks.residual_network, options)


def u_net(draws: Draws, **options: Any) -> intraop.Instance:
    """U-Net: tensors that stay in memory from one side of the network to the other."""
    return _sharded(draws, networks.u_net, options)


def sequence_to_sequence(draws: Draws, **options: Any) -> intraop.Instance:
    """Unrolled LSTM encoder and decoder: weights shared by many operators."""
    return _sharded(draws, networks.sequence_to_sequence, options)


def _sharded(draws: Draws, network: Callable[..., Model], options: dict[str, Any]) -> intraop.Instance:
    mesh = Mesh.parse(options.pop("mesh"))
    tightness, jitter = options.pop("tightness"), options.pop("jitter")
    training, joint, crosscut = bool(options.pop("training")), bool(options.pop("joint")), options.pop("crosscut")
    model = network(**options)
    problem = Problem(model, mesh, training, joint, draws.around_one(jitter, len(model.operators)).tolist())
    if crosscut:
        problem.tie(crosscut)
    return problem.instance(tightness)


@dataclass(frozen=True)
class Mesh:
    """Devices in a grid: ``sizes`` of its axes; the last one has the fast links."""

    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """The mesh that a text such as "2x4" describes."""
        sizes = text.split("x")
        if not all(size.isdecimal() and 1 < int(size) < 2**16 for size in sizes):
            raise InputError("generate", "mesh", f"expected axis sizes of at least 2, such as 2x4, found {text!r}")
        return cls(tuple(map(int, sizes)))

    def link(self, axis: int) -> float:
        """Bytes per nanosecond along an axis."""
        return FAST_LINK if axis == len(self.sizes) - 1 else SLOW_LINK

    def share(self, split: Sequence[Any], unsplit: Any = -1) -> int:
        """The number of parts that a split makes, given what each axis splits."""
        return math.prod(size for size, dim in zip(self.sizes, split, strict=True) if dim != unsplit)

    def all_reduce(self, axis: int, size: float) -> float:
        """Time to sum ``size`` bytes over the devices along an axis (all-reduce)."""
        k = self.sizes[axis]
        return LATENCY + 2 * (k - 1) / k * size / self.link(axis)

    @cache  # noqa: B019 (a mesh lives as long as its problem)
    def reshard(self, source: Layout, target: Layout, size: int) -> tuple[float, float]:
        """Latency and transfer time to change the layout of a tensor of ``size`` bytes.

        Splitting a replicated tensor is free; gathering sends all parts to all devices along an axis; moving the
        split from one dimension to another exchanges all but a device's own part.
        """
        latency = transfer = 0.0
        part = size / self.share(source)
        for axis, (before, after) in enumerate(zip(source, target, strict=True)):
            if before != after and before >= 0:
                k = self.sizes[axis]
                moved = part * (k - 1) if after < 0 else part * (k - 1) / k
                latency, transfer = LATENCY, transfer + moved / self.link(axis)
        return latency, transfer


@dataclass(frozen=True)
class Node:
    """A node of the problem: an operator, or a weight that operators read."""

    layer: int
    role: str
    begin: int
    end: int
    size: int  # bytes of its tensor on all devices together
    strategies: tuple[Strategy, ...]
    layouts: tuple[Layout, ...]  # of its tensor, by strategy
    costs: list[int]
    usages: list[int]


@dataclass(frozen=True)
class Edge:
    """Nodes joined by a table of costs, in ascending order; ``rigid`` if every entry is 0 or impossible."""

    nodes: tuple[int, ...]
    costs: list[int]
    rigid: bool = False


@dataclass
class Problem:
    """A model on a mesh; ``instance`` makes the instance.

    ``training``  forward and backward pass: tensors stay until their backward step, gradients are summed
    ``joint``     all inputs of an operator change layout in one collective, an edge of higher arity
    ``jitter``    factor on every operator's cost
    """

    model: Model
    mesh: Mesh
    training: bool
    joint: bool
    jitter: Sequence[float]
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def __post_init__(self) -> None:
        node: dict[int, int] = {}  # of every tensor
        for index, operator in enumerate(self.model.operators):
            for access in operator.reads:
                if access.tensor not in node:  # a parameter that no operator has read before
                    node[access.tensor] = len(self.nodes)
                    self.nodes.append(self._weight(operator, access))
            (written,) = operator.writes
            node[written.tensor] = len(self.nodes)
            self.nodes.append(self._operator(index, operator, written))
            self._join(operator, [(node[access.tensor], self._known(operator, access)) for access in operator.reads])

    @cached_property
    def steps(self) -> int:
        """Length of the schedule: one operator per time step, and back again in training."""
        return len(self.model.operators) * (2 if self.training else 1)

    @cached_property
    def last_use(self) -> list[int]:
        """The last reader of each operator's output; the operator itself if there is none."""
        last = list(range(len(self.model.operators)))
        for producer, consumer in self.model.edges():
            last[producer] = consumer
        return last

    def _known(self, operator: Operator, access: Access) -> Dims:
        """Loops over the tensor's dimensions, None also if the loop runs over more than this tensor."""
        sizes = zip(access.dims, self.model.tensors[access.tensor].shape, strict=True)
        return tuple(dim if dim is not None and operator.loops[dim] == size else None for dim, size in sizes)

    def _weight(self, operator: Operator, access: Access) -> Node:
        size = self.model.tensors[access.tensor].bytes
        loops = {dim: operator.loops[dim] for dim in access.dims if dim is not None}
        strategies = self._strategies(loops, operator.whole)
        state = size * (TRAINING_STATE if self.training else 1)
        local = [state / self.mesh.share(strategy, None) for strategy in strategies]
        return Node(
            layer=operator.layer,
            role=f"{operator.role}/weight",
            begin=0,
            end=self.steps,
            size=size,
            strategies=strategies,
            layouts=tuple(layout(strategy, access.dims) for strategy in strategies),
            costs=[round(2 * size / MEMORY_BANDWIDTH) if self.training else 0 for size in local],
            usages=[math.ceil(size) for size in local],
        )

    def _operator(self, index: int, operator: Operator, written: Access) -> Node:
        size = self.model.tensors[written.tensor].bytes
        strategies = self._strategies(operator.loops, operator.whole)
        layouts = tuple(layout(strategy, written.dims) for strategy in strategies)
        return Node(
            layer=operator.layer,
            role=operator.role,
            begin=index,
            end=self.steps - index if self.training else self.last_use[index] + 1,
            size=size,
            strategies=strategies,
            layouts=layouts,
            costs=[round(self._time(operator, strategy) * self.jitter[index]) for strategy in strategies],
            usages=[math.ceil(size / self.mesh.share(split)) for split in layouts],
        )

    def _strategies(self, loops: Mapping[str, int], whole: frozenset[str]) -> tuple[Strategy, ...]:
        """All assignments of each mesh axis to a loop whose trip count it divides, or to none; no split comes first."""
        choices = [None, *(loop for loop in loops if loop not in whole)]
        found = []
        for strategy in itertools.product(choices, repeat=len(self.mesh.sizes)):
            parts = dict.fromkeys(filter(None, strategy), 1)
            for size, loop in zip(self.mesh.sizes, strategy, strict=True):
                if loop is not None:
                    parts[loop] *= size
            if all(loops[loop] % part == 0 for loop, part in parts.items()):
                found.append(strategy)
        return tuple(found)

    def _time(self, operator: Operator, strategy: Strategy) -> float:
        """Nanoseconds that an operator takes: roofline, sums of partial outputs and, in training, of gradients."""
        mesh = self.mesh

        def local(dims: Dims, size: int) -> float:
            return size / mesh.share(layout(strategy, dims))

        tensors = self.model.tensors
        reads = [(self._known(operator, access), tensors[access.tensor]) for access in operator.reads]
        inputs = [(dims, tensor.bytes) for dims, tensor in reads if not tensor.parameter]
        weights = [(dims, tensor.bytes) for dims, tensor in reads if tensor.parameter]
        produced = [(access.dims, tensors[access.tensor].bytes) for access in operator.writes]
        passes = 3 if self.training else 1
        arithmetic = operator.flops / mesh.share(strategy, None) / FLOPS
        traffic = sum(local(*tensor) for tensor in [*inputs, *produced]) / MEMORY_BANDWIDTH
        time = passes * max(arithmetic, traffic)
        summed = [*produced, *inputs, *weights] if self.training else produced
        for dims, size in summed:
            for axis, loop in enumerate(strategy):
                if loop is not None and loop not in dims:
                    time += mesh.all_reduce(axis, local(dims, size))
        return time

    def _join(self, operator: Operator, reads: list[tuple[int, Dims]]) -> None:
        """Append the edges from the inputs of the last node, each ``(node, loops over its dimensions)``."""
        consumer = len(self.nodes) - 1
        if operator.fused:
            (producer, _), *reads = reads
            lies = itertools.product(self.nodes[producer].layouts, self.nodes[consumer].layouts)
            self.edges.append(Edge((producer, consumer), [0 if a == b else IMPOSSIBLE for a, b in lies], rigid=True))
        for group in [reads] if self.joint and reads else [[read] for read in reads]:
            table = self._resharding([node for node, _ in group], [dims for _, dims in group], consumer)
            self.edges.append(Edge((*(node for node, _ in group), consumer), table))

    def _resharding(self, producers: list[int], dims: list[Dims], consumer: int) -> list[int]:
        """Table of the times to convert tensors to the layouts in which a consumer reads them, in one collective."""
        sizes = [self.nodes[node].size for node in producers]
        targets = [tuple(layout(strategy, d) for d in dims) for strategy in self.nodes[consumer].strategies]
        times = 2 if self.training else 1  # the gradient takes the same way back
        table = []
        for sources in itertools.product(*(self.nodes[node].layouts for node in producers)):
            for target in targets:
                parts = [self.mesh.reshard(*part) for part in zip(sources, target, sizes, strict=True)]
                latency, transfer = max(part[0] for part in parts), sum(part[1] for part in parts)
                table.append(round(times * (latency + transfer)))
        return table

    def tie(self, distance: int) -> None:
        """Join like operators ``distance`` layers apart, and their weights, so that they agree on a strategy."""
        place = {(node.layer, node.role): index for index, node in enumerate(self.nodes)}
        for (layer, role), first in place.items():
            second = place.get((layer + distance, role))
            if second is not None and self.nodes[first].strategies == self.nodes[second].strategies:
                count = len(self.nodes[first].strategies)
                costs = [0 if i == j else IMPOSSIBLE for i in range(count) for j in range(count)]
                self.edges.append(Edge((first, second), costs, rigid=True))

    def instance(self, tightness: float) -> intraop.Instance:
        """The instance; its memory limit lies between the needs of a fast and of a frugal greedy assignment."""
        instance = intraop.parse(self._document(), "generate")
        return with_limit(instance, self.greedy(frugal=False), self.greedy(frugal=True), tightness)

    def _document(self) -> dict[str, Any]:
        nodes = {
            "intervals": [[node.begin, node.end] for node in self.nodes],
            "costs": [node.costs for node in self.nodes],
            "usages": [node.usages for node in self.nodes],
        }
        edges = {"nodes": [list(edge.nodes) for edge in self.edges], "costs": [edge.costs for edge in self.edges]}
        return {"problem": {"name": "sharding", "nodes": nodes, "edges": edges, "usage_limit": 0}}

    def greedy(self, frugal: bool) -> list[int]:
        """Greedy strategies, node by node: the cheapest given the earlier ones, or the one with least memory."""
        possible = self.possible()
        ending: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            ending[edge.nodes[-1]].append(edge)
        chosen: list[int] = []
        for index, node in enumerate(self.nodes):
            price, menu = list(node.costs), len(node.costs)
            for edge in ending[index]:
                row = 0
                for other in edge.nodes[:-1]:
                    row = row * len(self.nodes[other].costs) + chosen[other]
                price = [a + b for a, b in zip(price, edge.costs[row * menu : (row + 1) * menu], strict=True)]
            rank = [(price[s] >= IMPOSSIBLE, node.usages[s] if frugal else 0, price[s]) for s in range(menu)]
            chosen.append(min(possible[index], key=rank.__getitem__))
            if price[chosen[-1]] >= IMPOSSIBLE:
                raise InputError("generate", f"layer {node.layer} {node.role}", "expected a feasible strategy")
        return chosen

    def possible(self) -> list[list[int]]:
        """The strategies of each node with a compatible one at every neighbour along rigid edges (arc consistency)."""
        possible = [list(range(len(node.strategies))) for node in self.nodes]
        waiting = [edge for edge in self.edges if edge.rigid]
        changed = True
        while changed:
            changed = False
            for edge in reversed(waiting):
                first, second = edge.nodes
                menu = len(self.nodes[second].strategies)
                pairs = [(i, j) for i in possible[first] for j in possible[second] if not edge.costs[i * menu + j]]
                for node, left in ((first, {i for i, _ in pairs}), (second, {j for _, j in pairs})):
                    changed |= len(left) < len(possible[node])
                    possible[node] = sorted(left)
        return possible


def layout(strategy: Strategy, dims: Dims) -> Layout:
    """Return the layout of a tensor over the mesh under a strategy, given the loops over its dimensions."""
    return tuple(-1 if loop is None or loop not in dims else dims.index(loop) for loop in strategy)
