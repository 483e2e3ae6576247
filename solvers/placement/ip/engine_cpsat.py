"""CP-SAT for both kinds of integer programs of placement, and sizes as integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shardmark.instances.placement import Instance
from shardmark.solvers._cpsat import answer, core, set_up
from shardmark.solvers.placement.ideals.dynamic_program import rounding
from shardmark.solvers.registry import Run

#: The memory in units of CP-SAT if sizes are not integers.
FINE_MEMORY = 2.0**40
#: Memory below which integer sizes are not scaled.
WHOLE = 2**50


def search(
    model: Any,
    run: Run,
    seconds: float,
    found: Callable[[Sequence[int]], None],
    prove: Callable[[float], None],
    *,
    enforced: bool = False,
) -> bool:
    """Search for some seconds; call ``found`` with each solution, ``prove`` with each bound. False if infeasible.

    ``enforced``: literals enforce some constraints. RuntimeError, with CP-SAT's reason, if the ``CpModelProto`` is
    invalid.
    """
    cp_sat = core()
    parameters = cp_sat.SatParameters()
    set_up(parameters, run.cores, run.seed, seconds, turns=True, enforced=enforced)
    parameters.linearization_level = 2
    response = answer(model, parameters, found, prove)
    if response.status == cp_sat.INFEASIBLE:
        return False
    prove(response.inner_objective_lower_bound)
    return True


def whole_sizes(sizes: list[float], instance: Instance) -> tuple[list[int], int]:
    """Integer sizes of sets of nodes, and an integer memory that holds all sets that really fit together.

    Fractional sizes are lowered by the rounding errors of their sums and of the memory.
    """
    capacity, off = instance.capacity, rounding(instance)
    if capacity < WHOLE and all(size == int(size) for size in sizes):
        return [int(size) for size in sizes], math.floor(capacity)
    return [math.floor(size / capacity * FINE_MEMORY * (1 - 2 * off)) for size in sizes], math.ceil(FINE_MEMORY)
