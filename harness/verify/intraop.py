"""Verdicts for ``intraop``: one strategy per node, exact total cost, memory within the limit at every time step.

Definition: "Soft Constraints, Strong Solutions", Section 3, Equations (1) and (2), with the half-open intervals
[begin, end) of the contest's files and its reference evaluator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmark.harness.verify import Choices, Verdict, malformed, misplaced
from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance

LOW = 2**32 - 1


def verify(instance: Instance, solution: Any) -> Verdict:
    """Judge a list of n strategy indices (0-based).

    The cost is an exact int of any size. Every list of valid indices has a cost, even if memory is exceeded;
    entries of 10^18 are costs like any others.
    """
    reason = misplaced(solution, instance.strategies.tolist(), "a strategy index")
    if reason:
        return malformed(reason)
    chosen = _choices(instance, solution)
    cost = exact_sum(instance.node_cost[chosen.row]) + exact_sum(instance.table[chosen.cell])
    violations = _exceeded(instance, instance.usage[chosen.row])
    return Verdict(not violations, cost, violations)


def choices(instance: Instance, solution: Any) -> Choices | None:
    """Return the strategies of a solution; None if it is malformed."""
    malformed_ = misplaced(solution, instance.strategies.tolist(), "a strategy index")
    return None if malformed_ else _choices(instance, solution)


def _choices(instance: Instance, solution: list[int]) -> Choices:
    strategy = np.array(solution, dtype=np.int64)
    return Choices(instance.strategy_start[:-1] + strategy, _table_cells(instance, strategy))


def exact_sum(values: Ints) -> int:
    """Return the sum of int64 values as a Python int: 32 bits at a time, so that no partial sum wraps."""
    return (int((values >> 32).sum()) << 32) + int((values & LOW).sum())


def _table_cells(instance: Instance, strategy: Ints) -> Ints:
    """Return the place in ``table`` of every edge's cost, shape (m,): row-major, the last node's strategy fastest."""
    arity = np.diff(instance.scope_start)
    cell = np.zeros(instance.edges, dtype=np.int64)
    edges, place = np.arange(instance.edges), 0
    while len(edges):  # Horner's rule, one place of the scope at a time, on the edges that have it
        node = instance.scope[instance.scope_start[edges] + place]
        cell[edges] = cell[edges] * instance.strategies[node] + strategy[node]
        place += 1
        edges = edges[arity[edges] > place]
    return instance.table_start[:-1] + cell


def _exceeded(instance: Instance, usage: Ints) -> tuple[str, ...]:
    """Return a sentence on the worst time step if any exceeds the limit; ``usage`` has shape (n,)."""
    limit = instance.usage_limit
    if limit is None:
        return ()
    begin, until, high, low = usage_profile(instance, usage)
    over = np.flatnonzero((high > limit >> 32) | ((high == limit >> 32) & (low > limit & LOW)))
    if not len(over):
        return ()
    worst = over[np.lexsort((-low[over], -high[over]))[0]]
    used = (int(high[worst]) << 32) + int(low[worst])
    steps = exact_sum(until[over] - begin[over])
    others = f" ({steps} time steps are above the limit, this is the worst)" if steps > 1 else ""
    return (
        f"time step {begin[worst]}: expected at most {limit} of memory in use, found {used}, "
        f"{used - limit} too much{others}",
    )


def usage_profile(instance: Instance, usage: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return memory in use as a step function of time: columns ``begin, until, high, low``.

    In the time steps [begin[i], until[i]) the nodes of ``usage``, shape (n,), together use
    ``high[i] * 2**32 + low[i]`` with 0 <= low[i] < 2**32: in two columns, because sums can pass 2^63.
    """
    times = np.concatenate([instance.begin, instance.end])
    order = np.argsort(times)
    times = times[order]
    high = np.cumsum(np.concatenate([usage >> 32, -(usage >> 32)])[order])
    low = np.cumsum(np.concatenate([usage & LOW, -(usage & LOW)])[order])
    step = np.flatnonzero(np.diff(times))  # the last event of every time but the very last, when all have ended
    high, low = high[step] + (low[step] >> 32), low[step] & LOW
    return times[step], times[step + 1], high, low
