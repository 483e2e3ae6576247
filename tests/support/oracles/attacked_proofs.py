"""Proofs that methods of a track write, right and mutated, against the optimum of a brute force."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from mutated_proofs import mutated

from shardmark.harness.verify import certificates
from shardmark.harness.verify.certificates import Clock, Exact, Unproven
from shardmark.solvers.registry import Declined, LocalRun

MUTATIONS = 5  # per proof

Proof = Mapping[str, Any]


def reported(instance: Any, methods: Sequence[Callable[..., Any]], timeout: float) -> Iterator[tuple[float, Proof]]:
    """Yield the bounds that methods report, and their proofs."""
    for method in methods:
        run = LocalRun(certify=True, timeout=timeout)
        try:
            method(instance, run)
        except Declined:
            continue
        if run.certificate is not None:
            yield run.certificate


def proven(instance: Any, proof: Proof, seconds: float = 0.2) -> Exact | None:
    """Return what a proof proves; None if it does not hold."""
    kinds = importlib.import_module(f"{certificates.__name__}.{instance.track}").PROOFS
    kind = proof.get("kind")
    try:
        return kinds[kind](instance, proof, Clock(seconds)) if isinstance(kind, str) and kind in kinds else None
    except Unproven:
        return None


def attack(
    seeds: range,
    draw: Callable[[random.Random], Any],
    optimum: Callable[[Any], Exact | None],
    methods: Sequence[Callable[..., Any]],
) -> None:
    """Check that no proof of drawn instances, right, mutated or of another instance, proves more than the optimum."""
    rights = equal = wrong = refused = 0
    for seed in seeds:
        rng = random.Random(f"certificates {seed}")
        instance, other = draw(rng), draw(rng)
        best = optimum(instance)
        for claimed, proof in reported(instance, methods, 0.5):
            value = proven(instance, proof, 20.0)
            assert value is not None, (seed, proof)
            assert best is None or value <= best, (seed, proof)
            rights, equal = rights + 1, equal + (value >= Fraction(claimed))
            for wrong_proof in (*(mutated(rng, proof) for _ in range(MUTATIONS)), proof):
                value = proven(instance, wrong_proof)
                wrong, refused = wrong + 1, refused + (value is None)
                assert value is None or best is None or value <= best, (seed, wrong_proof)
            elsewhere = proven(other, proof)
            assert elsewhere is None or optimum(other) is None or elsewhere <= optimum(other), (seed, proof)
    assert equal > 0.9 * rights, (equal, rights)
    assert 0 < refused < wrong
    print(f"{rights} proofs, {equal} of the bound reported, {wrong} mutations, {refused} refused")
