"""The hybrid verifier against plans solved by hand, broken plans, and simulated schedules of 1F1B."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import documents
import pytest
from one_f_one_b import gpipe, makespan, one_f_one_b

from shardmark.harness.verify import parts, stages, verify
from shardmark.instances.hybrid import Instance, parse


def entry(name: str, time: float, a: float, into: list[int], out: list[int], **more: Any) -> dict[str, Any]:
    sync = {"syncTimeFw": {str(u): 1 for u in into}, "syncTimeBw": {str(v): 3 for v in out}}
    return {
        "id": name,
        "timePerSample": time,
        "parameterSize": 6,
        "memoryUsageA": a,
        "memoryUsageB": 10,
        **sync,
        **more,
    }


def chain(**top: Any) -> dict[str, Any]:
    """Three layers in a row; each can recompute, which takes 2 seconds more and keeps 2 bytes instead of 20."""
    nodes = []
    for v in range(3):
        into, out = [v - 1] * (v > 0), [v + 1] * (v < 2)
        kinds = {"kept": (4, 20), "recomputed": (6, 2)}
        menu = {
            t: [entry(name, time / int(t), a / int(t), into, out) for name, (time, a) in kinds.items()] for t in "12"
        }
        nodes.append({"id": v, "TMPCs": menu})
    edges = [{"sourceId": v, "destId": v + 1, "communicationCost": 5} for v in range(2)]
    usual = {"maxDevices": 6, "maxMemoryPerDevice": 100, "bandwidth": 4, "mbsInBatch": 4}
    return {**usual, "nodes": nodes, "edges": edges, **top}


PLAN: dict[str, Any] = {
    "stage": [0, 0, 1],
    "configuration": ["kept", "recomputed", "kept"],
    "data_parallel": [2, 1],
    "tensor_parallel": [1, 2],
}


def hybrid(**top: Any) -> Instance:
    return parse(chain(**top), "chain")


def test_the_cost_is_that_by_hand():
    # Stage 0: 10 s, 2 (5 + 3) / 4 s for the edge out; gradients 4 * 1/2 * 12 / 4 s. Stage 1: 2 s, 2 (5 + 1) / 4 s.
    assert verify(hybrid(), PLAN).cost == max((10 + 4) / 2 + 6 / 4, 2 + 3) == 8.5
    step = hybrid(options={"objective": "step"})
    assert verify(step, PLAN).cost == (14 + 5) + max((4 / 2 - 1) * 14, (4 - 1) * 5) + 6
    assert verify(hybrid(), PLAN).feasible


def test_shared_memory_and_gathering_are_divided_among_replicas():
    changes = {"nodes.0.TMPCs.1.0.memoryShared": 30, "nodes.0.TMPCs.1.0.gatherSize": 8}
    instance = parse(documents.changed(chain(), changes), "chain")
    assert verify(instance, PLAN).cost == 8.5 + 8 / 2 / 4 / 2
    held = stages(instance, PLAN)
    assert held is not None
    assert held.held[0] == {"fixed": 20, "shared": 15, "activations": 2 * (20 + 2)}
    assert held.in_flight == [2, 1]
    assert held.microbatch == [15, 5]
    assert held.sync == [6, 0]


@pytest.mark.parametrize(("machine", "speed"), [(1, 4), (2, 12), (8, 12)])
def test_a_stage_within_a_machine_synchronises_on_its_links(machine, speed):
    plan = {**PLAN, "data_parallel": [2, 1], "tensor_parallel": [1, 1]}
    instance = hybrid(devicesPerMachine=machine, bandwidthInside=12)
    assert verify(instance, plan).cost == (10 + 4) / 2 + 4 * 12 / 2 / speed / 4


@pytest.mark.parametrize(("machine", "inside", "speed"), [(2, 12, 8), (3, 12, 12), (2, 6, 6), (1, 12, 4), (1, 3, 3)])
def test_all_replicas_of_a_machine_send_at_once_to_other_machines(machine, inside, speed):
    plan = {**PLAN, "data_parallel": [4, 1], "tensor_parallel": [1, 1]}
    instance = hybrid(devicesPerMachine=machine, bandwidthInside=inside, mbsInBatch=8, maxDevices=8)
    assert stages(instance, plan).sync[0] == 4 * 3 * 12 / (4 * speed)


def broken(instance: Instance, **changes: Any) -> tuple[str, ...]:
    verdict = verify(instance, {**PLAN, **changes})
    assert not verdict.feasible
    return verdict.violations


def test_each_broken_rule_has_a_sentence_with_place_and_amount():
    assert broken(hybrid(maxMemoryPerDevice=60)) == (
        "stage 0: expected at most 60 bytes per device, found 64 with 2 microbatches in flight, 4 too many",
    )
    assert broken(hybrid(), stage=[0, 1, 0]) == (
        "edge 1 -> 2: expected no earlier stage for node 2, found stage 0 after stage 1",
    )
    assert broken(hybrid(), data_parallel=[3, 1]) == (
        "data_parallel[0]: expected a divisor of the batch of 4 microbatches, found 3",
    )
    assert broken(hybrid(), data_parallel=[4, 2]) == (
        "solution: expected at most 6 devices, found 8, 2 too many",
        "data_parallel: expected a sum of at most 4, the microbatches of a batch, found 6, 2 too many",
    )
    assert broken(hybrid(devicesPerMachine=1, bandwidthInside=4)) == (
        "tensor_parallel[1]: expected at most 1, the devices of a machine, found 2",
    )
    assert broken(hybrid(maxMemoryPerDevice=999), stage=[0, 0, 0]) == (
        "stage 1: expected at least one node, found none",
    )


def test_sizes_beyond_float64_have_a_sentence():
    document = chain(maxMemoryPerDevice=1e305, mbsInBatch=2)
    document["nodes"][0]["TMPCs"]["1"][0]["memoryUsageA"] = 1e300
    found = broken(parse(document, "chain"), data_parallel=[1, 2**31 - 1])
    assert found[-1] == (
        "stage 0: expected at most 1e+305 bytes per device, found 2.147483648e+309 with 2147483648 microbatches "
        "in flight, 2.147383648e+309 too many"
    )


MALFORMED = [
    (5, "solution: expected an object with the keys stage, configuration, data_parallel, tensor_parallel, found 5"),
    ({}, f"solution: expected an object with the keys {', '.join(PLAN)}, found no keys"),
    (
        {"x" * 200: 1},
        f"solution: expected an object with the keys {', '.join(PLAN)}, found '{'x' * 80}'... of 200 characters",
    ),
    ({**PLAN, "data_parallel": []}, "data_parallel: expected a list of 1 to 3, one per stage, found a list of 0"),
    ({**PLAN, "data_parallel": [1] * 4}, "data_parallel: expected a list of 1 to 3, one per stage, found a list of 4"),
    ({**PLAN, "data_parallel": [1, 0]}, "data_parallel[1]: expected a degree from 1 to 2147483647, found 0"),
    ({**PLAN, "data_parallel": [1, True]}, "data_parallel[1]: expected a degree from 1 to 2147483647, found true"),
    ({**PLAN, "tensor_parallel": [1]}, "tensor_parallel: expected a list of 2, one per stage, found a list of 1"),
    ({**PLAN, "stage": [0, 0, 2]}, "stage[2]: expected a stage from 0 to 1, found 2"),
    ({**PLAN, "configuration": ["kept"]}, "configuration: expected a list of 3, one per node, found a list of 1"),
    (
        {**PLAN, "configuration": ["kept", "kept", "both"]},
        "configuration[2]: expected one of its configurations of degree 2, 'kept', 'recomputed', found 'both'",
    ),
    (
        {**PLAN, "configuration": ["kept", 3, "kept"]},
        "configuration[1]: expected one of its configurations of degree 1, 'kept', 'recomputed', found 3",
    ),
    (
        {**PLAN, "tensor_parallel": [1, 4]},
        "configuration[2]: expected one of its configurations of degree 4, found 'kept': it has none",
    ),
]


@pytest.mark.parametrize(("solution", "sentence"), MALFORMED)
def test_what_is_no_plan_has_no_cost(solution, sentence):
    verdict = verify(hybrid(), solution)
    assert (verdict.feasible, verdict.cost, verdict.violations) == (False, None, (sentence,))
    assert parts(hybrid(), solution) is None
    assert stages(hybrid(), solution) is None


def test_parts_have_the_times_that_make_up_the_load():
    found = parts(hybrid(), PLAN)
    assert found is not None
    assert list(found.of) == [0, 0, 1]
    assert list(found.names) == ["stage 0: 2×1", "stage 1: 1×2"]
    assert list(found.loads) == [8.5, 5]
    assert found.times[0] == [{"in": 0, "work": 5, "out": 2, "sync": 1.5}]
    assert list(found.filled) == [0.64, 0.2]
    assert [(t.source, t.target, t.tensors, t.time) for t in found.transfers] == [(0, 1, 1, 2.5)]


def pipeline_of(times: list[int], batch: int) -> tuple[Instance, dict[str, Any]]:
    """Stages of one replica that take these times per microbatch, and the plan that has them."""
    top = {"maxDevices": 99, "maxMemoryPerDevice": 0, "bandwidth": 1, "mbsInBatch": batch, "edges": []}
    free = {"parameterSize": 0, "memoryUsageA": 0, "memoryUsageB": 0, "syncTimeFw": {}, "syncTimeBw": {}}
    nodes = [{"id": v, "TMPCs": {"1": [{"id": "only", "timePerSample": time, **free}]}} for v, time in enumerate(times)]
    instance = parse({**top, "nodes": nodes, "options": {"objective": "step"}}, "stages")
    ones = [1] * len(times)
    names = ["only"] * len(times)
    plan = {"stage": [*range(len(times))], "configuration": names, "data_parallel": ones, "tensor_parallel": ones}
    return instance, plan


@pytest.mark.thorough(cases=50)
@pytest.mark.parametrize("seed", range(150))
def test_step_is_the_makespan_of_1f1b(seed):
    """Exactly if all time is in one pass or all stages are equal; otherwise 1F1B takes no longer, and GPipe as long."""
    rng = random.Random(seed)
    stages_, batch = rng.randint(1, 5), rng.randint(5, 8)
    times = [rng.randint(0, 9) for _ in range(stages_)]
    share = Fraction(rng.randint(0, 6), 6)
    step = _step(times, batch)
    for forward in (Fraction(0), Fraction(1)):
        assert _simulated(times, forward, batch, one_f_one_b) == step
    assert _simulated(times, share, batch, gpipe) == step
    found = _simulated(times, share, batch, one_f_one_b)
    after_bottleneck = sum(times[times.index(max(times)) + 1 :])
    assert step - after_bottleneck <= found <= step
    equal = [times[0]] * stages_
    assert _simulated(equal, share, batch, one_f_one_b) == _step(equal, batch)


def _step(times: list[int], batch: int) -> Fraction:
    instance, plan = pipeline_of(times, batch)
    verdict = verify(instance, plan)
    assert verdict.feasible
    assert verdict.cost is not None
    return Fraction(verdict.cost)


def _simulated(times: list[int], share: Fraction, batch: int, policy: object) -> Fraction:
    forward = [time * share for time in times]
    return makespan(forward, [time - f for time, f in zip(times, forward, strict=True)], batch, policy)
