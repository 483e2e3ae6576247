"""The memory of a layout, with what a block needs while it runs: activations that it computes again, whole weights."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shardmark.harness.verify import stages
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Floats
from shardmark.instances.hybrid import Instance
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.problem import AGAIN, names
from shardmark.plans.cluster.run import Run

#: Part of the memory that the verifier lets rounding exceed.
TOLERANCE = 1e-9


def working(costs: Costs, name: str, *, whole: bool) -> float:
    """Bytes per device of a block while it runs, with a configuration of this name; ``whole`` if replicas divide any.

    That is for the activations of a block that is computed again or serves, and for what its devices and replicas keep
    in shares, but need whole.
    """
    stored = costs.activations if name == names(costs)[0] else 0.0
    return costs.running - stored + whole * costs.whole


def working_bytes(solution: Mapping[str, Any], costs: Sequence[Sequence[Costs]]) -> list[float]:
    """Bytes per device of every stage for the largest of its blocks while that runs, as blocks run one at a time."""
    found = [0.0] * len(solution["data_parallel"])
    for menu, stage, name in zip(costs, solution["stage"], solution["configuration"], strict=True):
        whole = solution["data_parallel"][stage] > 1
        for one in menu:
            if one.degree == solution["tensor_parallel"][stage] and name in names(one):
                found[stage] = max(found[stage], working(one, name, whole=whole))
    return found


def working_of_choices(instance: Instance, costs: Sequence[Sequence[Costs]]) -> Floats:
    """The same of every configuration of an instance of `problem` on one replica, shape (c,)."""
    found = np.zeros(instance.configurations)
    for v, menu in enumerate(costs):
        known = {(one.degree, name): one for one in menu for name in names(one)}
        for c in range(int(instance.start[v]), int(instance.start[v + 1])):
            name = instance.kinds[int(instance.kind[c])]
            found[c] = working(known[int(instance.degree[c]), name], name, whole=False)
    return found


def lacking_bytes(instance: Instance, solution: Mapping[str, Any], costs: Sequence[Sequence[Costs]]) -> float:
    """Bytes that the fullest device has too few; at most 0 if the layout fits."""
    found = stages(instance, solution)
    assert found is not None
    running = working_bytes(solution, costs)
    return max(sum(held.values()) + more for held, more in zip(found.held, running, strict=True)) - instance.memory


def refuse_large(
    source: str | os.PathLike[str], blocks: Sequence[str], costs: Sequence[Sequence[Costs]], run: Run
) -> None:
    """InputError for a block, given by name, that fits no device even alone in a stage, with one microbatch."""
    known: dict[tuple[Costs, ...], tuple[float, Costs, str]] = {}
    for block, menu in zip(blocks, map(tuple, costs), strict=True):
        if menu not in known:
            known[menu] = min(_alone(menu, run), key=lambda choice: choice[0])
        least, one, name = known[menu]
        if least > run.device.memory * (1 + TOLERANCE):
            again = ", with its activations computed again" if name.startswith(AGAIN) else ""
            where = f"one of {one.degree} devices" if one.degree > 1 else "a device"
            expected = (
                f"expected at least {least:,.0f} bytes, which block {block} needs on {where} as a stage of its own"
            )
            found = f"found {run.device.memory:,.0f}, {least - run.device.memory:,.0f} too few"
            raise InputError(source, "memory", f"{expected}{again}; {found}")


def _alone(menu: Sequence[Costs], run: Run) -> Iterator[tuple[float, Costs, str]]:
    """Bytes per device of a block alone in a stage of one replica, or of as many as divide most, by choice."""
    for one in menu:
        limit = run.machines * run.devices // one.degree
        most = next(replicas for replicas in range(limit, 0, -1) if run.rounds % replicas == 0)
        for name in names(one)[: 1 + run.training]:
            kept = one.activations if name == names(one)[0] else one.entering
            for replicas in {1, most}:
                held = sum(one.state[: run.own]) + sum(one.state[run.own :]) / replicas
                yield held + kept + working(one, name, whole=replicas > 1), one, name
