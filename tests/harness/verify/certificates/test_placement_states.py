"""States of ``placement`` for throughput: no choice of units and nodes refutes the optimum."""

from __future__ import annotations

import os
import random
import tracemalloc
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from attacked_proofs import above, blocks, proven, reported
from effort import draws
from mutated_proofs import mutated
from oracle_placement import document, filled, optimum

from shardmark.harness.verify.certificates import Clock, Unproven, placement_states
from shardmark.harness.verify.certificates.placement_items import MOST_ORDERED
from shardmark.harness.verify.certificates.placement_states import states
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances import InputError
from shardmark.instances.placement import Instance, parse
from shardmark.solvers.placement.dp import dp

DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(200, 100, 4000)


def drawn(rng: random.Random) -> Instance:
    """Return an instance with contiguous or acyclic sets, often with groups of devices on a cycle."""
    while True:
        with suppress(InputError):
            graph = document(rng, rng.choice([3, 4, 5, 5, 6, 6, 7]), (0.2, 0.35, 0.5, 0.9))
            if rng.random() < 0.3:  # units on a cycle, which may be on one device or on several
                for node in graph["nodes"]:
                    node.update(
                        colorClass=rng.randint(0, 2), cpuLatency=rng.randint(1, 3), size=0, supportedOnFpga=True
                    )
            devices = {"maxFPGAs": rng.choice([0, 1, 2, 2, 2, 3]), "maxCPUs": rng.choice([0, 0, 0, 1, 1, 2, 3])}
            contiguity = rng.choice(["contiguous", "contiguous", "contiguous", "acyclic"])
            clusters = {"cluster": rng.randint(1, 3), "slowdown": rng.choice([1.5, 1e16])}
            others = rng.choice([{}, {}, {}, {"schedule": "gpipe"}, clusters])
            overlap = rng.choice(["none", "none", "none", "half", "full"])
            instance = parse({**graph, **devices}, "drawn", contiguity=contiguity, overlap=overlap, **others)
            return instance if rng.random() < 0.5 else filled(rng, instance)


def choice(rng: random.Random, instance: Instance) -> dict[str, Any]:
    """Return what a proof uses of an instance: any units, nodes and pass."""
    units, proof = len(Units(instance, Clock(5.0)).fast), dict[str, Any]()
    if rng.random() < 0.5:
        proof["without"] = [v for v in range(units) if rng.random() < 0.25]
    if rng.random() < 0.5:
        proof["skipped"] = [v for v in range(instance.nodes) if rng.random() < 0.3]
    if rng.random() < 0.6:
        proof["pass"] = rng.choice(["forward", "backward"])
    return proof


@blocks(DRAWS, 50)
def test_no_choice_refutes_the_optimum(seeds: range):
    tight, whole = 0, 0
    for seed in seeds:
        rng = random.Random(f"states {seed}")
        instance = drawn(rng)
        best = optimum(instance)
        if not best:
            continue
        whole += 1
        below = float(best * Fraction(999999, 1000000))
        tight += proven(instance, {"kind": "states", "target": below}, 20.0) is not None
        for proof in [{}, *(choice(rng, instance) for _ in range(3))]:
            assert proven(instance, {"kind": "states", **proof, "target": above(best)}, 20.0) is None, (seed, proof)
            value = proven(instance, mutated(rng, {"kind": "states", **proof, "target": below}))
            assert value is None or value <= best, (seed, proof)
    assert tight > 0.6 * whole, (tight, whole)


@blocks(DRAWS // 4, 25)
def test_the_proofs_of_dp_hold_and_prove_no_more_than_the_optimum(seeds: range):
    tight, bounded = 0, 0
    for seed in seeds:
        rng = random.Random(f"dp {seed}")
        instance = drawn(rng)
        best = optimum(instance)
        for claimed, proof in reported(instance, [dp], 5.0):
            value = proven(instance, proof, 20.0)
            assert value is not None, (seed, proof)
            assert Fraction(claimed) <= value, (seed, claimed, value)
            assert best is None or value <= best, (seed, proof)
            bounded += 1
            tight += best is not None and claimed >= best * Fraction(999999, 1000000)
    assert tight > 0.5 * bounded > 0, (tight, bounded)


def crossed(contiguity: str) -> Instance:
    """Return the graph of the track's page whose best contiguous placement has devices on a cycle."""
    node = {"cpuLatency": 0, "fpgaLatency": 3, "supportedOnFpga": 1, "isBackwardNode": False}
    file = {"maxSizePerFPGA": 0, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [{"id": v, **node} for v in range(4)]}
    edges = [{"sourceId": u, "destId": v, "cost": 0} for u, v in [(0, 1), (2, 3)]]
    nodes = [{**each, "fpgaLatency": time} for each, time in zip(file["nodes"], [5, 4, 2, 1], strict=True)]
    return parse({**file, "nodes": nodes, "edges": edges}, "crossed", contiguity=contiguity)


def test_devices_on_a_cycle_count_if_sets_need_not_be_acyclic():
    assert optimum(crossed("contiguous")) == 6 < (best := optimum(crossed("acyclic")) or 0)
    assert proven(crossed("acyclic"), {"kind": "states", "target": float(best)}) == best
    assert proven(crossed("contiguous"), {"kind": "states", "target": 6}) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"without": [4]}, r"proof\.without: expected numbers from 0 to 3"),
        ({"skipped": [-1]}, r"proof\.skipped: expected numbers from 0 to 3"),
        ({"skipped": 1}, r"proof\.skipped: expected a list"),
        ({"pass": "both"}, r"proof\.pass: expected forward or backward, found 'both'"),
        ({"pass": 1}, r"proof\.pass: expected forward or backward, found 1"),
        ({"without": [0, 1, 2, 3]}, r"proof\.target: expected"),
    ],
)
def test_a_wrong_choice_is_named(wrong: dict[str, Any], message: str):
    with pytest.raises(Unproven, match=message):
        states(crossed("contiguous"), {"target": 1, **wrong}, Clock(5.0))


def test_blocks_of_ideals_change_no_verdict(monkeypatch: pytest.MonkeyPatch):
    proofs = []
    for seed in range(100):
        rng = random.Random(f"blocks {seed}")
        instance = drawn(rng)
        target = float(optimum(instance) or 1) * rng.choice([0.6, 0.999999])
        proofs.append((instance, {"kind": "states", **choice(rng, instance), "target": target}))
    found = [proven(*each, 20.0) for each in proofs]
    monkeypatch.setattr(placement_states, "BLOCK", 3)
    assert [proven(*each, 20.0) for each in proofs] == found
    assert None in found
    assert any(found)


def on_cycles(items: int, units: int, cpus: int) -> Instance:
    """Return items of some units that edges join to a cycle; no edge leaves an item."""
    node = {"cpuLatency": 1, "fpgaLatency": 1, "supportedOnFpga": 1, "isBackwardNode": False}
    nodes = [{"id": v, "colorClass": v // 2, **node} for v in range(2 * items * units)]
    pairs = [(unit, unit + 1 if (unit + 1) % units else unit + 1 - units) for unit in range(items * units)]
    edges = [{"sourceId": 2 * u, "destId": 2 * v + 1, "cost": 1} for u, v in pairs]
    file = {"maxSizePerFPGA": 0, "maxFPGAs": 0, "maxCPUs": cpus, "nodes": nodes, "edges": edges}
    return parse(file, "cycles", contiguity="acyclic")


def test_cpus_that_hold_nothing_take_no_memory():
    peaks = []
    for cpus in (8, 2**31 - 1):
        instance = on_cycles(8, 300, cpus)
        tracemalloc.start()
        try:
            assert proven(instance, {"kind": "states", "target": 600}, 20.0) == 600
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0], peaks


def test_many_nodes_are_not_compared_in_pairs():
    node = {"cpuLatency": 1, "fpgaLatency": 1, "supportedOnFpga": 1, "isBackwardNode": False, "colorClass": 0}
    nodes = [{"id": v, **node} for v in range(MOST_ORDERED + 1)]
    edges = [{"sourceId": v, "destId": v + 1, "cost": 1} for v in range(MOST_ORDERED)]
    file = {"maxSizePerFPGA": 0, "maxFPGAs": 2, "maxCPUs": 0, "nodes": nodes, "edges": edges}
    with pytest.raises(Unproven, match=f"expected at most {MOST_ORDERED} nodes with an order"):
        states(parse(file, "chain"), {"target": 1}, Clock(20.0))
