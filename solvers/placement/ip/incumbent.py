"""The incumbent and the proven bounds of a run, which all engines of the integer programs update."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.files.placement import Flags
from shardmark.instances.graph import Index
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.dynamic_program import fits
from shardmark.solvers.placement.ideals.proof import states_proof
from shardmark.solvers.placement.ip.program import Build, LoadProgram, TooLarge
from shardmark.solvers.placement.throughput.formulas import best_formula
from shardmark.solvers.placement.throughput.pooled import pooled_bound
from shardmark.solvers.registry import Proof, Run

#: Bytes that an engine takes per entry of a program, including imports (measured: 2100 to 3600).
BYTES = 4000
#: Share of the remaining time for building a program; passing it to an engine and computing a bound take as long.
BUILDING = 1 / 3
#: Time reserved for the end: this share of the time, and at least this many seconds.
SHARE, LEAST = 0.04, 0.3
#: Least relative improvement of a placement or a bound.
STEP = 1e-9


def cost(instance: Instance, device: Ints) -> float:
    """The greatest load of a placement, shape (n,), in floating point; infinite if it is not feasible."""
    if not fits(instance, device):
        return math.inf
    used, device = np.unique(device, return_inverse=True)  # loads of used devices only: there may be very many
    on = used < instance.accelerators
    if (on[device] & ~instance.supported).any():
        return math.inf
    passes = [~instance.backward, instance.backward]
    if instance.schedule == "pipedream":
        passes = [np.ones(instance.nodes, dtype=bool)]
    return sum(float(_loads(instance, device, used, nodes).max()) for nodes in passes)


def _loads(instance: Instance, device: Ints, number: Ints, nodes: Flags) -> Floats:
    """Shape (used devices,): load of some nodes on each device, given its number in the instance."""
    tail, head = instance.graph.tail, instance.graph.head
    crossing = ~instance.artificial & (device[tail] != device[head]) & nodes[tail]
    tail, head = tail[crossing], head[crossing]
    on, slow = number < instance.accelerators, _slowdown(instance, number[device[tail]], number[device[head]])
    time = np.where(on[device], instance.accelerator_time, instance.cpu_time)
    computing = np.bincount(device[nodes], weights=time[nodes], minlength=len(on)).astype(np.float64)
    into, out = (on * _transfer_times(instance, tail, device[end], slow, len(on)) for end in (head, tail))
    if instance.overlap == "none":
        return computing + into + out
    return np.maximum(computing, into + out if instance.overlap == "half" else np.maximum(into, out))


def _transfer_times(instance: Instance, tensor: Index, payer: Ints, slow: Floats, devices: int) -> Floats:
    """Shape (devices,): transfer time of each device; each tensor counts once, at its slowest edge."""
    pairs, which = np.unique(np.column_stack([payer, tensor]), axis=0, return_inverse=True)
    most = np.zeros(len(pairs))
    np.maximum.at(most, which.reshape(-1), slow)
    return np.bincount(pairs[:, 0], weights=instance.transfer[pairs[:, 1]] * most, minlength=devices).astype(np.float64)


def _slowdown(instance: Instance, maker: Ints, reader: Ints) -> Floats:
    """Factor for the time of a transfer between two devices: the slowdown between two clusters, else 1."""
    if instance.cluster is None:
        return np.ones(len(maker))
    both = (maker < instance.accelerators) & (reader < instance.accelerators)
    return np.where(both & (maker // instance.cluster != reader // instance.cluster), instance.slowdown, 1.0)


class Incumbent:
    """The best placement of a run, and a bound per program; the least of these is the bound of the run.

    ``proves`` is False if the programs do not contain all placements: then their bounds do not count. If ``reports`` is
    False, placements only serve the programs.

    ``best``      cost of the best placement, infinite before the first; ``device`` is that placement
    ``lowest``    lower bound that needs no program
    ``reports``   True: placements are reported
    ``overfull``  sets of nodes that exceed an accelerator, from placements that do not fit
    ``until``     value of `time.monotonic` by which the engine must end
    """

    def __init__(self, instance: Instance, run: Run, *, proves: bool = True, reports: bool = True) -> None:
        self.instance, self.run, self._proves, self.reports = instance, run, proves, reports
        self.best, self.device = math.inf, np.zeros(0, dtype=np.int64)
        self.overfull: list[frozenset[int]] = []
        self.lowest, proof = self._formula()
        self.proved = [self.lowest]
        self.until = run.deadline - max(LEAST, SHARE * run.remaining())
        run.bound(self.lowest, proof)

    def _formula(self) -> tuple[float, Proof | None]:
        """Lower bound that needs no program, and its proof."""
        return best_formula(self.instance, pooled_bound(self.instance))

    @property
    def done(self) -> bool:
        """True if the best placement is proved optimal."""
        return self.best <= min(self.proved) * (1 + STEP)

    def build(self, build: Build) -> LoadProgram | None:
        """A program of placements that cost no more than the best; None if it is too large for memory or time."""
        most = int(self.run.memory * 2**20 / BYTES)
        try:
            return build(self.upper(), most, self.overfull, time.monotonic() + BUILDING * self.remaining())
        except TooLarge as reason:
            print(f"{reason}: not solved", file=sys.stderr)
            return None

    def start(self, program: LoadProgram) -> list[int] | None:
        """Columns, without loads, of the best placement in a program; None if the program does not contain it."""
        value = program.values(self.device) if len(self.device) else None
        return value and value[: program.loads.start]

    def remaining(self) -> float:
        """Seconds left."""
        return max(0.0, self.until - time.monotonic())

    def offer(self, device: Ints) -> None:
        """Keep a placement if it is better; note sets that exceed the memory within the tolerances of an engine."""
        worth = cost(self.instance, device)
        if math.isinf(worth):
            held = [np.flatnonzero(device == d) for d in np.unique(device[device < self.instance.accelerators])]
            sizes = [math.fsum(self.instance.size[nodes].tolist()) for nodes in held]
            over = [nodes for nodes, size in zip(held, sizes, strict=True) if size > self.instance.capacity]
            self.overfull += {frozenset(nodes.tolist()) for nodes in over} - set(self.overfull)
        if worth < self.best * (1 - STEP) or (math.isinf(self.best) and worth < self.best):
            self.best, self.device = worth, device
            if self.reports:
                self.run.report(device)

    def prove(self, part: int, bound: float, certificate: Proof | None = None) -> None:
        """Take a bound of one program, infinite if it is infeasible; report the least of all bounds if it rises.

        A certificate is one of the bound, whatever the other programs.
        """
        before = min(self.proved)
        if not self._proves:
            return
        self.proved[part] = max(self.proved[part], bound)
        if before * (1 + STEP) < min(self.proved) < math.inf:
            value = min(self.proved)
            self.run.bound(value, certificate if certificate and bound == value else self._by_states(value))

    def _by_states(self, bound: float) -> Proof | None:
        """The proof by states of a bound of an exact program, if one is asked for and states are few enough."""
        return states_proof(self.instance, self.run, bound) if self.instance.contiguity == "acyclic" else None

    def upper(self) -> float:
        """The cost of the best placement; before the first, an upper bound on all costs."""
        if math.isfinite(self.best):
            return self.best
        instance = self.instance
        sent = instance.transfer * (1 + np.diff(instance.graph.out_csr[0])) * instance.slowdown
        return float((instance.accelerator_time + instance.cpu_time + sent).sum())


#: Solves the program of a part until a time; False if it has no solution.
Engine = Callable[[Incumbent, LoadProgram, int, float], bool]
