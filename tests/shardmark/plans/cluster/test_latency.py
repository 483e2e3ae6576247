"""The least latency is that of the best of all layouts, and its bound is never above it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.instances.errors import InputError
from shardmark.instances.hybrid import parse
from shardmark.plans.cluster.serving import latency as subject
from shardmark.plans.cluster.serving.latency import fastest, latency


def instance(seed, nodes=4, *, memory=10.0, devices=5, choices=2, jumps=True):
    """A chain, with some edges that jump, of nodes with degrees 1, 2 and 4 in two configurations."""
    rng = np.random.default_rng(seed)
    edges = [(v, v + 1) for v in range(nodes - 1)]
    edges += [(u, v) for u in range(nodes) for v in range(u + 2, nodes) if jumps and rng.random() < 0.3]
    into = {v: [u for u, w in edges if w == v] for v in range(nodes)}
    out = {u: [w for v, w in edges if v == u] for u in range(nodes)}

    def menu(v, degree):
        base, sync = rng.uniform(1, 9), {"syncTimeFw": {}, "syncTimeBw": {}}
        sync["syncTimeFw"] = {str(u): float(rng.integers(0, 3)) for u in into[v]}
        sync["syncTimeBw"] = {str(w): float(rng.integers(0, 3)) for w in out[v]}
        kinds = [("fast", base / degree, rng.uniform(2, 6)), ("lean", base * 1.3 / degree, rng.uniform(0.5, 2))]
        return [
            {"id": name, "timePerSample": time, "parameterSize": 0.0, "memoryUsageA": 0.0, "memoryUsageB": size, **sync}
            for name, time, size in kinds[:choices]
        ]

    document = {
        "maxDevices": devices,
        "maxMemoryPerDevice": memory,
        "bandwidth": 4.0,
        "mbsInBatch": nodes,
        "devicesPerMachine": 4,
        "bandwidthInside": 8.0,
        "nodes": [
            {
                "id": v,
                "TMPCs": {str(degree): menu(v, degree) for degree in (1, 2, 4) if degree < 4 or rng.random() < 0.7},
            }
            for v in range(nodes)
        ],
        "edges": [{"sourceId": u, "destId": v, "communicationCost": float(rng.integers(1, 9))} for u, v in edges],
    }
    return parse(document, f"chain {seed}")


def layouts(work, working):
    """All layouts of one replica per stage that fit, also while the largest of its blocks runs."""
    for bits in product((0, 1), repeat=work.nodes - 1):
        stage = np.cumsum([0, *bits]).tolist()
        for degrees in product((1, 2, 4), repeat=stage[-1] + 1):
            menus = [
                [
                    work.kinds[work.kind[c]]
                    for c in range(work.start[v], work.start[v + 1])
                    if work.degree[c] == degrees[i]
                ]
                for v, i in enumerate(stage)
            ]
            for names in product(*menus):
                solution = {"stage": stage, "configuration": list(names)}
                solution |= {"data_parallel": [1] * len(degrees), "tensor_parallel": list(degrees)}
                if verify(work, solution).feasible and fits(work, working, solution):
                    yield solution


def fits(work, working, solution):
    for i, degree in enumerate(solution["tensor_parallel"]):
        chosen = [
            c
            for v, stage in enumerate(solution["stage"])
            for c in range(work.start[v], work.start[v + 1])
            if (stage, work.degree[c], work.kinds[work.kind[c]]) == (i, degree, solution["configuration"][v])
        ]
        if work.fixed[chosen].sum() + work.shared[chosen].sum() + working[chosen].max() > work.memory:
            return False
    return True


@pytest.mark.gate(cases=3)
@pytest.mark.thorough(cases=8)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("memory", "most"), [(3.0, 0.0), (6.0, 0.0), (6.0, 3.0)])
@pytest.mark.parametrize("jumps", [False, True])
def test_no_layout_has_less_latency(seed, memory, most, jumps):
    work = instance(seed, 3, memory=memory, jumps=jumps)
    working = np.random.default_rng(seed).uniform(0, most, work.configurations)
    times = [latency(work, solution) for solution in layouts(work, working)]
    if not times:
        with pytest.raises(InputError, match="expected memory for one replica, at least"):
            fastest(work, working)
        return
    found = fastest(work, working)
    assert verify(work, found.solution).feasible
    assert fits(work, working, found.solution)
    assert found.cost == latency(work, found.solution)
    assert found.bound_from == "dynamic program"
    assert found.lower_bound <= min(times) <= found.cost * (1 + 1e-12)
    if not jumps:
        assert found.lower_bound == pytest.approx(found.cost, rel=1e-12)


@pytest.mark.thorough(cases=1)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_where_choices_are_dropped(monkeypatch, seed):
    monkeypatch.setattr(subject, "MOST_CHOICES", 2)
    work = instance(seed, 4, memory=6.0, devices=4)
    working = np.random.default_rng(seed).uniform(0, 2, work.configurations)
    best = min(latency(work, solution) for solution in layouts(work, working))
    found = fastest(work, working)
    assert fits(work, working, found.solution)
    assert found.lower_bound <= best <= found.cost * (1 + 1e-12)


@pytest.mark.parametrize(("leaves", "enters"), [(2.0, 0.5), (0.5, 2.0)])
def test_a_transfer_takes_its_time_once_at_the_slower_end(leaves, enters):
    """Both stages compute for a second, and 5 + 2 bytes move each way at 2 bytes per second."""
    document = {
        "maxDevices": 3,
        "maxMemoryPerDevice": 9.0,
        "bandwidth": 2.0,
        "mbsInBatch": 3,
        "nodes": [
            {"id": 0, "TMPCs": {"1": [configuration() | {"syncTimeBw": {"1": leaves}}]}},
            {"id": 1, "TMPCs": {"2": [configuration() | {"syncTimeFw": {"0": enters}}]}},
        ],
        "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 5.0}],
    }
    found = fastest(parse(document, "two"), np.zeros(2))
    assert found.cost == 1.0 + 2 * 7.0 / 2.0 + 1.0
    assert found.lower_bound == pytest.approx(found.cost, rel=1e-12)


def test_nodes_with_several_orders_have_a_bound_of_their_own():
    document = {
        "maxDevices": 2,
        "maxMemoryPerDevice": 9.0,
        "bandwidth": 1.0,
        "mbsInBatch": 2,
        "nodes": [{"id": v, "TMPCs": {"1": [configuration()]}} for v in range(2)],
        "edges": [],
    }
    found = fastest(parse(document, "apart"), np.zeros(2))
    assert found.bound_from == "fastest configuration of each block"
    assert found.lower_bound == pytest.approx(found.cost) == 2.0


def configuration():
    numbers = dict.fromkeys(("parameterSize", "memoryUsageA", "memoryUsageB"), 0.0)
    return {"id": "vanilla", "timePerSample": 1.0, **numbers, "syncTimeFw": {}, "syncTimeBw": {}}
