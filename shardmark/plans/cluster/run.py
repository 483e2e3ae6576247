"""What is asked: a cluster, a batch, how the model is trained, and what the replicas of a stage divide among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from shardmark.instances.errors import InputError
from shardmark.instances.models.devices import Device

#: Bytes per parameter by the optimiser and the bytes of a weight: weight, gradient, and the optimiser's own. Of
#: a weight in 8 or 16 bits it keeps a copy in 32 bits (Micikevicius et al., ICLR 2018; Rajbhandari et al., SC 2020,
#: Section 3.1).
STATE: Mapping[str, Mapping[int, tuple[int, int, int]]] = {
    "adam": {1: (1, 1, 12), 2: (2, 2, 12), 4: (4, 4, 8), 8: (8, 8, 16)},
    "sgd": {1: (1, 1, 4), 2: (2, 2, 4), 4: (4, 4, 0), 8: (8, 8, 0)},
    "none": {1: (1, 0, 0), 2: (2, 0, 0), 4: (4, 0, 0), 8: (8, 0, 0)},
}
#: What the state of a parameter consists of, in the order of `STATE`.
KINDS = ("weights", "gradients", "optimizer")
#: What ``shard`` divides over the replicas of a stage, each with what stands before it: ZeRO 1 to 3.
SHARDS = ("none", "optimizer", "gradients", "weights")
#: Objectives of serving: samples per second, or the time of one sample.
SERVING = ("throughput", "latency")
#: How many times replicas pass the bytes of weights around, by what they divide: once per step, and per microbatch. An
#: all-reduce does so twice, a reduce-scatter of gradients and an all-gather of weights once. Gradients that are divided
#: are scattered for every microbatch, weights gathered for both of its passes (Rajbhandari et al., SC 2020, Section 7).
EXCHANGED: Mapping[str, tuple[int, int]] = {"none": (2, 0), "optimizer": (2, 0), "gradients": (1, 1), "weights": (0, 3)}
#: Microbatches in a batch of track ``hybrid``, at most.
MOST_ROUNDS = 2**31 - 1


@dataclass(frozen=True)
class Run:
    """A training or serving run.

    ``machines``, ``devices``  number of machines, and of devices in each
    ``device``      every device, with its links inside a machine
    ``network``     bytes per second of one device's link between machines
    ``batch``       samples per step; ``microbatch`` of them pass the pipeline together
    ``train``       optimiser, a key of `STATE`; "none" serves
    ``shard``       one of `SHARDS`
    ``max_tensor``  greatest tensor-parallel degree
    ``serving``     what is best if the model is served, one of `SERVING`
    """

    machines: int
    devices: int
    device: Device
    network: float
    batch: int
    microbatch: int
    train: str = "adam"
    shard: str = "none"
    max_tensor: int = 8
    serving: str = "throughput"

    def __post_init__(self) -> None:
        if self.batch % self.microbatch:
            expected = f"expected a multiple of the {self.microbatch} samples of a microbatch, found {self.batch}"
            raise InputError("plan", "batch", expected)

    @property
    def training(self) -> bool:
        """True if there is a backward pass."""
        return self.train != "none"

    @property
    def objective(self) -> str:
        """What is best: the least time per "step", the highest "throughput", or the least "latency" of one sample."""
        return "step" if self.training else self.serving

    @property
    def microbatches(self) -> int:
        """Microbatches per step."""
        return self.batch // self.microbatch

    @property
    def schedule(self) -> dict[str, str | int | None]:
        """How a batch passes through the stages, as exported layouts tell it."""
        sizes = {"batch": self.batch, "microbatch": self.microbatch, "microbatches": self.microbatches}
        return {"schedule": "1F1B" if self.training else None, **sizes}

    @property
    def degrees(self) -> list[int]:
        """Tensor-parallel degrees: powers of 2 up to the devices of a machine and ``max_tensor``.

        Of several machines, they divide the devices of each, so that replicas fit whenever their devices do in all.
        """
        most = min(self.devices, self.max_tensor)
        powers = [1 << power for power in range(most.bit_length())]
        return [degree for degree in powers if self.machines == 1 or self.devices % degree == 0]

    @property
    def rounds(self) -> int:
        """The batch of track ``hybrid``: numbers of replicas divide it, and it has a microbatch for each of them.

        A stream of samples to serve has no such rule. A number stands for it that whatever divides the devices divides,
        and many other numbers; up to 22 devices, all do.
        """
        if self.training:
            return self.microbatches
        devices = self.machines * self.devices
        found = devices
        for replicas in range(2, devices + 1):
            more = math.lcm(found, replicas)
            found = more if more <= MOST_ROUNDS else found
        return found

    @property
    def left_out(self) -> bool:
        """True if there are numbers of replicas of a stage that no layout of a stream has."""
        devices = self.machines * self.devices
        return self.objective == "throughput" and any(self.rounds % replicas for replicas in range(1, devices + 1))

    @property
    def exchanged(self) -> tuple[int, int]:
        """How many times replicas pass the bytes of weights around, once per step, and for every microbatch."""
        return EXCHANGED[self.shard] if self.training else (0, int(self.shard == "weights"))

    @property
    def whole(self) -> int:
        """Bytes per byte of weights that replicas divide, but have whole while a block runs: gradients and weights."""
        divided = SHARDS.index(self.shard)
        return int(self.training and divided >= SHARDS.index("gradients")) + int(self.shard == "weights")

    @property
    def own(self) -> int:
        """How many of `KINDS`, the first ones, every replica has in whole; replicas divide the others."""
        return len(KINDS) - SHARDS.index(self.shard)

    def state(self, weight: int) -> tuple[float, float, float]:
        """Bytes by `KINDS` per byte of a weight of ``weight`` bytes."""
        weights, gradients, optimizer = STATE[self.train][weight]
        return weights / weight, gradients / weight, optimizer / weight
