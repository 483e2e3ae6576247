"""The tensors that a forward pass keeps for its backward pass: those that cross, if the model has both passes.

Of a forward pass alone, products and convolutions need the activations that they read, any other operator that is not
linear needs what it reads, or, where that suffices, what it writes. Of a chain of cheap operators only what enters it
is kept, as compilers compute the rest again. For a transformer layer this is what Korthikanti et al. count (MLSys 2023,
Section 4), without masks of dropout, which exported models do not have.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardmark.instances.models.fuse import cheap
from shardmark.instances.models.model import Model, Operator

#: Operators whose gradients need no activation.
LINEAR = frozenset(
    [
        "Add",
        "Sub",
        "Neg",
        "Identity",
        "Cast",
        "Reshape",
        "Flatten",
        "Transpose",
        "Concat",
        "Slice",
        "Split",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Tile",
        "Gather",
        "Pad",
        "Sum",
        "ReduceSum",
        "ReduceMean",
        "GlobalAveragePool",
        "AveragePool",
        "Dropout",
        "Constant",
        "Shape",
        "Range",
        "ConstantOfShape",
        "Where",
        "add",
        "subtract",
        "negate",
        "select",
        "convert",
        "reshape",
        "transpose",
        "concatenate",
        "slice",
        "dynamic_slice",
        "broadcast_in_dim",
        "gather",
        "pad",
        "iota",
        "copy",
    ]
)
#: Operators whose gradients need the result instead of what is read.
OF_RESULT = frozenset(
    [
        "Softmax",
        "LogSoftmax",
        "Exp",
        "Sigmoid",
        "Tanh",
        "Sqrt",
        "Relu",
        "Reciprocal",
        "exponential",
        "logistic",
        "tanh",
        "sqrt",
        "rsqrt",
        "maximum",
    ]
)


def kept(model: Model) -> list[int]:
    """Indices of the tensors that are kept, inputs of the model among them; without a backward pass those in floats."""
    tensors = model.tensors
    if any(operator.backward for operator in model.operators):
        return list(_without_views(model, _crossing(model)))

    constant = _constant(model)

    def activation(tensor: int) -> bool:
        return tensor not in constant and "float" in tensors[tensor].dtype

    products = {
        access.tensor
        for operator in model.operators
        if operator.multiply_adds
        for access in operator.reads
        if activation(access.tensor)
    }
    needed = products | {t for operator in model.operators for t in _needed(model, operator) if activation(t)}
    again = set[int]()  # tensors that cheap operators compute again from what is kept
    for operator in model.operators:
        reads = [access.tensor for access in operator.reads if activation(access.tensor)]
        if cheap(operator) and reads and all(t in needed or t in again for t in reads):
            again |= {access.tensor for access in operator.writes}
    return list(_without_views(model, sorted(products | needed - again)))


def _constant(model: Model) -> set[int]:
    """Parameters, and what depends on these alone, such as parameters in another format: no microbatch keeps it."""
    found = {number for number, tensor in enumerate(model.tensors) if tensor.parameter}
    for operator in model.operators:
        if all(access.tensor in found for access in operator.reads):
            found |= {access.tensor for access in operator.writes}
    return found


def _crossing(model: Model) -> list[int]:
    """Activations that the forward pass reads or writes, and the backward pass reads."""
    forward, backward = set[int](), set[int]()
    for operator in model.operators:
        passing = backward if operator.backward else forward
        passing |= {access.tensor for access in operator.reads}
        if not operator.backward:
            forward |= {access.tensor for access in operator.writes}
    return sorted(tensor for tensor in forward & backward if not model.tensors[tensor].parameter)


def _needed(model: Model, operator: Operator) -> list[int]:
    """What an operator that is no product needs for its gradients."""
    exact = not any("float" in model.tensors[access.tensor].dtype for access in operator.writes)  # has no gradient
    if operator.multiply_adds or operator.view or exact or operator.kind in LINEAR:
        return []
    if operator.kind in OF_RESULT:
        return [access.tensor for access in operator.writes]
    reads = [access.tensor for access in operator.reads]
    if operator.kind == "multiply" and len(reads) == 1:  # by numbers of the program, such as rotary angles
        return []
    scaled = operator.kind in ("Mul", "Div", "multiply", "divide")
    if scaled and any(model.tensors[tensor].parameter and model.tensors[tensor].numbers == 1 for tensor in reads):
        return []
    return reads


def _without_views(model: Model, found: Iterable[int]) -> dict[int, None]:
    """Kept tensors, where the tensor that a view shows stands for it."""
    shown = dict[int, None]()
    for tensor in found:
        producer = model.tensors[tensor].producer
        while producer is not None and model.operators[producer].view and model.operators[producer].reads:
            tensor = model.operators[producer].reads[0].tensor
            producer = model.tensors[tensor].producer
        shown[tensor] = None
    return shown
