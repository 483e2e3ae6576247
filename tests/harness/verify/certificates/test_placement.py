"""Certificates of ``placement``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os
import random

from attacked_proofs import attack, blocks, proven, reported
from effort import draws
from oracle_placement import draw, optimum

from shardmark.instances.placement import parse
from shardmark.solvers.placement.bounds.anchored import anchored
from shardmark.solvers.placement.bounds.configurations import configurations
from shardmark.solvers.placement.bounds.critical_path import critical_path
from shardmark.solvers.placement.bounds.load import load
from shardmark.solvers.placement.bounds.memory_path import memory_path
from shardmark.solvers.placement.bounds.node import node
from shardmark.solvers.placement.dp import dp
from shardmark.solvers.placement.latency_dp import chains, latency_dp

METHODS = (load, node, anchored, configurations, critical_path, memory_path, dp, chains, latency_dp)
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(10, 6, 200)


@blocks(DRAWS, 20)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, lambda instance, rng, best: reported(instance, METHODS, 0.5))


def test_a_proof_for_loads_does_not_hold_for_latency():
    rng = random.Random("latency")
    instance = next(each for each in iter(lambda: draw(rng), None) if each.objective == "latency")
    assert proven(instance, {"kind": "formula", "name": "node"}) is None


def test_a_memory_at_the_end_of_float64_holds_all():
    node = {"cpuLatency": 5, "fpgaLatency": 3, "supportedOnFpga": 1, "isBackwardNode": False}
    file = {"maxSizePerFPGA": 1.7976931348623157e308, "maxFPGAs": 1, "maxCPUs": 1, "edges": []}
    instance = parse({**file, "nodes": [{"id": v, **node} for v in range(2)]}, "drawn")
    assert proven(instance, {"kind": "formula", "name": "node"}) == 3
