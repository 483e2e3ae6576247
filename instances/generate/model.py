"""A neural network as operators over named dimensions: what they compute, read and store.

An operator is a nest of loops. From the loops, and from which of them index its output and its weights, follow
the arithmetic, the sizes of tensors, and the ways to split it over devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

BYTES = 2  # a number, 16-bit floating point


@dataclass(frozen=True)
class Input:
    """A tensor that an operator reads: the output of ``producer``.

    ``dims`` names, for each dimension of that tensor, the loop of the consumer that runs over it; None where the
    consumer needs the whole dimension.
    """

    producer: int
    dims: tuple[str | None, ...]


@dataclass(frozen=True)
class Operator:
    """One operator.

    ``loops``   name and trip count of every loop; those that do not index the output are summed over
    ``output``  loops that index the output, in the order of its dimensions
    ``weight``  loops that index the weights, ``weight_name`` tells which ones (operators may share theirs)
    ``flops``   arithmetic operations in all
    ``whole``   loops that no split may cut
    ``fused``   takes its first input as it lies on the devices
    ``layer``, ``role``   operators of the same role in different layers are alike
    """

    name: str
    inputs: tuple[Input, ...]
    loops: Mapping[str, int]
    output: tuple[str, ...]
    flops: int
    weight: tuple[str, ...] = ()
    weight_name: str = ""
    weight_scale: int = 1
    whole: frozenset[str] = frozenset()
    fused: bool = False
    layer: int = 0
    role: str = ""

    def bytes_of(self, dims: Sequence[str]) -> int:
        """Bytes of a tensor that is indexed by these loops."""
        return BYTES * math.prod(self.loops[dim] for dim in dims)

    @property
    def output_bytes(self) -> int:
        """Bytes of the output."""
        return self.bytes_of(self.output)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights, 0 if there are none."""
        return self.bytes_of(self.weight) * self.weight_scale if self.weight_name else 0


@dataclass
class Model:
    """Operators in an order of execution; built with `add`."""

    operators: list[Operator] = field(default_factory=list)
    layer: int = 0

    def add(
        self,
        role: str,
        inputs: Sequence[Input | int],
        loops: Mapping[str, int],
        output: str,
        *,
        each: int = 1,
        flops: int | None = None,
        weight: str | None = None,
        shared: str = "",
        weight_scale: int = 1,
        whole: str = "",
        fused: bool = False,
    ) -> int:
        """Append an operator and return its index; ``output``, ``weight`` and ``whole`` are loops parted by blanks.

        It takes ``flops`` operations, by default ``each`` for every point of the loops. Weights have the
        operator's own name, or ``shared``.
        """
        name = f"layer{self.layer}/{role}"
        operator = Operator(
            name=name,
            inputs=tuple(x if isinstance(x, Input) else self.read(x) for x in inputs),
            loops=dict(loops),
            output=tuple(output.split()),
            flops=each * math.prod(loops.values()) if flops is None else flops,
            weight=tuple((weight or "").split()),
            weight_name="" if weight is None else shared or f"{name}/weight",
            weight_scale=weight_scale,
            whole=frozenset(whole.split()),
            fused=fused,
            layer=self.layer,
            role=role,
        )
        self.operators.append(operator)
        return len(self.operators) - 1

    def read(self, producer: int, dims: str = "") -> Input:
        """The input that reads a producer's output through these loops, by default its own; "-" stands for none."""
        own = self.operators[producer].output
        names = dims.split() or own
        if len(names) != len(own):
            raise ValueError(f"{self.operators[producer].name} has the dimensions {own}, not {names}")
        return Input(producer, tuple(None if name == "-" else name for name in names))

    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs (producer, consumer), each once."""
        for consumer, operator in enumerate(self.operators):
            for producer in dict.fromkeys(tensor.producer for tensor in operator.inputs):
                yield producer, consumer
