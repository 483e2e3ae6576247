"""The integer programs of placement by SCIP."""

from __future__ import annotations

from functools import partial
from typing import Any

from shardmark.solvers import _scip
from shardmark.solvers.placement.ip.floating_point import FloatProgram
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.ip.program import LoadProgram

#: Relative improvement of a bound that is reported during the search.
BETTER = 1e-4
#: Time for freeing the program: fractions of the time left after writing it, and of the time for writing it.
FREEING, REWRITING = 0.03, 0.2


def solve(incumbent: Incumbent, program: LoadProgram, part: int, until: float) -> bool:
    """Search until a time and prove bounds of a part; False if there are no solutions."""
    if any(not columns and least > 0 for columns, _, least, _ in program.rows):
        return False  # an item has no allowed place: SCIP accepts no empty rows
    floats, model, began = FloatProgram(program), _scip.model(), incumbent.remaining()
    columns = _write(model, floats)
    if (start := incumbent.start(program)) is not None:
        known = model.createPartialSol()
        for column, value in zip(columns, start, strict=False):
            model.setSolVal(known, column, value)
        model.addSol(known)
    left = until - incumbent.until + incumbent.remaining()
    model.setParam("randomization/randomseedshift", incumbent.run.seed % 2**31)
    model.setParam("limits/memory", 0.5 * incumbent.run.memory)
    freeing = FREEING * left + REWRITING * (began - incumbent.remaining())
    model.setParam("limits/time", max(0.0, left - freeing))

    def found() -> None:
        best = model.getBestSol()
        incumbent.offer(program.device([model.getSolVal(best, column) for column in columns]))

    def prove(step: float = 0.0) -> None:
        bound = floats.bound(_scip.proved(model))
        if bound > incumbent.proved[part] * (1 + step):
            incumbent.prove(part, bound)

    _scip.listen(model, found, partial(prove, BETTER))
    model.optimizeNogil()
    if model.getStatus() == "infeasible":
        return False
    prove()
    return True


def _write(model: Any, floats: FloatProgram) -> list[Any]:
    from pyscipopt.scip import Expr, ExprCons, Term

    columns = [
        model.addVar(vtype="I" if whole else "C", lb=0.0, ub=top, obj=cost)
        for whole, top, cost in zip(floats.whole, floats.top, floats.cost, strict=True)
    ]
    terms = [Term(column) for column in columns]
    for used, factors, least, most in floats.rows():
        if used:
            total = Expr({terms[at]: factor for at, factor in zip(used, factors, strict=True)})
            model.addCons(ExprCons(total, lhs=least, rhs=most))
    return columns
