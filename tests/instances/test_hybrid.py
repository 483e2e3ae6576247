"""Piper's files: what is read, what is refused in one sentence, and what is written back."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import re
from typing import Any

import documents
import numpy as np
import pytest
from oracle_hybrid import draw
from referee import refusal

from shardmark.instances import InputError, catalog, hybrid, load, parse, save, track_module
from shardmark.instances.files import jsonfile
from shardmark.instances.graph import Graph
from shardmark.instances.hybrid import Instance


def entry(name: str = "vanilla", into: tuple[int, ...] = (), out: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    """Return a configuration."""
    usual = {"id": name, "timePerSample": 3, "parameterSize": 40, "memoryUsageA": 10, "memoryUsageB": 20}
    sync = {"syncTimeFw": {str(u): 0.5 for u in into}, "syncTimeBw": {str(v): 2 for v in out}}
    return {**usual, **sync, **more}


def edge(tail: int, head: int, bytes_: float = 8) -> dict[str, Any]:
    """Return an edge."""
    return {"sourceId": tail, "destId": head, "communicationCost": bytes_}


BASE: dict[str, Any] = {
    "maxDevices": 4,
    "maxMemoryPerDevice": 100,
    "bandwidth": 2.5,
    "mbsInBatch": 6,
    "nodes": [
        {
            "id": 30,
            "name": "embed",
            "TMPCs": {"1": [entry(out=(-7, 5))], "2": [entry(out=(-7, 5)), entry("recomputed", out=(-7, 5))]},
        },
        {"id": -7, "TMPCs": {"1": [entry(into=(30,), out=(5,), memoryShared=12)]}},
        {"id": 5, "TMPCs": {"2": [entry(into=(30, -7))], "1": [entry(into=(30, -7), gatherSize=7)]}},
    ],
    "edges": [edge(30, 5), edge(30, -7), edge(-7, 5)],
}


def read(document: Any, **options: Any) -> Instance:
    return parse(json.dumps(document).encode(), "base.json", **options)


def test_a_file_is_recognised_and_read():
    instance = read(BASE)
    assert (instance.track, instance.name, instance.nodes, instance.edges) == ("hybrid", "base", 3, 3)
    assert (instance.devices, instance.memory, instance.batch, instance.bandwidth) == (4, 100.0, 6, 2.5)
    assert (instance.objective, instance.machine, instance.inside) == ("throughput", None, None)
    columns = {
        "ids": [30, -7, 5],
        "start": [0, 3, 4, 6],
        "node": [0, 0, 0, 1, 2, 2],
        "degree": [1, 2, 2, 1, 1, 2],
        "kind": [0, 0, 1, 0, 0, 0],
        "time": [3.0] * 6,
        "shared": [0, 0, 0, 12, 0, 0],
        "gathered": [0, 0, 0, 0, 7, 0],
        "communicated": [8.0] * 3,
        "sync_start": [0, 2, 4, 6, 8, 10, 12],
        "sync": [2, 2, 2, 2, 2, 2, 0.5, 2, 0.5, 0.5, 0.5, 0.5],
        "replicas": [1, 2, 3],
        "most_replicas": [3, 2, 2, 3, 3, 2],
        "least_memory": [30, 30, 30, 34, 30, 30],
    }
    assert {name: getattr(instance, name).tolist() for name in columns} == columns
    assert [column.tolist() for column in instance.incident] == [[0, 2, 4, 6], [0, 1, 1, 2, 0, 2]]
    assert instance.kinds == ("vanilla", "recomputed")
    assert instance.node_names == ("embed", "-7", "5")
    assert not any(getattr(instance, name).flags.writeable for name in columns)


def test_options_override_the_numbers_of_the_file():
    instance = read(BASE, devices=8, memory=70, batch=12, bandwidth=1, objective="step")
    assert (instance.devices, instance.memory, instance.batch, instance.bandwidth) == (8, 70.0, 12, 1.0)
    assert instance.objective == "step"
    for key in ("maxDevices", "maxMemoryPerDevice", "mbsInBatch", "bandwidth"):
        name = next(name for name, top in hybrid.TOP.items() if top == key)
        assert getattr(read(documents.removed(BASE, key), **{name: 3e9 if name == "memory" else 3}), name) >= 3


def test_divisors_of_a_batch_up_to_the_devices_are_the_degrees_that_exist():
    for batch in (1, 2, 6, 36, 97, 1920, 2**30, 2**31 - 1):
        for devices in (1, 5, 64, 2**31 - 1):
            instance = read(BASE, batch=batch, devices=devices)
            expected = [d for d in range(1, min(devices, batch, 5000) + 1) if batch % d == 0]
            assert [d for d in instance.replicas.tolist() if d <= 5000] == expected


def test_keys_that_the_paper_s_program_ignores_are_ignored():
    assert read({**BASE, "author": "somebody"}).nodes == 3


Change = tuple[str, Any, str]
FIRST = "nodes.0.TMPCs"
CHANGES: list[Change] = [
    ("maxDevices", 0, "maxDevices: expected 1 to 2147483647, found 0"),
    ("maxDevices", 2**31, "maxDevices: expected 1 to 2147483647, found 2147483648"),
    ("maxDevices", 2.5, "maxDevices: expected an integer, found 2.5"),
    ("mbsInBatch", 0, "mbsInBatch: expected 1 to 2147483647, found 0"),
    ("mbsInBatch", -6, "mbsInBatch: expected 1 to 2147483647, found -6"),
    ("bandwidth", 0, "bandwidth: expected a positive number, found 0.0"),
    ("bandwidth", 10**400, "bandwidth: expected a finite number, at least 0, found an integer of 1329 bits"),
    ("bandwidth", 1e-308, "nodes: expected numbers whose sums are finite"),
    (
        "maxMemoryPerDevice",
        1.7976931348623157e308,
        "maxMemoryPerDevice: expected a number from 0 to 1.797693133e+308, found",
    ),
    ("maxMemoryPerDevice", -1, "maxMemoryPerDevice: expected a finite number, at least 0, found -1"),
    (
        "maxMemoryPerDevice",
        33.5,
        "maxMemoryPerDevice: expected at least 34 bytes, which node -7 needs alone in a stage with its "
        "configuration 'vanilla' of degree 1, found 33.5, 0.5 too few",
    ),
    ("devicesPerMachine", 4, "bandwidthInside: expected a number, as there is devicesPerMachine, found none"),
    ("bandwidthInside", 4, "devicesPerMachine: expected a number, as there is bandwidthInside, found none"),
    ("options", {"objective": "speed"}, "option objective: expected one of throughput, step, found 'speed'"),
    ("options", {"devices": 3}, "options key 'devices': expected only the keys objective"),
    ("name", 5, "name: expected a text, found 5"),
    ("nodes", [], "nodes: expected at least one node"),
    ("nodes", {}, "nodes: expected a list, found an object"),
    ("nodes.0", 5, "nodes[0]: expected an object, found 5"),
    ("nodes.1.id", 30, "nodes[1].id: expected every id once, found 30 again"),
    ("nodes.1.id", "7", "nodes[1].id: expected an integer, found '7'"),
    (FIRST, {}, "nodes[0].TMPCs: expected an object with a key per degree, found none"),
    (FIRST, [1], "nodes[0].TMPCs: expected an object with a key per degree, found a list of 1"),
    (f"{FIRST}.2", [], "nodes[0].TMPCs[2]: expected at least one configuration"),
    (f"{FIRST}.2", {}, "nodes[0].TMPCs[2]: expected a list, found an object"),
    (f"{FIRST}.two", [], "nodes[0].TMPCs: expected a degree from 1 to 2147483647 as key, found 'two'"),
    (f"{FIRST}.01", [], "nodes[0].TMPCs: expected a degree from 1 to 2147483647 as key, found '01'"),
    (f"{FIRST}.0", [], "nodes[0].TMPCs: expected a degree from 1 to 2147483647 as key, found '0'"),
    (f"{FIRST}.2.1", 5, "nodes[0].TMPCs[2][1]: expected an object, found 5"),
    (f"{FIRST}.2.1.id", "vanilla", "nodes[0].TMPCs[2]: expected every id once, found 'vanilla' again"),
    (f"{FIRST}.2.1.id", 3, "nodes[0].TMPCs[2][1].id: expected a text, found 3"),
    (f"{FIRST}.2.1.timePerSample", -1, "nodes[0].TMPCs[2][1].timePerSample: expected a finite number, at least 0"),
    (f"{FIRST}.2.1.memoryUsageA", "3", "nodes[0].TMPCs[2][1].memoryUsageA: expected a finite number, at least 0"),
    (f"{FIRST}.2.1.memoryUsageB", None, "nodes[0].TMPCs[2][1].memoryUsageB: expected a finite number, at least 0"),
    (f"{FIRST}.2.0.parameterSize", 10**400, "nodes[0].TMPCs[2][0].parameterSize: expected a finite number, at least 0"),
    (f"{FIRST}.1.0.memoryShared", True, "nodes[0].TMPCs[1][0].memoryShared: expected a finite number, at least 0"),
    (f"{FIRST}.1.0.timePerSample", 1.7e308, "nodes: expected numbers whose sums are finite"),
    (f"{FIRST}.1.0.syncTimeBw", {"5": 1}, "nodes[0].TMPCs[1][0].syncTimeBw: expected an entry for the edge to node -7"),
    (
        f"{FIRST}.1.0.syncTimeBw.99",
        1,
        "nodes[0].TMPCs[1][0].syncTimeBw: expected only nodes with an edge to them, found '99'",
    ),
    (
        "nodes.2.TMPCs.1.0.syncTimeFw",
        {"30": 1},
        "nodes[2].TMPCs[1][0].syncTimeFw: expected an entry for the edge from node -7",
    ),
    (f"{FIRST}.1.0.syncTimeFw", [], "nodes[0].TMPCs[1][0].syncTimeFw: expected an object, found a list of 0"),
    (f"{FIRST}.1.0.syncTimeBw.5", -1, "nodes[0].TMPCs[1][0].syncTimeBw[5]: expected a finite number, at least 0"),
    ("edges", None, "edges: expected a list, found null"),
    ("edges.1.destId", 99, "edges[1].destId: expected the id of a node, found 99"),
    ("edges.1.destId", 5, "edges[1]: expected every edge once"),
    ("edges.2.destId", 30, "edges[1]: expected a graph without cycles, found embed -> -7 -> embed"),
    ("edges.0.communicationCost", "8", "edges[0].communicationCost: expected a finite number, at least 0, found '8'"),
]


@pytest.mark.parametrize(("path", "value", "expected"), CHANGES)
def test_a_defect_is_named_with_its_place(path, value, expected):
    assert refusal(read, documents.changed(BASE, {path: value})).startswith(f"base.json: {expected}")


@pytest.mark.parametrize("key", ["timePerSample", "syncTimeFw", "syncTimeBw", "memoryUsageA", "id"])
def test_a_missing_key_of_a_configuration_is_named(key):
    sentence = refusal(read, documents.removed(BASE, f"{FIRST}.2.1.{key}"))
    assert sentence == f"base.json: nodes[0].TMPCs[2][1]: expected a key '{key}'"


@pytest.mark.parametrize("limit", ["LARGEST_TEXT", "MAX_VALUES", "none"])
def test_too_many_configurations_are_refused_at_their_node(limit, monkeypatch, tmp_path):
    """In a file that is read, and in one whose text is too large for that."""
    monkeypatch.setattr(hybrid.files, "MOST_CONFIGURATIONS", 3)
    if limit != "none":
        monkeypatch.setattr(jsonfile, limit, 100)
    path = tmp_path / "base.json"
    path.write_text(json.dumps(BASE))
    sentence = refusal(load, path)
    assert re.fullmatch(
        rf"{path}: nodes\[1\]\.TMPCs(\[1\])?: expected at most 3 configurations up to .*, found more", sentence
    )
    monkeypatch.setattr(hybrid.files, "MOST_CONFIGURATIONS", 6)
    if limit == "none":
        assert load(path).configurations == 6
    else:
        assert "100" in refusal(load, path)


def test_a_node_whose_degrees_exceed_the_devices_or_a_machine_is_refused():
    big = documents.removed(BASE, "nodes.2.TMPCs.1")
    expected = "expected a degree of at most 1, the maxDevices, found at least 2"
    assert refusal(read, big, devices=1) == f"base.json: nodes[2].TMPCs: {expected}"
    expected = "expected a degree of at most 1, the devicesPerMachine, found at least 2"
    machine = {**big, "devicesPerMachine": 1, "bandwidthInside": 9}
    assert refusal(read, machine) == f"base.json: nodes[2].TMPCs: {expected}"


def test_shared_memory_counts_with_the_most_replicas():
    document = documents.changed(BASE, {"nodes.1.TMPCs.1.0.memoryShared": 90})
    assert read(document, memory=60).memory == 60  # 30 + 90 / 3
    assert "expected at least 60 bytes, which node -7" in refusal(read, document, memory=59)
    assert "expected at least 75 bytes, which node -7" in refusal(read, document, memory=60, devices=2)


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_drawn_instances_survive_their_file(suffix, tmp_path):
    for seed in range(20):
        instance = draw(random.Random(seed))
        save(instance, tmp_path / f"drawn.{suffix}")
        assert same(instance, load(tmp_path / f"drawn.{suffix}"))


def same(a: Instance, b: Instance) -> bool:
    pairs = [
        (getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a) if field.name != "source"
    ]
    for x, y in pairs:
        if isinstance(x, Graph):
            assert (x.tail.tolist(), x.head.tolist()) == (y.tail.tolist(), y.head.tolist())
        elif isinstance(x, np.ndarray):
            assert x.dtype == y.dtype
            assert x.tolist() == y.tolist()
        else:
            assert x == y
    return True


@pytest.mark.parametrize("name", ["time", "sync", "communicated", "shared"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_an_instance_made_in_a_program_is_checked_like_a_file(name, value):
    column = getattr(read(BASE), name).copy()
    column[1] = value
    with pytest.raises(
        InputError, match=re.escape(f"{name}[1]: expected a finite number, at least 0, found {value:g}")
    ):
        dataclasses.replace(read(BASE), **{name: column})


def test_the_simple_bounds_are_those_by_hand():
    assert read(BASE).simple_bound() == pytest.approx(9 / 4)  # 3 nodes of 3 device-seconds, 4 devices
    assert read(BASE, devices=2**20).simple_bound() == pytest.approx(3 / 6)  # a node, at most six replicas
    assert read(BASE, objective="step").simple_bound() == pytest.approx(6 * 9 / 4)
    assert read(BASE, objective="step", devices=2**20).simple_bound() == pytest.approx(9)  # one microbatch, all nodes


PUBLIC = {entry.path: entry for entry in catalog.entries() if entry.track == "hybrid" and not entry.embedded}


@pytest.mark.parametrize("entry", PUBLIC.values(), ids=PUBLIC)
def test_published_files_are_written_back_as_they_were(entry):
    if (path := catalog.at_hand(entry)) is None:
        pytest.skip("needs the published files")
    content = path.read_bytes()
    document = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    assert track_module("hybrid").to_document(load(path)) == {"name": path.name.split(".")[0], **document}
