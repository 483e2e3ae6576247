"""The exact dynamic program and Piper's, against an integer program and the published program."""

from __future__ import annotations

import json
import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import draws
from hybrid_program import Program, draw
from oracle_hybrid import optimum

from shardmark.harness.verify.hybrid import verify
from shardmark.instances.hybrid import Instance, parse
from shardmark.leaderboard.reproductions.hybrid._lengthened import lengthened
from shardmark.solvers.hybrid._kernels import Undecided
from shardmark.solvers.hybrid._thresholds import LimitSearch
from shardmark.solvers.hybrid.dp import dp
from shardmark.solvers.hybrid.piper import piper
from shardmark.solvers.registry import Declined, LocalRun

MIRROR = os.environ.get("SHARDMARK_MIRROR")
BERT = Path(MIRROR or "") / "msr-fiddle" / "piper" / "inputs" / "bert32a100.json"
GIB = 2**30

needs_mirror = pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR, the folder of public inputs")

#: Devices, GiB, microbatches, and the seconds per sample that the public program finds; None: it finds nothing.
PUBLISHED = [
    (8, 2, 1920, None),
    (8, 8, 1920, 0.16585575000000002),
    (32, 2, 1920, 0.066549500000000011),
    (128, 1, 1920, 0.038871749999999997),
    (512, 8, 480, 0.0028123042201042177),
    (2048, 2, 1920, 0.00092718415332958097),
    (2048, 8, 512, 0.0012212799453213811),
]


def solved(method: Any, instance: Instance, seconds: float = 60.0) -> tuple[float | None, LocalRun]:
    """The verified cost of a method's last solution, None if it declined; and its run."""
    run = LocalRun(timeout=seconds)
    try:
        method(instance, run)
    except Declined:
        assert run.solutions == []
        return None, run
    verdict = verify(instance, json.loads(json.dumps(run.solutions[-1])))
    assert verdict.feasible
    return verdict.cost, run


def assert_proven(cost: float | None, run: LocalRun) -> None:
    assert cost is not None
    assert cost * (1 - 1e-9) <= max(run.bounds) <= cost


@pytest.mark.parametrize("seed", range(draws(3, 3, 40)))
def test_the_optimum_is_that_of_an_integer_program(seed: int) -> None:
    instance = draw(random.Random(f"hybrid program {seed}"))
    best = Program(instance).solve(240)
    cost, run = solved(dp, instance)
    if best is None:
        assert cost is None
        return
    assert cost == pytest.approx(float(best), rel=1e-9)
    assert_proven(cost, run)


@needs_mirror
@pytest.mark.parametrize(("devices", "memory", "batch", "published"), PUBLISHED)
@pytest.mark.parametrize("method", [dp, piper])
def test_values_of_the_public_program(
    method: Any, devices: int, memory: int, batch: int, published: float | None
) -> None:
    given = {"devices": devices, "memory": float(memory * GIB), "batch": batch, "bandwidth": 25.0 * GIB}
    cost, run = solved(method, parse(json.loads(BERT.read_text()), "bert", **given))
    if published is None:
        assert cost is None
        return
    assert cost == pytest.approx(published, rel=1e-9)
    if method is dp:
        assert_proven(cost, run)


@needs_mirror
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize(
    ("layers", "devices", "memory", "seconds"), [(32, 64, 8, 10), (96, 2048, 2, 20), (200, 65536, 2, 120)]
)
def test_the_shortest_batch_is_proven(layers: int, devices: int, memory: int, seconds: float) -> None:
    """As many microbatches as devices; the longer models need bounds that know the microbatches in flight."""
    given = {"devices": devices, "memory": float(memory * GIB), "batch": devices, "bandwidth": 25.0 * GIB}
    document = lengthened(json.loads(BERT.read_text()), layers)
    assert_proven(*solved(dp, parse(document, "bert", **given, objective="step"), seconds))


def chain(menus: list[list[dict[str, float]]], **given: Any) -> Instance:
    """A chain of nodes without transfers; each has configurations of degree 1."""
    edges = [{"sourceId": v, "destId": v + 1, "communicationCost": 0} for v in range(len(menus) - 1)]
    sync = [{"syncTimeFw": {str(v - 1): 0} if v else {}} for v in range(len(menus))]
    for v in range(len(menus)):
        sync[v]["syncTimeBw"] = {str(v + 1): 0} if v + 1 < len(menus) else {}
    free = {"parameterSize": 0, "memoryUsageA": 0}
    nodes = [
        {"id": v, "TMPCs": {"1": [{"id": f"c{i}", **free, **sync[v], **c} for i, c in enumerate(menu)]}}
        for v, menu in enumerate(menus)
    ]
    top = {"maxDevices": 1, "mbsInBatch": 1, "bandwidth": 1, **given}
    return parse({**top, "nodes": nodes, "edges": edges}, "chain")


def choice(time: float, size: float) -> dict[str, float]:
    return {"timePerSample": time, "memoryUsageB": size}


def test_the_last_stage_may_hold_more_than_those_before_it() -> None:
    """The fastest plan per microbatch takes 5.03 for a batch; the best batch has a longer last stage."""
    first = {"timePerSample": 1, "memoryUsageA": 1, "memoryUsageB": 0}
    fast, slow = ({**first, "timePerSample": time, "memoryUsageA": 3} for time in (1.95, 2))
    menus = [[first], [{**fast, "parameterSize": 0.03}, slow]]
    given = {"maxDevices": 5, "mbsInBatch": 6, "maxMemoryPerDevice": 3, "options": {"objective": "step"}}
    cost, run = solved(dp, chain(menus, **given))
    assert cost == 5
    assert_proven(cost, run)


def test_the_greedy_choice_misses_what_the_exact_one_finds() -> None:
    """30 bytes must be saved: the better ratio, 1 second for 20 bytes, does not suffice, 2 for 30 does."""
    instance = chain([[choice(1, 40), choice(2, 20)], [choice(1, 40), choice(3, 10)]], maxMemoryPerDevice=50)
    assert solved(piper, instance)[0] == 5
    assert solved(dp, instance)[0] == 4


def test_more_than_two_configurations_are_saved_step_by_step() -> None:
    """40 bytes must be saved: first 1 second for 30 bytes, then the cheapest that saves the 10 left."""
    menu = [choice(1, 60), choice(2, 30), choice(9, 10)]
    instance = chain([menu, [choice(1, 40), choice(3, 30)]], maxMemoryPerDevice=60)
    assert solved(piper, instance)[0] == solved(dp, instance)[0] == 5


def test_unbounded_choices_of_equal_layers_are_fast() -> None:
    """200 equal layers, and a limit between the relaxation and the optimum."""
    instance = chain([[choice(1, 7), choice(2, 4)]] * 200, maxMemoryPerDevice=7 * 200 - 100)
    cost, run = solved(dp, instance)
    assert cost == 200 + 34
    assert_proven(cost, run)


@pytest.mark.parametrize("objective", ["throughput", "step"])
def test_what_exceeds_the_memory_by_a_rounding_error_proves_nothing(objective: str) -> None:
    """Both nodes together need 2^-80 of the memory too much, which kernels cannot see; bounds and reasons are true."""
    menus = [[choice(1, 2.0**30 * (1 + 1e-9))], [choice(3, 2.0**-50)]]
    given = {"mbsInBatch": 2, "maxMemoryPerDevice": 2.0**30, "options": {"objective": objective}}
    instance = chain(menus, maxDevices=2, **given)
    cost, run = solved(dp, instance)
    assert cost == optimum(instance)
    assert max(run.bounds) < cost
    with pytest.raises(
        Declined, match="found no stages that fit the memory, only some that exceed it by a rounding error"
    ):
        dp(chain(menus, maxDevices=1, **given), LocalRun())


@pytest.mark.parametrize("objective", ["throughput", "step"])
def test_devices_are_counted_up_to_the_largest_number(objective: str) -> None:
    """Two stages of 2^30 devices would be one device too many."""
    instance = chain([[choice(5, 1), choice(2, 1)]] * 3, maxDevices=2**31 - 1, mbsInBatch=4, maxMemoryPerDevice=3)
    instance = replace(instance, degree=np.array([1, 2**30] * 3), objective=objective)
    cost, run = solved(dp, instance)
    assert cost == optimum(instance)
    assert_proven(cost, run)


def test_a_chain_may_be_longer_than_the_stack_is_deep() -> None:
    """In a thread with 256 KiB of it."""
    instance, solved_in_thread = (
        chain([[choice(1, 1)]] * 20_000, maxMemoryPerDevice=20_000, maxDevices=2, mbsInBatch=2),
        [],
    )
    usual = threading.stack_size(1 << 18)
    thread = threading.Thread(target=lambda: solved_in_thread.append(solved(dp, instance)))
    thread.start()
    threading.stack_size(usual)
    thread.join()
    ((cost, run),) = solved_in_thread
    assert cost == 10_000
    assert_proven(cost, run)


@pytest.mark.parametrize("objective", ["throughput", "step"])
def test_choices_that_are_too_hard_are_left_open(objective: str) -> None:
    """Each node trades seconds for as many bytes, and a hidden subset saves just what is missing."""
    rng = random.Random(f"hard choices {objective}")
    sizes = [rng.randint(10**13, 2 * 10**13) for _ in range(32)]
    hidden = sum(rng.sample(sizes, 16))
    instance = chain(
        [[choice(10**15, size), choice(10**15 + size, 0)] for size in sizes],
        maxMemoryPerDevice=sum(sizes) - hidden,
        options={"objective": objective},
    )
    cost, run = solved(dp, instance)
    assert cost is not None
    assert max(run.bounds) <= 32 * 10**15 + hidden <= cost * (1 + 1e-9)
    assert cost <= max(run.bounds) * 1.2


def test_a_limit_left_open_is_not_refuted() -> None:
    """Nothing is known between 2 and 5; chains keep limits from 5 on."""
    refuted, stop = list[float](), np.zeros(1, dtype=np.int32)

    def find(limit: float) -> Any:
        if 2 <= limit < 5:
            raise Undecided(None)
        return SimpleNamespace(slowest=limit) if limit >= 5 else None

    search = LimitSearch(find, stop, 1.0, lambda found: None, refuted.append)
    search.run(100.0)
    assert max(refuted) < 2
    assert search.high == pytest.approx(5, rel=1e-3)


def test_too_many_down_sets_are_declined() -> None:
    nodes = [
        {
            "id": v,
            "TMPCs": {
                "1": [
                    {
                        "id": "c",
                        **choice(1, 1),
                        "parameterSize": 0,
                        "memoryUsageA": 0,
                        "syncTimeFw": {},
                        "syncTimeBw": {},
                    }
                ]
            },
        }
        for v in range(40)
    ]
    document = {"maxDevices": 2, "mbsInBatch": 2, "maxMemoryPerDevice": 99, "bandwidth": 1, "nodes": nodes, "edges": []}
    with pytest.raises(Declined, match=r"more than [\d,]+ ideals"):
        dp(parse(document, "wide"), LocalRun(timeout=20, memory=64))
