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
from shardmark.solvers.pipeline.programs.certificates.cases import Case, CaseProofs
from shardmark.solvers.pipeline.programs.certificates.integer_network import IntegerNetwork, whole_units
from shardmark.solvers.pipeline.programs.certificates.set_tree import grown
from shardmark.solvers.pipeline.programs.stage_search import MIDDLE, whole_weights
from shardmark.solvers.registry import Run

#: The proof of Lemma 3.3, see `Instance.work_bound`.
EVEN_SHARES = {"kind": "work"}

#: The proof of the cost of the best of few solutions; the most that its checker judges, and the most nodes.
ALL_SOLUTIONS = {"kind": "solutions"}
MOST_SOLUTIONS, MOST_SMALL = 20_000, 14

#: Share of the time for a certificate, if one is asked for: most trees take some milliseconds.
SHARE = 0.1

#: Share of the time left that the greatest claim may take; others follow.
PATIENCE = 0.75

#: Most nodes of a graph with trees: the ancestors of all take nodes^2 bits, and the checker takes no more.
MOST_NODES = 30_000


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

    def prove(self, network: IntegerNetwork, cutoff: int, until: float) -> tuple[int, dict[str, Any]]:
        """What is proven, at most the cut-off, and the proof."""
        closures, counts, known = zip(*self.places, strict=True)
        weight, needs = network.weights(self.weight, list(known), list(counts))
        trees, least, undecided = [], cutoff, np.zeros(len(weight), dtype=np.int8)
        for at, (closure, need) in enumerate(zip(closures, needs, strict=True)):
            now = time.monotonic()
            end = now + (until - now) / (len(needs) - at)
            least, tree = grown(network, closure, weight, need, least, undecided, end)
            trees.append(tree)
        places = [list(place) for place in zip(closures, counts, needs, strict=True)]
        return least, {"weight": weight, "places": places, "trees": trees}


@dataclass(frozen=True)
class DividedClaim:
    """Why a bound holds: in each case, by the stages of nodes, some stage weighs its need, and none costs less."""

    root: Case
    target: float

    def spread(self, kept: Ints, nodes: int) -> DividedClaim:
        """The claim about a graph with more nodes, among them ``kept``, shape (n,); the others weigh nothing."""
        return replace(self, root=self.root.spread(kept, nodes))

    def prove(self, network: IntegerNetwork, cutoff: int, until: float) -> tuple[int, dict[str, Any]]:
        """What is proven, at most the cut-off, and the proof."""
        proofs = CaseProofs(network, len(self.root.needs), cutoff, until)
        cases = proofs.prove(self.root)
        return proofs.least, {"cases": cases}


AnyClaim = Claim | DividedClaim


def anchored_at(instance: Instance, v: int, target: float) -> Claim:
    """Claim that no stage with node ``v`` costs less than a target."""
    weight = np.zeros(instance.nodes, dtype=np.int64)
    weight[v] = 1
    return Claim(weight, [(MIDDLE, instance.stages, 1)], target)


def even_shares(instance: Instance, weights: Floats, target: float) -> Claim:
    """Claim that no stage with an even share of the weights, or more, costs less than a target.

    If the weights are too small to become integers, nothing is claimed.
    """
    weight = whole_weights(weights)
    share = max(1, -(-int(weight.sum()) // instance.stages))
    return Claim(weight, [(MIDDLE, instance.stages, share)], target if weight.any() else 0.0)


def few_solutions(instance: Instance) -> bool:
    """Return True if a checker can judge all partitions, if memory is limited with all orders of execution."""
    nodes = instance.nodes
    if nodes > MOST_SMALL:
        return False
    orders = 1 if instance.memory is None else math.factorial(nodes)
    return int(min(instance.stages, nodes)) ** nodes * orders <= MOST_SOLUTIONS


@contextmanager
def time_for_proof(run: Run, share: float = SHARE) -> Iterator[float]:
    """Let a run that is asked for a certificate end early; yield its deadline."""
    deadline = run.deadline
    if run.certify:
        run.deadline -= share * run.remaining()
    yield deadline
    run.deadline = deadline


def certify(run: Run, instance: Instance, claims: Iterable[AnyClaim], until: float) -> None:
    """Report the greatest bound that claims prove, with its proof, if the run is asked for a certificate."""
    if not run.certify:
        return
    best: tuple[float, dict[str, Any]] = instance.work_bound(), EVEN_SHARES
    for claim in sorted(claims, key=lambda claim: -claim.target):
        left = until - time.monotonic()
        if claim.target > best[0] and instance.nodes <= MOST_NODES and left > 0:
            best = max(best, prove_claim(instance, claim, until - (1 - PATIENCE) * left), key=lambda found: found[0])
    value, proof = best
    run.bound(value, lambda: proof)


def prove_claim(instance: Instance, claim: AnyClaim, until: float) -> tuple[float, dict[str, Any]]:
    """Return a bound, at most the target of a claim, and its proof."""
    network = IntegerNetwork(instance)
    cutoff = whole_units(claim.target, network.scale) + 1
    cutoff = min(cutoff, sum(network.work) + sum(network.sent))  # no stage costs more
    least, told = claim.prove(network, cutoff, until)
    same = {"kind": "stages", "scale": network.scale, "cutoff": least, "merged": network.merged}
    return math.ldexp(least, -network.scale), {**same, **told}
