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

from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.harness.verify.certificates.intraop import costs_moved
from shardmark.instances.intraop import Instance
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
