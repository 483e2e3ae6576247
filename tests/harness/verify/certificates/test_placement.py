"""Certificates of ``placement``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
from attacked_proofs import attack, blocks, proven, reported
from effort import draws
from oracle_placement import draw, optimum

from shardmark.harness.verify.certificates import Clock, Exact
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.placement import Instance, parse
from shardmark.solvers.placement.bounds.anchored import anchored
from shardmark.solvers.placement.bounds.configurations import configurations
from shardmark.solvers.placement.bounds.critical_path import critical_path
from shardmark.solvers.placement.bounds.load import load
from shardmark.solvers.placement.bounds.memory_path import memory_path
from shardmark.solvers.placement.bounds.node import node
from shardmark.solvers.placement.configuration.program import Limits, configuration_bounds
from shardmark.solvers.placement.dp import dp
from shardmark.solvers.placement.latency_dp import chains, latency_dp
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes

METHODS = (load, node, anchored, configurations, critical_path, memory_path, dp, chains, latency_dp)
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(10, 6, 200)


def proofs(instance: Instance, rng: random.Random, best: Exact | None):
    """Yield proofs of loads with arbitrary flows, and those of methods with the bounds that they report."""
    for _ in range(3 if instance.objective == "throughput" else 0):
        yield 0.0, any_load(instance, rng)
    if instance.objective == "throughput" and instance.allreduce is None:
        yield from configured(instance, rng, best)
    yield from reported(instance, METHODS, 0.5)


def configured(instance: Instance, rng: random.Random, best: Exact | None) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield the last proof by configurations of a few, from nothing up to a cost that is known."""
    high = math.inf if best is None else min(float(best) * rng.choice([1, 1.5, 100]), 1e300)
    limits = Limits(time.monotonic() + 5, 64, np.zeros(1, dtype=np.int32))
    steps = configuration_bounds(with_forced_nodes(instance), 0.0, lambda: (high, []), limits)
    found = [(bound, proof) for bound, proof in islice(steps, rng.choice([1, 5, 40])) if proof is not None]
    for bound, proof in found[-1:]:
        yield bound, dict(proof())


def any_load(instance: Instance, rng: random.Random) -> dict[str, Any]:
    """Return a proof by the formula for loads that has the right form, with arbitrary shares, prices and flows."""
    units, share = Units(instance, Clock(5.0)), rng.choice([0, 1, 0.5, rng.random()])
    count, greatest = rng.choice([0, 0, 1, 2]), max([Fraction(1, 2**900), *(cost for _, cost in units.nets)])
    scale = rng.choice([4, 12, 30]) - math.frexp(float(greatest))[1]

    def flows(factor: Fraction) -> dict[str, Any]:
        told = []
        for net, (members, cost) in enumerate(units.nets):
            most = int(cost * factor * Fraction(2) ** scale)
            told.append([net, [rng.choice([-1, 0, 1, 1]) * (most // rng.choice([1, 1, 2, 3])) for _ in members[1:]]])
        told = [pair for pair in told if rng.random() < 0.8]
        return {"scale": scale, "flows": told, "computing": rng.choice([0, 1, 0.5, rng.random()])}

    anchored_units = [] if instance.allreduce else rng.choices(range(len(units.fast)), k=count)
    price = rng.choice([0, 0, min(1e300, float(greatest) / max(1e-300, instance.memory)) * rng.random()])
    balance = {"share": share, "price": price, **flows(Fraction(share) / max(1, instance.accelerators))}
    moved = [{"unit": unit, **flows(Fraction(1))} for unit in anchored_units]
    return {"kind": "formula", "name": "load", "balance": balance, "moved": moved}


@blocks(DRAWS, 20)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, proofs)


def test_a_proof_for_loads_does_not_hold_for_latency():
    rng = random.Random("latency")
    instance = next(each for each in iter(lambda: draw(rng), None) if each.objective == "latency")
    assert proven(instance, {"kind": "formula", "name": "node"}) is None


def test_a_memory_at_the_end_of_float64_holds_all():
    node = {"cpuLatency": 5, "fpgaLatency": 3, "supportedOnFpga": 1, "isBackwardNode": False}
    file = {"maxSizePerFPGA": 1.7976931348623157e308, "maxFPGAs": 1, "maxCPUs": 1, "edges": []}
    instance = parse({**file, "nodes": [{"id": v, **node} for v in range(2)]}, "drawn")
    assert proven(instance, {"kind": "formula", "name": "node"}) == 3
