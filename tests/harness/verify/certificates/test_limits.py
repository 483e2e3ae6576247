"""Certificates that ask for much time or memory: checks look at their clock in every loop, however long."""

from __future__ import annotations

from typing import Any

import pytest
from attacked_proofs import proofs_of

from shardmark.harness.verify import certificates
from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.instances import hybrid, intraop, pipeline, placement, scheduling


class Counted(Clock):
    """A clock that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__(60.0)
        self.asked = 0

    def tick(self) -> None:
        self.asked += 1
        super().tick()


def of_placement(nodes: int, **options: str) -> placement.Instance:
    """Return nodes that no edges join, on two accelerators and a CPU."""
    node = {"cpuLatency": 10, "fpgaLatency": 3, "supportedOnFpga": 1, "isBackwardNode": False}
    file = {"maxSizePerFPGA": 1, "maxFPGAs": 2, "maxCPUs": 1, "edges": []}
    return placement.parse({**file, "nodes": [{"id": v, **node} for v in range(nodes)]}, "wide", **options)


def of_scheduling(nodes: int) -> scheduling.Instance:
    """Return vertices that no edges join, on two devices."""
    devices, file = {"speed": [1, 2]}, {"format": scheduling.FORMAT, "bandwidth": [[None, 1], [1, None]], "edges": []}
    return scheduling.parse({**file, "nodes": {"complexity": [1] * nodes}, "devices": devices}, "wide")


def of_pipeline(nodes: int) -> pipeline.Instance:
    """Return nodes that no edges join, in two stages."""
    columns = {"work": [1] * nodes, "output_size": [1] * nodes}
    return pipeline.parse({"format": pipeline.FORMAT, "stages": 2, "nodes": columns, "edges": []}, "wide")


def of_hybrid(nodes: int) -> hybrid.Instance:
    """Return nodes that no edges join, on four devices."""
    keys = ("parameterSize", "memoryUsageA", "memoryUsageB")
    menu = {"1": [{"id": "a", "timePerSample": 1, **dict.fromkeys(keys, 0), "syncTimeFw": {}, "syncTimeBw": {}}]}
    file = {"maxDevices": 4, "maxMemoryPerDevice": 1, "bandwidth": 1, "mbsInBatch": 4, "edges": []}
    return hybrid.parse({**file, "nodes": [{"id": v, "TMPCs": menu} for v in range(nodes)]}, "wide")


def of_intraop(nodes: int) -> intraop.Instance:
    """Return nodes that no edges join, of two strategies."""
    columns = {"intervals": [[0, 1]] * nodes, "costs": [[1, 2]] * nodes, "usages": [[0, 0]] * nodes}
    return intraop.parse({"problem": {"nodes": columns, "edges": {"nodes": [], "costs": []}}}, "wide")


def divided(count: int) -> dict[str, Any]:
    """Return a proof of so many cases without steps."""
    return {"kind": "costs-moved", "cutoff": 9, "cases": [{"of": -1, "values": [0, 1]}] * count}


def configurations(count: int) -> dict[str, Any]:
    """Return a proof of so many rates for three nodes."""
    kind = {"most": 3, "order": [0, 1, 2], "rates": [0] * count}
    return {"kind": "configurations", "worth": [3, 3, 3], "accelerators": kind, "cpus": {**kind, "most": 1}}


def deep(count: int) -> dict[str, Any]:
    """Return a proof by a tree of so many branches, which is always taken."""
    tree = [*({"branch": 0} for _ in range(count)), *({} for _ in range(count + 1))]
    return {"kind": "stages", "cutoff": 2, "merged": [], "weight": [1, 1, 1], "places": [[0, 2, 2]], "trees": [tree]}


MOVED = {"kind": "formula", "name": "load", "balance": {}}
HEADS = {"kind": "formula", "name": "heads"}


@pytest.mark.parametrize(
    ("instance", "proof", "each"),
    [
        (of_placement(3), lambda count: {**MOVED, "moved": [{}] * count}, 1),
        (of_placement(3), configurations, 3),
        (of_scheduling(3), lambda count: {**HEADS, "cases": [[0]] * count}, 1),
        (of_pipeline(3), deep, 2),
        (of_intraop(3), divided, 2),
        (of_intraop(3), lambda count: {"kind": "costs-moved", "cutoff": 9, "steps": [{}] * count}, 1),
    ],
    ids=["moved", "rates", "cases", "tree", "divided", "rounds"],
)
def test_a_longer_proof_looks_at_the_clock_more_often(instance: Any, proof: Any, each: int):
    asked = []
    for count in (1, 50):
        clock = Counted()
        proofs_of(instance)[proof(count)["kind"]](instance, proof(count), clock)
        asked.append(clock.asked)
    assert asked[1] - asked[0] >= 49 * each


@pytest.mark.parametrize(
    ("instance", "target"),
    [(of_hybrid(30), 20), (of_placement(30, contiguity="acyclic"), 60), (of_placement(30, objective="latency"), 200)],
    ids=["hybrid", "throughput", "latency"],
)
def test_a_search_through_many_states_ends_at_the_limit_of_memory(instance: Any, target: int):
    with pytest.raises(Unproven, match="within -1 MiB"):  # a limit below what the process holds
        proofs_of(instance)["states"](instance, {"target": target}, Clock(60.0, -1))


def test_orders_of_many_vertices_are_not_listed_before_they_are_judged():
    with pytest.raises(Unproven, match="at most 20000 solutions"):
        proofs_of(of_scheduling(14))["solutions"](of_scheduling(14), {}, Clock(60.0, 400 << 20))


def test_a_bound_may_be_an_integer_beyond_float64():
    proof = {"kind": "work"}
    document = {"format": certificates.FORMAT, "track": "pipeline", "instance": "", "bound": 10**5000, "proof": proof}
    found = certificates.check(of_pipeline(4), "", certificates.require(document, "huge.cert.json"))
    assert (found.proven, found.reason) == (2, "claims an integer of 16610 bits, but proves only 2")


@pytest.mark.parametrize("bound", [True, None, "1", float("nan"), float("inf")])
def test_a_bound_is_a_finite_number(bound: Any):
    document = {"format": certificates.FORMAT, "track": "pipeline", "instance": "", "bound": bound, "proof": {}}
    with pytest.raises(certificates.InputError, match=r"one\.cert\.json: bound: expected a number"):
        certificates.require(document, "one.cert.json")


@pytest.mark.parametrize("part", [None, 5, {"0": 1}, "0", [0], [[0, 0]], [[3, 0, 0]]])
def test_parts_are_triples_of_a_net_and_places(part: Any):
    proof = configurations(1)
    proof["accelerators"]["part"] = part
    with pytest.raises(Unproven, match=r"proof\.part: expected"):
        proofs_of(of_placement(3))["configurations"](of_placement(3), proof, Clock(60.0))
