"""Builds models of networks from operators given by layer, role and loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardmark.instances.models.model import Access, Model

DTYPE = "bfloat16"  # of every tensor of a generated network


@dataclass
class Network(Model):
    """A model that grows layer by layer; every operator writes one tensor and reads at most one parameter."""

    layer: int = 0

    def add(
        self,
        role: str,
        inputs: Sequence[Access | int],
        loops: Mapping[str, int],
        output: str,
        *,
        each: int = 1,
        flops: int | None = None,
        weight: str | None = None,
        shared: str = "",
        whole: str = "",
        fused: bool = False,
    ) -> int:
        """Append an operator to the layer and return its index.

        ``inputs`` are operators, or accesses to their outputs (see `read`). ``output``, ``weight`` and ``whole`` are
        loops separated by blanks; a number stands for a dimension of that size over which no loop runs. The operator
        takes ``flops`` operations, by default ``each`` for every point of its loops, and then a sum over a loop is a
        sum of products. Its parameter has its own name, or the name ``shared`` by all operators that read it.
        """
        name = f"layer{self.layer}/{role}"
        reads = [x if isinstance(x, Access) else self.read(x) for x in inputs]
        written = self._access(name, loops, output)
        if weight is not None:
            reads.append(self._access(shared or f"{name}/weight", loops, weight, parameter=True))
        product = flops is None and not set(loops) <= set(written.dims)
        flops = each * math.prod(loops.values()) if flops is None else flops
        return self.operator(
            name,
            role,
            reads,
            [written],
            loops,
            flops=flops,
            multiply_adds=flops // 2 if product else 0,
            whole=frozenset(whole.split()),
            fused=fused,
            layer=self.layer,
            role=role,
        )

    def read(self, producer: int, dims: str = "") -> Access:
        """Access to a producer's output through these loops, by default its own; "-" stands for none."""
        (written,) = self.operators[producer].writes
        names = tuple(None if name == "-" else name for name in dims.split()) or written.dims
        if len(names) != len(written.dims):
            raise ValueError(f"{self.operators[producer].name} has the dimensions {written.dims}, not {names}")
        return Access(written.tensor, names)

    def _access(self, name: str, loops: Mapping[str, int], dims: str, *, parameter: bool = False) -> Access:
        """Access to the tensor of this name, which is appended unless it is a known parameter."""
        words = dims.split()
        shape = tuple(int(word) if word.isdecimal() else loops[word] for word in words)
        known = self._parameters.get(name) if parameter else None
        tensor = self.tensor(name, shape, DTYPE, parameter=parameter) if known is None else known
        if parameter:
            self._parameters[name] = tensor
        return Access(tensor, tuple(None if word.isdecimal() else word for word in words))

    def __post_init__(self) -> None:
        self._parameters: dict[str, int] = {}
