"""The roofline model: the time of each operator on a device, from its arithmetic and traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardmark.instances.files.columns import Floats, frozen
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import Model


@dataclass(frozen=True, eq=False)
class Costs:
    """Running times of a model's operators on one device.

    ``seconds``  shape (operators,), float64: each operator's time, alone on the device
    ``origin``   source of these times, in words
    """

    seconds: Floats
    origin: str

    def __post_init__(self) -> None:
        frozen(self.seconds)


def roofline(model: Model, device: Device) -> Costs:
    """Estimate the times of a model's operators on a device (Williams, Waterman, Patterson, CACM 52(4), 2009).

    An operator takes the longer of two times, arithmetic at the peak rate of its data type and traffic at the memory
    bandwidth, plus its launch time. A view takes no time. An operator of unknown arithmetic takes the
    time of its traffic, and a loop that stays one operator the time of its rounds. Figures are lower bounds on real
    times: no operator runs faster, most run slower.
    """
    seconds = np.array([_seconds(model, operator, device) for operator in range(len(model.operators))], dtype=float)
    return Costs(seconds, f"roofline of {device.name}")


def _seconds(model: Model, index: int, device: Device) -> float:
    operator = model.operators[index]
    if operator.view:
        return 0.0
    if operator.repeats is not None:
        rounds, inner = operator.repeats
        return rounds * float(roofline(inner, device).seconds.sum())
    arithmetic = operator.flops / device.rate(computed_in(model, index))
    moved = model.bytes_read(index) + model.bytes_written(index)
    return max(arithmetic, moved / device.bandwidth) + device.launch


def computed_in(model: Model, operator: int) -> str:
    """Data type that an operator computes in: that of the largest tensor it reads or, if it reads none, writes."""
    accesses = model.operators[operator].reads or model.operators[operator].writes
    tensors = [model.tensors[access.tensor] for access in accesses]
    return max(tensors, key=lambda tensor: tensor.bytes).dtype if tensors else "float32"
