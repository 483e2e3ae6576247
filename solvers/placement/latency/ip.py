"""The runs of the integer programs for latency, by the number of subgraphs per accelerator."""

from __future__ import annotations

import sys
from contextlib import suppress

from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.latency.ip_cpsat import solve
from shardmark.solvers.placement.latency.ip_incumbent import LatencyIncumbent, unfit
from shardmark.solvers.placement.latency.ip_program import LatencyProgram, entries
from shardmark.solvers.registry import Declined, Run

#: Share of the remaining time for bounds from chains of ideals.
CHAINS = 0.6
#: Bytes that CP-SAT takes per entry of a program (measured: 5900).
BYTES = 6500


def solve_one(instance: Instance, run: Run) -> None:
    """Solve the program for one subgraph per accelerator, or one per pass."""
    if instance.objective != "latency":
        raise Declined("ip is for latency; ip-contiguous and ip-noncontiguous are for throughput")
    _solve(instance, run, 1 + instance.training, proves=instance.contiguity == "contiguous", passes=instance.training)


def solve_several(instance: Instance, run: Run, engine: str, q: int) -> None:
    """Solve the program for at most ``q`` subgraphs per accelerator."""
    if engine != "cpsat":
        raise Declined(f"the program for latency is for engine cpsat, found {engine}")
    if instance.contiguity != "free":
        raise Declined("ip-noncontiguous is for throughput or for any sets; for latency of contiguous ones there is ip")
    if q < 1:
        raise Declined(f"expected q of at least 1, found {q}")
    _solve(instance, run, min(q, instance.nodes), proves=q >= instance.nodes)


def _solve(instance: Instance, run: Run, slots: int, *, proves: bool, passes: bool = False) -> None:
    incumbent = LatencyIncumbent(instance, run, slots, proves=proves)
    incumbent.begin()
    with suppress(Declined), deadline(run, CHAINS) as stop:  # the program does not depend on the number of ideals
        incumbent.follow_chains(stop, one=instance.contiguity == "contiguous")
    if incumbent.done or not incumbent.remaining():
        return
    count = entries(instance, slots)
    if count * BYTES > run.memory * 2**20:
        print(f"about {count} entries do not fit into {run.memory:.0f} MiB: not solved", file=sys.stderr)
        if not len(incumbent.device):
            raise Declined("found no placement that the memories hold, and the program is too large")
        return
    program = LatencyProgram(instance, incumbent.upper(), min(incumbent.proved), slots)
    if passes:
        program.one_of_either_pass()
    if not solve(incumbent, program) and not len(incumbent.device):
        raise Declined(unfit(instance, slots))
