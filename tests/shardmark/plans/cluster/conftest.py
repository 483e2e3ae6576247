"""Layouts of made-up chains of blocks, without any search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardmark.harness.verify import verify
from shardmark.instances.models.devices import device
from shardmark.instances.models.model import Access, Model
from shardmark.plans.cluster.blocks import Block
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.layout import ClusterLayout
from shardmark.plans.cluster.practice import Practice
from shardmark.plans.cluster.problem import AGAIN, KEPT, problem
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.serving.latency import latency
from shardmark.plans.cluster.stages import stages_of

WEIGHTS, STASHED, ENTERING = 2**30, 2**29, 2**24  # bytes of a block


@pytest.fixture(scope="session")
def layout() -> Callable[..., ClusterLayout]:
    """`made_up`."""
    return made_up


def made_up(
    stages: list[tuple[int, int, int, int]],
    *,
    batch: int,
    machines: int = 1,
    forward_s: float = 0.01,
    entering: int = ENTERING,
    **given: Any,
) -> ClusterLayout:
    """A layout with stages of (blocks, those of them that are recomputed, replicas, devices of each)."""
    count = sum(blocks for blocks, *_ in stages)
    run = Run(machines, 8, device("h100"), 50e9, batch, 1, **given)
    model, blocks = chain(count, entering)
    costs = [_menu(run, forward_s * (1 + v % 3)) for v in range(count)]
    instance = problem(model, blocks, costs, run, run.device.memory)
    solution = {
        "stage": [i for i, (blocks, *_) in enumerate(stages) for _ in range(blocks)],
        "configuration": [AGAIN if v < again else KEPT for blocks, again, *_ in stages for v in range(blocks)],
        "data_parallel": [replicas for _, _, replicas, _ in stages],
        "tensor_parallel": [degree for *_, degree in stages],
    }
    cost = latency(instance, solution) if run.objective == "latency" else verify(instance, solution).cost
    assert cost is not None
    found = stages_of(instance, solution, blocks, costs, run)
    practices = [
        Practice("equal layers", 1.5 * cost, 0.0, "1 x 1 x 1", {}),
        Practice("data", None, 1e9, "1 x 8 x 1", {}),
    ]
    backward = (2.0, "made up") if run.training else (0.0, "made up")
    proven = instance, solution, cost, 0.9 * cost, "search", []
    splits = [{f"w{v}": (False,)} for v in range(count)]
    rest = splits, found, practices, 0.5
    return ClusterLayout(Path("chain.mlir"), model, blocks, costs, run, *backward, *proven, *rest)


def chain(count: int, entering: int) -> tuple[Model, list[Block]]:
    """A model of one operator per block, each of which reads what the one before it writes."""
    model = Model("chain")
    tensors = [model.tensor(f"t{v}", (entering // 2,), "bfloat16") for v in range(count + 1)]
    for v in range(count):
        model.operator(f"o{v}", "any", [Access(tensors[v], ("d",))], [Access(tensors[v + 1], ("d",))], {"d": 4})
    model.outputs = [tensors[-1]]
    return model, [Block(f"layers.{v}", (v,), (tensors[v],) if v else ()) for v in range(count)]


def _menu(run: Run, forward_s: float) -> list[Costs]:
    """The costs of a block in every degree, as if it could be divided without communication."""
    passes, sizes = 3 if run.training else 1, run.state(2)
    kept = STASHED if run.training else 0
    return [
        Costs(
            degree,
            False,
            forward_s / degree,
            passes * forward_s / degree,
            0.0,
            0.0,
            WEIGHTS / degree,
            tuple(WEIGHTS * size / degree for size in sizes),
            run.whole * WEIGHTS / degree,
            kept / degree,
            kept / degree,
            ENTERING,
            ((False,),),
            0.0,
        )
        for degree in run.degrees
    ]
