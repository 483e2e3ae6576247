"""Trees of certificates against an enumeration of all sets of a few nodes."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
from oracle_pipeline import document, draw

from shardmark.harness.verify.certificates import Clock
from shardmark.harness.verify.certificates.pipeline_sets import Network, Sets
from shardmark.instances import InputError
from shardmark.instances.pipeline import Instance, parse
from shardmark.solvers.pipeline._set_kernels import unpacked
from shardmark.solvers.pipeline.programs.certificates import set_tree
from shardmark.solvers.pipeline.programs.certificates.integer_network import IntegerNetwork
from shardmark.solvers.pipeline.programs.certificates.set_tree import grown


def least_cost(network: IntegerNetwork, closure: int, weight: Any, need: int, fixed: Any, most: int) -> int:
    """The least cost of a set that can be a stage and weighs the need, or ``most``."""
    below, above = (unpacked(rows, len(weight)) for rows in network.reach)
    for chosen in product((False, True), repeat=len(weight)):
        side = np.array(chosen, dtype=bool)
        under, over = (rows[side].any(axis=0) for rows in (below, above))
        required = {1: over, 0: over & under, -1: under}[closure]
        agrees = not ((fixed < 0) & side).any() and not ((fixed > 0) & ~side).any() and not side[network.merged].any()
        if agrees and not (required & ~side).any() and weight[side].sum() >= need:
            sent = {u for u, v in network.edges if side[u] != side[v]}
            most = min(most, sum(network.work[v] for v in np.flatnonzero(side)) + sum(network.sent[u] for u in sent))
    return most


def drawn_large(rng: random.Random) -> Instance:
    """An instance of so many nodes that trees have many levels."""
    while True:
        with suppress(InputError):  # numbers whose sums are beyond float64
            return parse(document(rng, rng.randint(10, 30), (0.05, 0.1, 0.3)), "drawn")


def drawn(seed: int) -> tuple[Instance, IntegerNetwork, tuple[int, Any, int, Any], int, random.Random]:
    """An instance, its network, a place, and a cut-off around the least cost of its sets."""
    rng = random.Random(f"trees {seed}")
    instance = draw(rng)
    while not instance.nodes:
        instance = draw(rng)
    network, n = IntegerNetwork(instance), instance.nodes
    weight = np.array([rng.choice([0, 1, 5, rng.randint(1, 1000)]) for _ in range(n)], dtype=np.int64)
    weight[network.merged] = 0
    fixed = np.array(
        [rng.choice([0, 0, 0, 0, 1, -1]) for _ in range(n)] if rng.randrange(2) else [0] * n, dtype=np.int8
    )
    fixed[network.merged] = 0
    place = rng.choice([-1, 0, 1]), weight, rng.randint(1, max(1, int(weight.sum()))), fixed
    whole = sum(network.work) + sum(network.sent)
    least = least_cost(network, *place, whole)
    return instance, network, place, min(whole, least + rng.choice([0, 1, least // 4, least])), rng


def checked(
    instance: Instance, network: IntegerNetwork, place: tuple[int, Any, int, Any], cutoff: int, tree: Any
) -> int:
    """What the checker finds that a tree proves."""
    closure, weight, need, fixed = place
    known = Network(instance, network.scale, Clock(30.0))
    for u in network.merged:
        known.merge(u)
    inside, outside = (sum(1 << v for v in np.flatnonzero(fixed == value).tolist()) for value in (1, -1))
    return Sets(known, closure, weight.tolist(), need, cutoff, inside, outside).least(tree)


def test_a_tree_that_is_grown_to_its_end_proves_the_cost_of_the_cheapest_set():
    for seed in range(300):
        instance, network, place, cutoff, _ = drawn(seed)
        closure, weight, need, fixed = place
        proved, tree = grown(network, closure, weight.tolist(), need, cutoff, fixed, time.monotonic() + 30.0)
        assert proved == least_cost(network, *place, cutoff), seed
        assert checked(instance, network, place, proved, tree) == proved, seed


def test_a_tree_about_many_nodes_proves_what_it_says():
    for seed in range(150):
        rng = random.Random(f"large trees {seed}")
        instance = drawn_large(rng)
        network, n = IntegerNetwork(instance), instance.nodes
        weight = np.array([rng.randint(0, 1000) for _ in range(n)], dtype=np.int64)
        weight[network.merged] = 0
        closure, need = rng.choice([-1, 0, 1]), max(1, int(weight.sum()) // rng.randint(2, 6))
        place = closure, weight, need, np.zeros(n, dtype=np.int8)
        whole = sum(network.work) + sum(network.sent)
        until = time.monotonic() + 30.0
        proved, tree = grown(network, closure, weight.tolist(), need, rng.randint(0, whole), place[3], until)
        assert checked(instance, network, place, proved, tree) == proved, seed


def test_a_tree_that_ends_early_proves_what_it_says(monkeypatch):
    monkeypatch.setattr(set_tree, "MOST_NODES", 8)
    for seed in range(300):
        instance, network, place, cutoff, rng = drawn(seed)
        closure, weight, need, fixed = place
        until = time.monotonic() + rng.choice([-1.0, 30.0])
        proved, tree = grown(network, closure, weight.tolist(), need, cutoff, fixed, until)
        assert len(tree) <= 8
        assert proved <= least_cost(network, *place, cutoff), seed
        assert checked(instance, network, place, proved, tree) == proved, seed
