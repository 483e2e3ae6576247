"""The choice of stages, replicas, tensor parallelism and recomputation as an instance of track ``hybrid``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from shardmark.instances.hybrid import Instance, parse
from shardmark.instances.models.model import Model
from shardmark.plans.cluster.blocks import Block
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.run import Run

#: Names of configurations, and what those of lean shardings have at the end.
KEPT, AGAIN, LEAN = "kept", "recomputed", ", lean"
#: Bytes that a block, by number, has beyond its state, with these costs and a configuration of this name.
Reserved = Callable[[int, Costs, str], float]


def problem(
    model: Model,
    blocks: Sequence[Block],
    costs: Sequence[Sequence[Costs]],
    run: Run,
    memory: float,
    reserved: Reserved = lambda block, costs, name: 0.0,
) -> Instance:
    """The instance, in seconds and bytes; node i is block i.

    The memory that a block needs while it runs is left out, but for what is ``reserved``. What replicas exchange per
    byte of weights is `Run.exchanged`, what stages do `_crossing`.
    """
    sent = _sent(model, blocks)
    common = min(min(_crossing(run, degree)) for degree in run.degrees)
    document = {
        "maxDevices": run.machines * run.devices,
        "maxMemoryPerDevice": memory,
        "bandwidth": _between(run),
        "mbsInBatch": run.rounds,
        "devicesPerMachine": run.devices,
        "bandwidthInside": run.device.link_bandwidth,
        "options": {"objective": "step" if run.training else "throughput"},
        "nodes": [
            {
                "id": number,
                "name": block.name,
                "TMPCs": {
                    str(degree): [entry for one in menu for entry in _entries(number, one, run, sent, common, reserved)]
                    for degree, menu in groupby(costs[number], key=lambda one: one.degree)
                },
            }
            for number, block in enumerate(blocks)
        ],
        "edges": [
            {"sourceId": source, "destId": target, "communicationCost": common * size}
            for (source, target), size in sorted(sent.items())
        ],
    }
    return parse(document, "layout")


def names(costs: Costs) -> tuple[str, str]:
    """The names of the configurations with activations that are kept, and that are computed again."""
    return (KEPT + LEAN, AGAIN + LEAN) if costs.lean else (KEPT, AGAIN)


def _between(run: Run) -> float:
    """Bytes per second of a device's link to another stage."""
    return run.network if run.machines > 1 else run.device.link_bandwidth


def _crossing(run: Run, degree: int) -> tuple[float, float]:
    """What a byte that enters and that leaves a stage costs each device of a replica, in half bytes between stages.

    Every device of the one stage sends its share, and those of the other gather the shares by their links (Narayanan et
    al., SC 2021, Section 4.1), so that all of them have the whole tensor; gradients go the other way. The track counts
    a way back, which serving has not.
    """
    share = 1 / degree
    gather = (1 - share) * _between(run) / run.device.link_bandwidth
    return (share + gather / 2, share + gather / 2) if run.training else ((share + gather) / 2, share / 2)


def _entries(
    number: int, costs: Costs, run: Run, sent: dict[tuple[int, int], int], common: float, reserved: Reserved
) -> list[dict[str, Any]]:
    """The configurations of a sharding of a block; what edges have in ``common`` is not theirs."""
    stored, repeated = names(costs)
    once, always = run.exchanged
    own = sum(costs.state[: run.own])
    enters, leaves = (part - common for part in _crossing(run, costs.degree))
    one = {
        "id": stored,
        "timePerSample": costs.step_s + costs.gather_s,
        "parameterSize": once * costs.weights / 4,
        "memoryUsageA": costs.activations,
        "memoryUsageB": own + reserved(number, costs, stored),
        "memoryShared": sum(costs.state[run.own :]),
        "gatherSize": always * costs.weights,
        "syncTimeFw": {str(source): enters * size for (source, target), size in sent.items() if target == number},
        "syncTimeBw": {str(target): leaves * size for (source, target), size in sent.items() if source == number},
    }
    if not run.training:
        return [one]
    seconds = costs.step_s + costs.enter_s + costs.forward_s
    memory = {"memoryUsageA": costs.entering, "memoryUsageB": own + reserved(number, costs, repeated)}
    return [one, one | {"id": repeated, "timePerSample": seconds} | memory]


def _sent(model: Model, blocks: Sequence[Block]) -> dict[tuple[int, int], int]:
    """Bytes that go from one block to another, each tensor once."""
    block_of = {index: number for number, block in enumerate(blocks) for index in block.operators}
    sent: dict[tuple[int, int], int] = {}
    for number, block in enumerate(blocks):
        for tensor in block.tensors:
            producer = model.tensors[tensor].producer
            assert producer is not None
            edge = block_of[producer], number
            sent[edge] = sent.get(edge, 0) + model.tensors[tensor].bytes
    return sent
