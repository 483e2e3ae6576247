"""Modules of ONNX nodes, as each kind of exporter leaves them."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from shardmark.instances.models.onnx_file import read_onnx
from shardmark.instances.models.onnx_graph.modules import module_of

SCOPES, NAMESPACE = "pkg.torch.onnx.name_scopes", "namespace"


def node(name="relu", **metadata):
    made = helper.make_node("Relu", ["x"], ["y"], name=name)
    for key, value in metadata.items():
        made.metadata_props.add(key=key, value=value)
    return made


@pytest.mark.parametrize(
    ("scopes", "levels"),
    [
        ("['', 'model', 'model.layers.2', 'model.layers.2.mlp', 'silu']", ("model", "layers.2", "mlp")),
        ("['', 'silu']", ()),
        ("['', 'layer1', 'layer1.0@1', 'conv']", ("layer1", "0@1")),
        ("['', 'model', 'lm_head', 'linear']", ("lm_head",)),
        ("['', 'model', 'model', 'linear']", ("model",)),
        ("""['', 'heads["a, b"]', 'linear']""", ('heads["a, b"]',)),
        ("['', 'model'", ()),
        ("['', 3, 'linear']", ()),
        ("", ()),
    ],
)
def test_name_scopes_are_paths_with_the_operation_at_the_end(scopes, levels):
    assert module_of(node(**{SCOPES: scopes, NAMESPACE: ": M/other: N/linear: aten"}), "relu") == levels


def test_a_namespace_is_read_if_there_are_no_scopes():
    text = ": hf.Bert/bert: hf.Model/bert.layer.0: hf.Layer/linear: aten.linear.default"
    assert module_of(node(**{NAMESPACE: text}), "/other/MatMul") == ("bert", "layer.0")


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("/model/layers.2/self_attn/MatMul", ("model", "layers.2", "self_attn")),
        ("/layer1/layer1.0/layer1.0.1/conv1/Conv", ("layer1", "0", "1", "conv1")),
        ("sequential/dense_1/MatMul", ("sequential", "dense_1")),
        ("/MatMul_3", ()),
        ("MatMul_3", ()),
    ],
)
def test_the_older_exporter_writes_modules_into_names(name, levels):
    assert module_of(node(name), name) == levels


def saved(path, nodes, functions=()):
    """A chain of nodes that write t0, t1, ..., with the outputs declared."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    sets = [helper.make_opsetid("", 18), *([helper.make_opsetid("own", 1)] if functions else [])]
    onnx.save(helper.make_model(graph, opset_imports=sets, functions=functions), path)
    return path


def test_operators_of_a_file_have_their_modules_and_nothing_else_of_the_metadata_matters(tmp_path):
    first = helper.make_node("Relu", ["x"], ["t0"], name="a")
    first.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="long " * 100)
    first.metadata_props.add(key=SCOPES, value="['', 'net', 'net.0', 'relu']")
    second = helper.make_node("Neg", ["t0"], ["t1"], name="/net/1/Neg")
    third = helper.make_node("Abs", ["t1"], ["t2"], name="abs")
    model = read_onnx(saved(tmp_path / "m.onnx", [first, second, third]))
    assert [operator.module for operator in model.operators] == [("net", "0"), ("net", "1"), ()]


def test_nodes_of_a_function_keep_their_modules(tmp_path):
    inner = helper.make_node("Relu", ["a"], ["b"], name="relu")
    inner.metadata_props.add(key=SCOPES, value="['', 'net', 'net.act', 'relu']")
    own = helper.make_function("own", "Act", ["a"], ["b"], [inner], [helper.make_opsetid("", 18)])
    nodes = [helper.make_node("Neg", ["x"], ["t0"]), helper.make_node("Act", ["t0"], ["t1"], domain="own")]
    model = read_onnx(saved(tmp_path / "m.onnx", nodes, [own]))
    assert [operator.module for operator in model.operators] == [(), ("net", "act")]


def test_a_node_of_an_optimiser_is_in_the_module_around_the_nodes_before_and_after(tmp_path):
    names = ["/net/0/norm/Neg", "split", "cast", "/net/0/act/Relu", "between", "/net/1/Abs"]
    nodes = [
        helper.make_node("Relu", [f"t{index - 1}" if index else "x"], [f"t{index}"], name=name)
        for index, name in enumerate(names)
    ]
    model = read_onnx(saved(tmp_path / "m.onnx", nodes))
    assert [operator.module for operator in model.operators] == [
        *(("net", "0", "norm"), ("net", "0"), ("net", "0"), ("net", "0", "act"), ("net",), ("net", "1"))
    ]
