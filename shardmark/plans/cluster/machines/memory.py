"""The memory of a layout, with what a block needs while it runs: activations that it computes again, whole weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardmark.harness.verify import stages
from shardmark.instances.hybrid import Instance
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.problem import names


def working_bytes(solution: Mapping[str, Any], costs: Sequence[Sequence[Costs]]) -> list[float]:
    """Bytes per device of every stage for the largest of its blocks while that runs, as blocks run one at a time.

    That is for the activations of a block that is computed again, and for what its devices and replicas keep in shares,
    but need whole.
    """
    found = [0.0] * len(solution["data_parallel"])
    for menu, stage, kind in zip(costs, solution["stage"], solution["configuration"], strict=True):
        whole = solution["data_parallel"][stage] > 1
        for one in menu:
            if one.degree == solution["tensor_parallel"][stage] and kind in names(one):
                stored = one.activations if kind == names(one)[0] else 0.0
                found[stage] = max(found[stage], one.running - stored + whole * one.whole)
    return found


def lacking_bytes(instance: Instance, solution: Mapping[str, Any], costs: Sequence[Sequence[Costs]]) -> float:
    """Bytes that the fullest device has too few; at most 0 if the layout fits."""
    found = stages(instance, solution)
    assert found is not None
    working = working_bytes(solution, costs)
    return max(sum(held.values()) + more for held, more in zip(found.held, working, strict=True)) - instance.memory
