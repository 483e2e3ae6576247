"""Certificates of ``intraop``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os
import random
import time

import pytest
from attacked_proofs import reported
from effort import draws
from mutated_proofs import mutated
from oracle_intraop import draw, optimum

from shardmark import load
from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.harness.verify.certificates.intraop import costs_moved
from shardmark.instances.intraop import Instance, parse
from shardmark.solvers.intraop.bounds.lagrange import lagrange
from shardmark.solvers.intraop.bounds.simple import simple
from shardmark.solvers.intraop.cfn.moved_costs import moved_costs
from shardmark.solvers.intraop.network.memory import Timeline

DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(24, 16, 300)
MUTATIONS = 10  # per instance


def proofs(instance: Instance, rng: random.Random, best: int | None):
    """Yield the bounds that methods report, and their proofs; and proofs with several cut-offs."""
    yield from reported(instance, (simple, lagrange), 1.0)
    timeline = Timeline.of(instance)
    for cutoff in {None, best, None if best is None else best + rng.choice([1, 10, 2**40])}:
        prices = {step: rng.random() * 10 for step in range(timeline.steps) if rng.random() < 0.5}
        yield None, moved_costs(instance, timeline, prices, cutoff, time.monotonic() + 0.2)


def proven(instance: Instance, proof) -> int | None:
    """Return what a proof proves; None if it does not hold."""
    try:
        return costs_moved(instance, proof, Clock(30.0))
    except Unproven:
        return None


@pytest.mark.parametrize("seeds", [range(first, min(first + 50, DRAWS)) for first in range(0, DRAWS, 50)], ids=str)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    rights = equal = wrong = refused = 0
    for seed in seeds:
        rng = random.Random(f"certificates {seed}")
        instance = draw(rng)
        best = optimum(instance)
        for claimed, proof in proofs(instance, rng, best):
            value = proven(instance, proof)
            assert value is not None, seed
            assert best is None or value <= best, seed
            rights, equal = rights + 1, equal + (claimed is None or value >= claimed)
            for _ in range(MUTATIONS):
                value = proven(instance, mutated(rng, proof))
                wrong, refused = wrong + 1, refused + (value is None)
                assert value is None or best is None or value <= best, seed
    assert equal > 0.8 * rights
    assert 0 < refused < wrong


@pytest.mark.parametrize(
    ("name", "cost"),
    [("sharded-transformer-2", 866671), ("sharded-u-net-4", 6021962), ("onnx-densenet-121-intraop", 1007584)],
)
def test_optima_are_proven_by_reductions_and_cases(name: str, cost: int):
    instance = load(name)
    proof = moved_costs(instance, Timeline.of(instance), {}, cost, time.monotonic() + 60)
    assert costs_moved(instance, proof, Clock(60.0)) == cost


def pair(limit: int, table: list[int]) -> Instance:
    """Return two nodes that are live together at step 1, and an edge."""
    nodes = {"intervals": [[0, 2], [1, 3]], "costs": [[0, 1], [0, 5]], "usages": [[2, 1], [1, 3]]}
    edges = {"nodes": [[0, 1]], "costs": [table]}
    return parse({"problem": {"name": "pair", "usage_limit": limit, "nodes": nodes, "edges": edges}}, "pair")


@pytest.mark.parametrize(
    "step",
    [
        {"replaced": [0, 1]},  # costs more
        {"replaced": [1, 0]},  # uses more memory at a step that may bind
        {"replaced": [2, 1]},  # another variable
        {"replaced": [0, -1]},  # has entries in its pair
        {"leaves": [[0, 1, 1]]},
        {"leaves": [[0, 0]]},
        {"unfit": [1, 1]},
        {"unfit": [0, 9]},
        {"merged": [0, 1]},
        {"merged": [0, 1, 1, 0]},
        {"merged": [], "kept": "70"},  # row 0 is left
        {"merged": [], "kept": "f"},
    ],
    ids=str,
)
def test_steps_that_do_not_hold_are_refused(step):
    assert proven(pair(4, [0, 1, 1, 0]), {"kind": "costs-moved", "cutoff": 100, "steps": [step]}) is None


def test_steps_that_hold_prove_the_optimum():
    steps = [{"unfit": [3, 1]}, {"merged": [1, 0], "kept": "e0"}, {"replaced": [1, 0]}, {"scale": 0}]
    assert proven(pair(3, [1, 3, 3, 2]), {"kind": "costs-moved", "cutoff": 100, "steps": steps}) == 1
