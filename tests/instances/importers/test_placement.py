"""Graphs of the placement paper cost as pipelines what its devices take, and what has no such meaning is refused."""

from __future__ import annotations

import copy
import json
import random
from collections import defaultdict
from typing import Any

import documents
import pytest
from documents import edge, node
from referee import refusal

from shardmark.harness.verify import verify
from shardmark.instances import InputError, catalog, load, save
from shardmark.instances.importers import placement

OPTIONS = {"stages": None, "bandwidth": None, "part": "whole"}


def timed(identity, time, **more):
    return node(identity, **{"fpgaLatency": time, "cpuLatency": 10 * time, "size": 2.0, **more})


#: 7 and 9 share a colour, so that 8 between them joins them; both and 4 are read from outside.
GRAPH: dict[str, Any] = {
    "maxSizePerFPGA": 5.0,
    "maxFPGAs": 3,
    "maxCPUs": 1,
    "nodes": [
        timed(4, 3.0, name="four", layerId=1),
        timed(7, 1.5, name="seven", colorClass=2),
        timed(8, 0.0, name="eight", supportedOnFpga=True, size=0.5),
        timed(9, 2.5, name="nine", colorClass=2),
        timed(-1, 4.0),
        timed(11, 1.0, name="eleven"),
    ],
    "edges": [
        edge(4, 7, 0.25, size=64),
        edge(4, 11, 0.25),
        edge(7, 8, 1.0),
        edge(7, -1, 1.0),
        edge(8, 9, 9.0),
        edge(9, 11, 0.5),
        edge(9, 11, 0.5),
        edge(-1, 11, 0.0, isArtificial=True),
    ],
}
BACKWARD = [timed(100, 6.0, name="back", isBackwardNode=1, colorClass=50)]


def read(tmp_path, document, **options):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(document))
    return placement.read(path, **{**OPTIONS, **options})


def facts(instance):
    names = instance.node_names
    edges = {(names[u], names[v]) for u, v in zip(instance.graph.tail, instance.graph.head, strict=True)}
    columns = zip(names, instance.work, instance.output_size, instance.param_size, strict=True)
    return edges, {name: tuple(map(float, row)) for name, *row in columns}


def test_what_must_be_together_is_one_node_with_several_tensors(tmp_path):
    instance = read(tmp_path, GRAPH)
    edges, nodes = facts(instance)
    together = "seven+eight+nine"
    assert edges == {
        ("four", together),
        ("four", "eleven"),
        *((together, helper) for helper in ("seven", "nine")),
        ("seven", "-1"),
        ("nine", "eleven"),
        ("-1", "eleven"),
    }
    assert nodes == {
        "four": (3, 0.25, 2),
        together: (4, 1.5, 4.5),
        "-1": (4, 0, 2),
        "eleven": (1, 0, 2),
        "seven": (0, 1, 0),
        "nine": (0, 0.5, 0),
    }
    assert (instance.name, instance.stages, instance.bandwidth, instance.memory) == ("graph", 3, 1.0, None)


def test_a_bandwidth_makes_bytes_of_times_and_the_memory_count(tmp_path):
    instance = read(tmp_path, GRAPH, bandwidth=8.0, stages=2)
    assert (instance.stages, instance.bandwidth, instance.memory) == (2, 8.0, 5.0)
    assert facts(instance)[1]["four"] == (3, 2, 2)


def test_the_forward_part_of_a_graph_for_training(tmp_path):
    training = copy.deepcopy(GRAPH)
    training["nodes"] += BACKWARD
    training["edges"] += [edge(11, 100, 3.0)]
    assert facts(read(tmp_path, training, part="forward")) == facts(read(tmp_path, GRAPH))


def test_a_file_of_the_paper_is_an_instance_when_the_track_is_named(tmp_path):
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    assert facts(load(tmp_path / "graph.json", "pipeline")) == facts(read(tmp_path, GRAPH))
    assert load(tmp_path / "graph.json", "pipeline", stages=7).stages == 7
    assert load(tmp_path / "graph.json").track == "placement"


def test_an_imported_graph_is_saved_in_the_track_s_own_format(tmp_path):
    instance = read(tmp_path, GRAPH)
    save(instance, tmp_path / "saved.json")
    assert facts(load(tmp_path / "saved.json")) == facts(instance)


Change = tuple[str, Any, str]
CHANGES: list[Change] = [
    ("maxFPGAs", 2.7, "maxFPGAs: expected an integer, found 2.7"),
    ("maxFPGAs", 0, "stages: expected 1 to 2147483647, found 0"),
    ("maxSizePerFPGA", -1, "maxSizePerFPGA: expected a finite number, at least 0, found -1"),
    ("nodes", [], "nodes: expected at least one node"),
    ("nodes", {}, "nodes: expected a list, found an object"),
    ("nodes.0", 5, "nodes[0]: expected an object, found 5"),
    ("nodes.1.id", 4, "nodes[1].id: expected every id once, found 4 again"),
    ("nodes.1.id", "7", "nodes[1].id: expected an integer, found '7'"),
    ("nodes.0.fpgaLatency", -3, "nodes[0].fpgaLatency: expected a finite number, at least 0, found -3"),
    ("nodes.0.size", None, "nodes[0].size: expected a finite number, at least 0, found null"),
    ("nodes.0.name", 5, "nodes[0].name: expected a text, found 5"),
    ("nodes.0.colorClass", "red", "nodes[0].colorClass: expected an integer, found 'red'"),
    ("nodes.0.supportedOnFpga", "True", "nodes[0].supportedOnFpga: expected true or false, found 'True'"),
    ("nodes.2.supportedOnFpga", False, "nodes[2].supportedOnFpga: expected a node that accelerators support"),
    ("nodes.0.isBackwardNode", 2, "nodes[0].isBackwardNode: expected true or false, found 2"),
    ("nodes.5.isBackwardNode", 1, "nodes[5].isBackwardNode: expected a graph for inference, or `shardmark import"),
    ("edges", None, "edges: expected a list, found null"),
    ("edges.3", [7, -1], "edges[3]: expected an object, found a list of 2"),
    ("edges.3.destId", 5, "edges[3].destId: expected the id of a node, found 5"),
    ("edges.1.cost", 0.3, "edges[1].cost: expected the cost 0.25 of the other edges from node 4, found 0.3"),
    ("edges.1.cost", -1, "edges[1].cost: expected a finite number, at least 0, found -1"),
    ("edges.7.isArtificial", None, "edges[7].isArtificial: expected true or false, found null"),
    ("edges.1", edge(7, 4, 1.0), "expected a graph without cycles, found four -> seven -> four"),
]


@pytest.mark.parametrize(("path", "value", "sentence"), CHANGES, ids=[f"{path}={value}" for path, value, _ in CHANGES])
def test_a_changed_value_is_one_sentence(path, value, sentence, tmp_path):
    document = documents.changed(GRAPH, {path: value})
    message = refusal(read, tmp_path, document)
    assert message.startswith(f"{tmp_path / 'graph.json'}: {sentence}" if ":" in sentence else str(tmp_path))
    assert sentence in message


@pytest.mark.parametrize(
    "path", ["maxFPGAs", "maxSizePerFPGA", "nodes", "edges", "nodes.0.id", "nodes.0.fpgaLatency", "edges.0.cost"]
)
def test_a_missing_key_is_one_sentence(path, tmp_path):
    document = documents.removed(GRAPH, path)
    with pytest.raises(InputError, match=f"expected a key '{path.split('.')[-1]}'"):
        read(tmp_path, document)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan")])
def test_a_bandwidth_that_makes_no_sense(bandwidth, tmp_path):
    with pytest.raises(InputError, match=r"bandwidth: expected a (positive|finite) number"):
        read(tmp_path, GRAPH, bandwidth=bandwidth)


def test_no_object_at_all(tmp_path):
    with pytest.raises(InputError, match="expected an object, found a list of 0"):
        read(tmp_path, [])


PUBLIC = [entry for entry in catalog.entries() if entry.repository == "msr-fiddle/dnn-partitioning"]
FILES = [entry for entry in PUBLIC if entry.track == "pipeline"]


def test_the_public_graphs_for_inference_are_in_the_catalog():
    assert [entry.id for entry in FILES] == [entry.id for entry in catalog.suite("placement-as-pipeline")]
    assert len({entry.path for entry in FILES}) == 8
    assert all("throughput-inputs" in entry.path and "inference" in entry.path for entry in FILES)


def device_load(document, taken):
    """Time of an accelerator: its work, and every tensor that comes in or goes out, once."""
    costs = {record["sourceId"]: record["cost"] for record in document["edges"]}
    crossing = {e["sourceId"] for e in document["edges"] if (e["sourceId"] in taken) != (e["destId"] in taken)}
    return sum(n["fpgaLatency"] for n in document["nodes"] if n["id"] in taken) + sum(costs[u] for u in crossing)


def test_partitions_of_public_graphs_cost_what_the_accelerators_take(mirror):
    there = [entry for entry in FILES if (mirror / entry.place).is_file()]
    assert there, "the mirror has none of the placement paper's graphs"
    for entry in there:
        check_costs(entry, mirror / entry.place)


def check_costs(entry, path):
    """A random partition costs what the paper's loads say."""
    document, instance = json.loads(path.read_text()), load(path, entry.track)
    assert instance.stages == document["maxFPGAs"]
    chance = random.Random(entry.id)
    cuts = sorted(chance.randrange(instance.nodes) for _ in range(instance.stages - 1))
    stage = [0] * instance.nodes
    for at, v in enumerate(instance.graph.topological_order.tolist()):
        stage[v] = sum(cut <= at for cut in cuts)
    names = {record.get("name", str(record["id"])): record["id"] for record in document["nodes"]}
    assert len(names) == len(document["nodes"])
    taken, known = defaultdict(set), set()
    for v, name in enumerate(instance.node_names):
        members = {names[part] for part in name.split("+")} - known
        if not members:  # a helper, which belongs to its node's device
            (producer,) = instance.graph.predecessors(v)
            stage[v] = stage[producer]
        known |= members
        taken[stage[v]] |= members
    assert known == set(names.values())
    verdict = verify(instance, stage)
    assert verdict.feasible
    assert verdict.cost == pytest.approx(max(device_load(document, ids) for ids in taken.values()), rel=1e-9)
