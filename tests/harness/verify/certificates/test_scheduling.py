"""Certificates of ``scheduling``: no formula, whatever its parameters, exceeds the optimum of a brute force."""

from __future__ import annotations

import math
import os
import random
from fractions import Fraction

import pytest
from effort import draws
from mutated_proofs import mutated
from oracle_scheduling import draw, optimum

from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.harness.verify.certificates.scheduling import formula
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import LocalRun
from shardmark.solvers.scheduling.bounds.critical_path import critical_path
from shardmark.solvers.scheduling.bounds.energetic import energetic
from shardmark.solvers.scheduling.bounds.load import load

DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(60, 30, 300)
MUTATIONS = 10  # per proof
METHODS = 8  # one instance in so many is bounded by all methods


def parameters(instance: Instance, rng: random.Random):
    """Yield proofs by formulas with random parameters."""
    n, k, scale = instance.nodes, instance.devices, rng.choice([3, 20, 40])
    some = rng.sample(range(k), rng.randint(1, k))
    ends = {"scale": scale, "ancestors": rng.choice([0, 1, 24])}
    cases = [rng.sample(range(n), rng.randint(1, min(n, 3))) for _ in range(rng.randint(0, 4))]
    interval = {key: rng.randrange(4 << scale) for key in ("head", "tail")}
    yield {"name": "path"}
    yield {"name": "work", "devices": rng.choice([None, some])}
    yield {"name": "heads", **ends}
    yield {"name": "heads", **ends, "reach": rng.randint(1, n + 1), "cases": cases, "elsewhere": rng.randint(0, 1)}
    yield {"name": "work", "devices": rng.choice([None, some]), **ends, **interval, "reach": 5, "cases": cases}


def of_methods(instance: Instance):
    """Yield the certificates of the methods."""
    for method in (load, critical_path, energetic):
        run = LocalRun(certify=True, timeout=5.0)
        method(instance, run)
        assert run.certificate is not None
        yield run.certificate


def proven(instance: Instance, proof) -> Fraction | None:
    """Return what a proof proves; None if it does not hold."""
    try:
        return formula(instance, proof, Clock(30.0))
    except Unproven:
        return None


@pytest.mark.parametrize("seeds", [range(first, min(first + 50, DRAWS)) for first in range(0, DRAWS, 50)], ids=str)
def test_no_formula_exceeds_the_optimum(seeds: range):
    wrong = refused = reached = 0
    for seed in seeds:
        rng = random.Random(f"certificates {seed}")
        instance = draw(rng)
        best = optimum(instance)
        most = math.inf if best is None else best
        for proof in parameters(instance, rng) if instance.nodes else ():
            value = proven(instance, proof)
            assert value is not None, (seed, proof)
            assert value <= most, (seed, proof)
            reached += best is not None and value >= best * (1 - Fraction(1, 10**9))
            for _ in range(MUTATIONS):
                value = proven(instance, mutated(rng, proof))
                wrong, refused = wrong + 1, refused + (value is None)
                assert value is None or value <= most, (seed, proof)
        for reported, proof in of_methods(instance) if seed % METHODS == 0 else ():
            value = proven(instance, proof)
            assert value is not None, (seed, proof)
            assert value <= most, (seed, proof)
            assert reported <= value or "cases" in proof, (seed, proof)
    assert 0 < refused < wrong
    assert reached
