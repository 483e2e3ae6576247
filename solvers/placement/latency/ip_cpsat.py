"""The integer program for latency by CP-SAT."""

from __future__ import annotations

from typing import Any

from shardmark.solvers._cpsat import HIGHEST, LOWEST, add_hint, add_row, core
from shardmark.solvers.placement.ip.engine_cpsat import search
from shardmark.solvers.placement.latency.ip_incumbent import LatencyIncumbent
from shardmark.solvers.placement.latency.ip_program import LatencyProgram


def solve(incumbent: LatencyIncumbent, program: LatencyProgram) -> bool:
    """Search until the incumbent's time is over; False if there is no placement."""
    return search(
        _model(incumbent, program),
        incumbent.run,
        incumbent.remaining(),
        lambda value: incumbent.offer(*program.placement(value)),
        lambda bound: incumbent.prove(0, program.proved(bound)),
        enforced=True,
    )


def _model(incumbent: LatencyIncumbent, program: LatencyProgram) -> Any:
    model = core().CpModelProto()
    for top in program.top:
        model.variables.add().domain.extend((0, top))
    for row in program.rows:
        least, most = (LOWEST if row.least is None else row.least), (HIGHEST if row.most is None else row.most)
        columns, factors = [at for _, at in row.terms], [factor for factor, _ in row.terms]
        add_row(model, columns, factors, least, most).enforcement_literal.extend(row.when)
    model.objective.vars.append(program.total)
    model.objective.coeffs.append(1)
    if len(incumbent.device):
        add_hint(model, program.places(incumbent.device, incumbent.slot))
    return model
