"""Certificates of ``placement``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os
import random

import pytest
from attacked_proofs import attack, proven
from effort import draws
from oracle_placement import draw, optimum

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


@pytest.mark.parametrize("seeds", [range(first, min(first + 20, DRAWS)) for first in range(0, DRAWS, 20)], ids=str)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, METHODS)


def test_a_proof_for_loads_does_not_hold_for_latency():
    rng = random.Random("latency")
    instance = next(each for each in iter(lambda: draw(rng), None) if each.objective == "latency")
    assert proven(instance, {"kind": "formula", "name": "node"}) is None
