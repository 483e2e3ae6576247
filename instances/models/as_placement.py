"""Models as instances of track ``placement``: operators to be placed on accelerators and CPUs.

Times are in microseconds, sizes in bytes. Node i is operator i. A tensor takes the link's latency and then
bytes / bandwidth between an accelerator and the memory of the host; unread tensors are not sent.

An operator that writes several tensors that are read sends none itself. For each of them a helper follows the
operators: a node without work in the colour class of its operator, which sends that tensor alone.

Nodes of one colour share a device. In a training step these are an operator, those that compute its gradients, and all
that read a parameter that the step replaces, unless it is a single number. Any other parameter may be copied.

The size of an operator is that of its parameters and, in the forward pass of a training step, of the outputs that the
backward pass reads. Each colour class counts a parameter once. A view of a tensor that is kept anyway takes no memory.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

import numpy as np

from shardmark.instances import placement
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph
from shardmark.instances.models.as_pipeline import MICROSECONDS, refuse_lack_of_memory
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import Costs


def as_placement(
    model: Model, costs: Costs, cpu_costs: Costs, device: Device, accelerators: int, cpus: int
) -> placement.Instance:
    """Build the instance of placing a model with the least load of the busiest device.

    ``costs`` are for an accelerator, a ``device``, and ``cpu_costs`` for a CPU. Raises InputError if there are no CPUs
    and the accelerators cannot hold the model.
    """
    count = len(model.operators)
    if not cpus:
        refuse_lack_of_memory(model, device, accelerators)
    colour = classes(model, chain(gradients(model), state_readers(model)))
    owner = np.where(colour < 0, np.arange(count), colour)
    nodes = _Nodes(model, device)
    helpers = np.zeros(len(nodes.names) - count)
    return placement.Instance(
        name=model.name,
        graph=Graph(len(nodes.names), *nodes.ends(), model.name, nodes.names),
        ids=np.arange(len(nodes.names)),
        node_names=tuple(nodes.names),
        cpu_time=np.concatenate([cpu_costs.seconds * MICROSECONDS, helpers]),
        accelerator_time=np.concatenate([costs.seconds * MICROSECONDS, helpers]),
        size=np.concatenate([_sizes(model, owner.tolist()), helpers]),
        transfer=np.array(nodes.transfer),
        supported=np.ones(len(nodes.names), dtype=bool),
        backward=np.array([model.operators[operator].backward for operator in nodes.operator]),
        colour=_shared(owner[nodes.operator]),
        layer=np.array([model.operators[operator].layer for operator in nodes.operator]),
        artificial=np.zeros(len(nodes.edges), dtype=bool),
        accelerators=accelerators,
        cpus=cpus,
        memory=device.memory,
        source=model.name,
    )


@dataclass
class _Nodes:
    """Operators, then helpers: names, operators that they belong to, and what they send."""

    model: Model
    device: Device
    names: list[str] = field(default_factory=list)
    operator: list[int] = field(default_factory=list)
    transfer: list[float] = field(default_factory=list)  # microseconds
    edges: dict[tuple[int, int], None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        readers = self.model.readers()
        for index, operator in enumerate(self.model.operators):
            self._append(operator.name, index)
        for index, operator in enumerate(self.model.operators):
            sent = [access.tensor for access in operator.writes if readers[access.tensor]]
            for tensor in sent:
                sender = index
                if len(sent) > 1:
                    sender = self._append(self.model.tensors[tensor].name, index)
                    self.edges[index, sender] = None
                size = self.model.tensors[tensor].bytes
                self.transfer[sender] = MICROSECONDS * (self.device.link_latency + size / self.device.link_bandwidth)
                self.edges.update(dict.fromkeys((sender, reader) for reader in readers[tensor]))

    def _append(self, name: str, operator: int) -> int:
        self.names.append(name)
        self.operator.append(operator)
        self.transfer.append(0.0)
        return len(self.names) - 1

    def ends(self) -> tuple[Ints, Ints]:
        """Tails and heads of the edges."""
        tail, head = np.array(list(self.edges), dtype=np.int64).reshape(-1, 2).T
        return tail, head


def classes(model: Model, pairs: Iterable[tuple[int, int]]) -> Ints:
    """Join pairs of operators; return the first operator of each one's class, -1 for a class of one operator."""
    first = list(range(len(model.operators)))

    def find(index: int) -> int:
        while first[index] != index:
            first[index] = first[first[index]]
            index = first[index]
        return index

    for pair in pairs:
        one, other = sorted(map(find, pair))
        first[other] = one
    return _shared(np.array([find(index) for index in range(len(first))], dtype=np.int64))


def _shared(label: Ints) -> Ints:
    """Replace labels that occur once by -1; labels are at least 0."""
    return np.where(np.bincount(label)[label] > 1, label, -1)


def gradients(model: Model) -> Iterator[tuple[int, int]]:
    """Pairs of an operator and one that computes its gradient."""
    for index, operator in enumerate(model.operators):
        if operator.forward is not None:
            yield operator.forward, index


def state_readers(model: Model) -> Iterator[tuple[int, int]]:
    """Pairs of operators that read the same parameter, which the step replaces and which is no single number."""
    readers = model.readers()
    for parameter in model.updates:
        if model.tensors[parameter].numbers > 1:
            yield from pairwise(readers[parameter])


def _sizes(model: Model, owner: Sequence[int]) -> Floats:
    """Bytes of every operator on an accelerator."""
    sizes = np.zeros(len(model.operators))
    counted = set[tuple[int, int]]()
    for index in range(len(model.operators)):
        for tensor in model.parameters(index):
            if (owner[index], tensor) not in counted:
                counted.add((owner[index], tensor))
                sizes[index] += model.tensors[tensor].bytes
    for tensor, producer in _kept(model).items():
        sizes[producer] += model.tensors[tensor].bytes
    return sizes


def _kept(model: Model) -> Mapping[int, int]:
    """Outputs of the forward pass that take memory until the backward pass reads them, and their producers."""
    operators = model.operators
    held = {tensor for tensor, readers in enumerate(model.readers()) if any(operators[r].backward for r in readers)}
    written = {tensor: model.tensors[tensor].producer for tensor in sorted(held)}
    return {
        tensor: producer
        for tensor, producer in written.items()
        if producer is not None and not operators[producer].backward and not _alias(model, producer, held)
    }


def _alias(model: Model, operator: int, held: Container[int]) -> bool:
    """True if an operator is a view of a tensor that is kept anyway."""
    if not model.operators[operator].view:
        return False
    source = model.operators[operator].reads[0].tensor
    return source in held or model.tensors[source].parameter
