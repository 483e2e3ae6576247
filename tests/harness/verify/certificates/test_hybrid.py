"""Certificates of ``hybrid``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os

from attacked_proofs import attack, blocks, proven, reported
from effort import draws
from oracle_hybrid import draw, optimum

from shardmark.harness.verify.hybrid import verify
from shardmark.instances.hybrid import Instance, parse
from shardmark.solvers.hybrid.bounds.relaxed_dp import relaxed_dp
from shardmark.solvers.hybrid.bounds.simple import simple
from shardmark.solvers.hybrid.dp import dp
from shardmark.solvers.hybrid.search import search

METHODS = (simple, relaxed_dp, dp, search)
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(10, 6, 200)


@blocks(DRAWS, 20)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, lambda instance, rng, best: reported(instance, METHODS, 0.5))


def of_two(memory: float, stashed: float, fixed: float) -> Instance:
    """Return a node that takes 3 s on two devices, and none on three if these bytes fit."""

    def configuration(time: float, *sizes: float) -> list[object]:
        keys = ("memoryUsageA", "memoryUsageB")
        edges = {"syncTimeFw": {}, "syncTimeBw": {}}
        return [
            {"id": "vanilla", "timePerSample": time, "parameterSize": 0, **dict(zip(keys, sizes, strict=True)), **edges}
        ]

    menu = {"2": configuration(3, 0, 0), "3": configuration(0, stashed, fixed)}
    file = {"maxDevices": 3, "maxMemoryPerDevice": memory, "bandwidth": 1, "mbsInBatch": 1, "edges": []}
    return parse({**file, "nodes": [{"id": 0, "TMPCs": menu}]}, "drawn")


def test_memory_is_that_of_the_referee_exactly():
    memory, stashed, fixed = 17723932.01546628, 17723932.033190213, 5.84889757095277e-09
    instance = of_two(memory, stashed, fixed)
    assert instance.capacity < stashed + fixed <= instance.room
    assert proven(instance, {"kind": "states", "target": 3}) == 3


def test_a_memory_at_the_end_of_float64_holds_all():
    instance = of_two(1.7976931330646226e308, 0, 0)
    assert proven(instance, {"kind": "states", "target": 3}) is None
    plan = {"stage": [0], "configuration": ["vanilla"], "data_parallel": [1], "tensor_parallel": [2]}
    assert verify(instance, plan).feasible
