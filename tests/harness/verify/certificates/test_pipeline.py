"""Certificates of ``pipeline``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os
import random
import time

import numpy as np
from attacked_proofs import attack, blocks, reported
from effort import draws
from oracle_pipeline import draw, optimum

from shardmark.harness.verify.certificates import Exact
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.bounds.anchored import anchored
from shardmark.solvers.pipeline.bounds.bottleneck import bottleneck
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.bounds.simple import simple
from shardmark.solvers.pipeline.programs.certificates.claims import Claim, anchored_at, prove_claim

DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(40, 20, 300)
METHODS = (simple, anchored, bottleneck, reweighted)


def proofs(instance: Instance, rng: random.Random, best: Exact | None):
    """Yield bounds and their proofs: for random weights and needs, for a node, and of methods."""
    yield 0.0, {"kind": "work"}
    if not instance.nodes or best is None:
        return
    best = float(best)
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
    if rng.randrange(8) == 0:
        yield from reported(instance, METHODS, 5.0)


@blocks(DRAWS, 50)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, proofs)
