"""What the integer programs for latency have found and proved: subgraphs of accelerators, and their schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from instances.columns import Ints
from instances.graph import Graph, find_cycle
from instances.placement import Instance
from solvers.placement._ideals import fits
from solvers.placement._ip_task import STEP, Task
from solvers.placement.greedy import greedy
from solvers.placement.memory_path import memory_path
from solvers.placement.one_accelerator import one_accelerator
from solvers.registry import Declined, LocalRun, Run

#: Share of the time for each method that placements, or bounds, to begin with come from.
STARTING = 0.1


class Schedule(NamedTuple):
    """Where nodes are, shape (n,) each, and when the last task ends; infinite where none fits, or all wait.

    Accelerators have the order in which they begin, slots are 0, 1, ... on each; 0 on CPUs, which are all the same one.
    """

    end: float
    device: Ints
    slot: Ints


def schedule(instance: Instance, device: Ints, slot: Ints) -> Schedule:
    """The schedule of a placement: a task is a subgraph of an accelerator, or a node on CPUs, and begins when it can.

    Tarnawski et al. 2020, Figure 6, Constraints (3) to (14). Colour classes are not looked at.
    """
    on = device < instance.accelerators
    never = Schedule(math.inf, device, slot)
    if (on & ~instance.supported).any() or not fits(instance, device):
        return never
    subgraphs, member = np.unique(np.column_stack([device, slot])[on], axis=0, return_inverse=True)
    task = len(subgraphs) + np.arange(instance.nodes)
    task[on] = member.reshape(-1)
    spent = _spent(instance, task, len(subgraphs))
    waits = task[np.column_stack([instance.graph.tail, instance.graph.head])]
    turn = np.flatnonzero(subgraphs[1:, 0] == subgraphs[:-1, 0])
    waits = np.concatenate([waits[waits[:, 0] != waits[:, 1]], np.column_stack([turn, turn + 1])])
    waits = np.unique(waits, axis=0)
    if find_cycle(len(spent), waits[:, 0], waits[:, 1]):
        return never
    graph = Graph(len(spent), waits[:, 0], waits[:, 1])
    begin, end = [0.0] * len(spent), [0.0] * len(spent)
    for t in graph.topological_order.tolist():
        begin[t] = max((end[before] for before in graph.predecessors(t).tolist()), default=0.0)
        end[t] = begin[t] + spent[t]
    device, slot = np.full(instance.nodes, instance.accelerators), np.zeros(instance.nodes, dtype=np.int64)
    used: dict[int, list[int]] = {}
    for t in sorted((t for t in graph.topological_order.tolist() if t < len(subgraphs)), key=begin.__getitem__):
        used.setdefault(int(subgraphs[t, 0]), []).append(t)
    for number, turns in enumerate(used.values()):
        for place, t in enumerate(turns):
            device[task == t], slot[task == t] = number, place
    return Schedule(max(end, default=0.0), device, slot)


def _spent(instance: Instance, task: Ints, subgraphs: int) -> list[float]:
    """What each task takes: a subgraph moves in what it reads, each tensor once, and out what others read."""
    tail, head = (end[~instance.artificial] for end in (instance.graph.tail, instance.graph.head))
    crossing = task[tail] != task[head]
    tail, reader = tail[crossing].astype(np.int64), task[head[crossing]]
    read = np.unique(np.column_stack([reader, tail])[reader < subgraphs], axis=0)
    sent = np.unique(tail[task[tail] < subgraphs])
    owner = np.concatenate([task, read[:, 0], task[sent]])
    computing = np.where(task < subgraphs, instance.accelerator_time, instance.cpu_time)
    times = np.concatenate([computing, instance.transfer[read[:, 1]], instance.transfer[sent]])
    return np.bincount(owner, weights=times, minlength=subgraphs + instance.nodes).tolist()


class LatencyTask(Task):
    """The placements of a run for latency; ``slot`` goes with ``device``."""

    def __init__(self, instance: Instance, run: Run, *, proves: bool) -> None:
        self.slot = np.zeros(0, dtype=np.int64)
        super().__init__(instance, run, proves=proves)

    @property
    def lowest(self) -> float:
        """What is a bound without any program."""
        return self.instance.path_bound()

    def offer(self, device: Ints, slot: Ints | None = None) -> None:
        """Report a placement if it is better; without slots backward nodes come after forward nodes."""
        slot = self.instance.backward.astype(np.int64) if slot is None else slot
        end, device, slot = schedule(self.instance, device, slot)
        if end < self.best * (1 - STEP) or (math.isinf(self.best) and end < self.best):
            self.best, self.device, self.slot = end, device, slot
            self.run.report({"device": device, "slot": slot})

    def begin(self) -> None:
        """Take the placements and the bound of the simple methods."""
        if self.instance.cpus:
            self.offer(np.full(self.instance.nodes, self.instance.accelerators))
        for method in (greedy, one_accelerator, memory_path):
            self._learn(method)

    def _learn(self, method: Callable[[Instance, Run], None]) -> None:
        trial = LocalRun(seconds=STARTING * self.remaining())
        with suppress(Declined):
            method(self.instance, trial)
        for found in trial.solutions:
            if isinstance(found, dict):
                self.offer(np.array(found["device"]), np.array(found["slot"]))
            else:
                self.offer(np.asarray(found, dtype=np.int64))
        for bound in trial.bounds:  # of all placements, whatever a program has
            if bound > min(self.proved) * (1 + STEP):
                self.proved = [max(bound, known) for known in self.proved]
                self.run.bound(bound)
