"""The integer programs of placement by CP-SAT, with integer times rounded down so that bounds hold."""

from __future__ import annotations

import math
from typing import Any

from shardmark.instances.rounding import safely
from shardmark.solvers._cpsat import add_hint, add_row, core
from shardmark.solvers.placement.ip.dual_bound import relax
from shardmark.solvers.placement.ip.engine_cpsat import search, whole_sizes
from shardmark.solvers.placement.ip.incumbent import STEP, Incumbent
from shardmark.solvers.placement.ip.program import LoadProgram

#: About the cost of the best known placement, in units of CP-SAT.
FINE = 2.0**30
#: Share of the remaining time for the linear relaxation; those of CP-SAT are less precise.
RELAXATION = 0.1


def solve(incumbent: Incumbent, program: LoadProgram, part: int, until: float) -> bool:
    """Search until a time and prove bounds of a part; False if there are no solutions."""
    relax(incumbent, program, part, RELAXATION * incumbent.remaining())
    if incumbent.best <= incumbent.proved[part] * (1 + STEP):
        return True
    unit = max(2.0 ** (math.frexp(program.upper)[1]) / FINE, math.ulp(0.0))
    model = _model(incumbent, program, unit, incumbent.proved[part])
    return search(
        model,
        incumbent.run,
        until - incumbent.until + incumbent.remaining(),
        lambda value: incumbent.offer(program.device(value)),
        lambda bound: incumbent.prove(part, _proved(program, bound * unit)),
    )


def _proved(program: LoadProgram, bound: float) -> float:
    """Turn a bound for rounded times, summed per item and rounded down, into a safe one."""
    instance = program.items.instance
    return safely(min(bound, program.upper), instance.nodes + instance.edges)


def _model(incumbent: Incumbent, program: LoadProgram, unit: float, least: float) -> Any:
    model = core().CpModelProto()
    lowest, highest = math.floor(least / unit), math.ceil(program.upper / unit) + 1
    for column in range(len(program.whole)):
        top = highest if column in program.loads else 1
        model.variables.add().domain.extend((lowest if program.loads == range(column, column + 1) else 0, top))
    for columns, factors, least, most in program.rows:
        add_row(model, columns, factors, least, most)
    for columns, times, load in program.busy:
        whole = [int(min(time / unit, 2 * highest)) for time in times]
        add_row(model, [*columns, load], [*whole, -1], -sum(whole) - highest, 0)
    for columns, sizes in program.rooms:
        whole, room = whole_sizes(sizes, incumbent.instance)
        add_row(model, columns, whole, 0, room)
    model.objective.vars.extend(program.loads)
    model.objective.coeffs.extend([1] * len(program.loads))
    if (start := incumbent.start(program)) is not None:
        add_hint(model, dict(enumerate(start)))
    return model
