"""Training steps for a pipeline: every operator of the forward pass with those that compute its gradients and update.

A device of a pipeline runs the forward pass of its layers, later their backward pass, and then updates their
parameters. So these operators are one unit. Activations flow from earlier units to later ones and gradients back. A
transfer costs both ends the same, so in the model of the units all tensors flow forwards: each belongs to the first
unit that writes or reads it, and the others read it. Then a tensor that several stages use still costs each of them
once, and the units form no cycle. ``Model.returned`` has the units that really write.
"""

from __future__ import annotations

from shardmark.instances.models.model import Access, Model


def is_training_step(model: Model) -> bool:
    """True if a model has operators of a backward pass that belong to ones of the forward pass."""
    return any(operator.forward is not None for operator in model.operators)


def join_passes(model: Model) -> tuple[Model, list[list[int]]]:
    """The model of the units of a training step, and the operators of each unit; both in order of the forward pass.

    A unit has the name, kind and module of its first operator, and the sum of the arithmetic. Operators of the backward
    pass that belong to none of the forward pass, such as a global norm, are units of their own. A parameter that
    several units read has a copy at each.
    """
    unit_of, groups = _units(model)
    joined = Model(model.name)
    reads: list[list[Access]] = [[] for _ in groups]
    writes: list[list[Access]] = [[] for _ in groups]
    index: dict[int, int] = {}
    outputs = set(model.outputs)
    for number, (tensor, readers) in enumerate(zip(model.tensors, model.readers(), strict=True)):
        users = {unit_of[reader] for reader in readers}
        source = None if tensor.producer is None else unit_of[tensor.producer]
        if source is not None:
            users.add(source)
            if len(users) == 1 and number not in outputs:
                continue
        index[number] = joined.tensor(tensor.name, tensor.shape, tensor.dtype, parameter=tensor.parameter)
        access = Access(index[number], (None,) * len(tensor.shape))
        first = None if source is None else min(users)
        if first is not None:
            writes[first].append(access)
            if source is not None and first != source:
                joined.returned[index[number]] = source
        for unit in sorted(users - {first}):
            reads[unit].append(access)
    for unit, members in enumerate(groups):
        operators = [model.operators[member] for member in members]
        joined.operator(
            operators[0].name,
            operators[0].kind,
            reads[unit],
            writes[unit],
            {},
            flops=sum(operator.flops for operator in operators),
            multiply_adds=sum(operator.multiply_adds for operator in operators),
            module=operators[0].module,
            layer=operators[0].layer,
            role=operators[0].role,
            view=all(operator.view for operator in operators),
            known=all(operator.known for operator in operators),
        )
    joined.outputs = [index[tensor] for tensor in model.outputs]
    joined.updates = {index[before]: index[after] for before, after in model.updates.items()}
    return joined, groups


def _units(model: Model) -> tuple[list[int], list[list[int]]]:
    """The unit of every operator, and the operators of every unit."""
    unit_of: list[int] = []
    groups: list[list[int]] = []
    for index, operator in enumerate(model.operators):
        home = operator.forward
        if home is not None:  # no earlier than what the forward pass writes for it, or that pass could lose its order
            sources = (model.tensors[access.tensor].producer for access in operator.reads)
            home = max([home, *(s for s in sources if s is not None and not model.operators[s].backward)])
        if home is None or home >= index:
            unit_of.append(len(groups))
            groups.append([])
        else:
            unit_of.append(unit_of[home])
        groups[unit_of[index]].append(index)
    return unit_of, groups
