"""The integer program solved by SCIP."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from shardmark.instances.intraop import Instance
from shardmark.solvers import _scip
from shardmark.solvers.intraop.programs.baseline import Task, solve
from shardmark.solvers.intraop.programs.cpsat_search import confirmed
from shardmark.solvers.intraop.programs.floating_point import FloatProgram
from shardmark.solvers.registry import Run, solver

#: Bytes that SCIP needs per entry of the program (measured: 1200).
BYTES = 1300
#: Relative improvement of a bound that is reported.
STEP = 1e-4
#: Time for freeing the program, as a fraction of the time for writing it.
FREEING = 0.2


@solver(track="intraop", source="XLA auto-sharding's integer program; Bolusani et al. 2024, SCIP")
def ilp_scip(instance: Instance, run: Run) -> None:
    """Solve XLA auto-sharding's integer program without exact reductions, from a greedy solution (SCIP).

    The program is that of `ilp-cpsat`. If writing it would take too much memory or half of the time, only the greedy
    solution is reported.

    SCIP's bounds are lowered to allow for its tolerances (see `programs.floating_point`), but its floating-point search
    is not checked. The claim that nothing fits counts only if CP-SAT agrees and no solution is known.
    """
    solve(instance, run, confirmed(_engine), reduced=False)


def _engine(task: Task) -> bool:
    program = task.program(BYTES)
    if program is None:
        return True
    began = task.remaining()
    scip = _Scip(FloatProgram(program, task.top), task)
    if not scip.write():
        return True
    freeing = FREEING * (began - task.remaining())
    return scip.solve(task.remaining() - program.notice(task.remaining()) - freeing)


class _Scip:
    """The program as a SCIP model."""

    def __init__(self, program: FloatProgram, task: Task) -> None:
        self.program, self.task, self.model = program, task, _scip.model()
        self.model.setParam("randomization/randomseedshift", task.run.seed % 2**31)
        self.model.setParam("limits/memory", 0.5 * task.run.memory)
        self._columns: list[Any] = []
        self._best = 0

    def write(self) -> bool:
        """Write the whole program; False if that takes too long."""
        if not self.task.write(self._add_columns(), self._add_rows()):
            return False
        if self.task.start is not None:
            first = self.model.createSol()
            column = self.program.columns(self.task.start)
            for at in np.flatnonzero(column).tolist():
                self.model.setSolVal(first, self._columns[at], column[at])
            self.model.addSol(first)
        return True

    def _add_columns(self) -> Iterator[None]:
        program, add = self.program, self.model.addVar
        for cost, upper, integer in zip(program.cost.tolist(), program.upper.tolist(), program.integer, strict=True):
            self._columns.append(add(vtype="I" if integer else "C", ub=upper, obj=cost))
            yield

    def _add_rows(self) -> Iterator[None]:
        from pyscipopt.scip import Expr, ExprCons, Term

        start, column, value, low, high = self.program.rows
        terms = [Term(variable) for variable in self._columns]
        for (begin, end), least, most in zip(pairwise(start.tolist()), low.tolist(), high.tolist(), strict=True):
            entries = zip(column[begin:end].tolist(), value[begin:end].tolist(), strict=True)
            total = Expr({terms[at]: factor for at, factor in entries})
            self.model.addCons(ExprCons(total, lhs=None if least == -np.inf else least, rhs=most))
            yield

    def solve(self, seconds: float) -> bool:
        """Search for ``seconds``; False if nothing fits."""
        model = self.model
        model.setParam("limits/time", max(0.0, seconds))
        _scip.listen(model, self.offer, partial(self.prove, STEP))
        model.optimizeNogil()
        self.task.ended = model.getStatus()
        if model.getStatus() == "infeasible":
            return False
        self.prove()
        return True

    def prove(self, step: float = 0.0) -> None:
        """Report the bound proved so far if it improves by the fraction ``step``."""
        bound = self.program.bound(_scip.proved(self.model))
        if bound > self._best * (1 + step):
            self._best = bound
            self.task.prove(bound)

    def offer(self) -> None:
        """Report SCIP's best solution."""
        best, count = self.model.getBestSol(), len(self.program.program.model.unary)
        value = np.array([self.model.getSolVal(best, column) for column in self._columns[:count]])
        self.task.offer(self.program.program.values(value))
