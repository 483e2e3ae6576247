"""CP-SAT, as both kinds of integer programs of placement call it, and sizes in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from instances.placement import Instance
from solvers._cpsat import set_up
from solvers.placement._ideals import rounding
from solvers.registry import Run

#: The memory, where sizes are not whole anyway.
FINE_MEMORY = 2.0**40
#: Where sizes are whole and the memory is less, they are left as they are.
WHOLE = 2**50


def search(
    model: Any, run: Run, seconds: float, found: Callable[[Sequence[int]], None], prove: Callable[[float], None]
) -> bool:
    """Search for so long; ``found`` takes each solution, and ``prove`` the bounds. False if there are no solutions.

    RuntimeError with CP-SAT's reason if the model, a ``CpModelProto``, is none.
    """
    from ortools.sat.python import cp_model_helper as cp_sat

    class Listener(cp_sat.SolutionCallback):
        def OnSolutionCallback(self) -> None:  # noqa: N802
            found(list(self.Response().solution))

    wrapper, parameters, listener = cp_sat.SolveWrapper(), cp_sat.SatParameters(), Listener()
    set_up(parameters, run.cores, run.seed, seconds, turns=True)
    parameters.linearization_level = 2
    wrapper.set_parameters(parameters)
    wrapper.add_solution_callback(listener)
    wrapper.add_best_bound_callback(prove)
    response = wrapper.solve(model)
    wrapper.clear_solution_callback(listener)
    if response.status == cp_sat.MODEL_INVALID:
        raise RuntimeError(f"CP-SAT refuses the model: {response.solution_info}")
    if response.status == cp_sat.INFEASIBLE:
        return False
    prove(response.inner_objective_lower_bound)
    return True


def whole_sizes(sizes: list[float], instance: Instance) -> tuple[list[int], int]:
    """Whole sizes of sets of nodes that fit, and a memory: all that fit together in truth fit that.

    Where they are not whole, what sums of sizes may be off by is taken off them, and off the memory.
    """
    capacity, off = instance.capacity, rounding(instance)
    if capacity < WHOLE and all(size == int(size) for size in sizes):
        return [int(size) for size in sizes], math.floor(capacity)
    return [math.floor(size / capacity * FINE_MEMORY * (1 - 2 * off)) for size in sizes], math.ceil(FINE_MEMORY)
