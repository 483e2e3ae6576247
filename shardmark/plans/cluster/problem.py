"""The choice of stages, replicas, tensor parallelism and recomputation as an instance of track ``hybrid``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from shardmark.instances.hybrid import Instance, parse
from shardmark.instances.models.model import Model
from shardmark.plans.cluster.blocks import Block
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.run import Run

KEPT, AGAIN = "kept", "recomputed"


def problem(
    model: Model, blocks: Sequence[Block], costs: Sequence[Sequence[Costs]], run: Run, memory: float
) -> Instance:
    """The instance, in seconds and bytes; node i is block i.

    The replicas of a stage sum gradients by all-reduce, which moves 2 (d - 1) / d of their bytes; the formula of the
    track has twice that for ``parameterSize``. Weights that replicas divide are gathered for both passes, and their
    gradients scattered, for every microbatch.
    """
    sent = _sent(model, blocks)
    passes = 1.0 if run.training else 0.5  # the track counts a way back
    document = {
        "maxDevices": run.machines * run.devices,
        "maxMemoryPerDevice": memory,
        "bandwidth": run.network if run.machines > 1 else run.device.link_bandwidth,
        "mbsInBatch": run.microbatches,
        "devicesPerMachine": run.devices,
        "bandwidthInside": run.device.link_bandwidth,
        "options": {"objective": "step" if run.training else "throughput"},
        "nodes": [
            {
                "id": number,
                "name": block.name,
                "TMPCs": {
                    str(degree): [entry for one in menu for entry in _entries(number, one, run, sent)]
                    for degree, menu in groupby(costs[number], key=lambda one: one.degree)
                },
            }
            for number, block in enumerate(blocks)
        ],
        "edges": [
            {"sourceId": source, "destId": target, "communicationCost": passes * size}
            for (source, target), size in sorted(sent.items())
        ],
    }
    return parse(document, "layout")


def names(costs: Costs) -> tuple[str, str]:
    """The names of the configurations with activations that are kept, and that are computed again."""
    return (f"{KEPT}, lean", f"{AGAIN}, lean") if costs.lean else (KEPT, AGAIN)


def _entries(number: int, costs: Costs, run: Run, sent: dict[tuple[int, int], int]) -> list[dict[str, Any]]:
    """The configurations of a sharding of a block."""
    stored, repeated = names(costs)
    gathered = run.training and run.shard == "weights"
    one = {
        "id": stored,
        "timePerSample": costs.step_s,
        "parameterSize": 0.0 if gathered or not run.training else costs.weights / 2,
        "memoryUsageA": costs.activations,
        "memoryUsageB": costs.state_own,
        "memoryShared": costs.state_divided,
        "gatherSize": 3 * costs.weights if gathered else 0.0,
        "syncTimeFw": {str(source): 0 for source, target in sent if target == number},
        "syncTimeBw": {str(target): 0 for source, target in sent if source == number},
    }
    if not run.training:
        return [one]
    again = {"id": repeated, "timePerSample": costs.step_s + costs.forward_s, "memoryUsageA": costs.entering}
    return [one, one | again]


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
