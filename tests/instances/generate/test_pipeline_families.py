"""Random and model graphs have the structure and the sizes that their sources give."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.instances.generate import families, hand_solved
from shardmark.instances.generate.networks import architectures
from shardmark.instances.generate.networks.builder import DTYPE
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.models.model import BITS
from shardmark.solvers.pipeline._kernels import PipelineCore

BYTES = BITS[DTYPE] // 8  # of a number


def build(name, seed=1, **parameters):
    return families()[name].build(seed, **parameters)


def test_edge_counts_of_random_graphs():
    pairs = math.comb(200, 2)
    assert abs(build("erdos-renyi", nodes=200).edges - 0.05 * pairs) < 5 * math.sqrt(0.05 * pairs)
    assert build("barabasi-albert", nodes=200).edges == 2 * 198
    assert build("watts-strogatz", nodes=200).edges == 2 * 200
    inside = 4 * math.comb(50, 2)
    expected = 0.3 * inside + 0.001 * (pairs - inside)
    assert abs(build("block-model", nodes=200).edges - expected) < 5 * math.sqrt(expected)


def test_rewiring_nothing_leaves_the_ring():
    graph = build("watts-strogatz", nodes=30, rewiring=0.0).graph
    apart = (graph.head - graph.tail) % 30
    assert set(np.minimum(apart, 30 - apart).tolist()) == {1, 2}


def test_small_random_graphs():
    assert build("barabasi-albert", nodes=2, attached=1).edges == 1
    assert build("barabasi-albert", nodes=3, attached=2).edges == 2
    assert build("watts-strogatz", nodes=5, rewiring=1.0).edges == 10
    assert build("erdos-renyi", nodes=6, probability=1.0).edges == 15


@pytest.mark.parametrize("costs_from", ["all", "own"])
def test_costs_of_random_graphs(costs_from):
    instance = build("erdos-renyi", nodes=200, costs_from=costs_from)
    sizes = instance.output_size
    assert abs(sizes.mean() - 50) < 4
    assert 7 < sizes.std() < 13
    own = sizes.copy()
    np.add.at(own, instance.graph.head, sizes[instance.graph.tail])
    fraction = (instance.work - own) / (sizes.sum() if costs_from == "all" else own)
    assert fraction.min() > -1e-4
    assert abs(np.mean(fraction**2) - 0.01) < 0.003


def test_spreads_of_random_graphs_are_parameters():
    even = build("erdos-renyi", size_mean=20, size_spread=0, cost_spread=0)
    assert set(even.output_size.tolist()) == {20}
    readers = np.bincount(even.graph.head, minlength=even.nodes)
    assert even.work.tolist() == (20 * (1 + readers)).tolist()
    assert build("erdos-renyi", size_mean=5, size_spread=100).output_size.min() == 1


def test_a_transformer_has_the_known_arithmetic_and_parameters():
    b, s, m, layers, vocabulary = 4, 128, 256, 3, 1000
    model = architectures.transformer(
        layers=layers, batch=b, sequence=s, width=m, heads=8, head_groups=1, vocabulary=vocabulary
    )
    products = [op for op in model.operators if op.multiply_adds and op.role not in ("scores", "context")]
    assert 2 * sum(op.multiply_adds for op in products) == sum(op.flops for op in products)
    assert sum(op.flops for op in products) == layers * 24 * b * s * m**2 + 2 * b * s * m * vocabulary
    attention = sum(op.flops for op in model.operators if op.role in ("scores", "context"))
    assert attention == layers * 4 * b * s**2 * m
    weights = model.parameter_bytes() // BYTES
    assert weights == layers * (12 * m**2 + 2 * m) + 2 * m * vocabulary + m


def test_separate_heads_change_neither_arithmetic_nor_parameters():
    shape = {"layers": 2, "batch": 4, "sequence": 128, "width": 256, "heads": 8, "vocabulary": 1000}
    one, many = (architectures.transformer(**shape, head_groups=groups) for groups in (1, 8))
    assert one.parameter_bytes() == many.parameter_bytes()
    assert sum(op.flops for op in one.operators) == sum(op.flops for op in many.operators)
    assert len(many.operators) == len(one.operators) + 2 * 7 * 6


def test_resnet_50_has_the_known_arithmetic_and_parameters():
    model = architectures.residual_network(batch=1, pixels=224, width=64, depth=50, classes=1000)
    weights = model.parameter_bytes() // BYTES
    assert weights == pytest.approx(25.56e6, rel=0.01)
    assert sum(op.multiply_adds for op in model.operators) == pytest.approx(3.86e9, rel=0.1)


def test_unrolled_layers_share_their_weights():
    steps = 7
    model = architectures.sequence_to_sequence(layers=2, steps=steps, batch=4, width=32, vocabulary=100)
    assert sum(tensor.parameter for tensor in model.tensors) == 2 + 2 + 1
    instance = build("sequence-to-sequence", steps=steps, batch=4, width=32, vocabulary=100)
    assert instance.param_size.sum() == pytest.approx(BYTES * (4 * 8 * 32**2 + 2 * 32 * 100), rel=0.01)


def test_long_connections_span_the_u_net():
    instance = build("u-net", levels=3)
    names = [instance.node_names[v] for v in range(instance.nodes)]
    edges = [(names[u], names[v]) for u, v in zip(instance.graph.tail, instance.graph.head, strict=True)]
    long = {(u, v) for u, v in edges if u.endswith("/down-b-relu") and v.endswith("/concatenate")}
    assert long == {(f"layer{down}/down-b-relu", f"layer{8 - down}/concatenate") for down in (1, 2, 3)}


def test_memory_share_sets_the_fast_memory():
    assert build("residual-network").memory is None
    half, whole = (build("residual-network", memory_share=share).memory for share in (0.5, 1))
    assert half == pytest.approx(whole / 2, rel=1e-6)
    assert whole > build("residual-network").param_size.sum() / 8


def segmentations(n, k):
    """Every way to cut 0..n-1 into at most k runs, as stage numbers."""
    for cuts in range(k):
        for places in itertools.combinations(range(1, n), cuts):
            yield np.searchsorted(places, np.arange(n), side="right").tolist()


def paired(stages):
    """Every heavy node with a light one: the partition of the lemma that costs 1, as little as there is work."""
    return [*range(stages), *range(1, stages), 0]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("loose", [0, 1])
def test_the_trap_costs_what_the_paper_says_when_sliced_in_the_order_of_its_numbers(stages, loose):
    instance = build("slicing-trap", stages=stages, loose=loose)
    sliced = min(verify(instance, stage).cost for stage in segmentations(instance.nodes, stages))
    assert sliced == pytest.approx(2 * stages / (stages + 1) if loose else stages)
    verdict = verify(instance, paired(stages))
    assert (verdict.feasible, verdict.cost) == (True, pytest.approx(1.0))


@pytest.mark.parametrize("stages", [2, 64, 1000])
def test_a_trap_of_any_size_costs_as_many_times_the_optimum_as_it_has_stages(stages):
    instance = build("slicing-trap", stages=stages)
    assert verify(instance, paired(stages)).cost == instance.summary()["simple_bound"] / (1 - 1e-12) == 1.0
    numbers = np.arange(instance.nodes, dtype=np.int32)
    assert PipelineCore(instance).slice(numbers).cost == stages
    assert PipelineCore(instance).slice(np.argsort(paired(stages), kind="stable")).cost == 1.0


def every_cost(instance):
    for stage in itertools.product(range(instance.stages), repeat=instance.nodes):
        solutions = [list(stage)]
        if instance.memory is not None:
            orders = itertools.permutations(range(instance.nodes))
            solutions = [{"block": list(stage), "order": list(order)} for order in orders]
        yield from (v.cost for v in (verify(instance, s) for s in solutions) if v.feasible)


@pytest.mark.parametrize(("function", "optimum"), [(hand_solved.chain, 11), (hand_solved.overflow, 6)])
def test_hand_solved_graphs(function, optimum):
    assert min(every_cost(function(Draws(0)))) == optimum
