"""Slicing an order: the compiled core against all segmentations, one by one."""

from __future__ import annotations

import math
import threading
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import some_of

from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.pipeline._kernels import PipelineCore


def dynamic_program(core: PipelineCore, order: Any) -> float:
    """Algorithm 1 over a table of segment costs: no thresholds, no pruning."""
    n = core.instance.nodes
    cost = np.full((n + 1, n + 1), np.inf)
    for right in range(n + 1):
        cost[right, :right] = core.segment_costs(order, right)
    best = np.where(np.arange(n + 1) == 0, 0.0, np.inf)
    for _ in range(core.stages):
        best = np.minimum(best, np.maximum(best, cost).min(axis=1))
    return float(best[n])


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "memory"])
def test_equals_brute_force_over_all_segmentations(oracle: SimpleNamespace, limited: bool) -> None:
    rng = np.random.default_rng(int(limited))
    for _ in range(some_of(500)):
        instance = oracle.draw(rng, int(rng.integers(0, 9)), int(rng.integers(1, 6)), limited=limited)
        core = PipelineCore(instance)
        order = kahn(instance.graph, rng.random(instance.nodes))
        slicing = oracle.sliced(core, order)
        optimum = oracle.slicing_optimum(instance, order.tolist())
        assert slicing.cost == pytest.approx(optimum, rel=1e-9)
        assert slicing.cut[0] == 0
        assert slicing.cut[-1] == instance.nodes
        assert len(slicing.cut) - 1 <= instance.stages
        costs = [oracle.stage_cost(instance, order[a:b].tolist()) for a, b in pairwise(slicing.cut)]
        assert max(costs) == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "memory"])
def test_every_segment_costs_what_the_definition_says(oracle: SimpleNamespace, limited: bool) -> None:
    rng = np.random.default_rng(2 + int(limited))
    for density in (0.0, 0.05, 0.2, 0.7):
        instance = oracle.draw(rng, 24, 2, density=density, limited=limited)
        order = kahn(instance.graph, rng.random(instance.nodes))
        core = PipelineCore(instance)
        for right in range(instance.nodes + 1):
            expected = [oracle.stage_cost(instance, order[left:right].tolist()) for left in range(right)]
            assert core.segment_costs(order, right) == pytest.approx(expected, rel=1e-12)


@pytest.mark.thorough(cases=7)
@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "memory"])
@pytest.mark.parametrize("stages", [2, 3, 7, 30, 119, 120, 500])
def test_equals_the_dynamic_program_on_larger_graphs(oracle: SimpleNamespace, stages: int, limited: bool) -> None:
    rng = np.random.default_rng(stages)
    for density in (0.005, 0.02, 0.1, 0.6):
        whole = oracle.draw(rng, 120, stages, density=density, limited=limited)
        scale = rng.lognormal(0.0, 1.0, (3, whole.nodes))  # sums that no float holds exactly
        instance = Instance(
            whole.name,
            whole.graph,
            whole.node_names,
            *(whole.work * scale[0], whole.output_size * scale[1], whole.param_size * scale[2]),
            *(stages, whole.bandwidth, whole.memory),
        )
        core = PipelineCore(instance)
        order = kahn(instance.graph, rng.random(instance.nodes))
        slicing = oracle.sliced(core, order)
        assert slicing.cost == pytest.approx(dynamic_program(core, order), rel=1e-12)


def test_upper_limit_is_strict(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(4)
    for limited in (False, True) * 50:
        instance = oracle.draw(rng, 30, int(rng.integers(1, 9)), density=0.1, limited=limited)
        core = PipelineCore(instance)
        order = kahn(instance.graph, rng.random(instance.nodes))
        slicing = oracle.sliced(core, order)
        assert core.slice(order, slicing.cost) is None
        assert core.slice(order, -math.inf) is None
        for upper in (math.nextafter(slicing.cost, math.inf), slicing.cost * 1.01, slicing.cost * 100, 1e300):
            again = oracle.sliced(core, order, upper)
            assert again.cost == slicing.cost


def test_decoding_a_batch_is_sorting_and_slicing(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(5)
    for limited in (False, True):
        instance = oracle.draw(rng, 40, 4, density=0.1, limited=limited)
        core = PipelineCore(instance)
        priorities = rng.random((50, instance.nodes))
        slicings = [core.slice(kahn(instance.graph, row)) for row in priorities]
        costs = np.array([slicing.cost for slicing in slicings if slicing])
        assert core.decode(priorities).tolist() == costs.tolist()
        upper = float(np.median(costs))
        assert core.decode(priorities, upper).tolist() == np.where(costs < upper, costs, np.inf).tolist()


def test_a_segment_may_cost_less_than_a_part_of_it(oracle: SimpleNamespace) -> None:
    """The heavy tensor 1 -> 2 crosses every cut but those around both nodes."""
    instance = oracle.make([(0, 1), (1, 2), (2, 3)], [3, 1, 1, 3], [1, 90, 1, 1], [0] * 4, 3)
    slicing = oracle.sliced(PipelineCore(instance), [0, 1, 2, 3])
    assert slicing.cost == 4.0  # {0}: 3 + 1, {1, 2}: 1 + 2 + 1, {3}: 1 + 3; {1} alone: 92
    assert slicing.cut.tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("work", "output", "stages", "cost"),
    [
        ([], [], 3, 0.0),
        ([5], [7], 1, 5.0),
        ([5], [7], 4, 5.0),
        ([0, 0, 0], [0, 0, 0], 2, 0.0),
        ([2, 3, 4], [9] * 3, 99, 4.0),
    ],
)
def test_degenerate_instances(
    oracle: SimpleNamespace, work: list[float], output: list[float], stages: int, cost: float
) -> None:
    instance = oracle.make([], work, output, [0] * len(work), stages)
    slicing = oracle.sliced(PipelineCore(instance), np.arange(len(work)))
    assert slicing.cost == cost
    assert PipelineCore(instance).decode(np.zeros((2, len(work)))).tolist() == [cost, cost]


def test_a_bandwidth_whose_inverse_is_infinite_costs_nothing_without_tensors(oracle: SimpleNamespace) -> None:
    instance = oracle.make([(0, 1)], [3, 4], [0, 0], [0, 0], 2, bandwidth=1e-320, memory=0.0)
    slicing = oracle.sliced(PipelineCore(instance), [0, 1])
    assert slicing.cost == 4.0


def test_the_least_numbers_that_there_are_can_be_sliced(oracle: SimpleNamespace) -> None:
    """A fiftieth of such a cost is zero."""
    output, params = [5e-324, 8e-323, 3e-323], [0.0, 0.0, 2e-323]
    tiny = oracle.make([(1, 0)], [1.5e-323, 5.4e-323, 9e-323], output, params, 4, memory=8e-323)
    for order in [[1, 0, 2], [1, 2, 0], [2, 1, 0]]:
        core = PipelineCore(tiny)
        timer = threading.Timer(20.0, core.stop.fill, [1])  # ends what would take for ever
        timer.start()
        slicing = core.slice(order)
        timer.cancel()
        assert slicing is not None
        assert slicing.cost == oracle.slicing_optimum(tiny, order)
        assert not core.stop[0]


def test_bad_arguments_are_refused(oracle: SimpleNamespace) -> None:
    instance = oracle.make([(0, 1), (1, 2)], [1, 1, 1], [1, 1, 1], [0] * 3, 2)
    core = PipelineCore(instance)
    for order in ([1, 0, 2], [0, 0, 1], [0, 1, 3], [-1, 0, 1]):
        with pytest.raises(ValueError, match="topological order"):
            core.slice(order)
    with pytest.raises(ValueError, match=r"shape \(3,\), found \(2,\)"):
        core.slice([0, 1])
    with pytest.raises(ValueError, match="NaN"):
        core.slice([0, 1, 2], math.nan)
    with pytest.raises(ValueError, match="NaN"):
        core.decode([[0.5, math.nan, 0.5]])
    with pytest.raises(ValueError, match=r"shape \(1, 3\)"):
        core.decode([[0.5, 0.5]])
    with pytest.raises(ValueError, match="NaN"):
        kahn(instance.graph, [math.nan, 0, 0])
    with pytest.raises(ValueError, match="right: expected 0 to 3, found 4"):
        core.segment_costs([0, 1, 2], 4)
