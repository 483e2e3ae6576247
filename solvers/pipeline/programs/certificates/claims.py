"""Certificates of bounds on stages, written once a method has found a bound and why it holds.

`shardmark.harness.verify.certificates.pipeline` defines their form.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Floats, Longs
from shardmark.solvers.pipeline.programs.certificates.integer_network import IntegerNetwork, whole_units
from shardmark.solvers.pipeline.programs.certificates.set_tree import SetTree
from shardmark.solvers.pipeline.programs.stage_search import MIDDLE, whole_weights
from shardmark.solvers.registry import Run

#: The proof of Lemma 3.3, see `Instance.work_bound`.
EVEN_SHARES = {"kind": "work"}

#: Share of the time for a certificate, if one is asked for.
SHARE = 0.2

#: Share of the time left that the greatest claim may take; others follow.
PATIENCE = 0.75

#: All weights together become about 2 to this power: a price of weight is a whole number of units.
WEIGHT_BITS = 20


@dataclass(frozen=True)
class Claim:
    """Why a bound holds: some stage weighs its need, and no such set costs less than the target.

    ``weight``  shape (n,), not negative      ``places``  closure, number of stages and need
    ``target``  in the instance's unit of time
    """

    weight: Longs
    places: list[tuple[int, int, int]]
    target: float

    def spread(self, kept: Ints, nodes: int) -> Claim:
        """The claim about a graph with more nodes, among them ``kept``, shape (n,); the others weigh nothing."""
        weight = np.zeros(nodes, dtype=np.int64)
        weight[kept] = self.weight
        return replace(self, weight=weight)


def anchored_at(instance: Instance, v: int, target: float) -> Claim:
    """Claim that no stage with node ``v`` costs less than a target."""
    weight = np.zeros(instance.nodes, dtype=np.int64)
    weight[v] = 1
    return Claim(weight, [(MIDDLE, instance.stages, 1)], target)


def even_shares(instance: Instance, weights: Floats, target: float) -> Claim:
    """Claim that no stage with an even share of the weights, or more, costs less than a target."""
    weight = whole_weights(weights)
    share = max(1, -(-int(weight.sum()) // instance.stages))
    return Claim(weight, [(MIDDLE, instance.stages, share)], target)


@contextmanager
def time_for_proof(run: Run) -> Iterator[float]:
    """Let a run that is asked for a certificate end early; yield its deadline."""
    deadline = run.deadline
    if run.certify:
        run.deadline -= SHARE * run.remaining()
    yield deadline
    run.deadline = deadline


def certify(run: Run, instance: Instance, claims: Iterable[Claim], until: float) -> None:
    """Report the greatest bound that claims prove, with its proof, if the run is asked for a certificate."""
    if not run.certify:
        return
    best: tuple[float, dict[str, Any]] = instance.work_bound(), EVEN_SHARES
    for claim in sorted(claims, key=lambda claim: -claim.target):
        left = until - time.monotonic()
        if claim.target > best[0] and claim.weight.any() and left > 0:
            best = max(best, prove_claim(instance, claim, until - (1 - PATIENCE) * left), key=lambda found: found[0])
    value, proof = best
    run.bound(value, lambda: proof)


def prove_claim(instance: Instance, claim: Claim, until: float) -> tuple[float, dict[str, Any]]:
    """Return a bound, at most the target of a claim, and its proof."""
    network = IntegerNetwork(instance)
    weight = _light(network.carried(claim.weight.tolist()))
    needs = _needs(claim, sum(weight))
    cutoff = whole_units(claim.target, network.scale) + 1
    cutoff = min(cutoff, sum(network.work) + sum(network.sent))  # no stage costs more
    trees, least = [], cutoff
    for at, (closure, _, need) in enumerate(needs):
        now = time.monotonic()
        sets = SetTree(network, closure, weight, need, least)
        trees.append(sets.grow(now + (until - now) / (len(needs) - at)))
        least = sets.bound
    return math.ldexp(least, -network.scale), {
        "kind": "stages",
        "scale": network.scale,
        "cutoff": least,
        "merged": network.merged,
        "weight": weight,
        "places": [list(place) for place in needs],
        "trees": trees,
    }


def _light(weight: list[int]) -> list[int]:
    """Weights of at most `WEIGHT_BITS` bits in all."""
    shift = max(0, sum(weight).bit_length() - WEIGHT_BITS)
    return [(each + (1 << shift >> 1)) >> shift for each in weight]


def _needs(claim: Claim, total: int) -> list[tuple[int, int, int]]:
    """Needs for other weights, as great in proportion as some stage must reach."""
    before = sum(count * need for _, count, need in claim.places)
    needs = [[closure, count, max(1, need * total // before)] for closure, count, need in claim.places]
    for place in sorted(needs, key=lambda place: place[1]):
        while sum(count * (need - 1) for _, count, need in needs) + place[1] < total:
            place[2] += max(1, (total - 1 - sum(count * (need - 1) for _, count, need in needs)) // place[1])
    return [(closure, count, need) for closure, count, need in needs]
