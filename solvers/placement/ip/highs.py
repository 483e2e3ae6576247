"""The integer programs of placement by HiGHS, which reports at its end only, through OR-Tools' MathOpt.

highspy and OR-Tools cannot be imported into one process.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np

from instances.files.columns import Floats
from solvers._redirect_stdout import silent
from solvers.placement.ip.floating_point import FloatProgram
from solvers.placement.ip.incumbent import Incumbent
from solvers.placement.ip.program import LoadProgram

#: Share of the time that is kept back, as HiGHS checks the clock late.
LATE = 0.1


def solve(incumbent: Incumbent, program: LoadProgram, part: int, until: float) -> bool:
    """Search until a time and prove a bound of a part; False if there are no solutions."""
    from ortools.math_opt import model_parameters_pb2, parameters_pb2, result_pb2

    floats = FloatProgram(program)
    begin = model_parameters_pb2.ModelSolveParametersProto()
    if (start := incumbent.start(program)) is not None:
        hint = begin.solution_hints.add().variable_values
        hint.ids.extend(range(len(start)))
        hint.values.extend(start)
    limits = parameters_pb2.SolveParametersProto(relative_gap_tolerance=0.0, absolute_gap_tolerance=0.0)
    limits.random_seed = incumbent.run.seed % 2**31
    limits.highs.int_options["threads"] = incumbent.run.cores
    limits.highs.string_options["parallel"] = "on" if incumbent.run.cores > 1 else "off"
    result = _result(_model(floats), limits, until - incumbent.until + incumbent.remaining(), begin)
    if result is None:
        return True
    if result.termination.reason == result_pb2.TERMINATION_REASON_INFEASIBLE:
        return False
    if len(result.solutions):
        values = result.solutions[0].primal_solution.variable_values
        full = dict(zip(values.ids, values.values, strict=True))
        incumbent.offer(program.device([full.get(column, 0.0) for column in range(len(program.whole))]))
    incumbent.prove(part, floats.bound(result.termination.objective_bounds.dual_bound))
    return True


def relaxed(floats: FloatProgram, seconds: float) -> Floats | None:
    """Dual values of the relaxation, shape (rows,), good ones if the time suffices; None if HiGHS has none."""
    from ortools.math_opt import model_parameters_pb2, parameters_pb2

    limits = parameters_pb2.SolveParametersProto()
    limits.highs.string_options["parallel"] = "off"
    until, model = time.monotonic() + seconds, _model(floats, relax=True)
    result = _result(model, limits, until - time.monotonic(), model_parameters_pb2.ModelSolveParametersProto())
    if result is None or not len(result.solutions):
        return None
    values, dual = result.solutions[0].dual_solution.dual_values, np.zeros(len(model.linear_constraints.ids))
    dual[list(values.ids)] = values.values
    return dual if len(values.ids) else None


def _result(model: Any, limits: Any, seconds: float, begin: Any) -> Any:
    """Result of HiGHS within some seconds; None if it gives up with an error."""
    from ortools.math_opt import callback_pb2, parameters_pb2
    from ortools.math_opt.core.python import solver
    from pybind11_abseil.status import StatusNotOk

    limits.time_limit.FromTimedelta(timedelta(seconds=max(0.0, (1 - LATE) * seconds)))
    engine, initial = parameters_pb2.SOLVER_TYPE_HIGHS, parameters_pb2.SolverInitializerProto()
    callbacks = callback_pb2.CallbackRegistrationProto()
    try:
        with silent():
            return solver.solve(model, engine, initial, limits, begin, None, callbacks, None, None)
    except StatusNotOk as error:
        print(f"HiGHS gave up: {error}", file=sys.stderr)
        return None


def _model(floats: FloatProgram, *, relax: bool = False) -> Any:
    """The program as a proto of MathOpt; if relaxed, columns need not be whole."""
    from ortools.math_opt import model_pb2

    model, count = model_pb2.ModelProto(), len(floats.whole)
    columns, rows, matrix = model.variables, model.linear_constraints, model.linear_constraint_matrix
    columns.ids.extend(range(count))
    columns.lower_bounds.extend([0.0] * count)
    columns.upper_bounds.extend(floats.top)
    columns.integers.extend(whole and not relax for whole in floats.whole)
    costly = [column for column, cost in enumerate(floats.cost) if cost]
    model.objective.linear_coefficients.ids.extend(costly)
    model.objective.linear_coefficients.values.extend(floats.cost[column] for column in costly)
    for row, (used, factors, least, most) in enumerate(floats.rows()):
        rows.ids.append(row)
        rows.lower_bounds.append(least)
        rows.upper_bounds.append(most)
        entries = sorted(zip(used, factors, strict=True))
        matrix.row_ids.extend([row] * len(entries))
        matrix.column_ids.extend(column for column, _ in entries)
        matrix.coefficients.extend(factor for _, factor in entries)
    return model
