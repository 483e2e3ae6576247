"""The intermediate form of a model of any format: operators that read and write tensors.

Readers of files (`shardmark.instances.models.onnx_file`, `shardmark.instances.models.stablehlo_file`) and generated
networks (`shardmark.instances.generate.networks.architectures`) produce it. `shardmark.instances.models.roofline`
estimates its times on a device; the modules ``as_pipeline``, ``as_placement``, ``as_scheduling`` and ``as_intraop``
turn it into instances of each track.

A *tensor* has a shape and a data type. Inputs of the model and parameters have no producer.

An *operator* is a nest of loops. Each tensor that it reads or writes is listed with the loop over each dimension. A
matrix product, for example, has ``loops = {"m": 64, "n": 32, "k": 128}``, reads ``("m", "k")`` and ``("k", "n")``, and
writes ``("m", "n")``. This determines arithmetic, traffic, and the ways to split the operator over devices: a loop
that is missing from the written tensor is summed over, so splitting it leaves partial sums.

    >>> from shardmark.instances.models.model import Access, Model
    >>> model = Model("one product")
    >>> x = model.tensor("x", (64, 128), "float32")
    >>> w = model.tensor("w", (128, 32), "float32", parameter=True)
    >>> y = model.tensor("y", (64, 32), "float32")
    >>> loops = {"m": 64, "n": 32, "k": 128}
    >>> reads = [Access(x, ("m", "k")), Access(w, ("k", "n"))]
    >>> product = model.operator("y", "MatMul", reads, [Access(y, ("m", "n"))], loops, multiply_adds=64 * 32 * 128)
    >>> model.operators[product].flops, model.bytes_read(product), model.parameter_bytes()
    (524288, 49152, 16384)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

Shape = tuple[int, ...]
Dims = tuple[str | None, ...]  # the loop over each dimension of a tensor

#: Bits of one number, by the data type's name as NumPy and ml_dtypes spell it.
BITS: Mapping[str, int] = {
    **dict.fromkeys(("int2", "uint2"), 2),
    **dict.fromkeys(("int4", "uint4", "float4_e2m1fn"), 4),
    **dict.fromkeys(("bool", "int8", "uint8"), 8),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), 8),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 16),
    **dict.fromkeys(("int32", "uint32", "float32"), 32),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 64),
    "complex128": 128,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a model.

    ``name``       unique within the model
    ``shape``      sizes of its dimensions; () is a scalar
    ``dtype``      a key of `BITS`
    ``producer``   index of the operator that writes it; None for an input of the model and for a parameter
    ``parameter``  True for a weight or another constant, which stays in memory with the operators that read it
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    producer: int | None = None
    parameter: bool = False

    @property
    def numbers(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes, rounded up."""
        return -(-self.numbers * BITS[self.dtype] // 8)


@dataclass(frozen=True, slots=True)
class Access:
    """An operator's use of a tensor.

    ``dims`` names, for each dimension of the tensor, the loop of the operator that runs over it, or None if every
    iteration needs the whole dimension. A loop that is shorter than the dimension by a whole factor runs over blocks
    of consecutive indices, as in a reshape that merges dimensions; splitting the loop splits the dimension. With any
    other loop, longer or shorter, splitting the loop leaves the dimension whole.

    ``numbers`` is the number of elements used; None means all. A look-up in a table, for
    example, reads only some rows. A tensor that is written in part is the operator's first input, changed in place.
    """

    tensor: int
    dims: tuple[str | None, ...]
    numbers: int | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of a model.

    ``name``           unique within the model
    ``kind``           what it computes, as the file names it: ``Conv``, ``dot_general``
    ``reads``          tensors that it reads, parameters among them
    ``writes``         tensors that it writes
    ``loops``          name and trip count of every loop
    ``flops``          arithmetic operations in all; a multiply-add counts as two
    ``multiply_adds``  those of its matrix products and convolutions, 0 for any other operator
    ``whole``          loops that must not be split
    ``fused``          True if it needs its first input in its present layout
    ``backward``       True for an operator of the backward pass
    ``forward``        for such an operator, the index of the operator whose gradient it computes, if known
    ``module``         levels of the path of its module, outermost first: ``("model", "layers.2")``; () if not known
    ``layer``, ``role``  operators with the same role in different layers are alike; -1 if it belongs to no layer
    ``view``           True if its output is its first input under another name or shape, so that no bytes move
    ``known``          False if its arithmetic is unknown: then only bytes moved count
    ``repeats``        for a loop that stays one operator, its rounds and the model of a round; else None
    """

    name: str
    kind: str
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    loops: Mapping[str, int]
    flops: int = 0
    multiply_adds: int = 0
    whole: frozenset[str] = frozenset()
    fused: bool = False
    backward: bool = False
    forward: int | None = None
    module: tuple[str, ...] = ()
    layer: int = -1
    role: str = ""
    view: bool = False
    known: bool = True
    repeats: tuple[int, Model] | None = None


@dataclass
class Model:
    """Tensors, and operators in an executable order; built with `tensor` and `operator`."""

    name: str = "model"
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)  # tensors that the caller of the model gets
    updates: dict[int, int] = field(default_factory=dict)  # for parameters that a step replaces, the outputs that do
    weights: dict[str, list[int]] = field(
        default_factory=dict
    )  # for the parameters of a PyTorch program, by name, the tensors that hold them or follow from them
    unrolled: bool = False  # True if the program has loops, branches or manual computations, which were read through
    returned: dict[int, int] = field(
        default_factory=dict
    )  # the true producer of a tensor that flows back to ``producer``

    def tensor(self, name: str, shape: Sequence[int], dtype: str, *, parameter: bool = False) -> int:
        """Append a tensor without a producer, and return its index."""
        self.tensors.append(Tensor(name, tuple(shape), dtype, parameter=parameter))
        return len(self.tensors) - 1

    def operator(
        self,
        name: str,
        kind: str,
        reads: Sequence[Access],
        writes: Sequence[Access],
        loops: Mapping[str, int],
        *,
        flops: int | None = None,
        multiply_adds: int = 0,
        **properties: object,
    ) -> int:
        """Append an operator, make it the producer of what it writes, and return its index.

        ``flops`` is twice ``multiply_adds`` by default; ``properties`` are the other fields of `Operator`. The mapping
        ``loops`` is kept, not copied: corresponding operators may share it, and it must not be changed.
        """
        index = len(self.operators)
        for access in writes:
            self.tensors[access.tensor] = replace(self.tensors[access.tensor], producer=index)
        flops = 2 * multiply_adds if flops is None else flops
        self.operators.append(
            Operator(name, kind, tuple(reads), tuple(writes), loops, flops, multiply_adds, **properties)  # type: ignore[arg-type]
        )
        return index

    def bytes_read(self, operator: int) -> int:
        """Bytes that an operator reads, parameters included, every tensor at most once; 0 for a view."""
        if self.operators[operator].view:
            return 0
        used: dict[int, int] = {}
        for access in self.operators[operator].reads:
            numbers = self.tensors[access.tensor].numbers
            more = numbers if access.numbers is None else access.numbers
            used[access.tensor] = min(numbers, used.get(access.tensor, 0) + more)
        return sum(-(-numbers * BITS[self.tensors[tensor].dtype] // 8) for tensor, numbers in used.items())

    def bytes_written(self, operator: int) -> int:
        """Bytes of the tensors that an operator writes; 0 for a view."""
        if self.operators[operator].view:
            return 0
        written = ((self.tensors[access.tensor], access.numbers) for access in self.operators[operator].writes)
        return sum(x.bytes if numbers is None else -(-numbers * BITS[x.dtype] // 8) for x, numbers in written)

    def parameters(self, operator: int) -> list[int]:
        """The parameters that an operator reads, each once."""
        read = dict.fromkeys(access.tensor for access in self.operators[operator].reads)
        return [tensor for tensor in read if self.tensors[tensor].parameter]

    def parameter_bytes(self) -> int:
        """Bytes of all parameters that operators read, each once."""
        used = {tensor for operator in range(len(self.operators)) for tensor in self.parameters(operator)}
        return sum(self.tensors[tensor].bytes for tensor in used)

    def readers(self) -> list[list[int]]:
        """For every tensor, the operators that read it, ascending, each once."""
        found: list[list[int]] = [[] for _ in self.tensors]
        for index, operator in enumerate(self.operators):
            for tensor in dict.fromkeys(access.tensor for access in operator.reads):
                found[tensor].append(index)
        return found

    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs (producer, consumer) of operators, each once, by consumer."""
        for consumer, operator in enumerate(self.operators):
            producers = (self.tensors[access.tensor].producer for access in operator.reads)
            for producer in dict.fromkeys(producers):
                if producer is not None:
                    yield producer, consumer


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops of an operator; the fields are those of `Operator`, except for these.

    ``reads``    for every input, the loop over each dimension; None for an input that is free to read
    ``writes``   the same for every output; None for an unread one
    ``numbers``  for inputs that are read in part, the number of elements read
    """

    loops: Mapping[str, int]
    reads: Sequence[Dims | None]
    writes: Sequence[Dims | None]
    flops: int = 0
    multiply_adds: int = 0
    whole: frozenset[str] = frozenset()
    numbers: Mapping[int, int] = field(default_factory=dict)
    view: bool = False
    known: bool = True

    def append(
        self, model: Model, name: str, kind: str, reads: Sequence[Access], writes: Sequence[Access], **labels: object
    ) -> int:
        """Append the operator to a model, with its accesses to the model's tensors; return its index."""
        return model.operator(
            name,
            kind,
            reads,
            writes,
            self.loops,
            flops=self.flops,
            multiply_adds=self.multiply_adds,
            whole=self.whole,
            view=self.view,
            known=self.known,
            **labels,
        )


def of_unknown_arithmetic(number: Counter[str]) -> str:
    """A sentence about operators of unknown arithmetic, given their numbers by kind."""
    listed = ", ".join(f"{kind} ({count})" for kind, count in number.most_common(8))
    return f"arithmetic unknown, only bytes moved are counted: {listed}; {number.total()} in all"
