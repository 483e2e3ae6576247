"""Placements by partitioners of undirected graphs: the input graph, and the placement of its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import csr, strong_components
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import blocks
from shardmark.solvers.placement.ideals.dynamic_program import fits
from shardmark.solvers.registry import Declined, Run

#: Bits of the sum of the integer weights of vertices, and of edges: partitioners may count in 32 bits, and multiply by
#: small numbers.
BITS = 24


@dataclass(frozen=True, eq=False)
class Weighted:
    """An undirected graph on blocks, in compressed rows: every edge is listed at both of its ends.

    ``start``   shape (b + 1,), int64: the edges of vertex v are ``start[v]`` to ``start[v + 1] - 1``
    ``other``   shape (edges,), int64: their other ends
    ``weight``  shape (edges,), int64, positive: transfer time of tensors between the two blocks
    ``work``    shape (b,), int64, not negative: accelerator time of a block
    """

    start: Ints
    other: Ints
    weight: Ints
    work: Ints


def place_parts(instance: Instance, run: Run, name: str, partition: Callable[[Weighted, int], Ints]) -> None:
    """Divide the blocks among accelerators by a partitioner; CPUs get blocks that no accelerator can hold.

    ``partition`` gets a graph and a number of parts and returns the part of each vertex. It ignores memory and
    contiguity: Declined if sets must be contiguous, or if the parts do not fit the memory.
    """
    if instance.contiguity != "free":
        raise Declined(f"parts that {name} finds need not be contiguous, expected contiguity free")
    if not instance.accelerators:
        raise Declined("there are no accelerators")
    device, vertex = _on_cpus(instance)
    vertices = int(vertex.max(initial=-1)) + 1
    parts = min(instance.accelerators, vertices)
    part = partition(graph_of(instance, vertex), parts) if parts > 1 else np.zeros(vertices, dtype=np.int64)
    device[vertex >= 0] = part[vertex[vertex >= 0]]
    if not fits(instance, device):
        most = np.bincount(part, weights=np.bincount(vertex[vertex >= 0], instance.size[vertex >= 0])).max()
        raise Declined(f"{name} knows no memories: a part takes {most:.6g} of the {instance.memory:.6g} there are")
    run.report(device if instance.objective == "throughput" else {"device": device, "slot": slots(instance, device)})


def _on_cpus(instance: Instance) -> tuple[Ints, Ints]:
    """Place blocks that no accelerator can hold, the longest first, each on the CPU with least work.

    Return ``(device, vertex)``, both of shape (n,): the CPU of nodes in such blocks; and the number of each node's
    block among all others, -1 on CPUs.
    """
    block = blocks(instance)
    unfit = np.bincount(block, ~instance.supported) > 0
    unfit |= np.bincount(block, instance.size) > instance.capacity
    if unfit.any() and not instance.cpus:
        raise Declined("classes on a cycle together fit no accelerator, and there are no CPUs")
    time, load = np.bincount(block, instance.cpu_time), np.zeros(instance.cpus)
    place = np.full(len(unfit), -1)
    for b in sorted(np.flatnonzero(unfit).tolist(), key=lambda b: -time[b]):
        place[b] = np.argmin(load)
        load[place[b]] += time[b]
    number = np.where(unfit, -1, np.cumsum(~unfit) - 1)
    return instance.accelerators + place[block], number[block]


def graph_of(instance: Instance, vertex: Ints) -> Weighted:
    """The graph that the paper's authors give to Scotch: a tensor counts once per pair of vertices.

    ``vertex`` has shape (n,): 0, 1, ..., or -1 for nodes that are left out.
    """
    count = int(vertex.max(initial=-1)) + 1
    tail, head = (ends[~instance.artificial].astype(np.int64) for ends in (instance.graph.tail, instance.graph.head))
    inside = (vertex[tail] >= 0) & (vertex[head] >= 0) & (vertex[tail] != vertex[head])
    once = np.unique(np.column_stack([tail, vertex[head]])[inside], axis=0)
    pairs, which = np.unique(np.sort(np.column_stack([vertex[once[:, 0]], once[:, 1]])), axis=0, return_inverse=True)
    sent = np.bincount(which.reshape(-1), weights=instance.transfer[once[:, 0]], minlength=len(pairs))
    pairs, sent = pairs[sent > 0], sent[sent > 0]
    weight = np.maximum(_whole(sent), 1)
    start, edge = csr(count, pairs.T.reshape(-1), np.tile(np.arange(len(pairs), dtype=np.int32), 2))
    own = np.repeat(np.arange(count), np.diff(start))
    work = _whole(np.bincount(vertex[vertex >= 0], instance.accelerator_time[vertex >= 0], count))
    return Weighted(start.astype(np.int64), pairs[edge].sum(axis=1) - own, weight[edge], work)


def _whole(value: NDArray[Any]) -> Ints:
    """Values as integers in the same proportions, rounded; ones if all are 0."""
    total = value.sum()
    return np.rint(value / total * 2**BITS).astype(np.int64) if total else np.ones(len(value), dtype=np.int64)


def slots(instance: Instance, device: Ints) -> Ints:
    """Slots of nodes on their accelerators, shape (n,), such that no subgraphs wait for each other.

    As in the paper's program, a node is in the first subgraph of its accelerator that comes after every subgraph from
    which a path leaves the accelerator and returns to the node. If such subgraphs wait for each other, the slot of a
    node is instead the greatest number of device changes on a path to it.
    """
    place = np.minimum(device, instance.accelerators)  # CPUs are one pool
    returns = _levels(instance, place, apart=True)
    return returns if _have_schedule(instance, place, returns) else _levels(instance, place, apart=False)


def _levels(instance: Instance, place: Ints, *, apart: bool) -> Ints:
    """The most changes of place on a path to each node; if ``apart``, only of returns to the node's own place."""
    start, tail = instance.graph.in_csr
    used, column = np.unique(place if apart else np.zeros_like(place), return_inverse=True)
    column = column.reshape(-1)
    count = np.zeros((instance.nodes, len(used)), dtype=np.int32)
    for v in instance.graph.topological_order.tolist():
        before, own = tail[start[v] : start[v + 1]], column[v]
        if len(before):
            count[v] = count[before].max(axis=0)
            count[v, own] = (count[before, own] + (place[before] != place[v])).max()
        if apart:
            count[v, own] = max(count[v, own], 1)  # the first node of a place is not a return
    return count[np.arange(instance.nodes), column].astype(np.int64) - apart


def _have_schedule(instance: Instance, place: Ints, slot: Ints) -> bool:
    """True if the subgraphs, in their order on accelerators, do not wait for each other in a cycle."""
    n, alone = instance.nodes, place == instance.accelerators
    key = place * n + np.where(alone, np.arange(n), slot)
    keys, task = np.unique(key, return_inverse=True)
    task = task.reshape(-1)
    turns = np.flatnonzero((np.diff(keys // max(n, 1)) == 0) & (keys[1:] < instance.accelerators * n))
    tail, head = task[instance.graph.tail], task[instance.graph.head]
    apart: NDArray[np.bool_] = tail != head
    component = strong_components(
        len(keys), np.concatenate([tail[apart], turns]), np.concatenate([head[apart], turns + 1])
    )
    return len(np.unique(component)) == len(keys)
