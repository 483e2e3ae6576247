"""Steepest descent between accelerators from random placements: a baseline of the paper."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.kernels.loads import LoadAnnealer
from shardmark.solvers.placement.throughput.best_placements import Search, require_free
from shardmark.solvers.placement.throughput.filling import fill
from shardmark.solvers.registry import Declined, Run, solver

#: Moves evaluated between two checks of the clock.
LOOKED_AT = 10_000_000


@solver(track="placement", source="Tarnawski et al. 2020, Section 6, local search", proves_bounds=False)
def local_search(instance: Instance, run: Run, restarts: int = 10) -> None:
    """Steepest descent over moves of colocation classes between accelerators; best of several restarts.

    Unlike the published program, it respects memory limits and puts classes that no accelerator can hold on CPUs;
    classes on a common cycle may be separated, as sets need not be contiguous.
    """
    require_free(instance, "local-search")
    if restarts < 1:
        raise Declined(f"expected restarts of at least 1, found {restarts}")
    found = Search(instance, run)
    (space,) = found.spaces
    items = len(space.devices.size)
    steps = max(1, LOOKED_AT // max(1, items * space.devices.accelerators))
    for _ in range(restarts):
        item = fill(space.devices, run.rng.permutation(items).tolist(), lambda fitting, _: int(run.rng.choice(fitting)))
        if item is None:
            continue
        annealer = LoadAnnealer(space.devices, space.rules, item, 0)
        while annealer.descend(steps) and run.remaining():
            pass
        found.offer(0, annealer.best, annealer.cost)
        if not run.remaining():
            break
    found.require_any()
