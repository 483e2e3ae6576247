"""Programs solved in a child process by HiGHS and PDLP through OR-Tools' MathOpt, transferred by columns.

highspy and OR-Tools cannot be imported into one process, so HiGHS comes from OR-Tools. It prints to stdout whatever its
options, and may check the clock late; a child's stdout is discarded, and a child can be killed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import numpy as np

from instances.files.columns import Floats, Ints
from solvers.intraop.programs.child_processes import in_child
from solvers.intraop.programs.floating_point import FloatProgram

#: Seconds from the engine's time limit until its child is killed.
GRACE = 0.5
#: The same as a largest fraction of the time.
LARGEST_GRACE = 0.05


@dataclass(frozen=True)
class SolveResult:
    """Result of an engine; ``bound`` is minus infinity if it has none.

    ``ended``   MathOpt's termination reason
    ``column``  shape (columns,), or (0,) if it found no solution
    ``dual``    shape (rows,), or (0,)
    """

    ended: str
    bound: float
    column: Floats
    dual: Floats

    @property
    def optimal(self) -> bool:
        """True if the engine found an optimum within its tolerances."""
        return self.ended == "OPTIMAL"

    @property
    def infeasible(self) -> bool:
        """True if the engine reports that no solution exists."""
        return self.ended == "INFEASIBLE"


def minimise(
    program: FloatProgram, until: float, *, integer: bool, hint: Floats | None = None, **options: Any
) -> SolveResult | None:
    """Minimise in a child until a time; None if it does not answer.

    ``integer``  True if columns of values must be integers
    ``hint``     shape (columns,): a starting solution
    ``options``  fields of MathOpt's parameters; without any for HiGHS, PDLP solves the program
    """
    for name in ("core.python.solver", "callback_pb2", "model_parameters_pb2", "parameters_pb2", "result_pb2"):
        import_module(f"ortools.math_opt.{name}")  # once for all children
    seconds = until - time.monotonic()
    by_itself = until - program.program.notice(seconds) - min(GRACE, LARGEST_GRACE * seconds)

    def job() -> Ints:
        return _packed(_solve(program, by_itself, integer, hint, options))

    answer = in_child(job, seconds, until)
    return None if answer is None else _unpacked(answer)


def _solve(program: FloatProgram, until: float, integer: bool, hint: Floats | None, options: dict[str, Any]) -> Any:
    """The engine's answer, in the proto of MathOpt."""
    from ortools.math_opt import callback_pb2, model_parameters_pb2, parameters_pb2
    from ortools.math_opt.core.python import solver

    model, begin = _model(program, integer), model_parameters_pb2.ModelSolveParametersProto()
    if hint is not None:
        some, values = np.flatnonzero(hint), begin.solution_hints.add().variable_values
        values.ids.extend(some)
        values.values.extend(hint[some])
    parameters = parameters_pb2.SolveParametersProto(**options)
    parameters.time_limit.FromTimedelta(timedelta(seconds=max(0.0, until - time.monotonic())))
    engine = parameters_pb2.SOLVER_TYPE_HIGHS if "highs" in options else parameters_pb2.SOLVER_TYPE_PDLP
    initial, callbacks = parameters_pb2.SolverInitializerProto(), callback_pb2.CallbackRegistrationProto()
    return solver.solve(model, engine, initial, parameters, begin, None, callbacks, None, None)


def _model(program: FloatProgram, integer: bool) -> Any:
    """The program as a proto of MathOpt."""
    from ortools.math_opt import model_pb2

    model = model_pb2.ModelProto()
    start, column, value, low, high = program.rows
    columns, rows = model.variables, model.linear_constraints
    columns.ids.extend(range(len(program.cost)))
    columns.lower_bounds.extend(np.zeros(len(program.cost)))
    columns.upper_bounds.extend(program.upper)
    columns.integers.extend((program.integer & integer).tolist())
    model.objective.linear_coefficients.ids.extend(np.flatnonzero(program.cost))
    model.objective.linear_coefficients.values.extend(program.cost[program.cost != 0])
    rows.ids.extend(range(len(low)))
    rows.lower_bounds.extend(low)
    rows.upper_bounds.extend(high)
    model.linear_constraint_matrix.row_ids.extend(np.repeat(np.arange(len(low)), np.diff(start)))
    model.linear_constraint_matrix.column_ids.extend(column)
    model.linear_constraint_matrix.coefficients.extend(value)
    return model


def _packed(found: Any) -> Ints:
    """Encode an answer as 64-bit words: status, bound, number of columns, columns, dual values."""
    solution = found.solutions[0] if len(found.solutions) else None
    column = [] if solution is None else solution.primal_solution.variable_values.values
    dual = [] if solution is None else solution.dual_solution.dual_values.values
    head = [found.termination.reason, found.termination.objective_bounds.dual_bound, len(column)]
    return np.concatenate([head, np.array(column), np.array(dual)]).view(np.int64)


def _unpacked(bits: Ints) -> SolveResult:
    from ortools.math_opt import result_pb2

    numbers = bits.view(np.float64)
    reason, bound, columns = numbers[:3].tolist()
    column, dual = np.split(numbers[3:], [int(columns)])
    ended = result_pb2.TerminationReasonProto.Name(int(reason)).removeprefix("TERMINATION_REASON_")
    return SolveResult(ended, bound, column, dual)
