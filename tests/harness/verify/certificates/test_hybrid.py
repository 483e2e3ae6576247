"""Certificates of ``hybrid``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import pytest
from effort import draws
from mutated_proofs import mutated
from oracle_hybrid import draw, optimum

from shardmark.harness.verify.certificates import Clock, Exact, Unproven
from shardmark.harness.verify.certificates.hybrid import PROOFS
from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid.bounds.relaxed_dp import relaxed_dp
from shardmark.solvers.hybrid.bounds.simple import simple
from shardmark.solvers.hybrid.dp import dp
from shardmark.solvers.hybrid.search import search
from shardmark.solvers.registry import Declined, LocalRun

METHODS = (simple, relaxed_dp, dp, search)
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(10, 6, 200)
MUTATIONS = 5  # per proof

Proof = Mapping[str, Any]


def proofs(instance: Instance) -> Iterator[tuple[float, Proof]]:
    """Yield the bounds that methods report, and their proofs."""
    for method in METHODS:
        run = LocalRun(certify=True, timeout=0.5)
        try:
            method(instance, run)
        except Declined:
            continue
        if run.certificate is not None:
            yield run.certificate


def proven(instance: Instance, proof: Proof, seconds: float = 0.2) -> Exact | None:
    """Return what a proof proves; None if it does not hold."""
    kind = proof.get("kind")
    try:
        return PROOFS[kind](instance, proof, Clock(seconds)) if isinstance(kind, str) and kind in PROOFS else None
    except Unproven:
        return None


@pytest.mark.parametrize("seeds", [range(first, min(first + 20, DRAWS)) for first in range(0, DRAWS, 20)], ids=str)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    rights = equal = wrong = refused = 0
    for seed in seeds:
        rng = random.Random(f"certificates {seed}")
        instance, other = draw(rng), draw(rng)
        best = optimum(instance)
        for reported, proof in proofs(instance):
            value = proven(instance, proof, 20.0)
            assert value is not None, (seed, proof)
            assert best is None or value <= best, (seed, proof)
            rights, equal = rights + 1, equal + (value >= Fraction(reported))
            for wrong_proof in (*(mutated(rng, proof) for _ in range(MUTATIONS)), proof):
                value = proven(instance, wrong_proof)
                wrong, refused = wrong + 1, refused + (value is None)
                assert value is None or best is None or value <= best, (seed, wrong_proof)
            elsewhere = proven(other, proof)
            assert elsewhere is None or optimum(other) is None or elsewhere <= optimum(other), (seed, proof)
    assert equal > 0.9 * rights, (equal, rights)
    assert 0 < refused < wrong
    print(f"{rights} proofs, {equal} of the bound reported, {wrong} mutations, {refused} refused")
