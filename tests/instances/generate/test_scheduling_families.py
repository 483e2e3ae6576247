"""Families of scheduling: the numbers of the paper's Table 1 and Section 5.1, and the features that are asked for."""

from __future__ import annotations

import json

import numpy as np
import pytest
from referee import refusal
from schedules import optimum

from shardmark.instances import catalog, load
from shardmark.instances.generate import families
from shardmark.instances.generate.dataflows import tight_memory
from shardmark.instances.scheduling import Instance, to_document

#: Vertices, edges and colocated vertices, Table 1.
TABLE_1 = {
    "convolutional-training": (347, 531, 104),
    "recurrent-training": (3069, 5533, 533),
    "dynamic-recurrent-training": (5271, 9214, 1356),
}


def build(name: str, seed: int = 1, **parameters: object) -> Instance:
    built: Instance = families()[name].build(seed, **parameters)  # type: ignore[arg-type]
    return built


def groups(instance: Instance) -> list[list[int]]:
    numbers = set(instance.colocation.tolist()) - {-1}
    return [np.flatnonzero(instance.colocation == number).tolist() for number in sorted(numbers)]


@pytest.mark.parametrize("name", TABLE_1)
def test_training_graphs_have_the_numbers_of_table_1(name: str) -> None:
    for seed in (0, 1, 9):
        instance = build(name, seed)
        colocated = int((instance.colocation >= 0).sum())
        assert (instance.nodes, instance.edges, colocated) == TABLE_1[name]
        assert all(len(members) > 1 for members in groups(instance))
        alone = np.diff(instance.graph.in_csr[0]) + np.diff(instance.graph.out_csr[0]) == 0
        assert alone.sum() <= 2  # placeholders


@pytest.mark.parametrize("name", TABLE_1)
def test_weights_and_devices_are_drawn_from_the_ranges_of_section_5_1(name: str) -> None:
    instance = build(name, 4)
    links = instance.bandwidth[~np.eye(instance.devices, dtype=bool)]
    assert instance.devices == 50
    for values, low, high in (
        (instance.complexity, 1, 100),
        (instance.size, 1, 100),
        (instance.speed, 10, 100),
        (links, 10, 60),
    ):
        assert low <= values.min() < low + (high - low) / 5
        assert high - (high - low) / 5 < values.max() <= high
    assert (instance.bandwidth == instance.bandwidth.T).all()
    assert np.isinf(instance.memory).all()


@pytest.mark.parametrize("name", [*TABLE_1, "random-dataflow"])
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(name: str) -> None:
    documents = [json.dumps(to_document(build(name, seed))) for seed in (2, 2, 3)]
    assert documents[0] == documents[1]
    assert json.loads(documents[0])["nodes"]["complexity"] != json.loads(documents[2])["nodes"]["complexity"]


def test_seeds_of_a_training_graph_share_its_operations() -> None:
    first, second = (build("recurrent-training", seed) for seed in (0, 1))
    assert first.colocation.tolist() == second.colocation.tolist()
    same = set(zip(first.graph.tail.tolist(), first.graph.head.tolist(), strict=True))
    assert len(same & set(zip(second.graph.tail.tolist(), second.graph.head.tolist(), strict=True))) > 4000


def test_a_random_dataflow_has_the_features_asked_for() -> None:
    shape = {"nodes": 300, "devices": 7, "reads": 3, "reach": 5}
    instance = build("random-dataflow", 1, **shape, colocated=0.3, restricted=0.25, spare=2.0, links="share")
    tail, head = instance.graph.tail, instance.graph.head
    assert (instance.nodes, instance.devices, instance.links, instance.holding) == (300, 7, "share", "waiting")
    assert 1 <= (head - tail).min() <= (head - tail).max() == 5
    assert 1 <= np.bincount(head, minlength=300)[1:].min() <= np.bincount(head).max() == 3
    assert [len(members) for members in groups(instance)] == [3] * 30
    assert 0.12 < (instance.choice >= 0).mean() < 0.4
    assert all(len({int(instance.choice[v]) for v in members}) == 1 for members in groups(instance))
    assert instance.memory.tolist() == [np.ceil(2 * instance.size.sum() / 7) + 1] * 7
    plain = build("random-dataflow", 1, colocated=0.0, restricted=0.0)
    assert (plain.colocation < 0).all()
    assert (plain.choice < 0).all()
    assert np.isinf(plain.memory).all()


def test_memory_of_a_random_dataflow_always_holds_what_a_vertex_reads() -> None:
    instance = build("random-dataflow", 1, spare=0.0, holding="reserved")
    read = np.bincount(instance.graph.head, weights=instance.size)
    assert instance.memory[0] == read.max() + 1


@pytest.mark.parametrize("shape", [{"nodes": 1}, {"nodes": 1, "devices": 1}, {"devices": 1, "restricted": 1.0}])
def test_the_smallest_dataflows_are_instances(shape: dict[str, float]) -> None:
    assert build("random-dataflow", 1, **shape).nodes == shape.get("nodes", 100)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"links": "tangled"}, "option links: expected one of independent, queue, share, found 'tangled'"),
        ({"holding": "for ever"}, "option holding: expected one of waiting, reserved, found 'for ever'"),
        ({"colocated": 2.0}, "colocated: expected a number from 0 to 1, found 2.0"),
        ({"spare": -1.0}, "spare: expected a number from 0 to 1e+15, found -1.0"),
        ({"devices": 2001}, "devices: expected an integer from 1 to 2000, found 2001"),
        ({"nodes": 1_000_001}, "nodes: expected an integer from 1 to 1000000, found 1000001"),
        (
            {"nodes": 20_001, "reads": 1000},
            "reads: expected at most 20000000 edges to draw, found 20001 nodes that read 1000",
        ),
        ({"reads": 0}, "reads: expected an integer from 1 to 1000, found 0"),
    ],
)
def test_what_makes_no_dataflow_is_refused(given: dict[str, object], sentence: str) -> None:
    assert sentence in refusal(build, "random-dataflow", 1, **given)


@pytest.mark.parametrize("name", ["fork-join", "fork-join-share", "waiting-room"])
def test_costs_published_of_solved_instances_are_those_of_all_schedules(name: str) -> None:
    entry = catalog.find(name)
    assert optimum(load(catalog.locate(entry), **entry.options)) == float(entry.published["best_cost"])


def test_the_sample_of_tight_memory_leaves_room_for_the_largest_need_of_a_vertex() -> None:
    sample = [tight_memory(number) for number in range(90)]
    assert len({(instance.links, instance.holding) for instance in sample}) == 6
    assert all(60 <= instance.nodes <= 2000 for instance in sample)
    for instance, again in zip(sample[:3], map(tight_memory, range(3)), strict=True):
        assert to_document(instance) == to_document(again)
    for instance in sample:
        read = np.bincount(instance.graph.head, instance.size, instance.nodes).max()
        assert instance.memory == pytest.approx(instance.memory[0])
        assert min(abs(instance.memory[0] - (factor * read + 1)) for factor in (1, 1.1, 1.5)) < 1e-6
