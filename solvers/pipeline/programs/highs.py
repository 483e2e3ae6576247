"""HiGHS behind the few functions of SCIP's model that the programs use, by the MathOpt of ortools.

highspy and ortools cannot be imported into one process, so HiGHS comes from ortools, as linear programs do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from solvers._redirect_stdout import silent


def highs() -> tuple[Any, Callable[..., Any]]:
    """A model of HiGHS, and how to add terms up."""
    from ortools.math_opt.python import mathopt

    return Model(), mathopt.fast_sum


class Model:
    """The part of pyscipopt's model that programs use."""

    def __init__(self) -> None:
        from ortools.math_opt.python import mathopt

        self._mathopt = mathopt
        self._model = mathopt.Model()
        self._hint: dict[Any, float] = {}
        self._seconds = math.inf
        self._result: Any = None

    def addVar(self, *, lb: float = 0.0, ub: float = math.inf, obj: float = 0.0, vtype: str = "C") -> Any:  # noqa: N802
        """A variable, binary if ``vtype`` is "B"."""
        upper = 1.0 if vtype == "B" else ub
        variable = self._model.add_variable(lb=lb, ub=upper, is_integer=vtype == "B")
        if obj:
            self._model.minimize(obj * variable)
        return variable

    def addCons(self, inequality: Any) -> None:  # noqa: N802
        """Require a linear inequality."""
        self._model.add_linear_constraint(inequality)

    def createSol(self) -> dict[Any, float]:  # noqa: N802
        """A solution without values."""
        return {}

    def setSolVal(self, solution: dict[Any, float], variable: Any, value: float) -> None:  # noqa: N802
        """Set a value of a solution."""
        solution[variable] = value

    def addSol(self, solution: dict[Any, float]) -> None:  # noqa: N802
        """Begin with a solution."""
        self._hint = solution

    def setParam(self, name: str, value: float) -> None:  # noqa: N802
        """Set the limit of the time; HiGHS has none for the memory."""
        if name == "limits/time":
            self._seconds = value

    def optimize(self) -> None:
        """Solve until the limit of the time; nothing is known afterwards if HiGHS gives up with an error."""
        limits = self._mathopt.SolveParameters(
            time_limit=timedelta(seconds=self._seconds), relative_gap_tolerance=0.0, absolute_gap_tolerance=0.0
        )
        hint = self._mathopt.SolutionHint(variable_values=self._hint)
        begin = self._mathopt.ModelSolveParameters(solution_hints=[hint] if self._hint else [])
        engine = self._mathopt.SolverType.HIGHS
        self._result = None
        try:
            with silent():
                self._result = self._mathopt.solve(self._model, engine, params=limits, model_params=begin)
        except (AttributeError, RuntimeError) as error:  # ortools 9.15 fails to turn HiGHS's error into its own
            print(f"HiGHS gave up: {error.__context__ or error}", file=sys.stderr)

    def getStatus(self) -> str:  # noqa: N802
        """Status after the solve, in the words of SCIP: "optimal", "infeasible" or "unknown"."""
        if self._result is None:
            return "unknown"
        reason, known = self._result.termination.reason, self._mathopt.TerminationReason
        return {known.OPTIMAL: "optimal", known.INFEASIBLE: "infeasible"}.get(reason, "unknown")

    def getDualbound(self) -> float:  # noqa: N802
        """The greatest lower bound on the objective, minus infinity if there is none."""
        return -math.inf if self._result is None else float(self._result.termination.objective_bounds.dual_bound)

    def getPrimalbound(self) -> float:  # noqa: N802
        """The objective of the best solution, infinite if there is none."""
        return math.inf if self._result is None else float(self._result.termination.objective_bounds.primal_bound)

    def getNVars(self, transformed: bool) -> int:  # noqa: N802
        """Number of variables of the model as it was built."""
        return sum(1 for _ in self._model.variables())

    def getNSols(self) -> int:  # noqa: N802
        """Number of solutions known: the best, if HiGHS calls it feasible, or none."""
        return int(self._result is not None and self._result.has_primal_feasible_solution())

    def getBestSol(self) -> dict[Any, float]:  # noqa: N802
        """The best solution found."""
        return dict(self._result.variable_values())

    def getSolVal(self, solution: dict[Any, float], variable: Any) -> float:  # noqa: N802
        """A value of a solution."""
        return solution[variable]
