"""Trees of certificates against an enumeration of all sets of a few nodes."""

from __future__ import annotations

import random
import time
from itertools import product

import numpy as np
from oracle_pipeline import draw

from shardmark.solvers.pipeline.programs.certificates.integer_network import IntegerNetwork
from shardmark.solvers.pipeline.programs.certificates.set_tree import SetTree


def least_cost(network: IntegerNetwork, closure: int, weight: list[int], need: int, tree: SetTree) -> int:
    """The least cost of a set that can be a stage and weighs the need, at most the tree's cut-off."""
    above, below = network.relatives()
    least = tree.cutoff
    for chosen in product((False, True), repeat=len(weight)):
        side = np.array(chosen, dtype=bool)
        bits = sum(1 << v for v in np.flatnonzero(side).tolist())
        over, under = (-1 if closure == end else 0 for end in (-1, 1))
        for v in np.flatnonzero(side).tolist():
            over, under = over | above[v], under | below[v]
        convex = not over & under & tree.everything & ~bits
        if convex and not bits & tree.out and sum(np.array(weight)[side].tolist()) >= need:
            least = min(least, tree._cost(side))
    return least


def test_a_tree_that_is_grown_to_its_end_has_the_cost_of_the_cheapest_set():
    for seed in range(240, 300):
        rng = random.Random(f"trees {seed}")
        instance = draw(rng)
        if not instance.nodes:
            continue
        network = IntegerNetwork(instance)
        weight = network.carried([rng.choice([0, 1, 5, rng.randint(1, 1000)]) for _ in range(instance.nodes)])
        closure, need = rng.choice([-1, 0, 1]), rng.randint(1, max(1, sum(weight)))
        tree = SetTree(network, closure, weight, need, sum(network.work) + sum(network.sent))
        least = least_cost(network, closure, weight, need, tree)
        tree.cutoff = tree.bound = min(tree.cutoff, least + rng.choice([0, 1, least // 4, least]))
        tree.grow(time.monotonic() + 30.0)
        assert tree.bound == min(tree.cutoff, least), seed
