"""ONNX graphs are read with the arithmetic and the parameters that are published of them."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.backend.test
import pytest

from shardmark.instances.models.onnx_file import read_onnx

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"

#: Multiply-adds and learned parameters of networks that come with package onnx; docs/models.md has the sources. Of
#: Inception v2, no number of parameters is published: this is the file's.
PUBLISHED = {
    "densenet121": (2.834e9, 7_978_856),
    "inception_v2": (2.0e9, 11_194_984),
    "resnet50": (4.089e9, 25_557_032),
    "squeezenet": (0.349e9, 1_235_496),  # version 1.1
    "vgg19": (19.632e9, 143_667_240),
}


def multiply_adds(model):
    return sum(operator.multiply_adds for operator in model.operators)


def learned(model):
    """Parameters, without means and variances of a batch normalisation, and of factors given twice only one."""
    total = 0
    for operator in model.operators:
        held = [model.tensors[access.tensor] for access in operator.reads]
        if operator.kind == "BatchNormalization":
            held = held[1:3]
        if operator.kind in ("Mul", "Add") and len(held[1].shape) == 3:  # a repetition of factors before it
            held = []
        total += sum(tensor.numbers for tensor in held if tensor.parameter)
    return total


def light(name):
    return onnx.load(LIGHT / f"light_{name}.onnx")


@pytest.fixture
def read(tmp_path):
    """Reads a model that was changed; sentences that are told are errors."""

    def read(model, dims=None, tell=pytest.fail):
        del model.graph.value_info[:]
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return read_onnx(path, dims, tell)

    return read


def set_attribute(node, name, integers):
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, integers)])


def test_nodes_that_differ_in_a_constant_only_have_their_own_loops(read):
    graph = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        sums (float[4, 4, 4] x) => (float[4, 4] over_first, float[4, 4] over_second)
        <int64[1] first = {0}, int64[1] second = {1}>
        {
            over_first = ReduceSum <keepdims = 0> (x, first)
            over_second = ReduceSum <keepdims = 0> (x, second)
        }
    """)
    kept = [[o.reads[0].dims.index(loop) for loop in o.writes[0].dims] for o in read(graph).operators]
    assert kept == [[1, 2], [0, 2]]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_networks_have_the_published_arithmetic_and_parameters(name):
    model = read_onnx(LIGHT / f"light_{name}.onnx", tell=pytest.fail)
    arithmetic, parameters = PUBLISHED[name]
    assert multiply_adds(model) == pytest.approx(arithmetic, rel=0.02)
    assert learned(model) == pytest.approx(parameters, rel=0.0001)


def test_alexnet_has_the_published_arithmetic_for_its_published_input(read):
    graph = light("bvlc_alexnet")
    assert multiply_adds(read(graph)) == 654_560_384  # of the file, whose images are 224 wide
    for dimension in next(x for x in graph.graph.input if x.name == "data_0").type.tensor_type.shape.dim[2:]:
        dimension.dim_value = 227
    for node in graph.graph.node:
        if node.op_type == "MaxPool":
            set_attribute(node, "pads", [0, 0, 0, 0])
    model = read(graph)
    assert multiply_adds(model) == pytest.approx(724e6, rel=0.001)
    assert learned(model) == pytest.approx(61.0e6, rel=0.001)


def test_googlenet_has_the_published_arithmetic_with_its_published_pooling(read):
    graph = light("inception_v1")
    assert multiply_adds(read(graph)) == pytest.approx(1.4316e9, rel=0.001)  # of the file, which rounds sizes down
    for node in graph.graph.node:
        strides = [list(attribute.ints) for attribute in node.attribute if attribute.name == "strides"]
        if node.op_type == "MaxPool" and strides == [[2, 2]]:
            set_attribute(node, "pads", [0, 0, 1, 1])
        if node.op_type == "AveragePool":
            set_attribute(node, "pads", [0, 0, 0, 0])
    model = read(graph)
    assert multiply_adds(model) == pytest.approx(1.58e9, rel=0.002)
    assert learned(model) == pytest.approx(6.99e6, rel=0.002)


def test_zfnet_512_has_the_arithmetic_of_its_layers():
    model = read_onnx(LIGHT / "light_zfnet512.onnx", tell=pytest.fail)
    convolutions = [(109, 7, 3, 96), (25, 5, 96, 256), (12, 3, 256, 512), (12, 3, 512, 512), (12, 3, 512, 512)]
    products = [(6 * 6 * 512, 4096), (4096, 1024), (1024, 1000)]
    arithmetic = sum((side * kernel) ** 2 * i * o for side, kernel, i, o in convolutions)
    assert multiply_adds(model) == arithmetic + sum(i * o for i, o in products)
    weights = sum((kernel**2 * i + 1) * o for _, kernel, i, o in convolutions)
    assert learned(model) == weights + sum((i + 1) * o for i, o in products)


def test_shufflenet_has_the_arithmetic_of_its_layers():
    model = read_onnx(LIGHT / "light_shufflenet.onnx", tell=pytest.fail)
    arithmetic = 112**2 * 9 * 3 * 24 + 544 * 1000
    inputs = 24
    for width, side, units in ((136, 28, 4), (272, 14, 8), (544, 7, 4)):
        for unit in range(units):
            made = width if unit else width - inputs  # the first unit of a stage is joined to its pooled input
            before = side if unit else 2 * side
            arithmetic += before**2 * inputs * made // 4 + side**2 * made * (9 + made // 4)
            inputs = width
    assert multiply_adds(model) == arithmetic
    assert sum(tensor.bytes for tensor in model.tensors if tensor.parameter) == pytest.approx(5.72e6, rel=0.01)
