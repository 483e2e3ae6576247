"""What engines of the integer programs have in common: a placement to begin with, what they find, what they prove."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np

from instances.columns import Floats, Ints
from instances.graph import Index
from instances.placement import Instance
from instances.placement_file import Flags
from solvers.placement._contracted import contractions
from solvers.placement._ideals import IdealProgram, deadline, fits
from solvers.placement._ip_program import Program
from solvers.registry import Declined, Run

#: What is kept back at the end: this share of the time, and at least so many seconds.
SHARE, LEAST = 0.04, 0.3
#: A placement is better, or a bound, by more than this fraction.
STEP = 1e-9


def cost(instance: Instance, device: Ints) -> float:
    """The greatest load of a placement, shape (n,), in floating point; infinite where it fits no accelerator."""
    if not fits(instance, device):
        return math.inf
    used, device = np.unique(device, return_inverse=True)  # there may be more devices than memory for their loads
    on = used < instance.accelerators
    if (on[device] & ~instance.supported).any():
        return math.inf
    passes = [~instance.backward, instance.backward]
    if instance.schedule == "pipedream":
        passes = [np.ones(instance.nodes, dtype=bool)]
    return sum(float(_loads(instance, device, on, nodes).max()) for nodes in passes)


def _loads(instance: Instance, device: Ints, on: Flags, nodes: Flags) -> Floats:
    tail, head = instance.graph.tail, instance.graph.head
    crossing = ~instance.artificial & (device[tail] != device[head]) & nodes[tail]
    read = np.unique(np.column_stack([device[head[crossing]], tail[crossing]]), axis=0)
    sent = np.unique(tail[crossing])
    time = np.where(on[device], instance.accelerator_time, instance.cpu_time)

    def sums(of: Ints | Index, weights: Floats) -> Floats:
        return np.bincount(of, weights=weights, minlength=len(on)).astype(np.float64)

    computing = sums(device[nodes], time[nodes])
    into = on * sums(read[:, 0], instance.transfer[read[:, 1]])
    out = on * sums(device[sent], instance.transfer[sent])
    if instance.overlap == "none":
        return computing + into + out
    return np.maximum(computing, into + out if instance.overlap == "half" else np.maximum(into, out))


class Task:
    """The placements of a run and its bounds: several programs may each prove one, the least of which counts.

    Nothing counts that they prove where they do not have all placements, unless ``proves``.

    ``best``   the cost of the best placement, infinite while there is none; ``device`` is that placement
    ``until``  value of `time.monotonic` by which the engine is to end
    """

    def __init__(self, instance: Instance, run: Run, *, proves: bool = True) -> None:
        self.instance, self.run, self._proves = instance, run, proves
        self.best, self.device = math.inf, np.zeros(0, dtype=np.int64)
        self.proved = [self.lowest]
        self.until = run.deadline - max(LEAST, SHARE * run.remaining())
        if self.lowest:
            run.bound(self.lowest)

    @property
    def lowest(self) -> float:
        """What is a bound without any program."""
        return self.instance.load_bound()

    @property
    def done(self) -> bool:
        """Whether the best placement is an optimum."""
        return self.best <= min(self.proved) * (1 + STEP)

    def remaining(self) -> float:
        """Seconds left."""
        return max(0.0, self.until - time.monotonic())

    def offer(self, device: Ints) -> None:
        """Report a placement if it is better; one that the tolerances of an engine let exceed the memory is not."""
        worth = cost(self.instance, device)
        if worth < self.best * (1 - STEP) or (math.isinf(self.best) and worth < self.best):
            self.best, self.device = worth, device
            self.run.report(device)

    def prove(self, part: int, bound: float) -> None:
        """Report what holds for one of the programs, if it raises what holds for all."""
        before = min(self.proved)
        if not self._proves:
            return
        self.proved[part] = max(self.proved[part], bound)
        if min(self.proved) > before * (1 + STEP):
            self.run.bound(min(self.proved))

    def begin(self) -> None:
        """Take the split of a linear extension for the first placement; one CPU for everything if it has none."""
        with deadline(self.run) as stop:
            for contracted in contractions(self.instance):
                program = IdealProgram(self.instance, contracted, stop)
                try:
                    found = program.best(program.prefixes(self.run.memory), math.inf)
                except Declined as reason:
                    print(f"no split of a linear extension: {reason}", file=sys.stderr)
                    continue
                if found is not None:
                    self.offer(found.device)
        if self.instance.cpus:
            self.offer(np.full(self.instance.nodes, self.instance.accelerators))

    def upper(self) -> float:
        """The cost of the best placement, else more than that of any."""
        if math.isfinite(self.best):
            return self.best
        instance = self.instance
        sent = instance.transfer * (1 + np.diff(instance.graph.out_csr[0]))
        return float((instance.accelerator_time + instance.cpu_time + sent).sum())


#: Solves the program of a part until a time; False if it has no solution.
Engine = Callable[[Task, Program, int, float], bool]
