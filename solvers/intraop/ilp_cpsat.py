"""The integer program solved by CP-SAT."""

from __future__ import annotations

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.programs.baseline import solve
from shardmark.solvers.intraop.programs.cpsat_search import search
from shardmark.solvers.registry import Run, solver


@solver(track="intraop", source="XLA auto-sharding's integer program; Perron and Didier, CP-SAT", deterministic=False)
def ilp_cpsat(instance: Instance, run: Run) -> None:
    """Solve XLA auto-sharding's integer program without exact reductions, from a greedy solution (CP-SAT).

    Only time steps are reduced (see `programs.integer_program`) and edges between the same nodes merged; entries of
    10^17 or more have no column if all others together cost less. If writing the program would take too much memory or
    half of the time, only the greedy solution is reported.

    CP-SAT's search and bounds are not checked. Its claim that nothing fits is not checked either, but ignored if a
    solution is known.
    """
    solve(instance, run, search, reduced=False)
