"""Names of ONNX nodes are unique, and do not depend on what comes later in the graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from shardmark.instances.models.onnx_graph.names import operator_names


def test_a_node_is_called_by_its_name_else_its_first_output_else_its_type():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Split", ["a"], ["", "b"]),
        helper.make_node("Print", ["b"], []),
    ]
    assert operator_names(nodes) == ["first", "b", "Print"]


def test_a_name_that_is_taken_gets_a_number():
    names = ["a", "a", "a#2", "a"]
    nodes = [helper.make_node("Relu", ["x"], [f"y{i}"], name=name) for i, name in enumerate(names)]
    assert operator_names(nodes) == ["a", "a#2", "a#2#2", "a#3"]


@given(st.lists(st.sampled_from(["", "a", "a#2", "a#2#2", "b"]), max_size=12))
def test_names_are_unique_and_a_prefix_of_the_graph_keeps_its_names(names):
    nodes = [helper.make_node("Relu", ["x"], ["a"], name=name) for name in names]
    found = operator_names(nodes)
    assert len(set(found)) == len(nodes)
    assert operator_names(nodes[:5]) == found[:5]
