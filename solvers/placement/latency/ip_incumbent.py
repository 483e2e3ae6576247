"""The incumbent and the proven bounds of a run for latency, and the schedule of a placement."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, Index, find_cycle
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import edges_between
from shardmark.solvers.placement.ideals.dynamic_program import fits
from shardmark.solvers.placement.ideals.proof import schedules_proof
from shardmark.solvers.placement.ip.incumbent import STEP, Incumbent
from shardmark.solvers.placement.latency.ideals import Schedules
from shardmark.solvers.placement.latency.memory_path import path_bounds, path_proof
from shardmark.solvers.placement.latency.search import search_latency
from shardmark.solvers.registry import Declined, LocalRun, Proof, Run

#: Largest share of the remaining time for a search for first placements.
STARTING = 0.2
#: Moves of that search per node.
MOVES = 1000


class Schedule(NamedTuple):
    """Device and slot of each node, shape (n,), and the end of the last task; infinite if it is not feasible.

    Accelerators are numbered by their start, with slots 0, 1, ... on each; all CPUs have the same number and slot 0.
    """

    end: float
    device: Ints
    slot: Ints


def schedule(instance: Instance, device: Ints, slot: Ints) -> Schedule:
    """The earliest schedule of a placement, whose tasks are subgraphs on accelerators and nodes on CPUs.

    Tarnawski et al. 2020, Figure 6, Constraints (3) to (14), without colour classes.
    """
    on = device < instance.accelerators
    never = Schedule(math.inf, device, slot)
    if (on & ~instance.supported).any() or not fits(instance, device):
        return never
    subgraphs, member = np.unique(np.column_stack([device, slot])[on], axis=0, return_inverse=True)
    task = len(subgraphs) + np.arange(instance.nodes)
    task[on] = member.reshape(-1)
    spent = _durations(instance, task, len(subgraphs))
    turn = np.flatnonzero(subgraphs[1:, 0] == subgraphs[:-1, 0])
    before, after = task[instance.graph.tail], task[instance.graph.head]
    ends = np.concatenate([before, turn]), np.concatenate([after, turn + 1])
    waits = edges_between(np.arange(len(spent)), *ends)
    if find_cycle(len(spent), *waits):
        return never
    graph = Graph(len(spent), *waits)
    order, begin, end = graph.topological_order.tolist(), [0.0] * len(spent), [0.0] * len(spent)
    for t in order:
        begin[t] = max((end[before] for before in graph.predecessors(t).tolist()), default=0.0)
        end[t] = begin[t] + spent[t]
    turns = sorted((t for t in order if t < len(subgraphs)), key=begin.__getitem__)
    return Schedule(max(end, default=0.0), *_numbered(instance, task, subgraphs[:, 0].tolist(), turns))


def _numbered(instance: Instance, task: Ints, owner: list[int], turns: list[int]) -> tuple[Ints, Ints]:
    """Device and slot of each node, numbered in the order in which the subgraphs begin."""
    device, slot = np.full(instance.nodes, instance.accelerators), np.zeros(instance.nodes, dtype=np.int64)
    number: dict[int, int] = {}
    used = [0] * len(owner)
    for t in turns:
        d = number.setdefault(owner[t], len(number))
        device[task == t], slot[task == t] = d, used[d]
        used[d] += 1
    return device, slot


def _durations(instance: Instance, task: Ints, subgraphs: int) -> list[float]:
    """Duration of each task: a subgraph receives each tensor that it reads once, and sends those that others read."""
    tail, head = (end[~instance.artificial] for end in (instance.graph.tail, instance.graph.head))
    crossing = task[tail] != task[head]
    tail, reader = tail[crossing].astype(np.int64), task[head[crossing]]
    read = np.unique(np.column_stack([reader, tail])[reader < subgraphs], axis=0)
    sent = np.unique(tail[task[tail] < subgraphs])
    owner = np.concatenate([task, read[:, 0], task[sent]])
    computing = np.where(task < subgraphs, instance.accelerator_time, instance.cpu_time)
    times = np.concatenate([computing, instance.transfer[read[:, 1]], instance.transfer[sent]])
    return np.bincount(owner, weights=times, minlength=subgraphs + instance.nodes).tolist()


def unfit(instance: Instance, slots: int) -> str:
    """Explain that there is no placement with at most ``slots`` subgraphs per accelerator."""
    which = "placement"
    if instance.contiguity == "free" and slots < instance.nodes:
        which += " with one subgraph" if slots == 1 else f" with {slots} subgraphs or fewer"
        which += " an accelerator"
    return f"no {which} fits the memory of the accelerators"


class LatencyIncumbent(Incumbent):
    """The best placement of a run for latency, with at most ``slots`` subgraphs per accelerator."""

    def __init__(self, instance: Instance, run: Run, slots: int, *, proves: bool = True) -> None:
        self.slots, self.slot = slots, np.zeros(0, dtype=np.int64)
        super().__init__(instance, run, proves=proves)

    def _formula(self) -> tuple[float, Proof | None]:
        return self.instance.path_bound(), path_proof(None)

    def offer(self, device: Ints, slot: Ints | None = None) -> None:
        """Report a placement if it is better; by default backward nodes are in a later slot than forward nodes."""
        slot = self.instance.backward.astype(np.int64) if slot is None else slot
        end, device, slot = schedule(self.instance, device, slot)
        if slot.max(initial=0) >= self.slots:
            return
        if end < self.best * (1 - STEP) or (math.isinf(self.best) and end < self.best):
            self.best, self.device, self.slot = end, device, slot
            self.run.report({"device": device, "slot": slot})

    def begin(self) -> None:
        """Take the bounds of paths, the placement of all nodes on CPUs, and those of short searches from there."""
        for bound, path in path_bounds(self.instance, LocalRun(timeout=STARTING * self.remaining())):
            self.raise_all(bound, path_proof(path))
        if self.instance.cpus:
            self.offer(np.full(self.instance.nodes, self.instance.accelerators))
        if self.done:
            return
        self._search(self.instance)
        if self.instance.contiguity == "free":  # a free search may use more slots
            self._search(replace(self.instance, contiguity="contiguous"))

    def _search(self, instance: Instance) -> None:
        run, seconds = self.run, STARTING * self.remaining()
        trial = LocalRun(seed=run.seed, cores=run.cores, memory=run.memory, timeout=seconds)
        with suppress(Declined):
            search_latency(instance, trial, most=MOVES * instance.nodes)
        known = self.best
        for found in reversed(trial.solutions):  # later ones are better, but may have too many slots
            self.offer(found["device"], found["slot"])
            if self.best < known:
                return

    def follow_chains(self, stop: Index, *, one: bool) -> None:
        """Take the bounds of chains of ideals, and feasible schedules among them; Declined if these are too many.

        If ``one``, also for one subgraph per accelerator; those bounds count only if no more subgraphs are allowed.
        """
        for way in (False, True) if one and not self.instance.training else (False,):
            if self.done:
                return
            chains = Schedules(self.instance, stop, way)
            for bound, chosen in chains.bounds(self.run.memory, min(self.proved), self.upper()):
                if not way or self.instance.contiguity == "contiguous":
                    self.raise_all(bound, schedules_proof(self.instance, self.run, bound))
                if chosen is not None:
                    self._offer_sets(chosen)

    def _by_states(self, bound: float) -> Proof | None:
        if self.instance.contiguity == "free" or self.instance.training:
            return None
        return schedules_proof(self.instance, self.run, bound)

    def raise_all(self, bound: float, proof: Proof | None = None) -> None:
        """Report a bound on all placements, not only those of a program."""
        if bound > min(self.proved) * (1 + STEP):
            self.proved = [max(bound, known) for known in self.proved]
            self.run.bound(bound, proof)

    def _offer_sets(self, chosen: Ints) -> None:
        """Offer a schedule of the set of each node, -1 on CPUs, if each accelerator can take one."""
        unit = np.unique(np.column_stack([self.instance.unit, chosen]), axis=0)[:, 0]
        if chosen.max(initial=-1) < self.instance.accelerators and len(np.unique(unit)) == len(unit):
            self.offer(np.where(chosen < 0, self.instance.accelerators, chosen), np.zeros_like(chosen))
