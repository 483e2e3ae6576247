"""The proof ``{"kind": "solutions"}``: an instance is so small that the referee judges all of its solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from shardmark.harness.verify import Verdict
from shardmark.harness.verify.certificates import Clock, Exact, Unproven
from shardmark.instances.rounding import SMALLEST_FLOAT

#: Most solutions that are judged, which takes seconds, and most nodes of their graph.
MOST, MOST_NODES = 20_000, 14


def least_cost(
    instance: Any,
    verify: Callable[[Any, Any], Verdict],
    solutions: Iterable[Any],
    roundings: int,
    clock: Clock,
) -> Exact:
    """Return the least cost of all solutions, which are made one by one, less the error of some roundings."""
    if instance.nodes > MOST_NODES:
        raise Unproven(f"proof.kind: expected an instance of at most {MOST_NODES} nodes, found {instance.nodes}")
    least: float | None = None
    for count, solution in enumerate(solutions):
        clock.tick()
        if count == MOST:
            raise Unproven(f"proof.kind: expected an instance of at most {MOST} solutions")
        verdict = verify(instance, solution)
        if verdict.feasible and verdict.cost is not None:
            least = verdict.cost if least is None else min(least, verdict.cost)
    if least is None:
        raise Unproven("proof.kind: expected an instance with a feasible solution")
    absolute = roundings * Fraction(SMALLEST_FLOAT)  # more than the relative error of the tiniest floats
    return max(Fraction(0), Fraction(least) * (1 - roundings * Fraction(1, 1 << 52)) - absolute)
