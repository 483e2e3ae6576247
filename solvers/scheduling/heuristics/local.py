"""The three local schedulers, which run on the devices of a given partition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Declined, Run, solver
from shardmark.solvers.scheduling._kernels import Execution, Simulator
from shardmark.solvers.scheduling.heuristics.ranks import longest_behind

#: The local schedulers; every partitioner has one variant per scheduler.
SCHEDULERS = ("fifo", "pct", "msr")


Partitioner = Callable[[Instance, np.random.Generator], Ints]


def partitioner(name: str, source: str) -> Callable[[Partitioner], Partitioner]:
    """Declare a function that finds a device for each vertex as three solvers, one per local scheduler."""

    def declare(function: Partitioner) -> Partitioner:
        def solve(
            instance: Instance,
            run: Run,
            *,
            scheduler: str = "fifo",
            alpha: float = 1.0,
            beta: float = 1.0,
            gamma: float = 1.0,
            delta: float = 5.0,
        ) -> None:
            device = function(instance, run.rng)
            execution = schedule(instance, device, scheduler, run.rng, (alpha, beta, gamma, delta))
            run.report({"device": device, "order": orders(device, execution, instance.devices)}, execution.makespan)

        solve.__doc__, solve.__module__ = function.__doc__, function.__module__
        pairs = {f"{name}-{scheduler}": {"scheduler": scheduler} for scheduler in SCHEDULERS}
        solver(track="scheduling", source=source, variants=pairs, proves_bounds=False)(solve)
        return function

    return declare


def schedule(
    instance: Instance,
    device: Ints,
    scheduler: str,
    rng: np.random.Generator,
    weights: tuple[float, float, float, float] = (1, 1, 1, 5),
) -> Execution:
    """Run a partition by ``fifo`` (Section 5.1), ``pct`` (Section 4.1) or ``msr`` (Section 4.2).

    Ties go to the vertex that has been executable longest, then to a random one, as Section 5.1 says of FIFO. None of
    the three considers memory: if a partition fits only under some schedules, the result may not fit. ``weights``:
    alpha to delta of Equation (13), by default those of Section 5.2. There, ``|pred(v_j)| = 1`` is read as "all other
    predecessors have finished": then the vertex makes v_j executable, which the number of predecessors in the graph
    does not show. A device is idle if it neither computes nor chooses.
    """
    if scheduler not in SCHEDULERS:
        raise Declined(f"expected scheduler {', '.join(SCHEDULERS)}, found {scheduler}")
    simulator, rank = Simulator(instance), rng.permutation(instance.nodes)
    if scheduler == "pct":
        return simulator.by_priority(device, path_computation_time(instance, device), rank)
    if scheduler == "msr":
        return simulator.by_successors(device, weights, rank)
    return simulator.by_priority(device, np.zeros(instance.nodes), rank)


def path_computation_time(instance: Instance, device: Ints) -> Floats:
    """PCT, Equation (12): the longest time from the start of each vertex to the end, on the devices of a partition."""
    ends = device[instance.graph.tail], device[instance.graph.head]
    with np.errstate(divide="ignore", invalid="ignore"):
        transfer = np.where(instance.size > 0, instance.size / instance.bandwidth[ends], 0.0)
    return longest_behind(instance.graph, instance.complexity / instance.speed[device], transfer)


def orders(device: Ints, execution: Execution, devices: int) -> list[list[int]]:
    """The vertices of each device by start; those that never start, for lack of a link, come last."""
    sequence = np.append(execution.sequence, np.setdiff1d(np.arange(len(device)), execution.sequence))
    by_device = sequence[np.argsort(device[sequence], kind="stable")]
    cuts = np.cumsum(np.bincount(device[sequence], minlength=devices))[:-1]
    return [part.tolist() for part in np.split(by_device, cuts)]
