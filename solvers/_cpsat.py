"""CP-SAT through the low-level wrapper of its core, with one set-up that avoids three defects of version 9.15.

The modelling layer over that wrapper is not used: it takes longer to import than small programs take to solve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: Number of CP-SAT's main strategies; fewer workers run only some of them unless they take turns.
STRATEGIES = 8

#: Limits of an unbounded sum.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def core() -> Any:
    """The wrapper's module, imported where it is needed."""
    from ortools.sat.python import cp_model_helper

    return cp_model_helper


def set_up(
    parameters: Any,
    cores: int,
    seed: int,
    seconds: float,
    *,
    turns: bool = False,
    cumulative: bool = False,
    enforced: bool = False,
) -> None:
    """Set a ``SatParameters`` for a run; with ``turns``, few workers run all strategies in turn.

    Three defects of version 9.15 are avoided. The detection of inclusions in presolve can prove false bounds (or-tools
    issue 5293): its work limit is 0. Cuts can prove false bounds if the model has ``cumulative`` constraints: then they
    are off. Presolve can crash on a hint, or on a neighbourhood of a solution, if it replaces the variables of
    constraints ``enforced`` by literals by their encoding (or-tools issue 5288): then it keeps all feasible solutions.
    """
    parameters.num_workers = cores
    parameters.random_seed = seed % 2**31
    parameters.max_time_in_seconds = max(0.0, seconds)
    parameters.interleave_search = turns and cores < STRATEGIES
    parameters.presolve_inclusion_work_limit = 0
    parameters.keep_all_feasible_solutions_in_presolve = enforced
    if cumulative:
        parameters.cut_level = 0


def add_row(model: Any, columns: Iterable[int], factors: Iterable[int], least: int, most: int) -> Any:
    """Add a linear constraint to a ``CpModelProto`` and return it; literals may then enforce it."""
    constraint = model.constraints.add()
    linear = constraint.linear
    linear.vars.extend(columns)
    linear.coeffs.extend(factors)
    linear.domain.extend((least, most))
    return constraint


def add_hint(model: Any, values: dict[int, int]) -> None:
    """Begin the search of a ``CpModelProto`` with values of some variables."""
    model.solution_hint.vars.extend(list(values))
    model.solution_hint.values.extend(list(values.values()))


def answer(
    model: Any,
    parameters: Any,
    found: Callable[[Sequence[int]], None] | None = None,
    enough: Callable[[float], bool | None] | None = None,
) -> Any:
    """CP-SAT's response to a ``CpModelProto``.

    ``found`` is called with every better solution, a value per variable; ``enough`` with every better bound, and
    returns True to end the search. RuntimeError, with CP-SAT's reason, if the model is invalid.
    """
    cp_sat = core()
    wrapper = cp_sat.SolveWrapper()
    wrapper.set_parameters(parameters)
    if found is not None:
        listener = _listener(found)
        wrapper.add_solution_callback(listener)
    if enough is not None:
        wrapper.add_best_bound_callback(lambda bound: wrapper.stop_search() if enough(bound) else None)
    response = wrapper.solve(model)
    if found is not None:
        wrapper.clear_solution_callback(listener)
    if response.status == cp_sat.MODEL_INVALID:
        raise RuntimeError(f"CP-SAT refuses the model: {response.solution_info}")
    return response


def _listener(found: Callable[[Sequence[int]], None]) -> Any:
    """CP-SAT's callback, whose class cannot be named before the package is imported."""

    class Listener(core().SolutionCallback):  # type: ignore[misc]
        def OnSolutionCallback(self) -> None:  # noqa: N802
            found(list(self.Response().solution))

    return Listener()
