"""Bounds on instances of medium size against other exact methods; see ``tests/support/medium.py``.

``SHARDMARK_MEDIUM`` instances per track: a few in the ordinary test run, 1,000 under ``make fuzz``. With ``-rP`` pytest
shows how many costs the other methods proved, and how many bounds met them.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import oracle_intraop
import oracle_pipeline
import oracle_placement
import oracle_scheduling
import pytest
from effort import draws
from medium import Duel, pretend

from instances import InputError, intraop, pipeline, placement, scheduling
from solvers.intraop.cfn.lagrangian import Dual
from solvers.intraop.cfn.tree import Tree
from solvers.intraop.network.memory import Timeline
from solvers.intraop.network.reduced_problem import Problem
from solvers.pipeline.bounds.reweighted import reweighted
from solvers.pipeline.bounds.windows import windows
from solvers.placement.bounds.anchored import anchored
from solvers.placement.ip.incumbent import Incumbent
from solvers.placement.ip.start import begin
from solvers.placement.throughput.configurations import Limits, configuration_bounds
from solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from solvers.placement.throughput.simple_bounds import load_bound
from solvers.registry import LocalRun
from solvers.scheduling.bounds.energetic import energetic
from solvers.scheduling.schedules.memory_cuts import none_fits

#: Instances per track, and in a block, which is one test.
DRAWS, BLOCK = int(os.environ.get("SHARDMARK_MEDIUM", "0")) or draws(2, 1), 20
#: Seconds of a bound.
SECONDS = 0.3


def blocks(test: Callable[..., None]) -> Callable[..., None]:
    """Decorates a test of ``seeds``, which is called once per block."""
    seeds = [range(first, min(first + BLOCK, DRAWS)) for first in range(0, DRAWS, BLOCK)]
    return pytest.mark.timeout(3600)(pytest.mark.parametrize("seeds", seeds, ids=str)(test))


# ------------------------------------------------------------ intraop


def network(rng: random.Random) -> intraop.Instance:
    """Return 15 to 40 nodes of up to 8 strategies."""
    return oracle_intraop.draw_of(rng, rng.randint(15, 40), rng.choice([3, 5, 8]))


def leaves(instance: intraop.Instance, rng: random.Random) -> Iterator[float]:
    """Yield bounds of the branch and bound on values, begun with messages that settled or did not."""
    timeline = Timeline.of(instance)
    problem = Problem.of(instance, timeline)
    if problem is None or not problem.model.variables:
        return
    dual = Dual(problem, problem.model.forbidden)
    if rng.random() < 0.5:
        dual.climb(time.monotonic() + SECONDS)
    tree = Tree(dual)
    tree.grow(time.monotonic() + SECONDS, lambda: dual.top, lambda: False)
    if tree.bound < problem.model.forbidden:
        yield tree.bound << problem.model.shift


INTRAOP = Duel("intraop", network, oracle_intraop.judge, ("ilp-cpsat",), leaves)


# ------------------------------------------------------------ pipeline


def dataflow(rng: random.Random) -> pipeline.Instance:
    """Return 12 to 30 nodes, for two stages, few, or many."""
    while True:
        with suppress(InputError):  # numbers whose sums are beyond float64
            document = oracle_pipeline.document(rng, rng.randint(12, 30), (0.05, 0.1, 0.2, 0.5))
            drawn = pipeline.parse({**document, "stages": rng.choice([2, 2, 3, 4, 8, 9, 16, 40])}, "drawn")
            need = float(drawn.param_size.sum() + drawn.output_size.sum())
            return replace(drawn, memory=rng.choice([None, None, 0.0, need * rng.random()]))


def weighed(instance: pipeline.Instance, rng: random.Random) -> Iterator[float]:
    """Yield bounds in windows of work, and under weights of nodes, mostly beyond the cost that is known."""
    run = LocalRun(seed=rng.getrandbits(31), timeout=SECONDS, cores=rng.choice([1, 2]))
    windows(instance, run)
    with pytest.MonkeyPatch.context() as monkeypatch:
        pretend(monkeypatch, rng.choice([1.0, 1.02, 1.1, 1.5]))
        monkeypatch.setattr("solvers.pipeline.bounds.reweighted.EARLY_FINEST", rng.choice([0.02, math.inf]))
        reweighted(instance, run)
    yield from run.bounds


PIPELINE = Duel("pipeline", dataflow, oracle_pipeline.judge, ("exact",), weighed)


# ------------------------------------------------------------ placement


def operators(rng: random.Random) -> placement.Instance:
    """Return 15 to 40 nodes, mostly for sets of any shape, some with memory that just suffices."""
    while True:
        with suppress(InputError):  # numbers whose sums are beyond float64, or too little memory
            document = oracle_placement.document(rng, rng.randint(15, 40), (0.03, 0.06, 0.1, 0.3))
            document |= {"maxFPGAs": rng.randint(1, 4)}
            options = {"overlap": rng.choice(["none", "none", "half", "full"])}
            options |= rng.choice([{}, {}, {"schedule": "gpipe"}, {"cluster": 2, "slowdown": 1.5}])
            shape = rng.choice(["free", "free", "acyclic"])
            drawn = placement.parse(document, "drawn", contiguity=shape, **options)
            return drawn if rng.random() < 0.4 else oracle_placement.filled(rng, drawn)


def covered(instance: placement.Instance, rng: random.Random) -> Iterator[float]:
    """Yield bounds of the configuration program, up to more than any cost, and of work with shared tensors spread."""
    forced, run = with_forced_nodes(instance), LocalRun(seed=rng.getrandbits(31), timeout=SECONDS)
    anchored(instance, run)
    yield from run.bounds
    incumbent = Incumbent(forced, LocalRun(timeout=SECONDS), reports=False)
    begin(incumbent, forced.contiguity)
    high = min(incumbent.best * rng.choice([1.0, 1.1, 2.0]), 1e300)
    limits = Limits(time.monotonic() + SECONDS, 256, np.zeros(1, dtype=np.int32))
    yield from configuration_bounds(forced, load_bound(forced), lambda: (high, []), limits)


RIVALS = "ip-noncontiguous", "ip-contiguous"
PLACEMENT = Duel("placement", operators, oracle_placement.judge, RIVALS, covered, helper="search", seconds=0.5)


# ------------------------------------------------------------ scheduling


def tight(rng: random.Random) -> scheduling.Instance:
    """Return 8 to 14 vertices whose devices hold about as much as some vertices read or make."""
    while True:
        drawn = oracle_scheduling.draw(rng, 14)
        most = max(np.bincount(drawn.graph.head, drawn.size, drawn.nodes).max(initial=0.0), drawn.size.max(initial=0.0))
        if drawn.nodes < 8 or not most:
            continue
        memory = np.full(drawn.devices, most * rng.choice([0.4, 0.7, 1.0, 1.0 + 1e-8, 1.2, 1.5]))
        with suppress(InputError):  # less memory than a vertex reads
            return replace(drawn, memory=memory)


def overfull(instance: scheduling.Instance, rng: random.Random) -> Iterator[float]:
    """Yield infinity if it is proved that no schedule fits, and bounds of segments, long and short."""
    yield math.inf if none_fits(instance, SECONDS) else 0.0
    run = LocalRun(timeout=SECONDS, cores=rng.choice([1, 2]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("solvers.scheduling.schedules.segments.MOST", rng.choice([3, 5, 70]))
        energetic(instance, run)
    yield from run.bounds


SCHEDULING = Duel("scheduling", tight, oracle_scheduling.judge, ("cp-sat",), overfull)


@pytest.mark.parametrize("duel", [INTRAOP, PIPELINE, PLACEMENT, SCHEDULING], ids=lambda duel: duel.track)
@blocks
def test_no_bound_is_above_what_another_method_finds(seeds: range, duel: Duel) -> None:
    counts = duel.on(seeds)
    print(duel.track, seeds, dict(counts))
    assert counts["found"] + counts["refuted"] > 0 or len(seeds) < 20, "nothing was compared"
