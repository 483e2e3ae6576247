"""`borders` against brute force, its cells and cuts, and an engine that gives wrong flows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracle_pipeline import draw, optimum

from shardmark.harness.verify import verify
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline._kernels import closure_work
from shardmark.solvers.pipeline.bounds import borders as module
from shardmark.solvers.pipeline.bounds.borders import borders
from shardmark.solvers.pipeline.bounds.windows import windows
from shardmark.solvers.pipeline.programs.border_cuts import BorderCuts, Cell
from shardmark.solvers.registry import LocalRun

#: What a bound loses by its finest cells.
LOSS = 0.01


def bound_by(method: Any, instance: Instance, **limits: Any) -> float:
    run = LocalRun(**limits)
    method(instance, run)
    assert all(earlier < later for earlier, later in pairwise(run.bounds))
    return run.bounds[-1]


def training_step(oracle: SimpleNamespace, layers: int, stages: int) -> Instance:
    """A chain of layers there and back, with work 2 and 4 and tensors of 1; the way back reads every tensor again."""
    steps = 2 * layers
    edges = [(v, v + 1) for v in range(steps - 1)] + [(v, steps - 1 - v) for v in range(layers - 1)]
    return oracle.make(edges, [2] * layers + [4] * layers, [1] * steps, [0] * steps, stages)


def cuts(instance: Instance) -> BorderCuts:
    work, size = instance.work.astype(np.int64), instance.output_size.astype(np.int64)
    stop = np.zeros(1, dtype=np.int32)
    closures = [closure_work(instance.graph, work, stop, reverse=reverse) for reverse in (False, True)]
    return BorderCuts(instance.graph, work, size, (closures[0], closures[1]))


def ideals(instance: Instance) -> Iterator[frozenset[int]]:
    nodes = range(instance.nodes)
    before = {v: set(instance.graph.predecessors(v).tolist()) for v in nodes}
    for bits in range(1 << instance.nodes):
        members = {v for v in nodes if bits >> v & 1}
        if all(before[v] <= members for v in members):
            yield frozenset(members)


@pytest.mark.parametrize("bits", [40, 8])
def test_borders_never_exceed_the_optimum_of_extreme_numbers(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BITS", bits)
    for seed in range(12):
        rng = random.Random(f"borders {bits} {seed}")
        for name, values in (("CELLS", (1, 4, 16)), ("FINEST", (2, 4, 6))):
            monkeypatch.setattr(module, name, rng.choice(values))
        instance = draw(rng, most_nodes=6)
        assert Fraction(bound_by(borders, instance)) <= optimum(instance), seed


def test_no_stage_between_two_ideals_costs_less_than_the_cut_of_their_cells(oracle: SimpleNamespace) -> None:
    """For every pair of ideals, and cells of several widths around their work."""
    rng = np.random.default_rng(41)
    proved = costs = 0.0
    for _ in range(5):
        instance = replace(oracle.draw(rng, 6, 2, density=0.4), bandwidth=1.0)
        bounds, whole = cuts(instance), int(instance.work.sum())
        work = {ideal: int(instance.work[list(ideal)].sum()) for ideal in ideals(instance)}
        pairs = [(first, last) for first in work for last in work if first <= last]
        for first, last in (pairs[at] for at in rng.choice(len(pairs), 24)):
            wide = rng.integers(0, 3, 4).tolist()
            cells = (
                Cell(max(0, work[first] - wide[0]), work[first] + wide[1]),
                Cell(work[last] - wide[2], work[last] + wide[3]),
            )
            stage = [v for v in instance.graph.topological_order.tolist() if v in last - first]
            cost = min(oracle.stage_cost(instance, stage), whole + 1)
            found = bounds.least_cost(*cells, enough=10**9)
            assert found <= cost
            proved, costs = proved + found, costs + cost
    assert proved > 0.5 * costs


def test_a_training_step_sends_what_its_layers_keep(oracle: SimpleNamespace) -> None:
    """Of 12 layers, 8 are in the first stage, which sends all of their tensors; the optimum is 26."""
    instance = training_step(oracle, 12, 4)
    assert verify(instance, [0] * 8 + [1] * 8 + [2] * 4 + [3] * 4).cost == 26
    assert bound_by(windows, instance) < 22.6
    assert 25.4 < bound_by(borders, instance) <= 26


def test_the_bound_of_a_chain_is_its_optimum_but_for_the_cells(oracle: SimpleNamespace) -> None:
    chain = [(v, v + 1) for v in range(11)]
    instance = oracle.make(chain, [10] * 12, [1 if v % 3 == 2 else 9 for v in range(12)], [0] * 12, 4)
    optimum_ = oracle.partition_optimum(instance)
    assert optimum_ * (1 - LOSS) <= bound_by(borders, instance) <= optimum_


def test_cells_divide_all_work_and_are_halved_until_they_are_narrow(oracle: SimpleNamespace) -> None:
    instance = training_step(oracle, 8, 3)
    grid = module.Grid(cuts(instance), 3)
    stop, last = np.zeros(1, dtype=np.int32), 0
    while grid.advance(stop):
        inner = grid.cells[1:-1]
        assert inner[0].low == 0
        assert inner[-1].high == instance.work.sum()
        assert all(right.low == left.high + 1 for left, right in pairwise(inner))
        assert grid.bottleneck >= last
        last = grid.bottleneck
    assert len(grid.cells) > 3 * module.CELLS + 2
    stop[0] = 1
    assert not module.Grid(cuts(instance), 3).advance(stop)


@pytest.mark.parametrize("wrong", ["nothing", "everything", "noise", "twice"])
def test_wrong_flows_prove_too_little(oracle: SimpleNamespace, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ortools.graph.python import max_flow

    engine = max_flow.SimpleMaxFlow
    rng = np.random.default_rng(42)

    class Wrong(engine):
        def flows(self, arcs: Any) -> Any:
            flows = np.asarray(super().flows(arcs))
            change = {"nothing": 0 * flows, "everything": flows + 2**45, "twice": 2 * flows}
            return change.get(wrong, flows + rng.integers(-(2**38), 2**38, flows.size))

    monkeypatch.setattr(max_flow, "SimpleMaxFlow", Wrong)
    monkeypatch.setattr(module, "FINEST", 5)
    for _ in range(4):
        instance = oracle.draw(rng, 7, 3, density=0.4)
        assert instance.work_bound() <= bound_by(borders, instance) <= oracle.partition_optimum(instance)


def test_a_bound_cut_short_is_a_bound(oracle: SimpleNamespace) -> None:
    instance = training_step(oracle, 12, 4)
    assert instance.work_bound() <= bound_by(borders, instance, timeout=0.02) <= bound_by(borders, instance)
