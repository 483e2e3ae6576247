"""The sets that a certificate of ``placement`` counts on one device: against all sets that the rules allow."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from attacked_proofs import blocks
from effort import draws
from oracle_placement import Oracle, draw

from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.harness.verify.certificates.placement_configurations import configurations
from shardmark.harness.verify.certificates.placement_configurations.sets import Diagram, Sets, passes
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.placement import Instance

pytestmark = pytest.mark.gate(cases=4)

Chosen = frozenset[int]


@blocks(draws(80, 40, 2000), 20)
def test_no_set_is_left_out_that_a_device_can_hold(seeds: range):
    exact = 0
    for seed in seeds:
        rng = random.Random(f"sets {seed}")
        while (instance := draw(rng)).objective != "throughput" or max(instance.unit.tolist(), default=0) > 9:
            pass
        units = Units(instance, Clock(60.0))
        count, limit = len(units.fast), rng.choice([5, 20, 1000])
        work, weight = ([rng.choice([-1, 0, 1, 5]) for _ in units.fast] for _ in range(2))
        weight = [max(0, w) for w in weight]
        nets = [(members, rng.randint(0, 5)) for members, _ in units.nets]
        sets = Sets(work, weight, rng.choice([3, 99]), nets, units.of, *passes(units))
        told, whole = any_order(instance, units, rng)
        possible = {
            chosen for chosen, load in counted(Diagram(told, sets, limit, Clock(60.0))).items() if load <= limit
        }
        right = {
            frozenset(chosen)
            for size in range(count + 1)
            for chosen in combinations(range(count), size)
            if is_possible(instance, units, sets, set(chosen), limit)
        }
        assert right <= possible, seed
        if whole:
            exact += 1
            assert right == possible, seed
    assert exact > 0


@blocks(draws(80, 40, 2000), 20)
def test_no_proof_says_that_sets_are_worth_less_than_one_that_a_device_can_hold(seeds: range):
    told = 0
    for seed in seeds:
        rng = random.Random(f"worth {seed}")
        while (instance := draw(rng)).objective != "throughput" or instance.allreduce is not None:
            pass
        units = Units(instance, Clock(60.0))
        proof = any_proof(instance, units, rng)
        for kind in [name for name in ("accelerators", "cpus") if getattr(instance, name)]:
            proof[kind]["most"] = greatest_worth(instance, units, proof, kind == "accelerators") - 1
            if proof[kind]["most"] >= 0:
                told += 1
                with pytest.raises(Unproven, match=r"proof\.most: expected at least"):
                    configurations(instance, proof, Clock(60.0))
            proof[kind]["most"] = 1 << 31
    assert told > 0


def any_proof(instance: Instance, units: Units, rng: random.Random) -> dict[str, Any]:
    """Return a proof of the right form, about sets of any worth at any scale, with any rates and rounding of sizes."""
    fast, slow = ([time for time in times if time is not None] for times in (units.fast, units.slow))
    total = sum(fast + slow + [cost for _, cost in units.nets], Fraction(0)) or Fraction(1)
    bits = rng.choice([3, 6, 12, 36])
    scale = max(-1100, min(1100, bits - total.numerator.bit_length() + total.denominator.bit_length()))
    proof: dict[str, Any] = {"scale": scale, "target": rng.randint(0, rng.choice([3, 1 << bits]))}
    proof |= {"computing": rng.choice([0, 0.5, 1, 0.3]), "worth": [rng.randint(-2, 30) for _ in units.fast]}
    for kind in ("accelerators", "cpus"):
        rates = [rng.randrange(1 << rng.choice([4, 16, 22])) for _ in range(rng.randint(0, 2))]
        proof[kind] = any_order(instance, units, rng)[0] | {"most": 1 << 31, "rates": rates}
    room, whole = float(min(units.room, Fraction(10) ** 300)), float(max(units.size))
    if room > 1e-300:
        proof["accelerators"]["unit"] = room / rng.choice([0.5, 1, 2, 7.5, 126])
    if 1e-300 < whole < 1e300 and room / whole < 1e6:
        proof["accelerators"]["price"] = rng.choice([0, rng.random() * 20 / whole])
    if units.room >= 127 * Fraction(proof["accelerators"].get("unit", 0)):
        proof["accelerators"].pop("unit", None)
    proof["cpus"].pop("part", None)
    return proof


def greatest_worth(instance: Instance, units: Units, proof: dict[str, Any], on: bool) -> int:
    """Return the greatest worth of a set whose load on a device is below what a proof claims: by definition."""
    oracle, limit = Oracle(instance), (proof["target"] + 1) / Fraction(2) ** proof["scale"]
    price = Fraction(proof["accelerators"].get("price", 0)) if on else Fraction(0)
    passes = [(False,), (True,)] if instance.schedule == "gpipe" else [(False, True)]
    best = 0
    for size in range(len(units.fast) + 1):
        for chosen in combinations(range(len(units.fast)), size):
            nodes = frozenset(v for v, unit in enumerate(units.of) if unit in chosen)
            if (on and not oracle.allowed(nodes)) or not (instance.contiguity == "free" or oracle.contiguous(nodes)):
                continue
            if sum(oracle.load(nodes, 1, on, kinds, frozenset()) for kinds in passes) < limit:
                best = max(best, sum(proof["worth"][u] - int(price * units.size[u]) for u in chosen))
    return best


def any_order(instance: Instance, units: Units, rng: random.Random) -> tuple[dict[str, object], bool]:
    """Return an order of the units with labels, all that there are or some for some time, and True if it is exact."""
    order = rng.sample(range(len(units.fast)), len(units.fast))
    nodes = [v for unit in order for v in rng.sample(range(instance.nodes), instance.nodes) if units.of[v] == unit]
    if rng.random() < 0.5:
        return {"order": order, "labels": [[v, len(nodes)] for v in nodes]}, len(nodes) + len(units.nets) <= 26
    some = [v for v in nodes if rng.random() < 0.8]
    count = len(order)
    parts = [
        [net, rng.randint(0, count), rng.randint(0, count)] for net in range(len(units.nets)) if rng.random() < 0.2
    ]
    return {"order": order, "labels": [[v, rng.randint(0, instance.nodes)] for v in some], "part": parts}, False


def counted(diagram: Diagram) -> dict[Chosen, int]:
    """Return the sets of a diagram, and the least load of each."""
    reached: dict[tuple[int, Chosen], int] = {(0, frozenset()): 0}
    for layer in diagram.layers:
        after: dict[tuple[int, Chosen], int] = {}
        for (state, chosen), load in reached.items():
            for side in range(2):
                if layer.next[side][state] < 0:
                    continue
                taken = side == 1 and layer.unit is not None
                key = int(layer.next[side][state]), chosen | {layer.unit} if taken else chosen
                more = load + int(layer.cost[side][state]) + (diagram.sets.work[layer.unit] if taken else 0)
                after[key] = min(more, after.get(key, more))
        reached = after
    least: dict[Chosen, int] = {}
    for (_, chosen), load in reached.items():
        least[chosen] = min(load, least.get(chosen, load))
    return least


def is_possible(instance: Instance, units: Units, sets: Sets, chosen: set[int], limit: int) -> bool:
    """Return True if a device can hold these units: by definition."""
    if any(sets.work[v] < 0 for v in chosen) or sum(sets.weight[v] for v in chosen) > sets.most:
        return False
    split = sum(cost for members, cost in sets.nets if chosen & set(members) and set(members) - chosen)
    if sum(sets.work[v] for v in chosen) + split > limit:
        return False
    return instance.contiguity == "free" or all(
        units.of[v] in chosen for v in range(instance.nodes) if _is_between(instance, units, chosen, v)
    )


def _is_between(instance: Instance, units: Units, chosen: set[int], v: int) -> bool:
    """Return True if a node is on a path within its pass between nodes of these units."""
    ends = []
    for forwards in (True, False):
        seen, left = {v}, [v]
        while left:
            u = left.pop()
            near = instance.graph.successors(u) if forwards else instance.graph.predecessors(u)
            for w in near.tolist():
                if w not in seen and instance.backward[w] == instance.backward[v]:
                    seen.add(w)
                    left.append(w)
        ends.append(any(units.of[w] in chosen for w in seen))
    return all(ends)
