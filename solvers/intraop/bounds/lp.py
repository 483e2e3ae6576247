"""The lower bound of the linear relaxation: the local polytope, and memory rows of the binding time steps."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.reduced_problem import worst_steps
from shardmark.solvers.intraop.programs.baseline import Task, prove
from shardmark.solvers.intraop.programs.dual_bound import improved_bound, proved
from shardmark.solvers.intraop.programs.floating_point import FloatProgram
from shardmark.solvers.intraop.programs.integer_program import IntegerProgram
from shardmark.solvers.intraop.programs.mathopt import SolveResult, minimise
from shardmark.solvers.registry import Run, bound

#: Largest number of entries of a program for HiGHS (simplex method); PDLP (gradients) solves larger ones.
LARGEST = 1_000_000
#: Fraction of the time for PDLP; message passing from its dual values gets the rest.
ENGINE = 0.7
#: Iterations of PDLP between two looks at the clock.
CHECKS = 8
#: Memory rows added at once.
MORE_ROWS = 5
#: Overload, as a fraction of the limit, that adds a row.
OVERLOAD = 1e-5
#: Steps of the first solution within this fraction of the limit get a row from the beginning.
NEAR = 0.02


@bound(track="intraop", source="Wainwright and Jordan 2008, local polytope; Applegate et al. 2021, PDLP")
def lp(instance: Instance, run: Run) -> None:
    """Relax the reduced network's integer program to an LP, adding violated memory rows (HiGHS; PDLP if large).

    The bound is computed from the engine's dual values in exact integers (see `programs.dual_bound`): any dual values
    prove a bound, so the engine need not be trusted. If its time ran out, message passing improves the values first,
    starting from zero if there are none.
    """
    prove(instance, run, _engine)


def _engine(task: Task) -> bool:
    near = int(NEAR * task.problem.timeline.limit)
    steps = [] if task.start is None else worst_steps(task.problem.overload(task.start) + near, MORE_ROWS)
    while task.remaining():
        program = IntegerProgram.of(task.problem, steps)
        if not np.diff(program.tables.start).all():
            return False
        floats = FloatProgram(program, task.top)
        until = time.monotonic() + (ENGINE if program.entries > LARGEST else 1.0) * task.remaining()
        answer = minimise(floats, until, **_parameters(task, program))
        _prove(task, floats, answer)
        if answer is None:
            return True
        fresh = _overloaded(task, answer.column, steps)
        if not fresh:
            return True
        steps += fresh
    return True


def _prove(task: Task, floats: FloatProgram, answer: SolveResult | None) -> None:
    """Report the bound of the dual values, improved by message passing if the engine did not finish."""
    some = answer is not None and len(answer.dual) > 0
    dual = answer.dual if answer is not None and some else np.zeros(len(floats.rows[0]) - 1)
    if some:
        task.prove(proved(floats, dual))
    if (answer is None or not answer.optimal) and not task.problem.model.wide:
        task.prove(improved_bound(floats, dual, task.until))


def _overloaded(task: Task, column: Floats, steps: list[int]) -> list[int]:
    """Further steps that need a row because a solution, if there is one, overloads them."""
    if not len(column):
        return []
    problem = task.problem
    excess = problem.expected(column[: len(problem.variable)]) - problem.room
    return worst_steps(excess - OVERLOAD * problem.timeline.limit, MORE_ROWS, steps)


def _parameters(task: Task, program: IntegerProgram) -> dict[str, Any]:
    if program.entries > LARGEST:
        return {"threads": task.run.cores, "pdlp": {"termination_check_frequency": CHECKS}}
    return {"highs": {"string_options": {"parallel": "off"}}}
