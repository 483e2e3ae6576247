"""Properties that hold for every graph, order and number of stages."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.harness.verify import verify
from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.pipeline._kernels import PipelineCore
from shardmark.solvers.pipeline.search.orders import stage_numbers

sizes = st.one_of(st.integers(0, 9).map(float), st.floats(0, 1e6))
quick = settings(deadline=None, max_examples=some_of(100), derandomize=True)


@st.composite
def instances(draw: st.DrawFn, most: int = 12) -> Instance:
    """A graph whose edges go from smaller to greater nodes before the nodes are renamed."""
    n = draw(st.integers(0, most))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)) if n else st.nothing()
    edges = {(min(pair), max(pair)) for pair in draw(st.lists(pairs, max_size=3 * n)) if pair[0] != pair[1]}
    rename = draw(st.permutations(range(n)))
    ends = np.array([(rename[u], rename[v]) for u, v in sorted(edges)], dtype=np.int32).reshape(-1, 2)
    columns = [np.array(draw(st.lists(sizes, min_size=n, max_size=n)), dtype=np.float64) for _ in range(3)]
    memory = draw(st.one_of(st.none(), sizes))
    stages, bandwidth = draw(st.integers(1, most)), draw(st.sampled_from([0.25, 1.0, 3.0]))
    graph = Graph(n, ends[:, 0], ends[:, 1])
    return Instance("drawn", graph, tuple(map(str, range(n))), *columns, stages, bandwidth, memory)


def priorities(instance: Instance, data: Any) -> Any:
    """Priorities with many ties."""
    few = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    return np.array(data.draw(st.lists(few, min_size=instance.nodes, max_size=instance.nodes)), dtype=np.float64)


@quick
@given(instances(most=20), st.data())
def test_kahn_always_runs_the_ready_node_of_greatest_priority(instance: Instance, data: Any) -> None:
    priority = priorities(instance, data)
    done: set[int] = set()
    for v in kahn(instance.graph, priority).tolist():
        waiting = [u for u in range(instance.nodes) if u not in done]
        ready = [u for u in waiting if done.issuperset(instance.graph.predecessors(u).tolist())]
        assert v == min(ready, key=lambda u: (-priority[u], u))
        done.add(v)
    assert len(done) == instance.nodes


@quick
@given(instances(), st.data())
def test_a_slicing_costs_what_the_definition_and_the_referee_say(
    oracle: SimpleNamespace, instance: Instance, data: Any
) -> None:
    order = kahn(instance.graph, priorities(instance, data))
    slicing = PipelineCore(instance).slice(order)
    assert slicing is not None
    expected = max(oracle.stage_cost(instance, order[a:b].tolist()) for a, b in pairwise(slicing.cut))
    assert slicing.cost == pytest.approx(expected, rel=1e-9)
    verdict = verify(instance, {"block": stage_numbers(order, slicing).tolist(), "order": order.tolist()})
    assert verdict.feasible, verdict.violations
    assert verdict.cost == pytest.approx(slicing.cost, rel=1e-9)


@quick
@given(instances(), st.data())
def test_more_stages_never_cost_more(instance: Instance, data: Any) -> None:
    order = kahn(instance.graph, priorities(instance, data))
    slicings = [PipelineCore(replace(instance, stages=k)).slice(order) for k in range(1, instance.nodes + 3)]
    costs = [slicing.cost for slicing in slicings if slicing]
    assert len(costs) == len(slicings)
    assert all(more <= fewer for fewer, more in pairwise(costs))


@quick
@given(instances(), st.data(), st.floats(0, 2))
def test_an_upper_limit_changes_nothing_but_what_is_not_below_it(instance: Instance, data: Any, share: float) -> None:
    priority = priorities(instance, data)
    core = PipelineCore(instance)
    free = core.slice(kahn(instance.graph, priority))
    assert free is not None
    upper = free.cost * share
    capped = core.slice(kahn(instance.graph, priority), upper)
    assert (None if capped is None else capped.cost) == (free.cost if free.cost < upper else None)
    assert core.decode([priority], upper)[0] == (free.cost if free.cost < upper else np.inf)
