"""What the backward pass of a block computes again instead of keeping it, as kernels and compilers do.

Attention is one kernel in either pass. It stores no scores, so the backward pass begins with the product that gives
them (Dao et al., NeurIPS 2022). Of a chain of cheap operators only what enters it is kept, apart from what products
read, and of a cheap operator that writes more than it reads what it reads. What depends on parameters alone is not
kept.

Such operators of the forward pass are repeated in the backward pass, as late as possible. What still crosses is kept.
Cheap operators of the backward pass with no other operator between them are one kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from shardmark.instances.models.fuse import cheap, join
from shardmark.instances.models.model import Model, Operator
from shardmark.plans.cluster.attention import attentions


def computing_again(part: Model) -> Model:
    """A block with operators of both passes, where the backward pass computes again what it does not keep."""
    kernels = attentions(part)
    again = _again(part, kernels)
    model, place, copies = _repeated(part, again)
    groups = [[place[index] for index in kernel] for kernel in kernels]
    for kernel in kernels:
        ends = {place[kernel[0]], place[kernel[-1]]}
        products = (
            i for i, operator in enumerate(model.operators) if operator.multiply_adds and operator.forward in ends
        )
        groups.append(_between(model, {*products, *(copies[index] for index in kernel if index in copies)}))
    model = _joined(model, groups)
    return _joined(model, _chains(model))


def _again(part: Model, kernels: Sequence[Sequence[int]]) -> list[int]:
    """The operators of the forward pass that the backward pass repeats, ascending."""
    scores = {access.tensor for kernel in kernels for i in kernel[:-1] for access in part.operators[i].writes}
    backward = [operator for operator in part.operators if operator.backward]
    needed = {access.tensor for operator in backward for access in operator.reads} - scores
    factors = {access.tensor for operator in backward if operator.multiply_adds for access in operator.reads}
    for operator in reversed(part.operators):  # of a cheap operator that widens, what it reads is kept
        written = {access.tensor for access in operator.writes}
        reads = {access.tensor for access in operator.reads if not part.tensors[access.tensor].parameter}
        widens = _bytes(part, reads) < _bytes(part, written)
        if cheap(operator) and not operator.backward and written <= needed - factors and widens:
            needed |= reads - scores
    known, constant = set(needed), set[int]()
    for operator in part.operators:
        reads = {access.tensor for access in operator.reads if not part.tensors[access.tensor].parameter}
        written = {access.tensor for access in operator.writes}
        if operator.backward or not cheap(operator) or written & scores:
            continue
        if reads <= constant:
            constant |= written
        if reads <= known:
            known |= written
            needed -= written
    repeated = scores | constant | (known - needed - factors)
    waiting = [access.tensor for operator in backward for access in operator.reads]
    found = set[int]()
    while waiting:
        tensor = waiting.pop()
        producer = part.tensors[tensor].producer
        if tensor in repeated and producer is not None and producer not in found:
            found.add(producer)
            waiting += [access.tensor for access in part.operators[producer].reads]
    return sorted(index for index in found if not part.operators[index].backward)


def _bytes(model: Model, tensors: Iterable[int]) -> int:
    return sum(model.tensors[tensor].bytes for tensor in tensors)


def _repeated(part: Model, again: Collection[int]) -> tuple[Model, dict[int, int], dict[int, int]]:
    """A block whose backward pass begins with operators of the forward pass.

    Returns the block, the new index of every operator, and that of the copies.
    """
    model = Model(part.name, list(part.tensors), [], list(part.outputs), dict(part.updates))
    copy, place, copies = dict[int, int](), dict[int, int](), dict[int, int]()
    forward = [index for index, operator in enumerate(part.operators) if not operator.backward]
    for index in forward:
        place[index] = _append(model, part.operators[index], {})
    for index in (index for index in forward if index in again):
        operator = part.operators[index]
        for access in operator.writes:
            old = part.tensors[access.tensor]
            copy[access.tensor] = model.tensor(f"{old.name} again", old.shape, old.dtype)
        writes = tuple(replace(access, tensor=copy[access.tensor]) for access in operator.writes)
        repeat = replace(operator, name=f"{operator.name} again", writes=writes, backward=True)
        copies[index] = _append(model, repeat, copy)
    for index, operator in enumerate(part.operators):
        if operator.backward:
            twin = None if operator.forward is None else place.get(operator.forward)
            place[index] = _append(model, replace(operator, forward=twin), copy)
    return model, place, copies


def _joined(model: Model, groups: Sequence[Sequence[int]]) -> Model:
    inside = {index for group in groups for index in group}
    alone = ([index] for index in range(len(model.operators)) if index not in inside)
    return join(model, [*map(list, groups), *alone])[0] if groups else model


def _chains(model: Model) -> list[list[int]]:
    """Groups of cheap operators of the backward pass that are connected, with equally many others before them."""
    light = [operator.backward and cheap(operator) for operator in model.operators]
    edges = list(model.edges())
    depth = [0] * len(light)
    for tail, head in edges:
        depth[head] = max(depth[head], depth[tail] + (not light[head]))
    latest: dict[int, int] = {}
    for tail, head in reversed(edges):
        if light[tail]:
            most = latest.get(head, depth[head]) - (not light[head])
            latest[tail] = min(latest.get(tail, most), most)
    level = [latest.get(index, known) for index, known in enumerate(depth)]
    group_of = list(range(len(light)))
    for tail, head in edges:
        if light[tail] and light[head] and level[tail] == level[head] and group_of[tail] != group_of[head]:
            old, new = group_of[head], group_of[tail]
            group_of = [new if group == old else group for group in group_of]
    groups: dict[int, list[int]] = {}
    for index, group in enumerate(group_of):
        groups.setdefault(group, []).append(index)
    return [members for members in groups.values() if len(members) > 1]


def _append(model: Model, operator: Operator, copy: Mapping[int, int]) -> int:
    """Append an operator, which reads copies of tensors where there are any."""
    index = len(model.operators)
    reads = tuple(replace(access, tensor=copy.get(access.tensor, access.tensor)) for access in operator.reads)
    for access in operator.writes:
        model.tensors[access.tensor] = replace(model.tensors[access.tensor], producer=index)
    model.operators.append(replace(operator, reads=reads))
    return index


def _between(model: Model, ends: Collection[int]) -> list[int]:
    """Operators, and all on a way from one of them to another, ascending."""
    edges = list(model.edges())
    after = _reached(ends, ((tail, head) for tail, head in edges))
    before = _reached(ends, ((head, tail) for tail, head in reversed(edges)))
    return sorted(after & before)


def _reached(starts: Iterable[int], edges: Iterable[tuple[int, int]]) -> set[int]:
    """Operators to which a way leads; ``edges`` are in an order in which their tails are reached."""
    found = set(starts)
    for tail, head in edges:
        if tail in found:
            found.add(head)
    return found
