"""Integer programs for throughput: contiguous or arbitrary sets of nodes."""

from __future__ import annotations

import time

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ip.cpsat import solve as cpsat
from shardmark.solvers.placement.ip.incumbent import Engine, Incumbent
from shardmark.solvers.placement.ip.program import Build
from shardmark.solvers.placement.ip.scip import solve as scip
from shardmark.solvers.placement.ip.shapes import programs, require_covered
from shardmark.solvers.placement.ip.start import begin
from shardmark.solvers.placement.latency.ip import solve_several
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.registry import Declined, Run, solver

ENGINES: dict[str, Engine] = {"cpsat": cpsat, "scip": scip}
#: Relative tolerance with which floating-point engines call a program infeasible.
TOLERANCE = 1e-6
#: Relative rounding error of sums.
ROUNDING = 1e-12


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.3, Figure 7, Lemma A.1", deterministic=False)
def ip_contiguous(instance: Instance, run: Run, *, engine: str = "cpsat") -> None:
    """Solve the integer program for contiguous sets, starting from `dp` and `search`: --set engine=cpsat or scip.

    With contiguity "acyclic", columns also decide the order of the devices. With "free", placements are contiguous too,
    but the bound is that of `load`.

    The engine's bounds are trusted: CP-SAT computes in integers, and SCIP's are lowered to allow for its tolerances.
    The claim that no placement costs less, or fits, counts only if both engines make it. CP-SAT starts from the bound
    of the linear relaxation, which is computed from dual values and needs no trust.
    """
    solve = _engine(instance, engine)
    contiguity = "acyclic" if instance.contiguity == "acyclic" else "contiguous"
    _solve(Incumbent(with_forced_nodes(instance), run, proves=instance.contiguity != "free"), contiguity, solve)


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.2, Figures 6 and 7", deterministic=False)
def ip_noncontiguous(instance: Instance, run: Run, *, engine: str = "cpsat", q: int = 2) -> None:
    """Solve the integer program for arbitrary sets, starting from `search`: --set engine=cpsat or scip.

    For latency, CP-SAT solves the program with at most ``q`` subgraphs per accelerator. Engines are trusted as in
    `ip-contiguous` and, for latency, as in `ip`.
    """
    if instance.objective == "latency":
        solve_several(instance, run, engine, q)
        return
    solve = _engine(instance, engine)
    if instance.contiguity != "free":
        raise Declined(
            f"ip-noncontiguous places any sets of nodes, expected contiguity free, not {instance.contiguity}"
        )
    _solve(Incumbent(instance, run), "free", solve)


def _engine(instance: Instance, name: str) -> Engine:
    """The engine of a name; Declined also if the programs do not cover the instance."""
    if name not in ENGINES:
        raise Declined(f"expected engine {' or '.join(ENGINES)}, found {name}")
    require_covered(instance)
    return ENGINES[name]


def _solve(incumbent: Incumbent, contiguity: str, solve: Engine) -> None:
    """Solve the programs of a mode, each in its share of the remaining time."""
    begin(incumbent, contiguity)
    builds = programs(incumbent.instance, contiguity)
    incumbent.proved = incumbent.proved * len(builds)
    possible = len(incumbent.device) > 0
    for part, build in enumerate(builds):
        if not incumbent.remaining() or incumbent.done:
            return
        until = time.monotonic() + incumbent.remaining() / (len(builds) - part)
        possible |= _solve_part(incumbent, build, solve, part, until)
    if not possible:
        if contiguity != incumbent.instance.contiguity:
            raise Declined("no contiguous placement fits the memory of the accelerators")
        raise Declined("no placement fits the memory of the accelerators")


def _solve_part(incumbent: Incumbent, build: Build, solve: Engine, part: int, until: float) -> bool:
    """Solve a program until its placements fit without rounding; False if it has none.

    That it has none counts only if both engines claim so and no placement of it is known.
    """
    other = scip if solve is cpsat else cpsat
    while True:
        program, known = incumbent.build(build), len(incumbent.overfull)
        if program is None:
            return True
        if not solve(incumbent, program, part, until):
            if incumbent.start(program) is not None or other(incumbent, program, part, until):
                return True
            owed = ROUNDING if solve is cpsat else TOLERANCE
            incumbent.prove(part, incumbent.best * (1 - owed))  # as no placement of the program costs less
            return False
        if len(incumbent.overfull) == known or time.monotonic() >= until:
            return True
