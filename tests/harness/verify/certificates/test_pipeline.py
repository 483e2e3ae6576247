"""Certificates of ``pipeline``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from effort import draws
from mutated_proofs import mutated
from oracle_pipeline import draw, optimum

from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.harness.verify.certificates.pipeline import PROOFS
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.bounds.anchored import anchored
from shardmark.solvers.pipeline.bounds.bottleneck import bottleneck
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.bounds.simple import simple
from shardmark.solvers.pipeline.programs.certificates.claims import Claim, anchored_at, prove_claim
from shardmark.solvers.registry import LocalRun

DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(40, 20, 300)
MUTATIONS = 10  # per proof
METHODS = 8  # one instance in so many is bounded by all methods


def proofs(instance: Instance, rng: random.Random, best: float):
    """Yield bounds and their proofs: for random weights and needs, and for a node."""
    k, n = instance.stages, instance.nodes
    weight = np.array([rng.choice([0, 1, rng.randint(0, 10**6)]) for _ in range(n)], dtype=np.int64)
    share = -(-int(weight.sum()) // k)
    claims = [anchored_at(instance, rng.randrange(n), best * rng.choice([1, 1.5]))]
    if share:
        places = [[(0, k, share)]]
        if k > 1:
            first = rng.randint(1, 2 * share)
            rest = max(1, (int(weight.sum()) - first) // (k - 1) + 1)
            places += [[(1, 1, first), (0, k - 1, rest)], [(0, k - 1, rest), (-1, 1, first)]]
        claims += [Claim(weight, each, best) for each in places]
    for claim in claims:
        yield prove_claim(instance, claim, time.monotonic() + 30.0)


def of_methods(instance: Instance):
    """Yield the bounds of methods that have a certificate, and their proofs."""
    for method in (simple, anchored, bottleneck, reweighted):
        run = LocalRun(certify=True, timeout=5.0)
        method(instance, run)
        assert run.certificate is not None
        yield run.certificate


def proven(instance: Instance, proof) -> Fraction | None:
    """Return what a proof proves; None if it does not hold."""
    prove = PROOFS.get(proof.get("kind")) if isinstance(proof.get("kind"), str) else None
    try:
        return prove(instance, proof, Clock(30.0)) if prove else None
    except Unproven:
        return None


@pytest.mark.parametrize("seeds", [range(first, min(first + 50, DRAWS)) for first in range(0, DRAWS, 50)], ids=str)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    wrong = refused = 0
    for seed in seeds:
        rng = random.Random(f"certificates {seed}")
        instance = draw(rng)
        if not instance.nodes:
            continue
        best, other = optimum(instance), draw(random.Random(f"another {seed}"))
        least = optimum(other)
        found = [*proofs(instance, rng, float(best)), *(of_methods(instance) if seed % METHODS == 0 else ())]
        for reported, proof in found:
            value = proven(instance, proof)
            assert value is not None, seed
            assert reported <= value <= best, seed
            value = proven(other, proof)
            assert value is None or value <= least, seed
            for _ in range(MUTATIONS):
                value = proven(instance, mutated(rng, proof))
                wrong, refused = wrong + 1, refused + (value is None)
                assert value is None or value <= best, seed
    assert 0 < refused < wrong


def test_a_tree_takes_no_longer_than_the_clock_allows():
    instance = draw(random.Random("clock"), 6)
    _, proof = prove_claim(instance, anchored_at(instance, 0, 1e9), time.monotonic() + 30.0)
    proof["trees"] = [[{**proof["trees"][0][0], "branch": 0}] * 10**6]
    began = time.monotonic()
    with pytest.raises(Unproven, match=r"at most 0\.5 s|proof\.trees"):
        PROOFS["stages"](instance, proof, Clock(0.5))
    assert time.monotonic() - began < 5.0
