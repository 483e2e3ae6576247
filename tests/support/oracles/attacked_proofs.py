"""Proofs that methods of a track write, right and mutated, against the optimum of a brute force."""

from __future__ import annotations

import importlib
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from mutated_proofs import mutated

from shardmark.harness.verify import certificates
from shardmark.harness.verify.certificates import Clock, Exact, Unproven
from shardmark.solvers.registry import Declined, LocalRun

#: Mutations of each proof.
MUTATIONS = int(os.environ.get("SHARDMARK_MUTATIONS", "5"))

Proof = Mapping[str, Any]
#: Yields bounds that are claimed for an instance with an optimum, None if it is infeasible, and their proofs.
Prover = Callable[[Any, random.Random, Exact | None], Iterator[tuple[float, Proof]]]


def blocks(count: int, length: int) -> Any:
    """Decorates a test of ``seeds``, which is called once for each block of so many of all seeds."""
    ranges = [range(first, min(first + length, count)) for first in range(0, count, length)]
    return pytest.mark.parametrize("seeds", ranges, ids=str)


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


def proofs_of(instance: Any) -> Mapping[str, Callable[..., Exact]]:
    """Return the kinds of proofs of the track of an instance, and their checkers."""
    proofs: Mapping[str, Callable[..., Exact]] = importlib.import_module(
        f"{certificates.__name__}.{instance.track}"
    ).PROOFS
    return proofs


def proven(instance: Any, proof: Proof, seconds: float = 0.2) -> Exact | None:
    """Return what a proof proves; None if it does not hold."""
    kinds, kind = proofs_of(instance), proof.get("kind")
    try:
        return kinds[kind](instance, proof, Clock(seconds)) if isinstance(kind, str) and kind in kinds else None
    except Unproven:
        return None


def above(best: Exact) -> float:
    """Return a float64 just above an optimum."""
    value = math.nextafter(float(best), 0.0)
    while value <= best:
        value = math.nextafter(value, math.inf)
    return value


def attack(
    seeds: range,
    draw: Callable[[random.Random], Any],
    optimum: Callable[[Any], Exact | None],
    prove: Prover,
) -> None:
    """Check that no proof of drawn instances, right, mutated or of the draw before, proves more than the optimum.

    Nor do the states of a dynamic program, for tracks that have such proofs.
    """
    kinds, equal, wrong, refused, bare = Counter[str](), 0, 0, 0, 0
    other: Any = None  # the draw before
    least: Exact | None = None
    for seed in seeds:
        rng = random.Random(f"certificates {seed}")
        instance = draw(rng)
        best, known = optimum(instance), kinds.total()
        for claimed, proof in prove(instance, rng, best):
            value = proven(instance, proof, 20.0)
            assert value is not None, (seed, proof)
            assert best is None or value <= best, (seed, proof)
            kinds[f"{proof['kind']} {proof.get('name', '')}".strip()] += 1
            equal += value >= Fraction(claimed)
            for wrong_proof in (mutated(rng, proof) for _ in range(MUTATIONS)):
                value = proven(instance, wrong_proof)
                wrong, refused = wrong + 1, refused + (value is None)
                assert value is None or best is None or value <= best, (seed, wrong_proof)
            elsewhere = proven(other, proof) if least is not None else None
            assert elsewhere is None or elsewhere <= least, (seed, proof)
        if best is not None:
            assert proven(instance, {"kind": "states", "target": above(best)}, 20.0) is None, seed
        other, least = instance, best
        bare += kinds.total() == known
    assert equal > 0.9 * kinds.total(), (equal, kinds)
    assert 0 < refused < wrong
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{len(seeds)} draws, {bare} without proof: {told}; {equal} equal, {wrong} mutations, {refused} refused")
