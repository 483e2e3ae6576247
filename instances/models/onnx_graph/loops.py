"""The loops of ONNX operators: which loop runs over each dimension of the tensors that they read and write.

`nest_of` applies the rule of an operator type. Loops are named by their part in the operator: ``d0``, ``d1``, ... run
over the dimensions of the result, and the others over what is summed:

=================  ==================================================================================================
matrix products    ``b`` batch, ``m`` rows of the left factor, ``n`` columns of the right one, ``k`` summed
convolutions       ``n`` batch, ``g`` groups of channels, ``o`` and ``i`` channels of a group, ``x`` positions, ``k``
                   positions of the kernel
Einsum             ``l`` and the letter; ``e`` and a number for dimensions of an ellipsis
recurrences        ``t`` time, ``b`` batch, ``d`` direction, ``o`` gates, ``i`` inputs and states
attention          ``b`` batch, ``h`` heads of keys, ``r`` heads of queries per key, ``m`` queries, ``n`` keys,
                   ``k`` and ``v`` numbers of a key and of a value
reductions         ``r`` reduced dimensions
pooling            ``w`` positions of the window
Gather             ``v`` rows of the table
=================  ==================================================================================================

Loops that must not be split are those over positions of overlapping windows, and over dimensions along which an
operator normalises, sorts or accumulates. Arithmetic counts 1 per result element of any elementwise operator, and 0 for
moving, selecting and converting elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardmark.instances.models.model import Dims, Nest, Shape
from shardmark.instances.models.onnx_graph import moves, numbers, products
from shardmark.instances.models.onnx_graph.call import Call, Unfit, unknown

Rule = Callable[[Call], Nest]


def nest_of(call: Call) -> Nest:
    """The loops of a node; ``known`` is False if no rule has its type. Raises Unfit if it contradicts its type."""
    rule = RULES.get(call.kind)
    if rule is None:
        return unknown(call)
    try:
        nest = rule(call)
        _require_dims(call.inputs, nest.reads)
        _require_dims(call.outputs, nest.writes)
        return nest
    except Unfit:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        raise Unfit("expected inputs, outputs and attributes as the operator type has them") from None


def _require_dims(shapes: Sequence[Shape | None], dims: Sequence[Dims | None]) -> None:
    """Raise Unfit if a rule sees other numbers of dimensions than there are."""
    for shape, over in zip(shapes, dims, strict=False):
        if shape is not None and over is not None and len(shape) != len(over):
            raise Unfit(f"expected {len(over)} dimensions, found {list(shape)}")


def dropout(call: Call) -> Nest:
    """A view in inference; in training, one random number and one product per element."""
    trains = len(call.inputs) > 2 and call.inputs[2] is not None and call.value(2) != [False]
    return numbers.unary(11)(call) if trains else moves.view(call)


_ARITHMETIC = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip Cos
    Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less
    LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin
    Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Xor"""
_MOVES = "Expand Where"
_VIEWS = "Flatten Identity Reshape Squeeze Unsqueeze"
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_RANDOM = "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"

RULES: dict[str, Rule] = {
    **dict.fromkeys(_ARITHMETIC.split(), numbers.per_number(1)),
    **dict.fromkeys(_MOVES.split(), numbers.per_number(0)),
    **dict.fromkeys(("BitCast", "Cast", "CastLike", "Trilu"), numbers.unary(0)),
    **dict.fromkeys(_VIEWS.split(), moves.view),
    **dict.fromkeys((f"Reduce{name}" for name in _REDUCTIONS.split()), numbers.reduction),
    **dict.fromkeys(_RANDOM.split(), numbers.generated(10)),
    **dict.fromkeys(("ArgMax", "ArgMin"), numbers.reduction),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), numbers.pooling),
    **dict.fromkeys(("CenterCropPad", "Pad", "Slice", "Tile"), moves.part),
    **dict.fromkeys(("ConstantOfShape", "EyeLike", "Range"), numbers.generated(0)),
    **dict.fromkeys(("CumProd", "CumSum"), numbers.cumulated),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), moves.blocks),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), numbers.global_pooling),
    **dict.fromkeys(("Resize", "Upsample"), moves.resize),
    **dict.fromkeys(("Scatter", "ScatterElements"), moves.scatter_elements),
    "Attention": products.attention,
    "BatchNormalization": numbers.batch_normalization,
    "Concat": moves.concatenate,
    "Conv": products.convolution,
    "ConvInteger": products.factors_at(products.convolution, 0, 1),
    "ConvTranspose": products.transposed_convolution,
    "DFT": numbers.fourier,
    "DeformConv": products.deformable_convolution,
    "DequantizeLinear": numbers.quantization(2),
    "Dropout": dropout,
    "DynamicQuantizeLinear": numbers.unary(4, tied=True),
    "Einsum": products.einsum,
    "GRU": products.recurrence(3),
    "Gather": moves.gather,
    "GatherElements": moves.gather_elements,
    "GatherND": moves.gather_blocks,
    "Gemm": products.gemm,
    "GridSample": moves.sampled,
    "GroupNormalization": numbers.per_channel(7),
    "Hardmax": numbers.along(2),
    "InstanceNormalization": numbers.per_channel(7),
    "LRN": numbers.local_response_normalization,
    "LSTM": products.recurrence(4),
    "LayerNormalization": numbers.along(7, to_end=True),
    "LogSoftmax": numbers.along(5),
    "LpNormalization": numbers.along(3),
    "MatMul": products.matmul,
    "MatMulInteger": products.factors_at(products.matmul, 0, 1),
    "MeanVarianceNormalization": numbers.mean_variance_normalization,
    "NegativeLogLikelihoodLoss": numbers.loss(1),
    "OneHot": moves.one_hot,
    "QLinearConv": products.factors_at(products.convolution, 0, 3),
    "QLinearMatMul": products.factors_at(products.matmul, 0, 3),
    "QuantizeLinear": numbers.quantization(2),
    "RMSNormalization": numbers.along(4, to_end=True),
    "RNN": products.recurrence(1),
    "ReverseSequence": moves.reversed_sequences,
    "RotaryEmbedding": numbers.rotary_embedding,
    "ScatterND": moves.scatter_blocks,
    "Softmax": numbers.along(5),
    "SoftmaxCrossEntropyLoss": numbers.loss(6),
    "Split": moves.split,
    "SwiGLU": numbers.per_number(3),
    "TensorScatter": moves.cache_update,
    "TopK": numbers.top_k,
    "Transpose": moves.transpose,
}
