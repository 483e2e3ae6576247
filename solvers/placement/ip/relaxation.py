"""Dual values of the linear relaxation of an integer program of placement, by HiGHS through OR-Tools' MathOpt.

No claim of HiGHS is trusted; `dual_bound` computes what its dual values prove. highspy and OR-Tools cannot be imported
into the same process.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.solvers._redirect_stdout import silent
from shardmark.solvers.placement.ip.floating_point import FloatProgram

#: Share of the time in reserve, as HiGHS checks the clock late.
LATE = 0.1


def dual_values(floats: FloatProgram, seconds: float) -> Floats | None:
    """Dual values, shape (rows,), optimal if time suffices; None if HiGHS has none or fails with an error."""
    from ortools.math_opt import callback_pb2, model_parameters_pb2, parameters_pb2
    from ortools.math_opt.core.python import solver
    from pybind11_abseil.status import StatusNotOk

    until = time.monotonic() + seconds
    model, rows = _model(floats)
    limits = parameters_pb2.SolveParametersProto()
    limits.highs.string_options["parallel"] = "off"
    limits.time_limit.FromTimedelta(timedelta(seconds=max(0.0, (1 - LATE) * (until - time.monotonic()))))
    engine, initial = parameters_pb2.SOLVER_TYPE_HIGHS, parameters_pb2.SolverInitializerProto()
    begin, callbacks = model_parameters_pb2.ModelSolveParametersProto(), callback_pb2.CallbackRegistrationProto()
    try:
        with silent():
            result = solver.solve(model, engine, initial, limits, begin, None, callbacks, None, None)
    except StatusNotOk as error:
        print(f"HiGHS gave up: {error}", file=sys.stderr)
        return None
    if not len(result.solutions):
        return None
    values, dual = result.solutions[0].dual_solution.dual_values, np.zeros(rows)
    dual[list(values.ids)] = values.values
    return dual if len(values.ids) else None


def _model(floats: FloatProgram) -> tuple[Any, int]:
    """The relaxation as a proto of MathOpt, and its number of rows."""
    from ortools.math_opt import model_pb2

    model, count = model_pb2.ModelProto(), len(floats.whole)
    columns, rows, matrix = model.variables, model.linear_constraints, model.linear_constraint_matrix
    columns.ids.extend(range(count))
    columns.lower_bounds.extend([0.0] * count)
    columns.upper_bounds.extend(floats.top)
    columns.integers.extend([False] * count)
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
    return model, len(rows.ids)
