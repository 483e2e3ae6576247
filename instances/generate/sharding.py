"""Sharding strategies for ``intraop``: a network's operators and weights over a mesh of devices.

The cost model follows Alpa (Zheng et al., OSDI 2022): a strategy splits loops over mesh axes; a node costs its
arithmetic and the reduction of partial results; an edge costs the change from the layout in which a tensor is
produced to the one in which it is read. Costs are nanoseconds, memory is bytes per device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from shardmark.instances import intraop
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.generate.menus import with_limit
from shardmark.instances.generate.networks import architectures
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.models.model import Model
from shardmark.instances.models.sharding.buffers import TRAINING_STATE
from shardmark.instances.models.sharding.mesh import Mesh, Splits, mesh_sizes
from shardmark.instances.models.sharding.problem import IMPOSSIBLE, instance_of
from shardmark.instances.models.sharding.splits import Nest, Use, menu, nest

FLOPS = 100e12 / 1e9  # per nanosecond and device
MEMORY_BANDWIDTH = 1e12 / 1e9  # bytes per nanosecond
FAST_LINK, SLOW_LINK = 100e9 / 1e9, 25e9 / 1e9  # along the last axis of the mesh, along the others
LATENCY = 5000.0  # nanoseconds per collective


def transformer(draws: Draws, **options: Any) -> intraop.Instance:
    """Transformer decoder: splits heads, hidden units, batch or vocabulary."""
    return _sharded(draws, architectures.transformer, options)


def mixture_of_experts(draws: Draws, **options: Any) -> intraop.Instance:
    """Transformer with experts, which may be on different devices."""
    return _sharded(draws, architectures.mixture_of_experts, options)


def residual_network(draws: Draws, **options: Any) -> intraop.Instance:
    """ResNet: splits batch or channels, with fused chains."""
    return _sharded(draws, architectures.residual_network, options)


def u_net(draws: Draws, **options: Any) -> intraop.Instance:
    """U-Net: tensors that stay in memory from one side of the network to the other."""
    return _sharded(draws, architectures.u_net, options)


def sequence_to_sequence(draws: Draws, **options: Any) -> intraop.Instance:
    """Unrolled LSTM encoder and decoder: weights shared by many operators."""
    return _sharded(draws, architectures.sequence_to_sequence, options)


def _sharded(draws: Draws, network: Callable[..., Model], options: dict[str, Any]) -> intraop.Instance:
    mesh = generated_mesh(options.pop("mesh"))
    tightness, jitter = options.pop("tightness"), options.pop("jitter")
    training, joint, crosscut = bool(options.pop("training")), bool(options.pop("joint")), options.pop("crosscut")
    model = network(**options)
    problem = Problem(model, mesh, training, joint, draws.factors_around_one(jitter, len(model.operators)).tolist())
    if crosscut:
        problem.tie(crosscut)
    return problem.instance(tightness)


def generated_mesh(text: str) -> Mesh:
    """The mesh that a text such as "2x4" describes; the last axis has the fast links."""
    sizes = mesh_sizes(text, "generate")
    return Mesh(sizes, (*[SLOW_LINK] * (len(sizes) - 1), FAST_LINK), LATENCY)


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the problem: an operator, or a weight that operators read.

    ``size``     bytes of its tensor on all devices together
    ``splits``   shape (strategies, axes): of an operator its loops, of a weight its dimensions
    ``layouts``  of its tensor, shape (strategies, axes)
    ``costs``, ``usages``  shape (strategies,)
    """

    layer: int
    role: str
    begin: int
    end: int
    size: int
    splits: Splits
    layouts: Splits
    costs: Ints
    usages: Ints


@dataclass(frozen=True, eq=False)
class Edge:
    """Nodes joined by a table of costs, in ascending order; ``rigid`` if every entry is 0 or impossible.

    ``costs`` has an axis per node.
    """

    nodes: tuple[int, ...]
    costs: Ints
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
        node_of: dict[int, int] = {}  # of every tensor
        for index, operator in enumerate(self.model.operators):
            loops = nest(self.model, operator)
            for use in loops.reads:
                if use.tensor not in node_of:  # a parameter that no operator has read before
                    node_of[use.tensor] = len(self.nodes)
                    self.nodes.append(self._weight(index, loops, use))
            node_of[loops.writes[0].tensor] = len(self.nodes)
            self.nodes.append(self._operator(index, loops))
            self._join([node_of[use.tensor] for use in loops.reads], loops.reads, fused=operator.fused)

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

    def _weight(self, index: int, loops: Nest, use: Use) -> Node:
        operator, tensor = self.model.operators[index], self.model.tensors[use.tensor]
        dims = [i for i, loop in enumerate(use.loop_of) if loop >= 0 and loop not in loops.whole]
        layouts = menu(np.array(tensor.shape), dims, self.mesh)
        local = tensor.bytes * (TRAINING_STATE if self.training else 1) / self.mesh.parts(layouts)
        return Node(
            layer=operator.layer,
            role=f"{operator.role}/weight",
            begin=0,
            end=self.steps,
            size=tensor.bytes,
            splits=layouts,
            layouts=layouts,
            costs=_rounded(2 * local / MEMORY_BANDWIDTH if self.training else 0 * local),
            usages=np.ceil(local).astype(np.int64),
        )

    def _operator(self, index: int, loops: Nest) -> Node:
        operator, (written,) = self.model.operators[index], loops.writes
        size = self.model.tensors[written.tensor].bytes
        splits = loops.menu(self.mesh)
        layouts = written.layouts(splits)
        return Node(
            layer=operator.layer,
            role=operator.role,
            begin=index,
            end=self.steps - index if self.training else self.last_use[index] + 1,
            size=size,
            splits=splits,
            layouts=layouts,
            costs=_rounded(self._time(index, loops, splits) * self.jitter[index]),
            usages=np.ceil(size / self.mesh.parts(layouts)).astype(np.int64),
        )

    def _time(self, index: int, loops: Nest, splits: Splits) -> Floats:
        """Nanoseconds that an operator takes: roofline, sums of partial outputs and, in training, of gradients.

        Weights are read in no time; in training their nodes pay for the update.
        """
        tensors = self.model.tensors
        weights = [use for use in loops.reads if tensors[use.tensor].parameter]
        inputs = [use for use in loops.reads if not tensors[use.tensor].parameter]

        def local(use: Use) -> Floats:
            return tensors[use.tensor].bytes / self.mesh.parts(use.layouts(splits))

        arithmetic = self.model.operators[index].flops / self.mesh.parts(splits) / FLOPS
        traffic = sum(map(local, [*inputs, *loops.writes]), np.zeros(len(splits))) / MEMORY_BANDWIDTH
        time = (3 if self.training else 1) * np.maximum(arithmetic, traffic)
        for use in [*loops.writes, *inputs, *weights] if self.training else loops.writes:
            layouts, size = use.layouts(splits), local(use)
            for axis in range(len(self.mesh.sizes)):
                partial = (splits[:, axis] >= 0) & (layouts[:, axis] < 0)
                time += np.where(partial, self.mesh.all_reduce(axis, size), 0.0)
        return time

    def _join(self, producers: list[int], reads: Sequence[Use], *, fused: bool) -> None:
        """Append the edges from the nodes whose tensors the last node reads."""
        consumer = len(self.nodes) - 1
        pairs = list(zip(producers, reads, strict=True))
        if fused:
            (producer, _), *pairs = pairs
            same = self.nodes[producer].layouts[:, None] == self.nodes[consumer].layouts[None]
            self.edges.append(Edge((producer, consumer), np.where(same.all(axis=-1), 0, IMPOSSIBLE), rigid=True))
        for group in [pairs] if self.joint and pairs else [[pair] for pair in pairs]:
            self.edges.append(Edge((*(node for node, _ in group), consumer), self._resharding(group)))

    def _resharding(self, pairs: list[tuple[int, Use]]) -> Ints:
        """Times to convert tensors to the layouts in which the last node reads them, in one collective.

        ``pairs`` are nodes and the uses of their tensors; the result has an axis per node, and one of the last node.
        """
        shape = [len(self.nodes[node].splits) for node, _ in pairs]
        latency = transfer = np.zeros((*shape, len(self.nodes[-1].splits)))
        for position, (node, use) in enumerate(pairs):
            source, target = self.nodes[node].layouts, use.layouts(self.nodes[-1].splits)
            begin, moved = self.mesh.reshard(source[:, None], target[None], self.nodes[node].size)
            others = [axis for axis in range(len(pairs)) if axis != position]
            latency = np.maximum(latency, np.expand_dims(begin, others))
            transfer = transfer + np.expand_dims(moved, others)
        return _rounded((2 if self.training else 1) * (latency + transfer))  # the gradient takes the same way back

    def tie(self, distance: int) -> None:
        """Join like operators ``distance`` layers apart, and their weights, so that they agree on a strategy."""
        place = {(node.layer, node.role): index for index, node in enumerate(self.nodes)}
        for (layer, role), first in place.items():
            second = place.get((layer + distance, role))
            if second is not None and np.array_equal(self.nodes[first].splits, self.nodes[second].splits):
                costs = np.where(np.eye(len(self.nodes[first].splits), dtype=bool), 0, IMPOSSIBLE)
                self.edges.append(Edge((first, second), costs, rigid=True))

    def instance(self, tightness: float) -> intraop.Instance:
        """The instance; its memory limit lies between the needs of a fast and of a frugal greedy assignment."""
        instance = instance_of("sharding", self.nodes, self.edges, 0)
        return with_limit(instance, self.greedy(frugal=False), self.greedy(frugal=True), tightness)

    def greedy(self, frugal: bool) -> list[int]:
        """Greedy strategies, node by node: the cheapest given the earlier ones, or the one with least memory."""
        possible = self.possible()
        ending: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            ending[edge.nodes[-1]].append(edge)
        chosen: list[int] = []
        for index, node in enumerate(self.nodes):
            price = node.costs.astype(object)  # sums may pass 2^63
            for edge in ending[index]:
                price = price + edge.costs[tuple(chosen[other] for other in edge.nodes[:-1])]
            rank = [(price[s] >= IMPOSSIBLE, node.usages[s] if frugal else 0, price[s]) for s in range(len(price))]
            chosen.append(min(possible[index], key=rank.__getitem__))
            if price[chosen[-1]] >= IMPOSSIBLE:
                raise InputError("generate", f"layer {node.layer} {node.role}", "expected a feasible strategy")
        return chosen

    def possible(self) -> list[list[int]]:
        """The strategies of each node with a compatible one at every neighbour along rigid edges (arc consistency)."""
        possible = [list(range(len(node.splits))) for node in self.nodes]
        waiting = [edge for edge in self.edges if edge.rigid]
        changed = True
        while changed:
            changed = False
            for edge in reversed(waiting):
                first, second = edge.nodes
                pairs = [(i, j) for i in possible[first] for j in possible[second] if not edge.costs[i, j]]
                for node, left in ((first, {i for i, _ in pairs}), (second, {j for _, j in pairs})):
                    changed |= len(left) < len(possible[node])
                    possible[node] = sorted(left)
        return possible


def _rounded(times: Floats) -> Ints:
    return np.rint(times).astype(np.int64)
