"""Running times of split operators: the roofline on each device, and the sums of partial results."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import BITS, Model, Tensor
from shardmark.instances.models.roofline import computed_in, roofline
from shardmark.instances.models.sharding.mesh import Mesh, Splits
from shardmark.instances.models.sharding.splits import Nest, Use

PASSES = 3  # of training over an operator: forward, gradients of inputs, gradients of parameters


def operator_times(
    model: Model, index: int, nest: Nest, splits: Splits, mesh: Mesh, device: Device, *, training: bool = False
) -> Floats:
    """Nanoseconds that an operator takes if it is split in these ways, shape (strategies,).

    That is the roofline of `shardmark.instances.models.roofline` for the part of one device, and an all-reduce of
    partial sums along each mesh axis that splits a loop over which the output is summed. ``training`` adds the backward
    pass: twice the time again, and sums of partial gradients of what is read, inputs of the model aside.
    """
    operator = model.operators[index]
    if operator.view:
        return np.zeros(len(splits))
    devices = mesh.parts(splits)

    def local(use: Use) -> Floats:
        return model.tensors[use.tensor].bytes / mesh.parts(use.layouts(splits))

    read: dict[int, Floats] = {}  # of every tensor, parts read several times included
    held: dict[int, Floats] = {}
    for use in nest.reads:
        some = BITS[model.tensors[use.tensor].dtype] * (use.numbers or 0) / 8 / devices
        read[use.tensor] = read.get(use.tensor, 0.0) + (local(use) if use.numbers is None else some)
        held[use.tensor] = np.maximum(held.get(use.tensor, 0.0), local(use))
    once = [np.minimum(read[tensor], held[tensor]) for tensor in read]
    traffic = sum([*once, *map(local, nest.writes)], np.zeros(len(splits)))
    arithmetic = operator.flops / devices / device.rate(computed_in(model, index))
    passes = PASSES if training else 1
    time = passes * 1e9 * (np.maximum(arithmetic, traffic / device.bandwidth) + device.launch)
    if operator.repeats is not None:  # which is not split
        rounds, inner = operator.repeats
        time = np.full(len(splits), passes * 1e9 * rounds * roofline(inner, device).seconds.sum())
    summed = [*nest.writes, *(use for use in nest.reads if training and trained(model.tensors[use.tensor]))]
    for use in summed:
        layouts, size = use.layouts(splits), local(use)
        for axis in range(len(mesh.sizes)):
            partial = (splits[:, axis] >= 0) & (layouts[:, axis] < 0)
            time += np.where(partial, mesh.all_reduce(axis, size), 0.0)
    return time


def trained(tensor: Tensor) -> bool:
    """True if training computes the gradient of a tensor."""
    return "float" in tensor.dtype and (tensor.parameter or tensor.producer is not None)
