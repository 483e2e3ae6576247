"""Drawings of plans for ``hybrid``: memory of the stages by what it holds, and a batch under 1F1B."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardmark.harness import verify
from shardmark.harness.verify import Stages
from shardmark.leaderboard.report import Device, Link, Load, Loads, Schedule

#: Most passes in a drawing of a batch: later microbatches repeat what the first ones show.
MOST_PASSES = 4000
#: Share of a microbatch's time that the forward pass takes; the backward pass computes two products per forward one.
FORWARD = 1 / 3
GIB = 2**30
MEMORY = "In brackets: microbatches in flight on a replica."
TIMELINE = "Forward passes take a third of a microbatch's time, backward passes the rest. Recomputation counts as both."


def memory(instance: Any, solution: Any) -> Loads | None:
    """Return the memory of a device of each stage, by what it holds, against the limit; None for other tracks."""
    found, parts = verify.stages(instance, solution), verify.parts(instance, solution)
    if found is None or parts is None:
        return None
    nodes = Counter(parts.of)
    rows = []
    for i, held in enumerate(found.held):
        sizes = {kind: size / GIB for kind, size in held.items()}
        rows.append(Load(f"stage {i} ({found.in_flight[i]})", sum(sizes.values()), [sizes], nodes[i]))
    return Loads(rows, [], "memory of a device, in GiB", limit=instance.memory / GIB, title="Memory", caption=MEMORY)


def timeline(instance: Any, solution: Any) -> Schedule | None:
    """Return one batch under 1F1B, or as many of its microbatches as can be drawn; None for other objectives."""
    found = verify.stages(instance, solution)
    if found is None or instance.objective != "step":
        return None
    most = max(max(found.data), MOST_PASSES // (2 * len(found.data)))
    count = min(instance.batch, most)
    passes = simulate(found, count, [FORWARD * time for time in found.microbatch])
    shown = "" if count == instance.batch else f" Only {count:,} of {instance.batch:,} microbatches are drawn."
    order = sorted({task.device for task in passes})
    number = {device: i for i, device in enumerate(order)}
    return Schedule(
        nodes=[f"{'backward' if task.back else 'forward'} pass of microbatch {task.microbatch}" for task in passes],
        device=[number[task.device] for task in passes],
        start=[task.start for task in passes],
        finish=[task.finish for task in passes],
        devices=[Device(f"stage {stage}" + f".{replica}" * (found.data[stage] > 1)) for stage, replica in order],
        chain=_critical_chain(passes),
        title="A batch under 1F1B",
        caption=TIMELINE + shown,
        what=("pass", "passes"),
        row="replica",
        end="end of the backward passes",
        axis="time in seconds",
        light=tuple(i for i, task in enumerate(passes) if task.back),
    )


@dataclass(frozen=True)
class Pass:
    """A pass of a microbatch on a replica, ``device`` = (stage, replica), and the pass that it waited for, if any."""

    device: tuple[int, int]
    microbatch: int
    back: bool
    start: float
    finish: float
    waited: int | None
    cause: str


def simulate(found: Stages, count: int, forward: Sequence[float]) -> list[Pass]:
    """Run ``count`` microbatches, dealt to replicas in turn, each replica in the order of 1F1B.

    ``forward`` has the seconds of every stage's forward pass, the rest of a microbatch's time is its backward pass.
    A replica first runs as many forward passes as microbatches are in flight there, then one backward and one forward
    pass in turn; a pass starts as soon as its input is there. No replicas wait for each other in a circle, as a stage
    has at least as many microbatches in flight as all later stages and itself have replicas.
    """
    stages = len(found.data)
    orders = {
        (i, r): _order(range(r, count, d), found.in_flight[i]) for i, d in enumerate(found.data) for r in range(d)
    }
    at, last = dict.fromkeys(orders, 0), dict.fromkeys(orders, -1)
    index: dict[tuple[int, int, bool], int] = {}
    passes: list[Pass] = []
    while len(passes) < 2 * count * stages:
        for device, order in orders.items():
            stage = device[0]
            while at[device] < len(order):
                m, back = order[at[device]]
                needed = _input(stage, m, back, stages)
                if needed is not None and needed not in index:
                    break
                given = None if needed is None else index[needed]
                took = found.microbatch[stage] - forward[stage] if back else forward[stage]
                _append(passes, (device, m, back), took, last[device], given)
                index[stage, m, back] = last[device] = len(passes) - 1
                at[device] += 1
    return passes


def _order(microbatches: Sequence[int], in_flight: int) -> list[tuple[int, bool]]:
    """The passes of a replica: (microbatch, whether backward)."""
    order = [(m, False) for m in microbatches[:in_flight]]
    for i, m in enumerate(microbatches):
        order.append((m, True))
        order += [(later, False) for later in microbatches[in_flight + i : in_flight + i + 1]]
    return order


def _input(stage: int, microbatch: int, back: bool, stages: int) -> tuple[int, int, bool] | None:
    """The pass whose output a pass reads, as (stage, microbatch, whether backward)."""
    if not back:
        return (stage - 1, microbatch, False) if stage else None
    return (stage + 1, microbatch, True) if stage < stages - 1 else (stage, microbatch, False)


def _append(
    passes: list[Pass], task: tuple[tuple[int, int], int, bool], took: float, before: int, given: int | None
) -> None:
    """Append a pass (device, microbatch, whether backward) after the one ``before`` on its device and its input."""
    device, m, back = task
    free = passes[before].finish if before >= 0 else 0.0
    ready = passes[given].finish if given is not None else 0.0
    start = max(free, ready)
    waited: int | None = None
    cause = "start"
    if given is not None and ready == start:
        waited, cause = given, "input" if passes[given].device == device else "transfer"
    elif before >= 0:
        waited, cause = before, "device"
    passes.append(Pass(device, m, back, start, start + took, waited, cause))


def _critical_chain(passes: Sequence[Pass]) -> list[Link]:
    at: int | None = max(range(len(passes)), key=lambda i: passes[i].finish)
    chain = []
    while at is not None:
        chain.append(Link(at, passes[at].cause))
        at = passes[at].waited
    return chain[::-1]
