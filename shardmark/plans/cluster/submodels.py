"""The operators of a block as a model of its own, whose borders every device of a stage sees whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shardmark.instances.models.model import Access, Model, Operator

#: An operator that takes no time and needs a whole tensor on every device: what enters or leaves a block.
BORDER = "border"


def part_of(
    model: Model,
    operators: Sequence[int],
    *,
    keep_outputs: bool = False,
    readers: Sequence[Sequence[int]] | None = None,
) -> Model:
    """The operators of a model with these indices, ascending, as a model.

    Its outputs are those of ``model`` and, unless ``keep_outputs``, the tensors that other operators read. ``readers``
    are those of ``model``, if known.
    """
    part, inside = Model(model.name), set(operators)
    index: dict[int, int] = {}
    for operator in operators:
        for access in (*model.operators[operator].reads, *model.operators[operator].writes):
            if access.tensor not in index:
                old = model.tensors[access.tensor]
                index[access.tensor] = part.tensor(old.name, old.shape, old.dtype, parameter=old.parameter)
        _append(part, model.operators[operator], index)
    readers, outputs = readers or model.readers(), set(model.outputs)
    for operator in operators:
        for access in model.operators[operator].writes:
            outside = not keep_outputs and any(reader not in inside for reader in readers[access.tensor])
            if access.tensor in outputs or outside:
                part.outputs.append(index[access.tensor])
    return part


def with_borders(part: Model) -> Model:
    """A model with an operator of kind `BORDER` for all that enters or leaves but parameters and their gradients.

    It cannot be split. Gradients of parameters (`Model.updates`) stay where these are.
    """
    bordered = Model(part.name)
    for old in part.tensors:
        bordered.tensor(old.name, old.shape, old.dtype, parameter=old.parameter)

    def border(source: int, target: int, *, backward: bool = False) -> None:
        whole = (None,) * len(bordered.tensors[source].shape)
        name = f"{bordered.tensors[source].name} {BORDER}"
        ends = [Access(source, whole)], [Access(target, whole)]
        bordered.operator(name, BORDER, *ends, {}, view=True, backward=backward)

    def twin(tensor: int) -> int:
        old = bordered.tensors[tensor]
        return bordered.tensor(f"{old.name} {BORDER}", old.shape, old.dtype)

    for number, old in enumerate(part.tensors):
        if old.producer is None and not old.parameter:
            border(twin(number), number)
    same = {number: number for number in range(len(part.tensors))}
    for operator in part.operators:
        _append(bordered, operator, same)
    bordered.updates = dict(part.updates)
    for tensor in part.outputs:
        producer = part.tensors[tensor].producer
        if tensor in part.updates.values() or producer is None:
            bordered.outputs.append(tensor)
        else:
            bordered.outputs.append(twin(tensor))
            border(tensor, bordered.outputs[-1], backward=part.operators[producer].backward)
    return bordered


def forward_pass(model: Model) -> Model:
    """The operators of a training step that lead to its loss; the model itself if it has no backward pass.

    What the forward pass computes for the backward pass alone is left out.
    """
    indices = forward_operators(model)
    return model if len(indices) == len(model.operators) else part_of(model, indices, keep_outputs=True)


def forward_operators(model: Model) -> list[int]:
    """The indices of the operators that `forward_pass` has.

    Where no operator is known to be of the backward pass, although parameters are replaced, that leads to the outputs
    that are single numbers, the loss among them.
    """
    outputs = model.outputs
    if not any(operator.backward for operator in model.operators):
        outputs = [tensor for tensor in outputs if model.tensors[tensor].numbers == 1] if model.updates else []
        if not outputs:
            return list(range(len(model.operators)))
    producers = (model.tensors[tensor].producer for tensor in outputs)
    return ancestors(model, (index for index in producers if index is not None and not model.operators[index].backward))


def ancestors(model: Model, operators: Iterable[int]) -> list[int]:
    """Operators and all that lead to them, ascending."""
    waiting, found = list(operators), set[int]()
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            sources = (model.tensors[access.tensor].producer for access in model.operators[index].reads)
            waiting += [source for source in sources if source is not None]
    return sorted(found)


def structure(model: Model) -> tuple[object, ...]:
    """What determines the costs of a model: equal for two models that differ in names alone."""
    tensors = tuple((tensor.shape, tensor.dtype, tensor.producer, tensor.parameter) for tensor in model.tensors)
    operators = tuple(
        (
            *(operator.kind, operator.reads, operator.writes, tuple(operator.loops.items()), operator.flops),
            *(operator.multiply_adds, frozenset(operator.whole), operator.fused, operator.view, operator.known),
            operator.backward,
            None if operator.repeats is None else (operator.repeats[0], structure(operator.repeats[1])),
        )
        for operator in model.operators
    )
    return tensors, operators, tuple(model.outputs), tuple(model.updates.items())


def _append(part: Model, operator: Operator, index: Mapping[int, int]) -> None:
    """Append an operator with its tensors renumbered."""
    reads = tuple(replace(access, tensor=index[access.tensor]) for access in operator.reads)
    writes = tuple(replace(access, tensor=index[access.tensor]) for access in operator.writes)
    for access in writes:
        part.tensors[access.tensor] = replace(part.tensors[access.tensor], producer=len(part.operators))
    part.operators.append(replace(operator, reads=reads, writes=writes, forward=None))
