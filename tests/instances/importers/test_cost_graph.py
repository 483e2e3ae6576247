"""Cost graphs become pipelines that cost what their fields say, and defects are told with line and column."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from referee import refusal

from shardmark.harness.verify import verify
from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.instances.importers import cost_graph

GRAPH = """
# in the manner of the published data set, with what it does not have: two outputs, parameters, controls
node { name: "_SOURCE" }
node {
  name: "split"
  id: 1
  output_info { size: 70 alias_input_port: -1 dtype: DT_FLOAT shape { dim { size: 7 } dim { size: 10 } } }
  output_info { size: 30 }
  output_info { size: 1000 }  # which nothing reads
  control_input: 0
  compute_cost: 58
  device: "/gpu:0"
}
node { name: "left" id: 20 input_info { preceding_node: 1 } output_info { size: 5 alias_input_port: 0 }
       compute_cost: 40 persistent_memory_size: 11 temporary_memory_size: 99 is_final: false }
node { name: "right" id: 3 input_info { preceding_node: 1 preceding_port: 1 } input_info { preceding_node: 20 }
       control_input: [0, 1] compute_cost: 50 host_persistent_memory_size: 2 device_persistent_memory_size: 4 }
node { name: "late" id: 4 control_input: 20 control_input: 3 compute_cost: 7 }
cost { cost: 1.5 dimension: "x" }
"""
OPTIONS = {"stages": 2, "bandwidth": 1.0, "memory": None, "tensors": "every"}


def read(tmp_path, text, name="graph.pbtxt", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return cost_graph.read(path, **{**OPTIONS, **options})


def edges(instance):
    names = instance.node_names
    return {(names[u], names[v]) for u, v in zip(instance.graph.tail, instance.graph.head, strict=True)}


def test_every_output_is_a_tensor(tmp_path):
    instance = read(tmp_path, GRAPH, memory=500, bandwidth=2.0)
    assert (instance.name, instance.stages, instance.bandwidth, instance.memory) == ("graph", 2, 2.0, 500)
    assert instance.node_names[:5] == ("_SOURCE", "split", "left", "right", "late")
    assert edges(instance) == {
        *(("_SOURCE", name) for name in ("split", "right")),
        *(("split", helper) for helper in ("split:0", "split:1")),
        ("split:0", "left"),
        ("split:1", "right"),
        ("left", "right"),
        ("left", "^left"),
        ("^left", "late"),
        ("right", "late"),
    }
    sizes = dict(zip(instance.node_names, instance.output_size.tolist(), strict=True))
    assert {name: size for name, size in sizes.items() if size} == {
        "split": 100,
        "split:0": 70,
        "split:1": 30,
        "left": 5,
    }
    assert instance.work.tolist() == [0, 58, 40, 50, 7, 0, 0, 0]
    assert instance.param_size.tolist() == [0, 0, 11, 6, 0, 0, 0, 0]


def test_a_cut_costs_the_tensors_that_cross_it(tmp_path):
    instance = read(tmp_path, GRAPH)
    stage = dict.fromkeys(instance.node_names, 0)
    stage["right"] = stage["late"] = 1
    verdict = verify(instance, list(stage.values()))
    assert verdict.feasible
    assert verdict.cost == 98 + 30 + 5  # left's output and split's second go to stage 1, whose work is 57


def test_the_first_output_alone_as_the_paper_took_it(tmp_path):
    instance = read(tmp_path, GRAPH, tensors="first")
    assert "split:0" not in instance.node_names
    assert {("split", "left"), ("split", "right")} < edges(instance)
    assert instance.output_size.tolist()[:5] == [0, 70, 5, 0, 0]


def test_compressed_files_and_byte_order_marks(tmp_path):
    plain = read(tmp_path, GRAPH)
    assert edges(read(tmp_path, gzip.compress(GRAPH.encode()), "graph.pbtxt.gz")) == edges(plain)
    assert edges(read(tmp_path, b"\xef\xbb\xbf" + GRAPH.encode())) == edges(plain)


def node(text):
    return f"node {{ name: 'a' id: 1 output_info {{ size: 3 }} }}\nnode {{ name: 'b' id: 2 {text} }}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (node("id: 3"), "line 2 column 24: expected one value for id"),
        (node("} node { name: 'c' id: 1"), "line 2 column 26: expected every id once, found 1 again"),
        (node("input_info { preceding_node: 7 }"), "line 2 column 24: expected the id of a node, found 7"),
        (node("input_info { preceding_port: 1 }"), "line 2 column 24: expected the id of a node, found 0"),
        (
            node("input_info { preceding_node: 1 preceding_port: 1 }"),
            "expected an output's number as preceding_port, found 1 of 'a', which has 1",
        ),
        (
            node("input_info { preceding_node: 1 preceding_port: -1 }"),
            "expected an output's number as preceding_port, found -1 of 'a', which has 1",
        ),
        (node("control_input: 9"), "line 2 column 1: expected the id of a node, found 9"),
        (node("compute_cost: -1"), "line 2 column 1: expected a known compute_cost, at least 0, found -1"),
        (node("output_info { size: -1 }"), "line 2 column 24: expected a known size, at least 0, found -1"),
        (node("persistent_memory_size: -5"), "expected a known persistent_memory_size, at least 0, found -5"),
        (node("compute_cost: 1.5"), "line 2 column 38: expected an integer from -2^63 to 2^63 - 1, found 1.5"),
        (node("colour: 5"), "line 2 column 24: expected one of the fields name, id, input_info"),
        (node("control_input: 2"), "line 2 column 1: expected a graph without cycles, found 'b' -> 'b'"),
        ("node { id: 1 control_input: 1 }", "line 1 column 1: expected a graph without cycles, found id 1 -> id 1"),
        (
            node("output_info { size: 3 } output_info { size: 4 } input_info { preceding_node: 3 }")
            + "\nnode { id: 3 output_info {} input_info { preceding_node: 2 preceding_port: 1 }"
            + " input_info { preceding_node: 2 } }",
            "line 3 column 29: expected a graph without cycles, found 'b' -> id 3 -> 'b'",
        ),
        (
            node("control_input: 3 } node { name: 'c' id: 3 control_input: 2"),
            "line 2 column 43: expected a graph without cycles, found 'b' -> 'c' -> 'b'",
        ),
        ("node {", "line 1 column 1: expected the message to be closed"),
        ("# nothing", "graph.pbtxt: expected at least one node"),
        ('{"nodes": []}', "line 1 column 1: expected a field such as `id: 1` or `node { ... }`"),
        (b"\x0a\x05\x0a\x03abc\xff", "byte 7: expected UTF-8 text"),
    ],
)
def test_a_defect_is_one_sentence(text, sentence, tmp_path):
    message = refusal(read, tmp_path, text)
    assert message.startswith(f"{tmp_path / 'graph.pbtxt'}: ")
    assert sentence in message


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stages": None}, "stages: expected a number in the file, or --stages N (stages=N in Python)"),
        ({"stages": 0}, "stages: expected 1 to 2147483647, found 0"),
        ({"bandwidth": 0.0}, "bandwidth: expected a positive number, found 0.0"),
        ({"bandwidth": -1.0}, "bandwidth: expected a finite number, at least 0, found -1.0"),
        ({"bandwidth": float("nan")}, "bandwidth: expected a finite number, at least 0, found nan"),
        ({"memory": -1.0}, "memory: expected a finite number, at least 0, found -1.0"),
        ({"memory": float("inf")}, "memory: expected a finite number, at least 0, found inf"),
    ],
)
def test_options_that_make_no_sense(options, sentence, tmp_path):
    assert sentence in refusal(read, tmp_path, GRAPH, **options)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cost_graph, "LARGEST", 100)
    with pytest.raises(InputError, match="expected at most 100 bytes, compressed or not"):
        read(tmp_path, GRAPH)
    with pytest.raises(InputError, match="expected at most 100 bytes, compressed or not"):
        read(tmp_path, gzip.compress(b" " * 100_000), "bomb.gz")


def test_a_random_graph_comes_back_from_its_cost_graph(tmp_path):
    instance = families()["barabasi-albert"].build(5)
    lines = []
    for v in range(instance.nodes):
        inputs = " ".join(f"input_info {{ preceding_node: {1000 + u} }}" for u in instance.graph.predecessors(v))
        size, cost = round(100 * instance.output_size[v]), round(100 * instance.work[v])
        lines.append(
            f"node {{ name: '{v}' id: {1000 + v} {inputs} output_info {{ size: {size} }} compute_cost: {cost} }}"
        )
    again = read(tmp_path, "\n".join(reversed(lines)), stages=instance.stages)
    mirrored = instance.nodes - 1 - np.arange(instance.nodes)
    read_from = np.isin(np.arange(instance.nodes), instance.graph.tail)
    assert again.node_names == instance.node_names[::-1]
    assert np.allclose(again.work[mirrored], 100 * instance.work)
    assert np.allclose(again.output_size[mirrored], np.where(read_from, 100 * instance.output_size, 0))
    assert edges(again) == edges(instance)
