"""The configuration program: its kernel against all sets, its bound against all placements, and where it ends."""

from __future__ import annotations

import math
import os
import random
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import optimum
from placements import built, draw_instance

from shardmark.instances import load
from shardmark.instances.errors import InputError
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.bounds.configurations import configurations
from shardmark.solvers.placement.configuration import program as module
from shardmark.solvers.placement.configuration.labels import joined, precedence
from shardmark.solvers.placement.configuration.narrow_order import narrow_order
from shardmark.solvers.placement.configuration.program import Limits, configuration_bounds
from shardmark.solvers.placement.configuration.set_diagram import Sets, set_diagram
from shardmark.solvers.placement.configuration.weights import no_weights
from shardmark.solvers.placement.kernels.loads import Nets
from shardmark.solvers.placement.search import search
from shardmark.solvers.placement.throughput.moves import spaces
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=2)

MIRROR = os.environ.get("SHARDMARK_MIRROR")
PUBLISHED = Path(MIRROR or "") / "msr-fiddle" / "dnn-partitioning" / "throughput-inputs"
GO = np.zeros(1, dtype=np.int32)
#: Times from none to far more than all others.
EXTREME = [0.0, 1e-300, 1e-9, 1.0, 3.0, 1e9, 2.0**57, 1e18]


def all_sets(instance: Instance, nets: Nets, cost: Any, work: Any, profit: Any) -> list[tuple[int, int]]:
    """The load and the profit of every set that may be."""
    n = len(work)
    held = [set(nets.of[nets.start[v] : nets.start[v + 1]].tolist()) for v in range(n)]
    found = []
    for chosen in product((False, True), repeat=n):
        inside, outside = ([v for v in range(n) if chosen[v] == side] for side in (True, False))
        if all(work[v] >= 0 for v in inside) and is_contiguous(instance, inside):
            cut = set().union(*(held[v] for v in inside)) & set().union(*(held[v] for v in outside))
            load = sum(int(work[v]) for v in inside) + sum(int(cost[net]) for net in cut)
            found.append((load, sum(int(profit[v]) for v in inside)))
    return found


def is_contiguous(instance: Instance, units: list[int]) -> bool:
    """True if sets may have any shape, or no path within a pass leaves these units and returns."""
    if instance.contiguity == "free":
        return True
    inside, left = np.isin(instance.unit, units), np.zeros(instance.nodes, dtype=bool)
    for v in instance.graph.topological_order.tolist():
        for u in instance.graph.predecessors(v).tolist():
            if instance.backward[u] == instance.backward[v]:
                left[v] |= left[u] | (inside[u] & ~inside[v])
        if left[v] & inside[v]:
            return False
    return True


@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_finds_the_best_sets(seed: int) -> None:
    """Exactly with states and labels enough; with few, no less if relaxed, and no more if not."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(6):
        instance = draw_instance(draw, most_nodes=8, contiguity=draw.choice(["free", "contiguous", "contiguous"]))
        nets, n = spaces(replace(instance, contiguity="free"))[0].devices.nets, int(instance.unit.max()) + 1
        cost, work, profit = rng.integers(0, 9, len(nets.cost)), rng.integers(-1, 9, n), rng.integers(-4, 9, n)
        limit, floor = int(rng.integers(0, 40)), int(rng.integers(0, 12))
        found = all_sets(instance, nets, cost, work, profit)
        best = max([floor, *(gain for load, gain in found if load <= limit)])
        edges, most_load = precedence(instance, n), draw.choice([limit, 1000])
        order = narrow_order(draw.choice(joined(nets, instance, edges)), n, math.inf)
        assert sorted(order.tolist()) == list(range(n))
        sets = Sets(work, no_weights(n), most_load, edges)
        exact, _ = set_diagram(nets, cost, sets, order, 10_000)
        for relaxed in (False, True):
            found, members = exact.best_set(profit, limit, floor, 10_000, GO, relaxed=relaxed)
            assert found == best
            inside = sum(int(profit[v]) for v in np.flatnonzero(members))
            assert inside == best if best > floor else not members.any()
        for most, states in ((1, 10_000), (2, 2), (10_000, 1)):
            narrow, _ = set_diagram(nets, cost, sets, order, states)
            assert (
                np.diff(narrow.layer).max() <= 2 * states + 1
            )  # both sides of the last item, and one state for the impossible
            assert narrow.best_set(profit, limit, floor, most, GO, relaxed=True)[0] >= best
        assert exact.best_set(profit, limit, floor, 1, GO, relaxed=False)[0] <= best
        assert exact.best_set(profit, limit, floor, 9, np.ones(1, dtype=np.int32), relaxed=True)[0] == -1


def extreme(draw: random.Random, instance: Instance) -> Instance:
    """Some instance with other times: near each other, far apart, or whole with many ties; or as it is."""
    for name in ("accelerator_time", "cpu_time", "transfer"):
        usual = getattr(instance, name)
        kinds = [usual, usual * 10.0 ** draw.randint(-9, 9), [draw.choice(EXTREME) for _ in usual]]
        value = np.array(draw.choice([*kinds, [float(draw.randint(0, 3)) for _ in usual]]))
        try:
            instance = replace(instance, **{name: np.where(usual > 0, value, 0.0) if name == "transfer" else value})
        except InputError:
            continue
    return instance


@pytest.mark.parametrize("seed", range(4))
def test_it_is_at_or_below_the_best_placement(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With states and labels enough or not, whatever the times, options and the cost known."""
    draw, compared = random.Random(seed), Counter[str]()
    while compared.total() < some_of(25):
        options = draw.choice([{}, {}, {"schedule": "gpipe"}, {"cluster": 1, "slowdown": 3.0}])
        overlap, contiguity = draw.choice(["none", "none", "half", "full"]), draw.choice(["contiguous", "free", "free"])
        instance = draw_instance(draw, most_nodes=4, contiguity=contiguity, overlap=overlap, **options)
        instance = extreme(draw, instance)
        best = optimum(instance)
        if not best:
            continue
        monkeypatch.setattr(module, "LAYER", draw.choice([1, 2, 4096, 4096]))
        monkeypatch.setattr(module, "LABELS", draw.choice([1, 3, 300_000, 300_000]))
        high = best * draw.choice([1, 1.5, 100])
        limits = Limits(time.monotonic() + 60, 64, GO)
        known = partial(lambda cost: (cost, []), high)
        bounds = [load_bound(instance)]
        steps = configuration_bounds(instance, bounds[0], known, limits)
        bounds += [bound for bound, _ in islice(steps, 60)]
        assert max(bounds) <= best
        compared["tight" if max(bounds) >= best * (1 - 1e-5) else "loose"] += 1
    assert compared["tight"] > 0


def test_it_proves_what_work_spread_evenly_does_not() -> None:
    """Four of 3 on three devices take 6, not 4; a chain of 6 ones on two, 4 each way, takes 6, not 3."""
    for instance, expected in (
        (built([3] * 4, [], (3, 0), contiguity="free"), 6),
        (built([1] * 6, [(u, u + 1, 4) for u in range(5)], (2, 0), contiguity="free"), 6),
    ):
        run = LocalRun()
        configurations(instance, run)
        assert max(run.bounds) == pytest.approx(expected, rel=1e-6)
        assert max(run.bounds) <= expected


def test_memory_has_a_price() -> None:
    """Four of size 2 on two accelerators of 4, and a CPU that takes 10 for each: two each, whose work is 2."""
    instance = built([1] * 4, [], (2, 1, 3), cpu=10, size=2, contiguity="free")
    run = LocalRun()
    configurations(instance, run)
    assert max(run.bounds) <= (optimum(instance) or 0)
    assert max(run.bounds) > 9


def test_memory_too_small_for_a_price_has_none() -> None:
    """A price per size beyond float64 ended the proof with an error."""
    size, edges = [3e-308, 2e-308, 1e-308, 1e-308], [(0, 1, 1), (2, 3, 1)]
    instance = built([1, 2, 3, 4], edges, (2, 1, 4e-308), cpu=3, size=size, contiguity="free")
    run = LocalRun()
    configurations(instance, run)
    assert max(run.bounds) <= (optimum(instance) or 0)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_search_ends_with_its_proof(cores: int) -> None:
    instance, run = built([3] * 7, [], (3, 0), contiguity="free"), LocalRun(cores=cores, timeout=60.0)
    began = time.monotonic()
    search(instance, run)
    assert max(run.bounds) == pytest.approx(9, rel=1e-6)
    assert time.monotonic() - began < 30


def test_it_declines_latency_and_replicas() -> None:
    for options in ({"objective": "latency"}, {"allreduce": 1.0}):
        with pytest.raises(Declined, match="throughput without replicas"):
            configurations(draw_instance(random.Random(1), **options), LocalRun())


def test_without_time_it_is_the_even_load() -> None:
    instance, run = built([3] * 4, [], (3, 0), contiguity="free"), LocalRun(timeout=0.0)
    configurations(instance, run)
    assert max(run.bounds) == pytest.approx(4)


@pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR")
def test_it_proves_the_best_known_placement_of_bert_24_optimal() -> None:
    run = LocalRun(timeout=20.0)
    configurations(load(PUBLISHED / "LayerGraphs" / "bert24_inference.json", contiguity="free"), run)
    assert max(run.bounds) == pytest.approx(17.71471875, rel=1e-6)


@pytest.mark.gate
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_wrong_numbers_of_the_engine_raise_no_bound(lying_glop: Any, share: float) -> None:
    draw, tried = random.Random(f"wrong {share}"), 0
    told = lying_glop(np.random.default_rng(int(100 * share)), share)
    while tried < some_of(10) or len(told) <= some_of(100) * share:
        instance = draw_instance(draw, most_nodes=7)
        best = None if instance.objective == "latency" or instance.allreduce else optimum(instance)
        if best is not None:
            run = LocalRun(timeout=2.0)
            configurations(instance, run)
            assert max(run.bounds, default=0.0) <= best
            tried += 1
