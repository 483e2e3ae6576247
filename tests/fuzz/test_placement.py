"""Every claim of ``placement`` against exact fractions; see ``tests/support/fuzz.py``."""

from __future__ import annotations

import math
import random
import time
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import oracle_placement
import pytest
from fuzz import Attack, blocks
from oracle_placement import draw, draw_solution, false_reason, judge, optimum

from shardmark.instances import InputError
from shardmark.instances.placement import Instance, parse
from shardmark.solvers.placement.configuration import program
from shardmark.solvers.placement.configuration.program import Limits, configuration_bounds
from shardmark.solvers.placement.search import search
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.placement.throughput.pooled import pooled_bound
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import LocalRun

ENGINES = ("cpsat", "scip")
ATTACK = Attack(
    "placement",
    draw,
    draw_solution,
    judge,
    optimum,
    every={"ip-contiguous": 2, "ip-noncontiguous": 2, "search": 4, "scotch": 5, "metis": 5, "pipedream": 2},
    settings={"search": {"most": 1000}},
    false_reason=false_reason,
)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    engine = ENGINES[seeds.start // len(seeds) % len(ENGINES)]
    settings = {"ip-contiguous": {"engine": engine}, "ip-noncontiguous": {"engine": engine}}
    replace(ATTACK, settings={**ATTACK.settings, **settings}).on(seeds)


@blocks
def test_no_configurations_prove_too_much(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """From work that is spread evenly or from nothing, with states and labels enough or not, whatever cost is known."""
    for seed in seeds:
        rng = random.Random(f"configurations {seed}")
        while (instance := draw(rng)).objective == "latency" or instance.allreduce is not None:
            pass
        best, forced = optimum(instance), with_forced_nodes(instance)
        monkeypatch.setattr(program, "LAYER", rng.choice([1, 2, 4096, 4096]))
        for name in ("LABELS", "FEW_LABELS"):
            monkeypatch.setattr(program, name, rng.choice([1, 3, 300_000, 300_000]))
        low = load_bound(forced)
        high = math.inf if best is None else min(float(best) * rng.choice([1, 1, 1.5, 100]), 1e300)
        limits = Limits(time.monotonic() + 60, 64, np.zeros(1, dtype=np.int32))
        steps = configuration_bounds(forced, rng.choice([low, 0.0]), lambda high=high: (high, []), limits)  # type: ignore[misc]
        bounds = [low, pooled_bound(forced).bound, *(bound for bound, _ in islice(steps, 80))]
        assert best is None or Fraction(max(bounds)) <= best, seed


@blocks
def test_no_tensor_is_paid_for_twice(seeds: range) -> None:
    """Units for CPUs alone share tensors with their neighbours, and times are near each other."""
    for seed in seeds:
        rng = random.Random(f"shared {seed}")
        instance = shared(rng)
        best, spread = optimum(instance), pooled_bound(instance).bound
        assert best is None or Fraction(spread) <= best, seed


def shared(rng: random.Random) -> Instance:
    """Return an instance in which tensors have several readers, and one node or two are for the CPUs alone."""
    while True:
        with suppress(InputError):
            document = oracle_placement.document(rng, rng.randint(3, 6), (0.5, 0.9))
            document |= {"maxFPGAs": rng.randint(1, 3), "maxCPUs": rng.randint(1, 2)}
            drawn = parse(document, "drawn", contiguity=rng.choice(["free", "acyclic"]))
            alone = np.isin(np.arange(drawn.nodes), rng.sample(range(drawn.nodes), rng.randint(1, 2)))
            whole = np.array([float(rng.randint(0, 3)) for _ in range(drawn.nodes)])
            times = whole if rng.random() < 0.5 else drawn.accelerator_time
            sent = (
                np.where(drawn.transfer > 0, times.max() * rng.random(), 0.0) if rng.random() < 0.7 else drawn.transfer
            )
            slow = rng.choice([times * rng.uniform(1, 9), drawn.cpu_time])
            columns = {"accelerator_time": times, "cpu_time": slow, "transfer": sent}
            return replace(drawn, supported=drawn.supported & ~alone, **columns)


@blocks
def test_a_proof_in_parallel_with_a_search_proves_no_more(seeds: range) -> None:
    """On a thread of its own, while the search lowers the cost that it knows."""
    for seed in seeds[::10]:
        rng = random.Random(f"parallel {seed}")
        while (instance := draw(rng)).objective == "latency" or instance.allreduce is not None:
            pass
        best, run = optimum(instance), LocalRun(seed=seed, timeout=0.3, cores=2)
        if best is not None:
            search(instance, run)
            assert Fraction(max(run.bounds)) <= best, seed
