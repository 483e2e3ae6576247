"""The exact dynamic program and Piper's, against an integer program and the published program."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from effort import draws
from hybrid_program import Program, draw

from shardmark.harness.verify.hybrid import verify
from shardmark.instances.hybrid import Instance, parse
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


@pytest.mark.parametrize("seed", range(draws(9, 6, 40)))
def test_the_optimum_is_that_of_an_integer_program(seed: int) -> None:
    instance = draw(random.Random(f"hybrid program {seed}"), nodes=(4, 6))
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
def test_the_shortest_batch_is_proven() -> None:
    given = {"devices": 64, "memory": 8.0 * GIB, "batch": 64, "bandwidth": 25.0 * GIB, "objective": "step"}
    assert_proven(*solved(dp, parse(json.loads(BERT.read_text()), "bert", **given)))


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
