"""Certificates of ``pipeline``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import math
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from attacked_proofs import attack, blocks, proven, reported
from effort import draws
from oracle_pipeline import draw, optimum

from shardmark.harness.verify.certificates import Clock, Exact, Unproven
from shardmark.harness.verify.certificates.pipeline_sets import Network
from shardmark.instances import pipeline
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline._kernels import closure_work, window_cuts
from shardmark.solvers.pipeline.bounds.anchored import anchored
from shardmark.solvers.pipeline.bounds.bottleneck import bottleneck
from shardmark.solvers.pipeline.bounds.exact import exact
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.bounds.simple import simple
from shardmark.solvers.pipeline.bounds.windows import windows
from shardmark.solvers.pipeline.programs.certificates.cases import Case
from shardmark.solvers.pipeline.programs.certificates.claims import (
    Claim,
    DividedClaim,
    anchored_at,
    few_solutions,
    prove_claim,
)

DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(40, 20, 300)
METHODS = (simple, anchored, bottleneck, exact, reweighted, windows)


def proofs(instance: Instance, rng: random.Random, best: Exact | None):
    """Yield bounds and their proofs: for random weights and needs, for a node, and of methods."""
    yield 0.0, {"kind": "work"}
    if not instance.nodes or best is None:
        return
    if few_solutions(instance) and rng.randrange(8) == 0:
        yield float(best) * (1 - 1e-12), {"kind": "solutions"}
    for _ in range(3):
        yield 0.0, any_proof(instance, rng, best)
        yield 0.0, any_windows(instance, rng, best)
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
    if k <= 6:
        claims += [DividedClaim(any_case(instance, rng, 3), best * rng.choice([1, 1.5])) for _ in range(2)]
    for claim in claims:
        yield prove_claim(instance, claim, time.monotonic() + 30.0)
    if rng.randrange(8) == 0:
        yield from reported(instance, METHODS, 5.0)


def any_case(instance: Instance, rng: random.Random, depth: int) -> Case:
    """Return cases by any stages of any nodes, with weights of any kind."""
    n, k = instance.nodes, instance.stages
    weight = np.array([rng.choice([0, 1, rng.randint(0, 10**6)]) for _ in range(n)], dtype=np.int64)
    weight[0] += not weight.any()
    share = -(-int(weight.sum()) // k)
    case = Case(weight, [max(1, share + rng.choice([0, 0, -share // 2, share // 2])) for _ in range(k)])
    if depth and rng.randrange(3):
        case.branch = rng.randrange(n), rng.randint(-1, k)
        case.children = [any_case(instance, rng, depth - 1) for _ in range(2)]
    return case


def any_proof(instance: Instance, rng: random.Random, best: Exact) -> dict[str, Any]:
    """Return a proof that has the right form, with arbitrary mergers, weights, needs and trees."""
    n, k = instance.nodes, instance.stages
    scale = rng.choice([4, 10, 30]) - math.frexp(float(best) or 1.0)[1]
    network, merged = Network(instance, scale, Clock(5.0)), []
    for u in rng.choices(range(n), k=rng.choice([0, 3, 6])):
        with suppress(Unproven):
            network.merge(u)
            merged.append(u)
    weight = [rng.choice([1, rng.randint(0, 20), network.work[v] % 2**70]) for v in range(n)]
    weight[-1] += not sum(weight)
    left, places = max(0, sum(weight) - 1), []  # of what the stages may weigh together below their needs
    one_end = [[(1, 1), (0, k - 1)], [(0, k - 1), (-1, 1)]] if k > 1 else []
    for closure, stages in rng.choice([[(0, k)], [(1, 1), (-1, 1), (0, k - 2)][:k], *one_end]):
        short = rng.randint(0, left // stages) if stages < k - 1 else left // stages
        left -= stages * short
        places.append([closure, stages, short + 1])
    if k <= 6 and rng.randrange(2):
        shares = {"cases": list(_any_cases(network, weight, k, rng, 3))}
    else:
        trees = [list(_any_tree(network, closure, need, rng, 4)) for closure, _, need in places]
        shares = {"weight": weight, "places": places, "trees": trees}
    unit = Fraction(2) ** scale
    return {
        "kind": "stages",
        "scale": scale,
        "cutoff": int(best * unit * rng.choice([1, Fraction(3, 2), 4])) + 1,
        "merged": merged,
        **shares,
    }


def _any_tree(network: Network, closure: int, need: int, rng: random.Random, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a tree, in preorder, that moves at most what the tensors cost."""
    node: dict[str, Any] = {"price": rng.choice([0, rng.randint(0, 3), sum(network.work) // need])}
    if rng.random() < 0.7:
        given, taken, node["moved"] = Counter[int](), Counter[int](), []
        for u, _ in network.edges:
            some = given if rng.random() < 0.6 else taken
            amount = (network.sent[u] - some[u]) // rng.choice([1, 1, 2, 3])
            some[u] += amount
            node["moved"].append(amount if some is given else -amount)
    if closure and rng.random() < 0.5:
        node["closed"] = [rng.randint(0, sum(network.work)) for _ in network.edges]
    divided = depth and rng.random() < 0.7
    yield node | ({"branch": rng.randrange(len(network.work))} if divided else {})
    for _ in range(2 if divided else 0):
        yield from _any_tree(network, closure, need, rng, depth - 1)


def _any_cases(network: Network, weight: list[int], k: int, rng: random.Random, depth: int) -> Iterator[dict[str, Any]]:
    """Yield cases, in preorder, by any stages of any nodes, with trees for any needs that some stage reaches."""
    if depth and rng.random() < 0.7:
        yield {"branch": [rng.randrange(len(weight)), rng.randint(-1, k)]}
        for _ in range(2):
            yield from _any_cases(network, weight, k, rng, depth - 1)
        return
    cuts = sorted(rng.randint(0, sum(weight) - 1) for _ in range(k - 1))
    needs = [after - before + 1 for before, after in pairwise([0, *cuts, sum(weight) - 1])]
    closures = [1, *[0] * (k - 2), -1][:k]
    trees = [list(_any_tree(network, *place, rng, 3)) for place in zip(closures, needs, strict=True)]
    yield {"weight": weight, "need": needs, "trees": trees}


def any_windows(instance: Instance, rng: random.Random, best: Exact) -> dict[str, Any]:
    """Return a proof by windows around the optimum, with the flows of minimum cuts or arbitrary ones."""
    scale = rng.choice([4, 10, 40]) - math.frexp(float(best) or 1.0)[1]
    network, graph = Network(instance, scale, Clock(5.0)), instance.graph
    most = max(1, int(best * Fraction(2) ** scale * rng.choice([1, 1, Fraction(9, 10), Fraction(1, 2)])))
    count = -(-sum(network.work) // most)
    number, rows, told = np.argsort(graph.tail, kind="stable"), np.zeros((0, graph.edges), dtype=np.int64), []
    if rng.randrange(2) and count:
        work, size = (np.array(each, dtype=np.int64) for each in (network.work, network.sent))
        go = np.zeros(1, dtype=np.int32)
        closures = closure_work(graph, work, go), closure_work(graph, work, go, reverse=True)
        rows = np.zeros(((sum(network.work) - 1) // most, graph.edges), dtype=np.int64)
        window_cuts(graph, size, closures, sum(network.work), most, go, rows)
    left = list(network.sent)
    for row in rows.tolist() or [None] * rng.randint(0, min(count, 9)):
        edges = number.tolist() if row else rng.choices(range(graph.edges), k=rng.randint(0, 9) if graph.edges else 0)
        moved = row or [rng.choice([1, 1, -1]) * left[graph.tail[e]] // rng.randint(1, 3) for e in edges]
        for at, e in enumerate(edges):
            moved[at] = min(moved[at], left[graph.tail[e]])
            left[graph.tail[e]] -= max(0, moved[at])
        told.append({"edges": edges, "moved": moved})
    return {"kind": "windows", "scale": scale, "most": most, "windows": told}


def test_solutions_of_the_tiniest_costs_are_rounded_down():
    nodes = {"work": [5e-324, 1e-323], "output_size": [1e-323, 0]}
    document = {"format": pipeline.FORMAT, "stages": 4, "bandwidth": 3, "nodes": nodes, "edges": [[0, 1]]}
    instance = pipeline.parse(document, "tiniest")
    assert proven(instance, {"kind": "solutions"}, 20.0) <= optimum(instance)


def test_exact_certifies_the_work_where_the_overflow_is_most_of_its_bound():
    instance = draw(random.Random("certificates 5812"))
    assert [proof for _, proof in reported(instance, (exact,), 5.0)] == [{"kind": "work"}]


@blocks(DRAWS, 50)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, proofs)
