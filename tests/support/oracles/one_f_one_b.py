"""Schedules of a synchronous pipeline whose stages have one replica, simulated event by event in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Task = tuple[str, int]  # pass and microbatch


def one_f_one_b(stage: int, stages: int, microbatches: int) -> list[Task]:
    """The tasks of a stage under 1F1B: as many forward passes as stages from here on, then backward and forward."""
    first = min(stages - stage, microbatches)
    order = [("F", m) for m in range(first)]
    for m in range(microbatches):
        order.append(("B", m))
        if m + first < microbatches:
            order.append(("F", m + first))
    return order


def gpipe(stage: int, stages: int, microbatches: int) -> list[Task]:
    """The tasks of a stage under GPipe: all forward passes first."""
    return [(kind, m) for kind in "FB" for m in range(microbatches)]


def makespan(forward: Sequence[Fraction], backward: Sequence[Fraction], microbatches: int, policy: object) -> Fraction:
    """Seconds until every stage has run its tasks in their order, each as soon as its inputs are there."""
    stages = len(forward)
    orders = [policy(i, stages, microbatches) for i in range(stages)]  # type: ignore[operator]
    done: dict[tuple[str, int, int], Fraction] = {}
    clock, at = [Fraction()] * stages, [0] * stages
    while any(at[i] < len(orders[i]) for i in range(stages)):
        before = sum(at)
        for i in range(stages):
            while at[i] < len(orders[i]):
                kind, m = orders[i][at[i]]
                needed = _input(kind, m, i, stages)
                if needed is not None and needed not in done:
                    break
                start = max(clock[i], done[needed] if needed else Fraction())
                clock[i] = done[kind, m, i] = start + (forward if kind == "F" else backward)[i]
                at[i] += 1
        assert sum(at) > before, "the orders of the stages block each other"
    return max(clock)


def _input(kind: str, microbatch: int, stage: int, stages: int) -> tuple[str, int, int] | None:
    if kind == "F":
        return ("F", microbatch, stage - 1) if stage else None
    return ("B", microbatch, stage + 1) if stage < stages - 1 else ("F", microbatch, stage)
