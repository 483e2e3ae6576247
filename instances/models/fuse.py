"""Fusion: cheap operators join operators that they read from or write to, as in compilers.

An operator is *cheap* if it is a view, or if every iteration writes a separate part of the output: it has no matrix
product, no convolution, no sum, and no loop that must not be split. Elementwise operators, activations and
normalisations with constants are cheap. A cheap operator joins one that it reads from. A chain of cheap operators that
joined none joins the only operator that reads its results. No group has two operators that are not cheap, and none has
operators of both passes.

Two groups join only if all edges into one of them come from the other, or all edges out of one lead to the other. Then
no path from one to the other leads through a third, so the graph of groups stays acyclic. A view joins only over a
tensor that nothing else needs: otherwise one tensor would count under two names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph
from shardmark.instances.models.model import Access, Model, Operator

#: For every member of a group, the loops of the heaviest member that its own loops run along with.
Aligned = Mapping[int, Mapping[str | None, str]]


def fuse(model: Model) -> tuple[Model, list[list[int]]]:
    """Join cheap operators with their neighbours; return the smaller model and the members of each of its operators.

    A fused operator has the name, kind, loops, module, layer and role of its heaviest member and the sum of the
    arithmetic. It reads and writes only tensors that cross its border. A loop that other members do not have must no
    longer be split. Takes linear time.
    """
    return join(model, _groups(model))


def join(model: Model, groups: Iterable[list[int]]) -> tuple[Model, list[list[int]]]:
    """Make one operator of each group of operators; return the model and the groups in an order in which they can run.

    ``groups`` have every operator once, in ascending order, and no cycle. A joined operator is as `fuse` says.
    """
    ordered = _in_order(model, list(groups))
    return _Fusion(model, ordered).model, ordered


def cheap(operator: Operator) -> bool:
    """True if an operator is a view, or if every iteration writes a separate part of the output."""
    if operator.view:
        return True
    if operator.multiply_adds or operator.whole or not operator.known:
        return False
    return all(operator.loops.keys() <= set(access.dims) for access in operator.writes)


def _groups(model: Model) -> list[list[int]]:
    """Partition of the operators, in an order in which the groups can run; members ascend."""
    operators = model.operators
    parent = list(range(len(operators)))
    light = [cheap(operator) for operator in operators]  # by root: all members are cheap
    producers: list[list[int]] = [[] for _ in operators]
    leaving = [0] * len(operators)  # by root: edges out of the group
    shared = _shared(model)
    for tail, head in model.edges():
        producers[head].append(tail)
        leaving[tail] += 1

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for index, operator in enumerate(operators):
        arriving = Counter(root(tail) for tail in producers[index])
        apart = {root(tail) for tail in _aliased(model, operator, shared)}
        near = [group for group in arriving if group not in apart and operators[group].backward == operator.backward]
        into = index
        if light[index]:
            joinable = (group for group in near if len(arriving) == 1 or leaving[group] == arriving[group])
            into = next(joinable, index)
        if into != index:
            parent[index] = into
            leaving[into] += leaving[index] - arriving[into]
        for group in near:
            if group != into and light[group] and leaving[group] == arriving[group]:
                parent[group] = into
    members: dict[int, list[int]] = {}
    for index in range(len(operators)):
        members.setdefault(root(index), []).append(index)
    return list(members.values())


def _shared(model: Model) -> list[bool]:
    """True for tensors that several operators read, or that are outputs of the model."""
    shared = [len(readers) > 1 for readers in model.readers()]
    for tensor in model.outputs:
        shared[tensor] = True
    return shared


def _aliased(model: Model, operator: Operator, shared: Sequence[bool]) -> Iterator[int]:
    """Producers of shared tensors that an operator reads, if one of the two is a view."""
    for access in operator.reads:
        producer = model.tensors[access.tensor].producer
        if producer is not None and shared[access.tensor] and (operator.view or model.operators[producer].view):
            yield producer


def _in_order(model: Model, groups: list[list[int]]) -> list[list[int]]:
    tail, head = edges_between(model, groups)
    return [groups[group] for group in Graph(len(groups), tail, head, model.name).topological_order.tolist()]


def edges_between(model: Model, groups: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Tails and heads of the edges between groups of operators, by number, each once; shapes (edges,)."""
    group_of = _group_of(groups)
    crossing = {(group_of[tail], group_of[head]) for tail, head in model.edges()}
    edges = sorted((tail, head) for tail, head in crossing if tail != head)
    tail, head = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return tail, head


def _group_of(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    return {index: number for number, members in enumerate(groups) for index in members}


class _Fusion:
    """Builds the ``model`` whose operators are groups of those of an ``old`` one."""

    def __init__(self, old: Model, groups: Sequence[Sequence[int]]) -> None:
        self.old = old
        self.model = Model(old.name)
        self.group_of = _group_of(groups)
        self.readers = old.readers()
        outputs = set(old.outputs)
        self.index: dict[int, int] = {}  # of a tensor of the old model in the new one
        for number, tensor in enumerate(old.tensors):
            if number in outputs or not self._stays(number):
                self.index[number] = self.model.tensor(
                    tensor.name, tensor.shape, tensor.dtype, parameter=tensor.parameter
                )
        self.model.outputs = [self.index[tensor] for tensor in old.outputs]
        self.model.updates = {self.index[before]: self.index[after] for before, after in old.updates.items()}
        for members in groups:
            self._append(members)

    def _stays(self, tensor: int) -> bool:
        """True if the group that writes a tensor has all its readers, and at least one."""
        producer, readers = self.old.tensors[tensor].producer, self.readers[tensor]
        if producer is None or not readers:
            return False
        return all(self.group_of[reader] == self.group_of[producer] for reader in readers)

    def _append(self, members: Sequence[int]) -> None:
        operators = [self.old.operators[index] for index in members]
        main = max(members, key=self._weight)
        heaviest = self.old.operators[main]
        aligned = self._aligned(main)
        order = [main, *(index for index in members if index != main)]
        reads = dict.fromkeys(access for index in order for access in self._read(index, aligned))
        writes = [access for index in order for access in self._written(index, aligned)]
        inner = [access.tensor for access in heaviest.reads[:1] if access.tensor not in self.index]
        self.model.operator(
            heaviest.name,
            heaviest.kind,
            list(reads),
            writes,
            heaviest.loops,
            flops=sum(operator.flops for operator in operators),
            multiply_adds=sum(operator.multiply_adds for operator in operators),
            whole=heaviest.whole | self._uncut(main, order, aligned),
            fused=heaviest.fused and not inner,
            backward=heaviest.backward,
            forward=None if heaviest.forward is None else self.group_of[heaviest.forward],
            module=heaviest.module,
            layer=heaviest.layer,
            role=heaviest.role,
            view=all(operator.view for operator in operators),
            known=all(operator.known for operator in operators),
        )

    def _weight(self, index: int) -> tuple[bool, int, int]:
        operator = self.old.operators[index]
        moved = self.old.bytes_read(index) + self.old.bytes_written(index)
        return not cheap(operator), operator.flops, moved

    def _read(self, index: int, aligned: Aligned) -> Iterator[Access]:
        """The reads of a member from outside the group, along the loops of the heaviest member."""
        for access in self.old.operators[index].reads:
            producer = self.old.tensors[access.tensor].producer
            if producer is None or self.group_of[producer] != self.group_of[index]:
                yield Access(self.index[access.tensor], _along(access, aligned[index]), access.numbers)

    def _written(self, index: int, aligned: Aligned) -> Iterator[Access]:
        for access in self.old.operators[index].writes:
            if access.tensor in self.index:
                yield Access(self.index[access.tensor], _along(access, aligned[index]), access.numbers)

    def _aligned(self, main: int) -> Aligned:
        """Follow tensors from the heaviest member to all others, and match loops of equal length on the way."""
        loops = self.old.operators[main].loops
        aligned: dict[int, Mapping[str | None, str]] = {main: {loop: loop for loop in loops}}
        waiting, seen = [main], set[int]()
        for index in waiting:
            operator = self.old.operators[index]
            for access in (*operator.reads, *operator.writes):
                if access.tensor in seen:
                    continue
                seen.add(access.tensor)
                along = _along(access, aligned[index])
                for other in self._sharing(access.tensor, self.group_of[main]):
                    if other not in aligned:
                        aligned[other] = _matched(along, access.tensor, self.old.operators[other], loops)
                        waiting.append(other)
        return aligned

    def _sharing(self, tensor: int, group: int) -> list[int]:
        """Members of a group that write or read a tensor that the group writes."""
        producer = self.old.tensors[tensor].producer
        if producer is None or self.group_of[producer] != group:
            return []
        return [producer, *(reader for reader in self.readers[tensor] if self.group_of[reader] == group)]

    def _uncut(self, main: int, members: Sequence[int], aligned: Aligned) -> set[str]:
        """Loops whose split other members would not follow."""
        loops = self.old.operators[main].loops.keys()
        found: set[str | None] = set()
        for index in members:
            for access in self.old.operators[index].writes:
                along = _along(access, aligned[index])
                _, *readers = self._sharing(access.tensor, self.group_of[main])
                if readers if index == main else access.tensor in self.index:
                    found |= loops - set(along)
                for reader in readers:
                    for read in self.old.operators[reader].reads:
                        if read.tensor == access.tensor:
                            pairs = zip(along, _along(read, aligned[reader]), strict=True)
                            found.update(loop for pair in pairs if pair[0] != pair[1] for loop in pair)
        return {loop for loop in found if loop is not None}


def _along(access: Access, aligned: Mapping[str | None, str]) -> tuple[str | None, ...]:
    return tuple(aligned.get(loop) for loop in access.dims)


def _matched(
    along: Sequence[str | None], tensor: int, other: Operator, loops: Mapping[str, int]
) -> Mapping[str | None, str]:
    """Loops of a member that run along a tensor in step with loops of the heaviest member."""
    access = next(access for access in (*other.reads, *other.writes) if access.tensor == tensor)
    matched: dict[str | None, str] = {}
    for theirs, ours in zip(access.dims, along, strict=True):
        if theirs is not None and ours is not None and other.loops[theirs] == loops[ours]:
            matched.setdefault(theirs, ours)
    return matched
