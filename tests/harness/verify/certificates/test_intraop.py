"""Certificates of ``intraop``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os
import random
import time
from itertools import combinations, product

import pytest
from attacked_proofs import reported
from effort import draws
from mutated_proofs import mutated
from oracle_intraop import draw, optimum

from shardmark import load
from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.harness.verify.certificates.intraop import costs_moved
from shardmark.instances.intraop import Instance, parse
from shardmark.solvers.intraop.bounds.lagrange import lagrange
from shardmark.solvers.intraop.bounds.lp import lp
from shardmark.solvers.intraop.bounds.relaxed import cfn_relaxed
from shardmark.solvers.intraop.bounds.simple import simple
from shardmark.solvers.intraop.bounds.toulbar2 import toulbar2
from shardmark.solvers.intraop.certificates.moved_costs import moved_costs
from shardmark.solvers.intraop.ilp_cpsat import ilp_cpsat
from shardmark.solvers.intraop.ilp_scip import ilp_scip
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.toulbar2_exact import toulbar2_exact

DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(24, 16, 300)
MUTATIONS = 10  # per instance


def proofs(instance: Instance, rng: random.Random, best: int | None):
    """Yield the bounds that methods report, and their proofs; and proofs with several cut-offs."""
    yield from reported(instance, (simple, lagrange), 1.0)
    timeline = Timeline.of(instance)
    for cutoff in {None, best, None if best is None else best + rng.choice([1, 10, 2**40])}:
        prices = {step: rng.random() * 10 for step in range(timeline.steps) if rng.random() < 0.5}
        yield None, moved_costs(instance, timeline, prices, cutoff, time.monotonic() + 0.2)


def by_states(instance: Instance, rng: random.Random, cutoff: int):
    """Return a proof by the states of a dynamic program alone, after a round with any prices."""
    live = (instance.end[instance.end > instance.begin] - 1).tolist() if instance.usage_limit is not None else []
    step: dict = {"scale": rng.randrange(4), "price_scale": rng.randrange(4), "order": list(range(instance.nodes))}
    rng.shuffle(step["order"])
    step["prices"] = [[at, rng.choice([0, 1, 3, 10**6])] for at in sorted(set(live)) if rng.random() < 0.4]
    return {"kind": "costs-moved", "cutoff": cutoff, "steps": [step]}


def proven(instance: Instance, proof) -> int | None:
    """Return what a proof proves; None if it does not hold."""
    try:
        return costs_moved(instance, proof, Clock(30.0))
    except Unproven:
        return None


@pytest.mark.parametrize("method", [cfn_relaxed, ilp_cpsat, ilp_scip, lp, toulbar2, toulbar2_exact])
def test_bounds_of_engines_are_proven_again(method):
    instance = load("sharded-transformer-2")
    ((claimed, proof),) = reported(instance, (method,), 8.0)
    assert instance.cheapest_parts() < claimed <= proven(instance, proof)


def test_the_rounds_of_lagrange_prove_its_bound_although_it_is_below_the_optimum():
    instance = load("jax-u-net-intraop")
    ((claimed, proof),) = reported(instance, (lagrange,), 8.0)
    assert proof.keys() == {"kind", "cutoff", "steps"}  # no cases, which a proof of the bound alone would have
    assert claimed <= proven(instance, proof) < proof["cutoff"]


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


@pytest.mark.parametrize("seeds", [range(first, min(first + 50, DRAWS)) for first in range(0, DRAWS, 50)], ids=str)
def test_states_prove_a_cutoff_if_and_only_if_nothing_costs_less(seeds: range):
    held = failed = 0
    for seed in seeds:
        rng = random.Random(f"states {seed}")
        instance = draw(rng)
        best = optimum(instance)
        if (instance.scope_start[1:] - instance.scope_start[:-1] > 2).any():
            continue
        for cutoff in {rng.randrange(10**6), 2**70} | (set() if best is None else {best, best + 1, best + 2**40}):
            proof = by_states(instance, rng, cutoff)
            value = proven(instance, proof)
            assert value is not None, seed
            assert (value == cutoff) == (best is None or cutoff <= best), seed
            held, failed = held + (value == cutoff), failed + (value < cutoff)
            for _ in range(MUTATIONS):
                value = proven(instance, mutated(rng, proof))
                assert value is None or best is None or value <= best, seed
    assert held > len(seeds) / 4
    assert failed > len(seeds) / 4


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("sharded-transformer-2", 866671),
        ("sharded-experts-6", 13911382),
        ("onnx-densenet-121-intraop", 1007584),
        ("menus-150", 2407496),
    ],
)
def test_optima_are_proven_by_reductions_and_cases(name: str, cost: int):
    instance = load(name)
    proof = moved_costs(instance, Timeline.of(instance), {}, cost, time.monotonic() + 60)
    assert costs_moved(instance, proof, Clock(60.0)) == cost


def pair(limit: int, table: list[int]) -> Instance:
    """Return two nodes that are live together at step 1, and an edge."""
    nodes = {"intervals": [[0, 2], [1, 3]], "costs": [[0, 1], [0, 5]], "usages": [[2, 1], [1, 3]]}
    edges = {"nodes": [[0, 1]], "costs": [table]}
    return parse({"problem": {"name": "pair", "usage_limit": limit, "nodes": nodes, "edges": edges}}, "pair")


@pytest.mark.parametrize(
    "step",
    [
        {"replaced": [0, 1]},  # costs more
        {"replaced": [1, 0]},  # uses more memory at a step that may bind
        {"replaced": [2, 1]},  # another variable
        {"replaced": [0, -1]},  # has entries in its pair
        {"leaves": [[0, 1, 1]]},
        {"leaves": [[0, 0]]},
        {"unfit": [1, 1]},
        {"unfit": [0, 9]},
        {"merged": [0, 1]},
        {"merged": [0, 1, 1, 0]},
        {"merged": [], "kept": "70"},  # row 0 is left
        {"merged": [], "kept": "f"},
    ],
    ids=str,
)
def test_steps_that_do_not_hold_are_refused(step):
    assert proven(pair(4, [0, 1, 1, 0]), {"kind": "costs-moved", "cutoff": 100, "steps": [step]}) is None


def test_steps_that_hold_prove_the_optimum():
    steps = [{"unfit": [3, 1]}, {"merged": [1, 0], "kept": "e0"}, {"replaced": [1, 0]}, {"scale": 0}]
    assert proven(pair(3, [1, 3, 3, 2]), {"kind": "costs-moved", "cutoff": 100, "steps": steps}) == 1


def unlimited(sizes: list[int], scopes: list[list[int]], tables: list[list[int]]) -> Instance:
    """Return nodes without costs and memory, and edges."""
    free = [[0] * size for size in sizes]
    nodes = {"intervals": [[0, 0]] * len(sizes), "costs": free, "usages": free}
    return parse({"problem": {"name": "free", "nodes": nodes, "edges": {"nodes": scopes, "costs": tables}}}, "free")


def test_too_many_values_of_a_parent_are_refused_before_they_are_listed():
    children = 30_000
    merged = [x for child in range(1, children + 1) for x in (child, 0)]
    proof = {"kind": "costs-moved", "cutoff": 1, "steps": [{"merged": merged}]}
    with pytest.raises(Unproven, match="values of parents"):
        costs_moved(unlimited([2500] + [1] * children, [], []), proof, Clock(30.0))


def test_wide_edges_of_merged_variables_are_refused_before_they_are_made():
    """Each of 68 edges of three small nodes has a million entries, once these belong to nodes of 100 values."""
    copies, scopes, tables, merged = 68, list[list[int]](), list[list[int]](), list[int]()
    for at in range(copies):
        nodes = [3 + 3 * at + place for place in range(3)]
        scopes += [nodes, *([place, node] for place, node in enumerate(nodes))]
        tables += [[0, 0, 0, 1, 0, 1, 1, 0], *[[0, 9] * 100] * 3]
        merged += [part for place, node in enumerate(nodes) for part in (node, place)]
    proof = {"kind": "costs-moved", "cutoff": 9, "steps": [{"merged": merged}]}
    with pytest.raises(Unproven, match="entries of wide edges"):
        costs_moved(unlimited([100] * 3 + [2] * 3 * copies, scopes, tables), proof, Clock(30.0))


@pytest.mark.parametrize("nodes", [64, 200])
def test_edges_may_have_more_nodes_than_arrays_axes(nodes: int):
    instance = unlimited([1, 2, 1, 2, 2, *[1] * (nodes - 5)], [list(range(nodes))], [[7, 9, 9, 9, 9, 9, 9, 8]])
    proof = {"kind": "costs-moved", "cutoff": 100, "steps": [{"scale": 0}], "cases": []}
    proof["cases"] = [{"variable": 1, "values": [value], "of": -1, "steps": [{"scale": 0}]} for value in (0, 1)]
    assert proven(instance, proof) == optimum(instance) == 7


def test_a_wide_edge_does_not_outlast_the_limit():
    instance, began = unlimited([2] * 18, [list(range(18))], [list(range(2**18))]), time.monotonic()
    with pytest.raises(Unproven, match=r"at most 0\.2 s"):
        costs_moved(instance, {"kind": "costs-moved", "cutoff": 2**30, "steps": []}, Clock(0.2))
    assert time.monotonic() - began < 5


def test_costs_of_merged_variables_do_not_wrap():
    """Values 1 of five equal nodes pay for ten pairs, and exceed 64 bits, as no table rules them out by itself."""
    dear, forbidden, pairs = 2**60 - 2**50, 2**62, list(combinations(range(5), 2))

    def cost(choice: tuple[int, ...]) -> int:
        ones = {node for node in range(5) if choice[node]}
        allowed = [set(pairs[at]) if at < len(pairs) else set(range(5)) for at in choice[5:]]
        if choice[5] == choice[6] == len(pairs) or not ones <= allowed[0] & allowed[1]:
            return forbidden
        return dear if len(ones) == 2 else 0

    sizes = [2] * 5 + [len(pairs) + 1] * 2
    wide = [cost(choice) for choice in product(*map(range, sizes))]
    equal = [0, forbidden, forbidden, 0]
    instance = unlimited(sizes, [list(range(7)), *([0, v] for v in range(1, 5))], [wide, *[equal] * 4])
    merged = [part for v in range(1, 5) for part in (v, 0)]
    proof = {"kind": "costs-moved", "cutoff": dear + 1, "steps": [{"merged": merged}, {"scale": 0}]}
    assert proven(instance, proof) == 0  # what all zeros cost


def test_costs_that_fit_into_64_bits_only_once_edges_are_joined():
    """An edge of four nodes keeps a rest; two edges of the same nodes exceed 2^60 together, but not when joined."""
    rng, most, forbidden = random.Random(1), 2**59, 2**62 + 1
    equal = [0 if a == b else forbidden for a, b in product(range(3), repeat=2)]
    wide = [1 + rng.randrange(9) for _ in range(81)]
    apart = [[0, most, *[0] * 7], [0, 0, most, *[0] * 6]]
    instance = unlimited([3] * 4, [[0, 1], [0, 1], [2, 3], [0, 1, 2, 3]], [*apart, equal, wide])
    proof = {"kind": "costs-moved", "cutoff": 2**62, "steps": [{"merged": [3, 2]}, {"scale": 0}]}
    assert proven(instance, proof) == optimum(instance) == 1
