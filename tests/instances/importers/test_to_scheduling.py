"""Pipelines and placements become data flows that take the times their files say, and other tracks are declined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import edge, node
from referee import answer, refusal

from shardmark.harness.verify import verify
from shardmark.instances import InputError, catalog, load, save, scheduling
from shardmark.instances.generate import families
from shardmark.instances.importers import to_scheduling
from shardmark.instances.scheduling import Instance

PIPELINE = {
    "format": "shardmark/pipeline/1",
    "name": "line",
    "stages": 2,
    "bandwidth": 4,
    "memory": 10,
    "nodes": {"name": ["a", "b", "c"], "work": [3, 2, 4], "output_size": [8, 2, 1], "param_size": [1, 1, 1]},
    "edges": [[0, 1], [0, 2], [1, 2]],
}


def operator(number: int, cpu: float, accelerator: float, **more: Any) -> dict[str, Any]:
    return node(number, cpuLatency=cpu, fpgaLatency=accelerator, size=1, name=f"n{number}", **more)


PLACEMENT = {
    "maxSizePerFPGA": 100,
    "maxFPGAs": 2,
    "maxCPUs": 2,
    "nodes": [
        operator(0, 10, 2, colorClass=3),
        operator(1, 30, 4),
        operator(2, 7, 100, supportedOnFpga=0),
        operator(3, 20, 6, colorClass=3),
    ],
    "edges": [
        *(edge(0, 1, 1.5), edge(1, 2, 2.5), edge(2, 3, 4)),
        edge(0, 3, 1.5, isArtificial=True),
    ],
}


def read(tmp_path: Any, document: Any, **options: Any) -> Instance:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(document))
    return to_scheduling.read(path, **{"devices": None, "machine": None, "seed": 0, **options})


def makespan(instance: Instance, device: list[int]) -> float:
    """Of the vertices in topological order on these devices, as the referee has it."""
    order = [[v for v in instance.graph.topological_order.tolist() if device[v] == d] for d in range(instance.devices)]
    verdict = verify(instance, {"device": device, "order": order})
    assert verdict.feasible, verdict.violations
    return float(verdict.cost)


def test_a_pipeline_has_a_device_for_each_stage_and_a_tensor_for_each_reader(tmp_path: Any) -> None:
    instance = read(tmp_path, PIPELINE)
    assert (instance.name, instance.node_names, instance.devices) == ("line", ("a", "b", "c"), 2)
    assert (instance.complexity.tolist(), instance.size.tolist()) == ([3, 2, 4], [8, 8, 2])
    assert np.isinf(instance.memory).all()
    assert makespan(instance, [0, 0, 0]) == 9
    assert makespan(instance, [0, 1, 0]) == 3 + 8 / 4 + 2 + 2 / 4 + 4


def test_other_devices_for_a_pipeline(tmp_path: Any) -> None:
    endless = {key: value for key, value in PIPELINE.items() if key != "stages"}
    drawn = read(tmp_path, endless, devices=5, seed=3)
    assert (drawn.devices, drawn.size.tolist()) == (5, [8, 8, 2])
    assert drawn.speed.tolist() != read(tmp_path, endless, devices=5, seed=4).speed.tolist()
    (tmp_path / "machine.json").write_text(json.dumps({"devices": {"speed": [2]}, "bandwidth": 1}))
    assert makespan(read(tmp_path, endless, machine=str(tmp_path / "machine.json")), [0, 0, 0]) == 4.5
    with pytest.raises(InputError, match="stages: expected a number in the file"):
        read(tmp_path, endless)


def test_a_placement_takes_the_times_of_its_accelerators_and_of_all_its_cpus(tmp_path: Any) -> None:
    instance = read(tmp_path, PLACEMENT)
    assert instance.device_names == ("accelerator-0", "accelerator-1", "cpu-0", "cpu-1")
    assert instance.speed.tolist() == [1, 1, 0.2, 0.2]  # 2 + 4 + 6 over 10 + 30 + 20
    assert instance.colocation.tolist() == [0, -1, -1, 0]
    assert [instance.choices[c].tolist() if c >= 0 else None for c in instance.choice] == [None, None, [2, 3], None]
    assert instance.size.tolist() == [1.5, 2.5, 4, 0]
    assert makespan(instance, [2, 2, 2, 2]) == pytest.approx(10 + 30 + 7 + 20)
    assert makespan(instance, [0, 0, 2, 0]) == pytest.approx(2 + 4 + 2.5 + 7 + 4 + 6)
    assert makespan(instance, [0, 1, 2, 0]) == pytest.approx(2 + 2 * 1.5 + 4 + 2.5 + 7 + 4 + 6)
    assert makespan(instance, [2, 2, 3, 2]) == pytest.approx(67, rel=1e-6)  # CPUs are next to each other


def test_an_intraop_graph_runs_each_node_in_its_cheapest_strategy_on_a_mesh(tmp_path: Any) -> None:
    intervals, costs, usages = [[5, 9], [0, 9], [2, 9]], [[7, 3, 3], [1], [4, 2]], [[1, 10, 20], [30], [40, 50]]
    scopes = [[0, 1], [1, 0], [2, 0, 1], [2], [2, 2]]
    tables = [[0] * 3, [0] * 3, [0] * 6, [0] * 2, [0] * 4]
    nodes, joined = {"intervals": intervals, "costs": costs, "usages": usages}, {"nodes": scopes, "costs": tables}
    document = {"problem": {"nodes": nodes, "edges": joined, "usage_limit": 100}}
    instance = read(tmp_path, document, devices=4)
    assert instance.complexity.tolist() == [3, 1, 2]
    ends = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), instance.size.tolist(), strict=True)
    assert sorted(ends) == [(1, 0, 30), (1, 2, 30)]
    with pytest.raises(InputError, match="expected `--devices N` or `--machine FILE` for an instance of intraop"):
        read(tmp_path, document)


def test_only_accelerators_or_only_cpus(tmp_path: Any) -> None:
    supported = {**PLACEMENT, "nodes": [{**one, "supportedOnFpga": 1} for one in PLACEMENT["nodes"]]}
    alone = read(tmp_path, {**supported, "maxCPUs": 0})
    assert makespan(alone, [0, 0, 0, 0]) == 112
    assert makespan(read(tmp_path, {**PLACEMENT, "maxFPGAs": 0}), [0, 0, 0, 0]) == pytest.approx(67)


@pytest.mark.parametrize("family", ["erdos-renyi", "transformer", "operators", "inception", "fork-join"])
def test_drawn_instances_keep_their_sums_and_edges(family: str, tmp_path: Any) -> None:
    given = {"training": 1} if family == "operators" else {}
    original = families()[family].build(2, **given)
    path = tmp_path / "graph.json.gz"
    save(original, path)
    if family == "fork-join":
        with pytest.raises(InputError, match="expected an instance of another track, found scheduling"):
            to_scheduling.read(path, devices=None, machine=None, seed=0)
        return
    instance = to_scheduling.read(path, devices=None, machine=None, seed=0)
    assert instance.node_names == original.node_names
    assert (instance.graph.tail == original.graph.tail).all()
    assert (instance.graph.head == original.graph.head).all()
    last = instance.devices - 1
    total = original.work if original.track == "pipeline" else original.cpu_time
    assert makespan(instance, [last] * instance.nodes) == pytest.approx(total.sum())


@pytest.mark.parametrize(
    ("document", "options", "sentence"),
    [
        (PLACEMENT, {"devices": 3}, "expected no other devices: the times of a placement are for its"),
        (PIPELINE, {"devices": 0}, "--devices: expected 1 to 2000, found 0"),
        ({**PIPELINE, "stages": 2001}, {}, "stages: expected at most 2000, one per device, found 2001"),
        ({**PLACEMENT, "maxFPGAs": 1999}, {}, "maxFPGAs: expected at most 2000 devices with maxCPUs, found 2001"),
        ({**PIPELINE, "edges": [[0, 1], [1, 0]]}, {}, "expected a graph without cycles"),
        ([1, 2], {}, "expected an instance of one of the tracks"),
        (
            {**PLACEMENT, "nodes": [operator(v, 1e300, 1e-300) for v in range(4)]},
            {},
            "nodes: expected total times on CPUs and",
        ),
        ({**PLACEMENT, "nodes": [operator(v, 1e-300, 1e300) for v in range(4)]}, {}, "found sums of 4e-300 and 4e+300"),
    ],
)
def test_what_is_no_data_flow_is_refused(document: Any, options: dict[str, Any], sentence: str, tmp_path: Any) -> None:
    assert sentence in refusal(read, tmp_path, document, **options)


def test_an_id_of_the_catalog_is_an_instance() -> None:
    by_id = to_scheduling.read(Path("lstm-50"), devices=None, machine=None, seed=0)
    by_path = to_scheduling.read(catalog.locate(catalog.find("lstm-50")), devices=None, machine=None, seed=0)
    assert (by_id.nodes, by_id.devices) == (751, 12)
    assert scheduling.to_document(by_id) == scheduling.to_document(by_path)
    with pytest.raises(InputError, match="lstm-51: expected a file or an id of the catalog, did you mean 'lstm-50'"):
        to_scheduling.read(Path("lstm-51"), devices=None, machine=None, seed=0)


def test_the_command_writes_an_instance(tmp_path: Any) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(PLACEMENT))
    facts = answer("import", "to-scheduling", tmp_path / "graph.json", "--output", tmp_path / "flow.json")
    assert (facts["track"], facts["nodes"], facts["restricted_nodes"]) == ("scheduling", 4, 1)
    assert load(tmp_path / "flow.json").track == "scheduling"
