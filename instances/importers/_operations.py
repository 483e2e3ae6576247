"""Cost model of TensorFlow's operations: FLOPs and bytes sent, from the shapes that a graph carries.

Sizes are bytes. Shapes are those of the attribute ``_output_shapes``, which `as_graph_def(add_shapes=True)` adds, of a
constant's value, or of the attribute ``shape`` of variables and placeholders. Counts of operations:

none                     operations that hold, forward or name tensors, or control flow: constants, variables, Identity,
                         Reshape, Shape, Switch, Merge, Enter, NoOp, ...
2 per multiplication     MatMul and BatchMatMul: elements of the product times the inner dimension; Einsum: product of
                         the sizes of all indices; convolutions and their gradients: elements of the side with output
                         channels times those of the filter without them
elements of the window   per element of a pooling's result, or of its incoming gradient
elements added           all inputs but the first, for AddN and AccumulateNV2
elements produced        operations that select from a larger tensor: Gather, Slice, ...
1 per element            the rest, for the largest input or output without variables taken by reference: elementwise
                         operations and their gradients, reductions, updates of variables, data movement; also unknown
                         operations, with a note. If the graph has no shape of the output and nothing reads it, only
                         the inputs count
an error                 shapes do not determine the count: fused recurrent layers, quantised products, factorisations
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from math import prod
from typing import NoReturn

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import describe
from shardmark.instances.importers._text_proto import Message

Shape = tuple[int, ...]
Input = tuple[int, int]  # the node that makes a tensor, and the number of its output

LARGEST_TENSOR = 2**63  # upper bound on the elements of a tensor or window
_NAMES = {
    0: "RESOURCE VARIANT",
    1: "BOOL INT2 UINT2 INT4 UINT4 INT8 UINT8 QINT8 QUINT8"
    " FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E4M3FNUZ FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ",
    2: "INT16 UINT16 QINT16 QUINT16 HALF BFLOAT16",
    4: "INT32 UINT32 QINT32 FLOAT",
    8: "INT64 UINT64 DOUBLE COMPLEX64",
    16: "COMPLEX128 STRING",
}
#: Bytes of an element by the name of its type, or of a reference to it (types.proto). A string counts with its address
#: and length, without its text; the sizes of resources and variants are unknown.
BYTES = {f"DT_{name}{end}": size for size, names in _NAMES.items() for name in names.split() for end in ("", "_REF")}

#: Attributes with the list of output types, or with one type for all outputs; the first one present counts.
_LISTS = ("dtypes", "output_types", "component_types", "Toutput_types", "Tout", "out_types", "T")
_CHOSEN = ("out_type", "output_type", "output_dtype")
_TYPES = ("DstT", "type", *_CHOSEN, "dtype", "Tparams", "elem_type", "component_type", "Tout", "T", "Tidx")
#: Operations whose type is not in an attribute, always or if no attribute of `_CHOSEN` is present. The flow value that
#: orders accesses to a TensorArray is a float.
_ALWAYS = {
    "DT_BOOL": re.compile(
        r"(Not)?Equal|(Less|Greater)(Equal)?|Logical(And|Or|Not)|Any|All|LoopCond|Is(Finite|Inf|Nan)|InTopK(V2)?"
        r"|IsVariableInitialized|VarIsInitializedOp|ApproximateEqual"
    ),
    "DT_STRING": re.compile(
        r"ShardedFilename|StringJoin|AsString|ReadFile|(Merge|Scalar|Histogram|Image)Summary(V2)?|IteratorToStringHandle"
    ),
    "DT_INT32": re.compile(r"ConcatOffset|Bucketize|(Queue|TensorArray)Size(V[23])?"),
    "DT_FLOAT": re.compile(r"TensorArray(Write|Scatter|Split)V[23]"),
}
_OTHERWISE = {"DT_INT32": re.compile(r"Rank|Size|ShapeN?"), "DT_INT64": re.compile(r"Where|ArgM(ax|in)|Multinomial")}
#: The attribute with the type of all outputs but the first, and the default type.
_SECOND = {
    **dict.fromkeys((f"FusedBatchNorm{end}" for end in ("V2", "V3", "GradV2", "GradV3")), ("U", "DT_FLOAT")),
    **dict.fromkeys(("Merge", "RefMerge", "Unique", "UniqueV2", "UniqueWithCounts"), ("out_idx", "DT_INT32")),
    **dict.fromkeys(("TopK", "TopKV2"), ("index_type", "DT_INT32")),
    **dict.fromkeys(("TensorArrayV3", "TensorArrayGradV3"), ("", "DT_FLOAT")),
    "MaxPoolWithArgmax": ("Targmax", "DT_INT64"),
}
#: Operations whose output 0 is a reference to a variable, or to another state.
VARIABLE = re.compile(r"Variable(V2)?|TemporaryVariable")
_STATE = re.compile(
    r"\w*HandleOp|(Stack|TensorArray(Grad)?|Iterator|OneShotIterator|(Mutable)?(Dense)?HashTable(OfTensors)?"
    r"|\w*(Queue|Reader|Dataset)|SummaryWriter|ConditionalAccumulator)(V[0-9])?"
)
#: Operations that return the reference taken as their first input, and all operations that take one there.
_HANDS_ON = re.compile(
    r"Assign(Add|Sub)?|(Sparse)?Apply\w+|Scatter(Nd)?(Add|Sub|Mul|Div|Min|Max|Update)"
    r"|Ref(Identity|Switch|Merge|Enter|Exit|NextIteration)"
)
_TAKES = re.compile(
    rf"{_HANDS_ON.pattern}|CountUpTo|IsVariableInitialized|DestroyTemporaryVariable|(TensorArray|Stack|Queue|Reader)\w+"
)
#: Optimisers by the number of inputs taken by reference, a variable and its states; other operations take one.
_SLOTS = {
    2: re.compile(r"(Sparse)?Apply(Momentum|(Proximal)?Adagrad(V2)?|(Add|Power)Sign)"),
    3: re.compile(r"(Sparse)?Apply(Adam|AdaMax|Adadelta|AdagradDA|RMSProp|Ftrl(V2)?)"),
    4: re.compile(r"(Sparse)?ApplyCenteredRMSProp"),
}

FREE = re.compile(
    r"Const|Placeholder\w*|(Ref)?Identity(N)?|ReadVariableOp|Snapshot|(StopG|PreventG)radient|Reshape|Squeeze|ExpandDims"
    r"|ShapeN?|Rank|Size|(Ref)?(Switch|Merge|Enter|Exit|NextIteration)|LoopCond|ControlTrigger|NoOp|Assert|Print(V2)?"
    r"|BroadcastGradientArgs|ConcatOffset|Bitcast|EnsureShape|(TensorArray|Queue)(Size|Close)(V[23])?|_Arg|_Retval|_(Host)?(Send|Recv)|IsVariableInitialized|VarIsInitializedOp"
    r"|(Save|Restore)(V2)?|ShardedFilename|MergeV2Checkpoints"
)
_PRODUCT = re.compile(r"(Sparse|Batch|_Fused|_FusedBatch)?MatMul(V[23])?")
#: The input of a convolution that has the output channels, and the input that is its filter; None: its output.
_CONVOLUTIONS = {
    f"{fused}{name}{end}": sides
    for name in ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
    for fused, end, sides in (
        ("", "", (None, 1)),
        ("_Fused", "", (None, 1)),
        ("", "BackpropInput", (2, 1)),
        ("", "BackpropInputV2", (2, 1)),
        ("", "BackpropFilter", (2, None)),
        ("", "BackpropFilterV2", (2, None)),
    )
}
#: The input of a pooling, or of its gradient, whose elements each count a window; None: its output.
_POOLINGS = {
    **dict.fromkeys(("MaxPool", "MaxPoolV2", "MaxPoolWithArgmax", "AvgPool", "MaxPool3D", "AvgPool3D"), None),
    **dict.fromkeys(("AvgPoolGrad", "AvgPool3DGrad"), 1),
    **dict.fromkeys(("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad"), 2),
}
_SUMS = {"AddN", "AccumulateNV2"}
#: Operations that select elements of a larger tensor, and those whose count does not follow from shapes.
_PICKS = re.compile(r"(Resource)?Gather(V2|Nd)?|(Strided)?Slice")
#: Operations known to take one operation per element, as do their gradients; unknown ones count so with a note.
_ONE_PER_ELEMENT = (
    "Add AddN AccumulateN Sub Mul MulNoNan Div DivNoNan RealDiv FloorDiv TruncateDiv Mod FloorMod TruncateMod"
    " BiasAdd Pow Xdivy Xlogy SquaredDifference Minimum Maximum Abs ComplexAbs Neg Sign Square Sqrt Rsqrt Inv"
    " Reciprocal Exp Expm1 Log Log1p Floor Ceil Round Rint Sin Cos Tan Asin Acos Atan Atan2 Sinh Cosh Tanh Asinh"
    " Acosh Atanh Erf Erfc Erfinv Ndtri Lgamma Digamma Sigmoid Relu Relu6 LeakyRelu Elu Selu Gelu Softplus"
    " Softsign Softmax LogSoftmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits L2Loss LRN"
    " BatchNormWithGlobalNormalization FusedBatchNorm FusedBatchNormEx _FusedBatchNormEx Dropout Sum Mean Prod Min"
    " Max All Any ArgMin ArgMax EuclideanNorm Cumsum Cumprod TopK InTopK (Unsorted)?Segment(Sum|Mean|Prod|Min|Max)"
    " SparseSegment(Sum|Mean|SqrtN) Bincount Equal NotEqual Greater GreaterEqual Less LessEqual ApproximateEqual"
    " Logical(And|Or|Not) Bitwise(And|Or|Xor) Invert LeftShift RightShift IsFinite IsInf IsNan Select Where"
    " ClipByValue CheckNumerics Cast Bucketize Conj Real Imag Angle Complex Cross Fill ZerosLike OnesLike OneHot"
    " Range LinSpace Unique UniqueWithCounts Concat Pack Unpack Split SplitV Tile Transpose ConjugateTranspose Pad"
    " MirrorPad Reverse ReverseSequence BroadcastTo Roll Diag DiagPart Matrix(Diag|DiagPart|SetDiag|BandPart)"
    " DynamicPartition DynamicStitch ParallelDynamicStitch ParallelConcat SpaceToBatch(ND)? BatchToSpace(ND)?"
    " SpaceToDepth DepthToSpace InvertPermutation ExtractImagePatches SparseToDense ResizeBilinear"
    " ResizeNearestNeighbor ResizeBicubic ResizeArea CropAndResize NonMaxSuppression Copy DeepCopy"
    " Random(Uniform|UniformInt|StandardNormal|Gamma|Shuffle|Poisson) TruncatedNormal ParameterizedTruncatedNormal"
    " Stateless(RandomUniform|RandomNormal|TruncatedNormal) Multinomial Assign(Add|Sub)?(VariableOp)? CountUpTo"
    r" (Resource)?(Sparse)?Apply\w+ (Resource)?Scatter\w* DestroyTemporaryVariable LookupTable\w* TensorArray\w+"
    r" Stack(Push|Pop) Queue\w+ Reader\w+ Iterator\w+ \w+Summary String\w+ AsString ReadFile WriteFile Encode\w+"
    r" Decode\w+ Parse\w+"
)
_KNOWN = re.compile(rf"({_ONE_PER_ELEMENT.replace(' ', '|')})(Grad)?(V[0-9])?")
_UNTOLD = re.compile(
    r"CudnnRNN\w*|(Block)?LSTM\w*|GRU\w+|_?Quantized(Fused)?(MatMul|Conv2D|DepthwiseConv2D)\w*|SparseTensorDenseMatMul"
    r"|(Batch)?(Cholesky|Matrix(Inverse|Determinant|(Triangular)?Solve\w*)|Svd|Qr|SelfAdjointEig(V2)?)(Grad)?"
)


class Operations:
    """Compute cost and output size of nodes; every error names the node.

    ``nodes``   nodes of the graph, each with its attributes in one dictionary
    ``batch``   size of unknown dimensions; None: these are errors
    ``fail``    makes the error of a node from its expectation
    """

    def __init__(self, nodes: Sequence[Message], batch: int | None, fail: Callable[[int, str], InputError]) -> None:
        self._nodes, self._batch, self._fail = nodes, batch, fail
        self._types: dict[Input, str | None] = {}
        #: Number of nodes of each operation unknown to `count`.
        self.unknown: Counter[str] = Counter()

    def size(self, node: int, port: int) -> float:
        """Bytes of an output."""
        kind = self._type(node, port)
        if kind is None or kind not in BYTES:
            found = "none" if kind is None else describe(kind)
            self._refuse(node, f"expected a known type of output {port}, or `--weights random`, found {found}")
        return float(BYTES[kind] * prod(self._output(node, port))) if BYTES[kind] else 0.0

    def count(self, node: int, inputs: Sequence[Input]) -> float:
        """Operations of a node that reads these tensors."""
        op = self._nodes[node]["op"]
        if FREE.fullmatch(op) or VARIABLE.fullmatch(op) or _STATE.fullmatch(op):
            return 0.0
        if _PRODUCT.fullmatch(op):
            return 2.0 * prod(self._output(node, 0)) * self._summed_over(node, inputs)
        if op == "Einsum":
            return self._indices(node, inputs)
        if op in _CONVOLUTIONS:
            return self._convolution(node, inputs)
        if op in _POOLINGS:
            return float(prod(self._input_or_output(node, inputs, _POOLINGS[op])) * self._window(node))
        if _PICKS.fullmatch(op):
            return float(prod(self._output(node, 0)))
        if _UNTOLD.fullmatch(op):
            found = f"found the operation {describe(op)}"
            self._refuse(node, f"expected an operation with a known cost, or `--weights random`, {found}")
        if not _KNOWN.fullmatch(op):
            self.unknown[op] += 1
        return self._one_per_output_element(node, inputs)

    def _one_per_output_element(self, node: int, inputs: Sequence[Input]) -> float:
        op = self._nodes[node]["op"]
        read = [prod(self._output(*each)) for place, each in enumerate(inputs) if not self.stays(node, place, each)]
        if op in _SUMS:
            return float(sum(read[1:]))
        kept = _HANDS_ON.fullmatch(op) is not None  # output 0
        shapes = enumerate(self._shapes(node) or [])
        made = [prod(self._known(node, shape, port)) for port, shape in shapes if port or not kept]
        return float(max([*read, *made], default=0))

    def _convolution(self, node: int, inputs: Sequence[Input]) -> float:
        op = self._nodes[node]["op"]
        side, filters = (self._input_or_output(node, inputs, at) for at in _CONVOLUTIONS[op])
        inner = filters[:-2] if "Depthwise" in op else filters[:-1]
        if not inner:
            self._refuse(node, f"expected a filter with its input channels, found {len(filters)} dimensions")
        return 2.0 * prod(side) * prod(inner)

    def _window(self, node: int) -> int:
        """Elements of a pooling's window."""
        window = self._attribute(node, "ksize").get("list", {}).get("i", [])
        if not window:
            self._refuse(node, "expected an attribute ksize, or `--weights random`")
        if min(window) < 1 or prod(window) >= LARGEST_TENSOR:
            expected = "expected a window (ksize) of at least 1 in each dimension"
            self._refuse(node, f"{expected}, found {describe(min(window))}")
        return prod(window)

    def _indices(self, node: int, inputs: Sequence[Input]) -> float:
        """Operations of an Einsum: a multiplication and an addition per combination of its indices."""
        equation = self._attribute(node, "equation").get("s", b"").decode(errors="replace").replace(" ", "")
        terms = equation.split("->")[0].split(",")
        sizes: dict[str | int, int] = {}
        if len(terms) != len(inputs):
            self._refuse(node, f"expected an equation of {len(inputs)} inputs, found {describe(equation)}")
        for term, each in zip(terms, inputs, strict=True):
            shape = self._output(*each)
            before, dots, after = term.partition("...")
            more = len(shape) - len(before) - len(after)
            if more < 0 or (more and not dots):
                self._refuse(node, f"expected an equation that fits its inputs, found {describe(equation)}")
            for index, size in zip((*before, *range(-more, 0), *after), shape, strict=True):
                sizes[index] = size if sizes.get(index, 1) == 1 else sizes[index]
        return prod(map(float, sizes.values())) * (2.0 if len(inputs) > 1 else 1.0)

    def names_state(self, node: int, port: int) -> bool:
        """True if an output is a handle to a resource, which does not move."""
        return self._type(node, port) in ("DT_RESOURCE", "DT_RESOURCE_REF")

    def stays(self, node: int, place: int, given: Input) -> bool:
        """True if this input of a node is a variable taken by reference, or a resource."""
        if self.names_state(*given):
            return True
        giver, taker = self._nodes[given[0]]["op"], self._nodes[node]["op"]
        refers = VARIABLE.fullmatch(giver) or _HANDS_ON.fullmatch(giver)
        if given[1] > (giver == "RefSwitch") or not refers or not _TAKES.fullmatch(taker):
            return False
        return place < next((most for most, pattern in _SLOTS.items() if pattern.fullmatch(taker)), 1)

    def _summed_over(self, node: int, inputs: Sequence[Input]) -> int:
        """Return the length of the inner dimension of a matrix product."""
        shape = self._input(node, inputs, 0)
        if len(shape) < 2:
            self._refuse(node, f"expected factors with two dimensions, found {len(shape)}")
        turned = any(self._attribute(node, key).get("b", False) for key in ("transpose_a", "adj_x"))
        return shape[-2 if turned else -1]

    def _input_or_output(self, node: int, inputs: Sequence[Input], at: int | None) -> Shape:
        return self._output(node, 0) if at is None else self._input(node, inputs, at)

    def _input(self, node: int, inputs: Sequence[Input], at: int) -> Shape:
        if at >= len(inputs):
            self._refuse(node, f"expected at least {at + 1} inputs, found {len(inputs)}")
        return self._output(*inputs[at])

    def _output(self, node: int, port: int) -> Shape:
        """The shape of an output."""
        shapes = self._shapes(node)
        if shapes is None:
            self._refuse(node, "expected an attribute _output_shapes, or `--weights random`")
        if port >= len(shapes):
            self._refuse(node, f"expected _output_shapes of all its outputs, found none of output {port}")
        return self._known(node, shapes[port], port)

    def _known(self, node: int, shape: Message, port: int) -> Shape:
        """A shape without unknown dimensions."""
        sizes = [dimension.get("size", 0) for dimension in shape.get("dim", ())]
        if shape.get("unknown_rank", False):
            self._refuse(
                node, f"expected a shape of output {port}, `--fetch` without it, or `--weights random`, found none"
            )
        if min(sizes, default=0) < -1:
            self._refuse(node, f"expected dimensions of at least -1, found {min(sizes)}")
        if self._batch is None and -1 in sizes:
            self._refuse(node, f"expected `--batch N` for the unknown dimension of output {port}")
        known = tuple(self._batch if size == -1 and self._batch is not None else size for size in sizes)
        if prod(known) >= LARGEST_TENSOR:
            self._refuse(node, f"expected fewer than 2^63 elements of output {port}, found {describe(prod(known))}")
        return known

    def _shapes(self, node: int) -> list[Message] | None:
        """The shapes of all outputs in the graph; None if it has none."""
        attributes = self._nodes[node]["attr"]
        if "_output_shapes" in attributes:
            shapes: list[Message] = self._attribute(node, "_output_shapes").get("list", {}).get("shape", [])
            return shapes
        if "value" in attributes and self._nodes[node]["op"] == "Const":
            return [self._attribute(node, "value").get("tensor", {}).get("tensor_shape", {})]
        shape = self._attribute(node, "shape").get("shape")
        stated = VARIABLE.fullmatch(self._nodes[node]["op"]) or self._nodes[node]["op"].startswith("Placeholder")
        return [shape] if stated and shape is not None else None

    def _type(self, node: int, port: int) -> str | None:
        if (node, port) not in self._types:
            self._types[node, port] = self._declared_type(node, port)
        return self._types[node, port]

    def _declared_type(self, node: int, port: int) -> str | None:
        """The type of an output; None if the graph does not have it."""
        op = self._nodes[node]["op"]
        if not port and _STATE.fullmatch(op):
            return "DT_RESOURCE"
        if port and op in _SECOND:
            key, usual = _SECOND[op]
            return str(self._attribute(node, key).get("type", usual))
        for key in _LISTS:
            types = self._attribute(node, key).get("list", {}).get("type", [])
            if types:
                return str(types[port]) if port < len(types) else None
        declared = {key: str(value["type"]) for key in _TYPES if "type" in (value := self._attribute(node, key))}
        chosen = declared.keys() & set(_CHOSEN)
        for kind, pattern in chain(_ALWAYS.items(), () if chosen else _OTHERWISE.items()):
            if pattern.fullmatch(op):
                return kind
        return next(iter(declared.values()), None)

    def _attribute(self, node: int, key: str) -> Message:
        value: Message = self._nodes[node]["attr"].get(key, {})
        return value

    def _refuse(self, node: int, expected: str) -> NoReturn:
        raise self._fail(node, expected)
