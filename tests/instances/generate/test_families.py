"""Families build what they say, the same every time, and refuse parameters that make no sense."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from referee import refusal

from shardmark.instances import InputError, parse, track_module
from shardmark.instances.generate import MEANING, families
from shardmark.instances.generate.portable_random import Draws

pytestmark = pytest.mark.gate(cases=4)

FAMILIES = families().values()


def document(instance):
    return json.dumps(track_module(instance.track).to_document(instance))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_family_builds_a_valid_instance_of_its_track(family):
    instance = family.build(3)
    assert (instance.track, instance.name) == (family.track, f"{family.name}-3")
    assert instance.nodes > 0
    assert family.description.endswith(".")
    again = parse(document(family.build(3)).encode(), "again")
    assert document(again) == document(instance)


RANDOM = [family for family in FAMILIES if set(family.parameters) - {"stages", "loose"}]


@pytest.mark.parametrize("family", RANDOM, ids=lambda family: family.name)
def test_seeds_differ_where_there_is_chance(family):
    first, second = (json.loads(document(family.build(seed)).replace(f"-{seed}", "", 1)) for seed in (1, 2))
    assert first != second


def test_every_parameter_has_a_meaning_and_no_other():
    assert {key for family in FAMILIES for key in family.parameters} == set(MEANING)


def test_draws_are_the_same_on_every_machine():
    draws = Draws(2024)
    assert draws.uniform(3).tolist() == [0.6758313379812818, 0.21432320123825777, 0.3094520308816918]
    assert draws.integers(10, 20, 8).tolist() == [17, 19, 11, 10, 11, 13, 11, 15]
    assert draws.permutation(6).tolist() == [3, 1, 4, 2, 0, 5]
    assert draws.normal(50, 10, 2).round(6).tolist() == [58.395814, 52.451307]


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("erdos-renyi", {"nodes": 0}, "generate erdos-renyi: nodes: expected an integer from 1 to 20000, found 0"),
        ("erdos-renyi", {"nodes": 5.5}, "nodes: expected an integer from 1 to 20000, found 5.5"),
        ("erdos-renyi", {"nodes": True}, "nodes: expected an integer from 1 to 20000, found true"),
        ("erdos-renyi", {"stages": 0}, "stages: expected an integer from 1 to 1000000, found 0"),
        ("erdos-renyi", {"probability": -0.1}, "probability: expected a number from 0 to 1, found -0.1"),
        ("erdos-renyi", {"probability": float("nan")}, "probability: expected a number from 0 to 1, found nan"),
        ("erdos-renyi", {"probability": None}, "probability: expected a number from 0 to 1, found null"),
        ("erdos-renyi", {"costs_from": "none"}, "costs_from: expected 'all' or 'own', found 'none'"),
        ("erdos-renyi", {"costs_from": 1}, "costs_from: expected a text, found 1"),
        ("erdos-renyi", {"edges": 7}, "edges: expected only the parameters nodes, stages, costs_from, size_mean"),
        ("erdos-renyi", {"probability": 2.0}, "probability: expected a number from 0 to 1, found 2.0"),
        ("erdos-renyi", {"probability": True}, "probability: expected a number from 0 to 1, found true"),
        ("erdos-renyi", {"size_mean": 1e308}, "size_mean: expected a number from 0 to 1e+15, found 1e+308"),
        ("erdos-renyi", {"cost_spread": float("inf")}, "cost_spread: expected a number from 0 to 1e+15, found inf"),
        ("block-model", {"inside": 1.5}, "inside: expected a number from 0 to 1, found 1.5"),
        ("block-model", {"between": 1.5}, "between: expected a number from 0 to 1, found 1.5"),
        ("watts-strogatz", {"rewiring": 7.0}, "rewiring: expected a number from 0 to 1, found 7.0"),
        ("watts-strogatz", {"neighbours": 3}, "neighbours: expected an even number, half on each side, found 3"),
        ("barabasi-albert", {"nodes": 3, "attached": 5}, "attached: expected fewer than the 3 nodes, found 5"),
        ("slicing-trap", {"loose": 2}, "loose: expected an integer from 0 to 1, found 2"),
        ("transformer", {"jitter": 2.0}, "generate transformer: jitter: expected a number from 0 to 1, found 2.0"),
        ("sharded-transformer", {"training": 5}, "training: expected an integer from 0 to 1, found 5"),
        ("sharded-transformer", {"joint": 2}, "joint: expected an integer from 0 to 1, found 2"),
        ("sharded-transformer", {"tightness": 1.1}, "tightness: expected a number from 0 to 1, found 1.1"),
        ("chain", {"nodes": 7}, "generate chain: nodes: expected only the parameters none"),
        ("watts-strogatz", {"nodes": 4}, "neighbours: expected fewer than the 4 nodes, found 4"),
        ("transformer", {"heads": 7}, "heads: expected a divisor of 1024, found 7"),
        ("transformer", {"head_groups": 5}, "head_groups: expected a divisor of 16, found 5"),
        ("transformer", {"memory_share": "1"}, "memory_share: expected a number from 0 to 1e+15, found '1'"),
        ("mixture-of-experts", {"expert_groups": 3}, "expert_groups: expected a divisor of 8, found 3"),
        ("residual-network", {"depth": 34}, "depth: expected one of 50, 101, 152, found 34"),
        ("sharded-u-net", {"mesh": "2y4"}, "mesh: expected axis sizes of at least 2, such as 2x4, found '2y4'"),
        ("sharded-u-net", {"mesh": "1x4"}, "mesh: expected axis sizes of at least 2, such as 2x4, found '1x4'"),
        ("sharded-u-net", {"mesh": "2x2x2x2x2x2"}, "mesh: expected at most 5 axes, such as 2x4, found 6"),
        ("sharded-u-net", {"mesh": ""}, "mesh: expected axis sizes of at least 2, such as 2x4, found ''"),
    ],
)
def test_bad_parameters_are_told(name, given, sentence):
    assert sentence in refusal(families()[name].build, 1, **given)


def test_negative_seed():
    with pytest.raises(InputError, match="seed: expected an integer, at least 0, found -1"):
        families()["chain"].build(-1)


def test_the_largest_numbers_that_are_taken_make_instances():
    largest = {"size_mean": 1e15, "size_spread": 1e15, "cost_spread": 1e15}
    assert families()["erdos-renyi"].build(1, **largest).work.max() > 1e30
    assert families()["transformer"].build(1, jitter=1.0).work.min() >= 0


def test_random_graphs_take_memory_for_their_edges_and_not_for_their_pairs():
    tracemalloc.start()
    try:
        for family, sparse in (("erdos-renyi", {"probability": 0.001}), ("block-model", {"inside": 0.001})):
            instance = families()[family].build(1, nodes=3000, **sparse)
            assert 3000 < instance.edges < 6500
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 3000**2 / 8  # an eighth of one number a pair
