"""Linear relaxations solved in a child process by HiGHS and PDLP through OR-Tools' MathOpt, transferred by columns.

No claim of these engines is trusted; `dual_bound` computes what their dual values prove. highspy and OR-Tools cannot be
imported into the same process, so HiGHS comes from OR-Tools. It prints to stdout whatever its options and may check the
clock late; a child's stdout is discarded, and a child can be killed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop.programs.child_processes import in_child
from shardmark.solvers.intraop.programs.floating_point import FloatProgram

#: Seconds from the engine's time limit until its child is killed.
GRACE = 0.5
#: Upper limit of that, as a fraction of the time.
LARGEST_GRACE = 0.05


@dataclass(frozen=True)
class SolveResult:
    """Solution of a relaxation.

    ``optimal``  True if the engine calls it optimal and need not continue
    ``column``   shape (columns,), or (0,) if it found no solution
    ``dual``     shape (rows,), or (0,)
    """

    optimal: bool
    column: Floats
    dual: Floats


def minimise(program: FloatProgram, until: float, **options: Any) -> SolveResult | None:
    """Minimise over fractional columns in a child until a time; None if it does not answer.

    ``options`` are fields of MathOpt's parameters; without any for HiGHS, PDLP solves the program.
    """
    for name in ("core.python.solver", "callback_pb2", "model_parameters_pb2", "parameters_pb2", "result_pb2"):
        import_module(f"ortools.math_opt.{name}")  # once for all children
    seconds = until - time.monotonic()
    by_itself = until - program.program.notice(seconds) - min(GRACE, LARGEST_GRACE * seconds)

    def job() -> Ints:
        return _packed(_solve(program, by_itself, options))

    answer = in_child(job, seconds, until)
    return None if answer is None else _unpacked(answer)


def _solve(program: FloatProgram, until: float, options: dict[str, Any]) -> Any:
    """The engine's answer, in the proto of MathOpt."""
    from ortools.math_opt import callback_pb2, model_parameters_pb2, parameters_pb2
    from ortools.math_opt.core.python import solver

    model, begin = _model(program), model_parameters_pb2.ModelSolveParametersProto()
    parameters = parameters_pb2.SolveParametersProto(**options)
    parameters.time_limit.FromTimedelta(timedelta(seconds=max(0.0, until - time.monotonic())))
    engine = parameters_pb2.SOLVER_TYPE_HIGHS if "highs" in options else parameters_pb2.SOLVER_TYPE_PDLP
    initial, callbacks = parameters_pb2.SolverInitializerProto(), callback_pb2.CallbackRegistrationProto()
    return solver.solve(model, engine, initial, parameters, begin, None, callbacks, None, None)


def _model(program: FloatProgram) -> Any:
    """The program as a proto of MathOpt."""
    from ortools.math_opt import model_pb2

    model = model_pb2.ModelProto()
    start, column, value, low, high = program.rows
    columns, rows = model.variables, model.linear_constraints
    columns.ids.extend(range(len(program.cost)))
    columns.lower_bounds.extend(np.zeros(len(program.cost)))
    columns.upper_bounds.extend(program.upper)
    columns.integers.extend([False] * len(program.cost))
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
    """Encode an answer as 64-bit words: 1 if optimal, number of columns, columns, dual values."""
    from ortools.math_opt import result_pb2

    solution = found.solutions[0] if len(found.solutions) else None
    column = [] if solution is None else solution.primal_solution.variable_values.values
    dual = [] if solution is None else solution.dual_solution.dual_values.values
    optimal = found.termination.reason == result_pb2.TERMINATION_REASON_OPTIMAL
    return np.concatenate([[float(optimal), len(column)], np.array(column), np.array(dual)]).view(np.int64)


def _unpacked(bits: Ints) -> SolveResult:
    numbers = bits.view(np.float64)
    column, dual = np.split(numbers[2:], [int(numbers[1])])
    return SolveResult(bool(numbers[0]), column, dual)
