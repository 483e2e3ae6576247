"""A model on a mesh of devices as a problem of track ``intraop``, and its solutions as layouts of tensors.

``as_intraop(model, device, mesh, training=False, memory=None)`` returns a `Sharding`: ``.instance`` is the problem in
the contest's format; ``.specs(solution)`` tells by the name of each tensor which mesh axes split its dimensions, as
JAX's ``PartitionSpec`` does, and ``.loops(solution)`` by the name of each operator which loop each mesh axis splits.

The cost model is that of Alpa (Zheng et al., OSDI 2022). A strategy gives every axis of the mesh a loop of an operator,
or none. Operators that choose together (see `shardmark.instances.models.sharding.groups`) are one node, and so is every
parameter and every input of the model; a node costs the times of its operators, partial sums included. An edge costs
the change of layouts between the node in which a tensor is made and the one in which it is read; a tensor that a node
reads several times in one layout arrives once.

Memory. Time step i is the run of operator i; with ``training`` of a model that has no backward pass, that pass follows
in reverse order. Parameters, and what training keeps for them, are in memory all the time; other inputs, and parameters
that the step replaces (`Model.updates`), until they are read last; and results from the step that writes them to the
one that reads them last, outputs of the model to the end. What replaces a parameter is brought into its layout.
Views share the memory of their input, and an elementwise operator that reads its input last writes over it. As a node
lives in one interval, tensors of one choice with different intervals get nodes of their own, without cost, which a
rigid edge (all entries 0 or `IMPOSSIBLE`) ties to the choice.

Costs are nanoseconds, because the contest's format has integers only; memory is bytes per device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.intraop import LARGEST, Instance
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import Model
from shardmark.instances.models.sharding.buffers import TRAINING_STATE, Buffer, buffers
from shardmark.instances.models.sharding.groups import Group, grouped
from shardmark.instances.models.sharding.mesh import Mesh, Splits, mesh_sizes
from shardmark.instances.models.sharding.problem import IMPOSSIBLE, instance_of
from shardmark.instances.models.sharding.splits import nest
from shardmark.instances.models.sharding.times import operator_times, trained

__all__ = ["IMPOSSIBLE", "Edge", "Node", "Sharding", "as_intraop"]


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the instance: a choice, or memory that depends on one.

    ``group``   index in `Sharding.groups` of the operators and tensors that choose
    ``costs``   nanoseconds, shape (strategies,)
    ``usages``  bytes per device, shape (strategies,), in the time steps [begin, end)
    ``chosen``  the strategy of this node for each strategy of its group, shape (strategies of the group,)
    """

    group: int
    begin: int
    end: int
    costs: Ints
    usages: Ints
    chosen: Ints


@dataclass(frozen=True, eq=False)
class Edge:
    """A table of costs in nanoseconds, shape (strategies of the first node, strategies of the second)."""

    nodes: tuple[int, int]
    costs: Ints


@dataclass(frozen=True, eq=False)
class Sharding:
    """A model on a mesh as an instance. A solution is the list of every node's strategy.

    ``groups``  operators and tensors that choose together; group i chooses at node i
    ``nodes``   of the instance: one per group, then those that only take memory
    """

    model: Model
    mesh: Mesh
    groups: Sequence[Group]
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    instance: Instance

    def solution(self, choices: Sequence[int]) -> list[int]:
        """The strategies of all nodes, given those of the groups."""
        return [int(node.chosen[choices[node.group]]) for node in self.nodes]

    def loops(self, solution: Sequence[int]) -> dict[str, tuple[str | None, ...]]:
        """For every operator, by name, the loop that each axis of the mesh splits, or None."""
        found = {}
        for node, group in enumerate(self.groups):
            for index, splits in group.splits.items():
                operator = self.model.operators[index]
                names = [*operator.loops, None]
                found[operator.name] = tuple(names[loop] for loop in splits[solution[node]])
        return found

    def layouts(self, solution: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """For every tensor, by index, the dimension that each axis of the mesh splits where it is made, or -1.

        A tensor that is neither read nor written has no layout.
        """
        return {
            tensor: tuple(layouts[solution[node]].tolist())
            for node, group in enumerate(self.groups)
            for tensor, layouts in group.layouts.items()
        }

    def specs(self, solution: Sequence[int]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """For every tensor, by name, the axes of the mesh that split each of its dimensions, the outermost first."""
        found = {}
        for index, layout in self.layouts(solution).items():
            tensor = self.model.tensors[index]
            axes = (tuple(a for a, d in enumerate(layout) if d == dim) for dim in range(len(tensor.shape)))
            found[tensor.name] = tuple(axes)
        return found


def as_intraop(
    model: Model,
    device: Device,
    mesh: str,
    *,
    training: bool = False,
    updates: float | None = None,
    memory: float | None = None,
) -> Sharding:
    """Build the instance of splitting a model over a mesh of equal devices.

    ``mesh`` has the sizes of its axes, such as "2x4"; all axes have the device's links. ``training`` adds the backward
    pass, unless the model has backward operators. The update of the parameters counts ``updates`` times: by default
    once in training, for one of several microbatches 0 times. ``memory`` is the limit in bytes per device, by default
    the device's; infinity stands for no limit.

    Raises InputError for a malformed mesh, a mesh that divides no dimension of any tensor, a model that does not fit
    into memory with any split, and a model too large for 64-bit numbers.
    """
    sizes = mesh_sizes(mesh, model.name)
    if TRAINING_STATE * sum(tensor.bytes for tensor in model.tensors) > LARGEST:
        raise InputError(model.name, "memory", "expected tensors of less than 2^60 bytes in all")
    grid = Mesh(sizes, (device.link_bandwidth / 1e9,) * len(sizes), device.link_latency * 1e9)
    completed = training and not any(operator.backward for operator in model.operators)
    builder = _Builder(model, device, grid, completed, float(training) if updates is None else updates)
    if all(group.size == 1 for group in builder.groups):
        raise InputError(model.name, "mesh", f"expected axis sizes that divide a dimension of a tensor, found {mesh}")
    limit = device.memory if memory is None else memory
    nodes, memory_edges = builder.nodes()
    edges = [*builder.edges(), *memory_edges]
    instance = instance_of(model.name, nodes, edges, None if math.isinf(limit) else int(limit))
    _require_memory(model, builder.groups, instance)
    return Sharding(model, grid, builder.groups, nodes, edges, instance)


def _require_memory(model: Model, groups: Sequence[Group], instance: Instance) -> None:
    """Raise InputError if the model needs more memory than there is, each of its tensors split as far as possible."""
    if instance.usage_limit is None:
        return
    least = np.minimum.reduceat(instance.usage, instance.strategy_start[:-1])
    held = [i for i, group in enumerate(groups) if any(model.tensors[tensor].parameter for tensor in group.layouts)]
    for needed, what in ((sum(least[held].tolist()), "parameters"), (instance.peak(least), "tensors in use")):
        if needed > instance.usage_limit:
            expected = f"expected {what} that fit into {instance.usage_limit:,} bytes per device"
            found = f"found at least {needed:,}: {needed - instance.usage_limit:,} too many"
            raise InputError(model.name, "memory", f"{expected}, {found}")


class _Builder:
    def __init__(self, model: Model, device: Device, mesh: Mesh, training: bool, updates: float) -> None:
        self.model, self.device, self.mesh, self.training, self.updates = model, device, mesh, training, updates
        self.nests = [nest(model, operator) for operator in model.operators]
        self.groups = grouped(model, self.nests, mesh, self._times)
        self.costs = [self._group_costs(group) for group in self.groups]
        self.tables = self._resharding()

    def _times(self, index: int, splits: Splits) -> Floats:
        nest = self.nests[index]
        return operator_times(self.model, index, nest, splits, self.mesh, self.device, training=self.training)

    def _group_costs(self, group: Group) -> Floats:
        """Nanoseconds of a group's operators, and of the update of its parameter."""
        total = np.zeros(group.size)
        for tensor, layouts in group.layouts.items():
            if self.updates and self.model.tensors[tensor].parameter:
                moved = 2 * TRAINING_STATE * self.model.tensors[tensor].bytes / self.mesh.parts(layouts)
                total += 1e9 * self.updates * moved / self.device.bandwidth
        return total + sum((self._times(index, splits) for index, splits in group.splits.items()), np.zeros(group.size))

    def _resharding(self) -> dict[tuple[int, int], Floats]:
        """Tables of the changes of layouts between two groups; those inside a group are added to its costs."""
        tables: dict[tuple[int, int], Floats] = {}
        home = {tensor: i for i, group in enumerate(self.groups) for tensor in group.layouts}
        for i, tensor, target, paid in self._conversions():
            source = self.groups[home[tensor]].layouts[tensor]
            if (source < 0).all() or (home[tensor] == i and (source == target).all()):
                continue
            passes = 1 + (self.training and trained(self.model.tensors[tensor]))  # the gradient takes the way back
            source = source if home[tensor] == i else source[:, None]
            latency, transfer = self.mesh.reshard(source, target, self.model.tensors[tensor].bytes)
            times = passes * (latency + transfer) * ~paid
            if home[tensor] == i:
                self.costs[i] += times
            else:
                tables[home[tensor], i] = tables.get((home[tensor], i), 0) + times
        return tables

    def _conversions(self) -> Iterator[tuple[int, int, Splits, NDArray[np.bool_]]]:
        """Groups with a tensor that each needs, its layouts there, and the strategies for which it has arrived before.

        Groups need what they read; a group with a parameter needs the output that replaces it for the next step.
        """
        for i, group in enumerate(self.groups):
            arrived: dict[int, list[Splits]] = {}
            for index, splits in group.splits.items():
                for use in self.nests[index].reads:
                    target, earlier = use.layouts(splits), arrived.setdefault(use.tensor, [])
                    paid = [(target == other).all(axis=1) for other in earlier]
                    yield i, use.tensor, target, np.any([np.zeros(group.size, dtype=bool), *paid], axis=0)
                    earlier.append(target)
            for tensor, layouts in group.layouts.items():
                if tensor in self.model.updates:
                    yield i, self.model.updates[tensor], layouts, np.zeros(group.size, dtype=bool)

    def edges(self) -> list[Edge]:
        """The edges between choices of which some cost is above 0."""
        edges = (Edge(ends, self._rounded(table)) for ends, table in self.tables.items())
        return [edge for edge in edges if edge.costs.any()]

    def nodes(self) -> tuple[list[Node], list[Edge]]:
        """The nodes of choices, those of memory, and the edges that tie the latter to the former."""
        choices: list[Node] = []
        more: list[Node] = []
        edges: list[Edge] = []
        found = buffers(self.model, self.nests, self.groups, self.mesh, training=self.training)
        for i, (costs, own) in enumerate(zip(self.costs, found, strict=True)):
            first, *others = _merged(own) or [Buffer(0, 0, np.zeros(len(costs), dtype=np.int64))]
            every = np.arange(len(costs))
            choices.append(Node(i, first.begin, first.end, self._rounded(costs), first.usages, every))
            for buffer in others:
                usages, chosen = np.unique(buffer.usages, return_inverse=True)
                if len(usages) > 1:
                    rigid = np.where(chosen[:, None] == np.arange(len(usages)), 0, IMPOSSIBLE)
                    edges.append(Edge((i, len(self.groups) + len(more)), rigid))
                more.append(Node(i, buffer.begin, buffer.end, np.zeros_like(usages), usages, chosen))
        return [*choices, *more], edges

    def _rounded(self, times: Floats) -> Ints:
        if times.max(initial=0) >= IMPOSSIBLE:
            raise InputError(self.model.name, "costs", f"expected less than {IMPOSSIBLE:.0e} nanoseconds per operator")
        return np.rint(times).astype(np.int64)


def _merged(own: Sequence[Buffer]) -> list[Buffer]:
    """The buffers of a group, those of one interval together."""
    found: dict[tuple[int, int], Ints] = {}
    for buffer in own:
        if buffer.usages.any():
            found[buffer.begin, buffer.end] = found.get((buffer.begin, buffer.end), 0) + buffer.usages
    return [Buffer(begin, end, usages) for (begin, end), usages in found.items()]
