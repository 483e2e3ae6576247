"""Files of the placement paper: what is read, what is refused in one sentence, and what is written back."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from typing import Any

import documents
import numpy as np
import pytest
from documents import edge, node
from oracle_placement import optimum
from placements import draw_instance
from referee import refusal

from shardmark.harness.verify import verify
from shardmark.instances import InputError, catalog, load, parse, placement, save
from shardmark.instances.files.placement import numbered
from shardmark.instances.placement import Instance

#: 30 and -7 and 500 share a colour, one of them backward; 12 is for CPUs only.
BASE: dict[str, Any] = {
    "maxSizePerFPGA": 12.5,
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "nodes": [
        node(30, name="read", colorClass=9, layerId=4),
        node(-7, name="write", colorClass=9),
        node(12, supportedOnFpga=False, layerId=-3),
        node(500, isBackwardNode=True, colorClass=9, layerId=4),
        node(0, isBackwardNode=1),
    ],
    "edges": [
        *[edge(30, -7), edge(30, 12), edge(12, -7, 2.25), edge(-7, 500, 0)],
        *[edge(500, 0, 1), edge(-7, 0, 7, isArtificial=1)],
    ],
}


def read(document: Any, **options: Any) -> Instance:
    return parse(json.dumps(document).encode(), "base.json", **options)


def changed(path: str, value: Any) -> dict[str, Any]:
    return documents.changed(BASE, {path: value})


def test_a_file_is_recognised_and_read():
    instance = read(BASE)
    assert (instance.track, instance.name, instance.nodes, instance.edges) == ("placement", "base", 5, 6)
    assert (instance.accelerators, instance.cpus, instance.memory) == (2, 1, 12.5)
    columns = {
        "ids": [30, -7, 12, 500, 0],
        "cpu_time": [8.0] * 5,
        "accelerator_time": [2.0] * 5,
        "size": [3.0] * 5,
        "transfer": [0.5, 0, 2.25, 1, 0],
        "supported": [True, True, False, True, True],
        "backward": [False, False, False, True, True],
        "colour": [0, 0, -1, 0, -1],
        "layer": [0, -1, 1, 0, -1],
        "artificial": [False] * 5 + [True],
        "unit": [0, 0, 1, 0, 2],
    }
    assert {name: getattr(instance, name).tolist() for name in columns} == columns
    assert instance.node_names == ("read", "write", "12", "500", "0")
    assert instance.graph.tail.tolist() == [0, 0, 2, 1, 3, 1]
    assert not any(getattr(instance, name).flags.writeable for name in columns)


def test_repeated_edges_count_once_and_real_ones_before_artificial_ones():
    document = changed("edges", [edge(30, 12, 3, isArtificial=True), edge(30, -7), edge(30, 12), edge(30, 12)])
    instance = read(document)
    assert instance.graph.head.tolist() == [2, 1]
    assert instance.artificial.tolist() == [False, False]
    assert instance.transfer.tolist() == [0.5, 0, 0, 0, 0]


def test_costs_that_differ_a_little_are_the_first():
    assert read(changed("edges.1.cost", 0.5 + 9e-7)).transfer[0] == 0.5


def test_what_the_paper_s_program_ignores_is_ignored():
    assert read({**BASE, "author": "somebody"}).nodes == 5
    assert read(changed("nodes.0.colour", "red")).nodes == 5


Change = tuple[str, Any, str]
CHANGES: list[Change] = [
    ("maxFPGAs", 2.7, "maxFPGAs: expected an integer, found 2.7"),
    ("maxFPGAs", -1, "maxFPGAs: expected 0 to 2147483647, found -1"),
    ("maxCPUs", 2**31, "maxCPUs: expected 0 to 2147483647, found 2147483648"),
    ("maxSizePerFPGA", None, "maxSizePerFPGA: expected a finite number, at least 0, found null"),
    ("maxSizePerFPGA", -1, "maxSizePerFPGA: expected a finite number, at least 0, found -1"),
    ("name", 5, "name: expected a text, found 5"),
    ("nodes", [], "nodes: expected at least one node"),
    ("nodes", {}, "nodes: expected a list, found an object"),
    ("nodes.0", 5, "nodes[0]: expected an object, found 5"),
    ("nodes.1.id", 30, "nodes[1].id: expected every id once, found 30 again"),
    ("nodes.1.id", "7", "nodes[1].id: expected an integer, found '7'"),
    ("nodes.1.id", 2**63, f"nodes[1].id: expected an integer below 2^63, found {2**63}"),
    ("nodes.0.fpgaLatency", -3, "nodes[0].fpgaLatency: expected a finite number, at least 0, found -3"),
    ("nodes.0.cpuLatency", "3", "nodes[0].cpuLatency: expected a finite number, at least 0, found '3'"),
    ("edges.2.cost", 1e308, "nodes: expected numbers whose sums are finite"),
    ("nodes.0.cpuLatency", 1.797693134e308, "nodes: expected numbers whose sums are finite"),  # rounded they may not be
    ("nodes.0.size", None, "nodes[0].size: expected a finite number, at least 0, found null"),
    ("nodes.0.name", 5, "nodes[0].name: expected a text, found 5"),
    ("nodes.0.colorClass", "red", "nodes[0].colorClass: expected an integer, found 'red'"),
    ("nodes.0.layerId", 1.5, "nodes[0].layerId: expected an integer, found 1.5"),
    ("nodes.0.supportedOnFpga", "True", "nodes[0].supportedOnFpga: expected true or false, found 'True'"),
    ("nodes.0.isBackwardNode", 2, "nodes[0].isBackwardNode: expected true or false, found 2"),
    ("nodes.0.isBackwardNode", 1, "edges[0]: expected no edge from a backward node to a forward node, found read"),
    ("edges", None, "edges: expected a list, found null"),
    ("edges.3", [7, -1], "edges[3]: expected an object, found a list of 2"),
    ("edges.3.destId", 5, "edges[3].destId: expected the id of a node, found 5"),
    ("edges.3.sourceId", True, "edges[3].sourceId: expected an integer, found true"),
    ("edges.1.cost", 0.3, "edges[1].cost: expected the cost 0.5 of the other edges from node 30, found 0.3"),
    ("edges.1.cost", -1, "edges[1].cost: expected a finite number, at least 0, found -1"),
    ("edges.5.isArtificial", None, "edges[5].isArtificial: expected true or false, found null"),
    ("edges.2.destId", 30, "edges[1]: expected a graph without cycles, found read -> 12 -> read"),
    ("edges.4.destId", 500, "edges[4]: expected a graph without cycles, found 500 -> 500"),
    ("options", {"colour": 3}, "options key 'colour': expected only the keys objective, contiguity, schedule"),
    ("options", {"objective": "speed"}, "option objective: expected one of throughput, latency, found 'speed'"),
    ("options", {"objective": 3}, "option objective: expected a text, found 3"),
    ("options", {"allreduce": 0}, "option allreduce: expected a positive number, found 0.0"),
    (
        "options",
        {"allreduce": 1e-320},
        "option allreduce: expected a bandwidth at which synchronising takes a finite time, found 1e-320",
    ),
    ("options", {"cluster": 0, "slowdown": 2}, "option cluster: expected 1 to 2147483647, found 0"),
    ("options", {"cluster": 10**20, "slowdown": 2}, f"option cluster: expected 1 to 2147483647, found {10**20}"),
    ("options", [1], "options: expected an object, found a list of 1"),
    ("options", None, "options: expected an object, found null"),
    ("options", {"cluster": 2}, "option cluster: expected a slowdown above 1 as well"),
    ("options", {"slowdown": 2}, "option slowdown: expected the option cluster as well"),
    ("options", {"cluster": 2, "slowdown": 0.5}, "option slowdown: expected at least 1, found 0.5"),
    ("options", {"slowdown": None}, "option slowdown: expected a finite number, at least 0, found null"),
    ("options", {"objective": None}, "option objective: expected a text, found null"),
    ("options", {"cluster": 2.0, "slowdown": 2}, "option cluster: expected an integer, found 2.0"),
    ("options", {"cluster": 2, "slowdown": 2, "allreduce": 4}, "option allreduce: expected no clusters"),
    ("options", {"allreduce": "8"}, "option allreduce: expected a finite number, at least 0, found '8'"),
    ("options", {"allreduce": 8, "schedule": "gpipe"}, "option allreduce: expected the schedule pipedream"),
    *[
        ("options", {"objective": "latency", **other}, f"option {name}: expected {usual} with the objective latency")
        for name, usual, other in (
            ("contiguity", "contiguous or free", {"contiguity": "acyclic"}),
            ("schedule", "pipedream", {"schedule": "gpipe"}),
            ("overlap", "none", {"overlap": "half"}),
            ("allreduce", "none", {"allreduce": 3.5}),
            ("cluster", "none", {"cluster": 2, "slowdown": 1.5}),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "sentence"), CHANGES, ids=[f"{path}={value}" for path, value, _ in CHANGES])
def test_a_changed_value_is_one_sentence(path, value, sentence):
    assert refusal(read, changed(path, value)).startswith(f"base.json: {sentence}")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (edge(0, 12, 1), "edges[3]: expected no edge from a backward node to a forward node, found 0 -> 12"),
        (edge(12, 30), "edges[2]: expected a graph without cycles, found read -> 12 -> read"),
        (edge(12, 12), "edges[3]: expected a graph without cycles, found 12 -> 12"),
    ],
)
def test_an_edge_after_repeated_ones_has_its_number_in_the_file(wrong, sentence):
    assert (
        refusal(read, {**BASE, "edges": [edge(30, -7), edge(30, -7), edge(30, 12), wrong]}) == f"base.json: {sentence}"
    )


REQUIRED = ["maxFPGAs", "maxCPUs", "maxSizePerFPGA", "nodes", "edges", "nodes.0.id", "nodes.0.supportedOnFpga",
            "nodes.0.cpuLatency", "nodes.0.fpgaLatency", "nodes.0.isBackwardNode", "edges.0.sourceId", "edges.0.destId",
            "edges.0.cost"]  # fmt: skip


@pytest.mark.parametrize("path", REQUIRED)
def test_a_missing_key_is_one_sentence(path):
    document = documents.removed(BASE, path)
    *inner, last = path.split(".")
    place = f"base.json: {inner[0]}[0]: " if inner else "base.json: "
    assert refusal(read, document) == f"{place}expected a key {last!r}"


def test_without_devices_it_is_of_no_track():
    with pytest.raises(InputError, match="expected an instance of one of the tracks"):
        read({key: value for key, value in BASE.items() if key not in ("maxFPGAs", "maxCPUs")})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"maxFPGAs": 0}, "maxFPGAs: expected at least one accelerator or CPU"),
        ({}, "nodes[2].supportedOnFpga: expected a node that accelerators support, as there are no CPUs"),
        (
            {"nodes.2.colorClass": 9},
            "nodes[2].supportedOnFpga: expected a node that accelerators support, as there are no CPUs "
            "(in a colour class of 4 nodes)",
        ),
        (
            {"nodes.2.supportedOnFpga": True, "maxSizePerFPGA": 8},
            "nodes[0].size: expected at most the memory 8, as there are no CPUs, found 9 "
            "(in a colour class of 3 nodes)",
        ),
        (
            {"nodes.2.supportedOnFpga": True, "maxFPGAs": 1},
            "maxSizePerFPGA: expected at least 15, as accelerators alone must hold sizes of 15, found 12.5",
        ),
    ],
)
def test_what_no_device_can_take_is_refused_where_there_are_no_cpus(changes, sentence):
    document = documents.changed(BASE, {"maxCPUs": 0, **changes})
    assert refusal(read, document) == f"base.json: {sentence}"


def test_with_a_cpu_anything_can_be_placed():
    assert read({**BASE, "maxFPGAs": 0, "maxSizePerFPGA": 0}).load_bound() == pytest.approx(40)


OPTIONS: dict[str, Any] = {"contiguity": "free", "overlap": "full", "allreduce": 2.5}


def test_options_are_given_or_carried_and_part_of_the_instance():
    assert {name: getattr(read(BASE, **OPTIONS), name) for name in OPTIONS} == OPTIONS
    carried = read({**BASE, "options": OPTIONS}, contiguity="acyclic")
    assert (carried.contiguity, carried.overlap, carried.allreduce) == ("acyclic", "full", 2.5)
    assert read({**BASE, "options": {"cluster": None, "allreduce": None}}).allreduce is None
    with pytest.raises(InputError, match="option stages: expected an option of placement"):
        read(BASE, stages=3)


def test_it_is_written_as_it_was_read(tmp_path):
    instance = read(BASE, **OPTIONS)
    for name in ("graph.json", "graph.json.gz"):
        save(instance, tmp_path / name)
        again = load(tmp_path / name)
        for field in dataclasses.fields(Instance):
            x, y = getattr(instance, field.name), getattr(again, field.name)
            if isinstance(x, np.ndarray):
                assert (x.dtype, x.tolist()) == (y.dtype, y.tolist())
            elif field.name == "graph":
                assert (x.tail.tolist(), x.head.tolist()) == (y.tail.tolist(), y.head.tolist())
            elif field.name != "source":
                assert x == y
    assert "options" not in placement.to_document(read(BASE))


def test_the_facts_of_a_graph():
    facts = read(BASE).summary()
    counts = {
        "backward_nodes": 2,
        "orphaned_nodes": 1,
        "unsupported_nodes": 1,
        "units": 3,
        "largest_unit": 3,
        "sinks": 1,
    }
    assert {name: facts[name] for name in counts} == counts
    json.dumps(facts)


def test_numbers_of_labels_follow_their_first_nodes():
    assert numbered(np.array([7, -1, 3, 7, -5, 0])).tolist() == [0, -1, 1, 0, -1, 2]
    assert numbered(np.array([], dtype=np.int64)).tolist() == []


def test_columns_of_other_lengths_are_refused():
    instance = read(BASE)
    told = "nodes: expected 5 elements per column, one per node, found size 4, layer 6$"
    with pytest.raises(InputError, match=told):
        dataclasses.replace(instance, size=instance.size[:4], layer=np.arange(6))
    with pytest.raises(InputError, match=r"edges: expected . elements per column, one per edge, found artificial 0"):
        dataclasses.replace(instance, artificial=np.zeros(0, dtype=bool))
    with pytest.raises(InputError, match=r"size\[0\]: expected a finite number, at least 0, found nan"):
        dataclasses.replace(instance, size=instance.size * np.nan)


@pytest.mark.parametrize("seed", range(6))
def test_simple_bounds_are_below_the_best_placement(seed):
    draw = random.Random(seed)
    for _ in range(10):
        instance = draw_instance(draw, most_nodes=4)
        best = optimum(instance)
        if best is not None:
            assert instance.summary()["simple_bound"] <= best


def test_the_load_bound_is_tight_where_work_is_even():
    even = [node(v, fpgaLatency=3, cpuLatency=9, size=0) for v in range(7)]
    document = {"maxSizePerFPGA": 1, "maxFPGAs": 2, "maxCPUs": 1, "nodes": even, "edges": []}
    assert read(document).load_bound() == pytest.approx(9)


@pytest.mark.gate
@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_simple_bounds_of_many_equal_nodes_are_no_more_than_they_take(objective):
    """Added one after the other 10,000 times 0.1 is too much by 1.6e-13, relatively."""
    count = 10_000
    nodes = [node(v, fpgaLatency=0.1, size=0, colorClass=0) for v in range(count)]
    edges = [edge(v, v + 1, 0) for v in range(count - 1)]
    document = {"maxSizePerFPGA": 0, "maxFPGAs": 1, "maxCPUs": 0, "nodes": nodes, "edges": edges}
    instance = read(document, objective=objective)
    bound, cost = instance.summary()["simple_bound"], verify(instance, [0] * count).cost
    assert cost * (1 - 1e-10) < bound <= cost


def test_a_class_that_fills_the_memory_to_its_last_bit_fits():
    tenths = [node(v, size=v / 10, colorClass=1) for v in (1, 2, 3)]
    document = {"maxSizePerFPGA": 0.6 / (1 + 1e-9), "maxFPGAs": 1, "maxCPUs": 0, "nodes": tenths, "edges": []}
    instance = read(document)
    one_by_one = float(np.add.accumulate(instance.size)[-1])  # as `sum` does before Python 3.12
    assert math.fsum(instance.size) <= instance.capacity < one_by_one <= instance.room
    assert instance.unit_times()[0].tolist() == [6.0]


PUBLIC = [entry for entry in catalog.entries() if entry.track == "placement" and not entry.embedded]


def test_every_public_graph_is_in_the_catalog_in_every_mode():
    throughput = {entry.path for entry in PUBLIC if "throughput" in entry.path}
    latency = {entry.path for entry in PUBLIC if "latency" in entry.path}
    assert (len(throughput), len(latency), len(PUBLIC)) == (16, 8, 3 * 16 + 2 * 8)
    assert all("best_cost" in entry.published for entry in PUBLIC)
    for path in throughput:
        modes = [entry.options.get("contiguity") for entry in PUBLIC if entry.path == path]
        assert modes == [None, "acyclic", "free"]


def test_public_graphs_are_what_the_catalog_says(mirror):
    there = [entry for entry in PUBLIC if (mirror / entry.place).is_file()]
    assert there
    for entry in there:
        instance = load(catalog.locate(entry, mirror), **entry.options)
        assert all(getattr(instance, name) == value for name, value in entry.options.items())
        if "nodes" in entry.note:
            assert f" {instance.nodes} nodes on {instance.accelerators} accelerators" in entry.note
        assert instance.summary()["simple_bound"] <= float(entry.published["best_cost"])
