"""Gives every block the operators of a training step's own backward pass.

An operator of the backward pass belongs to the block of the operator whose gradient it computes
(`Operator.forward`). What has no such operator belongs where its result is used, as does what the file computes for
the backward pass alone. The update of the parameters, which follows the gradients, belongs to no block.

What the step computes again (`jax.checkpoint`) is left out, and what reads it reads the results of the forward pass
instead: a layout chooses itself which blocks are computed again, and counts that as one more forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardmark.instances.models.model import Model, Operator
from shardmark.instances.models.stablehlo import scopes
from shardmark.plans.cluster.blocks import Block
from shardmark.plans.cluster.steps.again import computing_again
from shardmark.plans.cluster.submodels import ancestors, forward_operators, part_of

#: Why the backward pass of a forward graph is completed by a rule.
NO_BACKWARD = "the file has none"
NO_NAMES = "the file's operators have no names that tell its passes apart; text made with debug_info=True has them"


def with_backward(model: Model, blocks: Sequence[Block]) -> list[Model] | str:
    """The operators of every block of the forward pass of a step, and those of its backward pass, or why it has none.

    ``blocks`` are those of `forward_pass`. In each model the operators of the backward pass are marked, and ``updates``
    has the gradient of every parameter that is known.
    """
    forward = forward_operators(model)
    if not any(operator.backward for operator in model.operators):
        return NO_NAMES if len(forward) < len(model.operators) else NO_BACKWARD
    step = _without_repeats(model, forward)
    home = dict(zip(forward, _block_of(blocks), strict=True))
    lost = _assign(step, home)
    if lost:
        which = f"{lost[0].name} and {len(lost) - 1:,} more belong" if len(lost) > 1 else f"{lost[0].name} belongs"
        return f"{which} to no operator of the forward pass"
    members: list[list[int]] = [[] for _ in blocks]
    for index in sorted(home):
        members[home[index]].append(index)
    passes = set(forward)
    later = {
        step.tensors[tensor].name
        for tensor, readers in enumerate(step.readers())
        if not readers or any(reader not in home for reader in readers)
    }
    found = []
    for block, indices in zip(blocks, members, strict=True):
        part = part_of(step, indices)
        place = {index: number for number, index in enumerate(indices)}
        for number, index in enumerate(indices):
            operator, twin = part.operators[number], step.operators[index].forward
            counterpart = None if twin is None else place.get(twin)
            part.operators[number] = replace(operator, backward=index not in passes, forward=counterpart)
        part.name = block.name
        part.updates = _gradients(part, later)
        found.append(computing_again(part))
    return found


def _block_of(blocks: Sequence[Block]) -> list[int]:
    """The block of every operator of the forward pass."""
    found = {index: number for number, block in enumerate(blocks) for index in block.operators}
    return [found[index] for index in range(len(found))]


def _without_repeats(model: Model, forward: Sequence[int]) -> Model:
    """The step, where the results of the forward pass stand for those that the backward pass computes again.

    Such an operator is in a rematerialised scope, and one of the forward pass is of the same kind and reads the same.
    """
    step = Model(model.name, list(model.tensors), list(model.operators), list(model.outputs), dict(model.updates))
    first: dict[object, list[int]] = {}
    same: dict[int, int] = {}
    for index in forward:
        first.setdefault(_computed(model, model.operators[index], same), []).append(index)
    for index, operator in enumerate(model.operators):
        if not operator.backward:
            continue
        reads = tuple(replace(access, tensor=same.get(access.tensor, access.tensor)) for access in operator.reads)
        step.operators[index] = replace(operator, reads=reads)
        twins = first.get(_computed(model, operator, same), []) if scopes.is_recomputed(operator.name) else []
        if twins:  # from now on nobody reads it, and it reads nothing
            step.operators[index] = replace(operator, reads=())
            twin = operator.forward if operator.forward in twins else twins[0]
            pairs = zip(operator.writes, model.operators[twin].writes, strict=True)
            same |= {new.tensor: old.tensor for new, old in pairs}
    return step


def _computed(model: Model, operator: Operator, same: dict[int, int]) -> object:
    """What an operator computes, as far as the model tells; ``same`` has the tensors that are computed again."""
    reads = tuple((same.get(access.tensor, access.tensor), access.dims, access.numbers) for access in operator.reads)
    written = tuple(
        (model.tensors[access.tensor].shape, model.tensors[access.tensor].dtype) for access in operator.writes
    )
    return operator.kind, reads, written, tuple(operator.loops.items())


def _assign(step: Model, home: dict[int, int]) -> list[Operator]:
    """Add the blocks of the backward pass to those of the forward pass; return products that belong to none."""
    gradients = [
        i for i, operator in enumerate(step.operators) if operator.backward and scopes.is_backward(operator.name)
    ]
    needed = [index for index in ancestors(step, _results(step, gradients)) if index not in home]
    readers, lost = step.readers(), list[Operator]()
    for index in reversed(needed):
        operator = step.operators[index]
        users = (user for access in operator.writes for user in readers[access.tensor])
        block = home.get(-1 if operator.forward is None else operator.forward)
        if block is None and operator.multiply_adds and operator.backward:
            lost.append(operator)
        if block is None:
            block = next((home[user] for user in users if user in home), None)
        if block is not None:
            home[index] = block
    return lost


def _results(step: Model, gradients: Sequence[int]) -> list[int]:
    """The operators of the backward pass that something outside of it needs: gradients of parameters."""
    inside, outputs, readers = set(gradients), set(step.outputs), step.readers()
    return [
        index
        for index in gradients
        if not scopes.is_recomputed(step.operators[index].name)
        and any(
            access.tensor in outputs or any(reader not in inside for reader in readers[access.tensor])
            for access in step.operators[index].writes
        )
    ]


def _gradients(part: Model, later: set[str]) -> dict[int, int]:
    """The gradient of every parameter of a block, one of the tensors that are read ``later`` than the passes, by name.

    Of parameters of one shape it is that of the operator of the forward pass whose gradient is computed.
    """
    found: dict[int, int] = {}
    shapes: dict[object, list[int]] = {}
    for number, tensor in enumerate(part.tensors):
        if tensor.parameter:
            shapes.setdefault(tensor.shape, []).append(number)
    for operator in part.operators:
        for access in operator.writes if operator.backward else ():
            tensor = part.tensors[access.tensor]
            free = [parameter for parameter in shapes.get(tensor.shape, []) if parameter not in found]
            if tensor.name in later and free:
                own = [] if operator.forward is None else part.parameters(operator.forward)
                found[next((parameter for parameter in free if parameter in own), free[0])] = access.tensor
    return found
