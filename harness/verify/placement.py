"""Verdicts for ``placement``: loads of devices, or the schedule of one sample, and the rules that a placement keeps.

Definitions: "Efficient Algorithms for Device Placement of DNN Graph Operators", Section 3 (devices, transfers,
Definition 3.1), Section 5 (loads), Appendix A (the schedule), Appendix H (overlap, replication, clusters).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify import MOST_NAMED, Parts, Subgraphs, Transfer, Verdict, malformed, misplaced
from shardmark.harness.verify.placement_groups import Groups, groups_of
from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, find_cycle
from shardmark.instances.placement import Instance

AT_ONCE = 1024  # groups whose contiguity is tested in one pass over the graph
PASSES = ("forward", "backward")  # of training, if their loads count separately


def verify(instance: Instance, solution: Any) -> Verdict:
    """Judge a placement: accelerators are 0..k-1, CPUs the numbers after them.

    ``[0, 0, 3, ...]``                          device of each node, in the order of the file's nodes
    ``{"device": [...], "slot": [...]}``        for latency: also the subgraph of its accelerator; these run in the
                                                order of their numbers, by default 0 for forward, 1 for backward nodes
    ``{"stage": [...], "replicas": [[...]]}``   for throughput: stage of each node, and devices of each stage
    ``{"fpgas": [{"nodes": [...]}], "cpus"}``   output of the paper's program: ids on each device; a node that is
                                                missing is on the device of others of its colour
    """
    groups = groups_of(instance, solution)
    if isinstance(groups, str):
        return malformed(groups)
    if instance.objective == "throughput":
        return _throughput(instance, groups)
    slot = _slots(instance, solution)
    return malformed(slot) if isinstance(slot, str) else _latency(instance, groups, slot)


def _slots(instance: Instance, solution: Any) -> Ints | str:
    """Return the slot of each node, by default 1 for backward nodes, or why the solution's are malformed."""
    slot = solution.get("slot") if isinstance(solution, dict) and "fpgas" not in solution else None
    if slot is None:
        return instance.backward.astype(np.int64)
    return misplaced(slot, [instance.nodes] * instance.nodes, "a slot", "slot") or np.array(slot, dtype=np.int64)


def subgraphs(instance: Instance, solution: Any) -> Subgraphs | None:
    """Return when the subgraphs of a placement for latency run; None for throughput, or without a schedule."""
    groups, slot = groups_of(instance, solution), _slots(instance, solution)
    if instance.objective != "latency" or isinstance(groups, str) or isinstance(slot, str):
        return None
    tasks, turns = _tasks(instance, groups, slot)
    waits = _waits(instance, tasks, turns)
    if find_cycle(len(tasks), waits[:, 0], waits[:, 1]):
        return None
    first = np.unique(tasks.of, return_index=True)[1]
    names = [groups.names[g] if groups.accelerator[g] else "CPUs" for g in groups.of[first]]
    return Subgraphs(tasks.of.tolist(), tasks.names, names, *_runs(instance, tasks, waits), waits.tolist())


def parts(instance: Instance, solution: Any) -> Parts | None:
    """Return the devices, or stages, of a placement that hold nodes; loads for throughput, of both passes together."""
    groups = groups_of(instance, solution)
    if isinstance(groups, str):
        return None
    loads: list[float] = []
    times: list[list[dict[str, float]]] = []
    if instance.objective == "throughput":
        passes = _passes(instance)
        loads = [math.fsum(both) for both in zip(*(_loads(instance, groups, nodes) for nodes in passes), strict=True)]
        of_passes = (_times(instance, groups, nodes) for nodes in passes)
        times = [[sequence for one in both for sequence in one] for both in zip(*of_passes, strict=True)]
    return Parts(
        groups.of.tolist(),
        groups.names,
        (~groups.accelerator).tolist(),
        loads,
        times,
        _transfers(instance, groups),
        [
            total / instance.memory if on and 0 < instance.memory < math.inf else None
            for total, on in zip(groups.sums(groups.of, instance.size), groups.accelerator.tolist(), strict=True)
        ],
        PASSES if instance.schedule == "gpipe" else (),
    )


def _transfers(instance: Instance, groups: Groups) -> list[Transfer]:
    """Return the tensors between groups: one counts once for each group that reads it, with the time of its arrival."""
    receiver, received, _ = _tensors(instance, groups.of)
    sender = groups.of[received]
    time = np.where(_between_clusters(groups, receiver, sender), instance.slowdown, 1.0) * instance.transfer[received]
    found: dict[tuple[int, int], list[float]] = {}
    for source, target, taken in zip(sender.tolist(), receiver.tolist(), time.tolist(), strict=True):
        found.setdefault((source, target), []).append(taken)
    return [Transfer(*ends, len(times), math.fsum(times)) for ends, times in sorted(found.items())]


def _broken(instance: Instance, groups: Groups) -> Iterator[str]:
    """Yield a sentence per split colour class, per node that is not supported, and per memory that is exceeded."""
    first = np.unique(instance.unit, return_index=True)[1][instance.unit]
    for v in np.flatnonzero(groups.of != groups.of[first])[:MOST_NAMED].tolist():
        u, there = first[v], groups.names[groups.of[first[v]]]
        yield f"node {v}: expected {there}, where node {u} of its colour class is, found {groups.names[groups.of[v]]}"
    for v in np.flatnonzero(groups.accelerator[groups.of] & ~instance.supported)[:MOST_NAMED].tolist():
        yield f"node {v}: expected a CPU, as accelerators do not support it, found {groups.names[groups.of[v]]}"
    for g, total in enumerate(groups.sums(groups.of, instance.size)):
        if groups.accelerator[g] and total > instance.capacity:
            yield f"{groups.names[g]}: expected sizes of at most {instance.memory:.12g}, found {total:.12g}"


def _cycle(instance: Instance, groups: Groups) -> str:
    """Return a cycle in the quotient graph, as the names of its groups; "" if it is acyclic.

    An edge between a forward and a backward node orders no groups. Backward edges count as reversed, as in
    backpropagation; if that makes a cycle, they are tried as they are: in some graphs of the paper they run like the
    forward ones. The cycle returned is one of the first kind.
    """
    tail, head = instance.graph.tail, instance.graph.head
    crossing = (groups.of[tail] != groups.of[head]) & (instance.backward[tail] == instance.backward[head])
    tail, head = tail[crossing], head[crossing]
    back = instance.backward[tail]
    around: list[list[int]] = []
    for reversed_ in (back, np.zeros_like(back)):
        a, b = np.where(reversed_, head, tail), np.where(reversed_, tail, head)
        around.append(find_cycle(len(groups), groups.of[a], groups.of[b]))
    return _path(groups, around[0]) if all(around) else ""


def _path(groups: Groups, path: Sequence[int]) -> str:
    return " -> ".join([groups.names[g] for g in path[:MOST_NAMED]] + ["..."] * (len(path) > MOST_NAMED))


def _not_contiguous(instance: Instance, groups: Groups) -> Iterator[str]:
    """Yield a sentence per group whose forward nodes, or backward nodes, are not contiguous (Definition 3.1)."""
    for part, nodes in (("forward", ~instance.backward), ("backward", instance.backward)):
        members = np.bincount(groups.of[nodes], minlength=len(groups))
        several = np.flatnonzero(members > 1)
        for begin in range(0, len(several), AT_ONCE):
            for v in _returns(instance, groups, nodes, several[begin : begin + AT_ONCE]):
                name = groups.names[groups.of[v]]
                yield f"{name}: expected contiguous {part} nodes, but a path leaves it and returns to node {v}"


def _returns(instance: Instance, groups: Groups, inside: NDArray[np.bool_], chosen: Ints) -> list[int]:
    """Return the first node that a path comes back to in each of the ``chosen`` groups that is not contiguous."""
    bits = [0] * len(groups)
    for place, g in enumerate(chosen.tolist()):
        bits[g] = 1 << place
    own = [bits[g] for g in groups.of.tolist()]
    start, tail = (column.tolist() for column in instance.graph.in_csr)
    counted = inside.tolist()
    before = [0] * instance.nodes  # groups with a node that reaches this node, and its own group
    left = [0] * instance.nodes  # groups that a path to this node has left
    found: dict[int, int] = {}
    for v in instance.graph.topological_order.tolist():
        if not counted[v]:
            continue
        for u in tail[start[v] : start[v + 1]]:
            if counted[u]:
                before[v] |= before[u]
                left[v] |= left[u] | (before[u] & ~own[u])
        if left[v] & own[v]:
            found.setdefault(own[v], v)
        before[v] |= own[v]
    return list(found.values())


def _throughput(instance: Instance, groups: Groups) -> Verdict:
    """Section 5: the largest load, or the sum of the largest forward and the largest backward load."""
    violations = list(_broken(instance, groups))
    cycle = _cycle(instance, groups)
    if cycle and instance.contiguity == "acyclic":
        violations.append(f"device: expected an acyclic quotient graph, found {cycle}")
    if cycle and instance.contiguity == "contiguous":  # without a cycle no path leaves and comes back
        violations += _not_contiguous(instance, groups)
    cost = sum(max(_loads(instance, groups, nodes), default=0.0) for nodes in _passes(instance))
    return Verdict(not violations, cost, tuple(violations), {"acyclic": not cycle})


def _passes(instance: Instance) -> list[NDArray[np.bool_]]:
    """Return the sets of nodes whose loads count separately."""
    if instance.schedule == "gpipe":
        return [~instance.backward, instance.backward]
    return [np.ones(instance.nodes, dtype=bool)]


def _loads(instance: Instance, groups: Groups, nodes: NDArray[np.bool_]) -> list[float]:
    """Time per sample of each group for these nodes, and for sending and receiving what they produce."""
    loads = [_longest(sequences) for sequences in _of_one_device(instance, groups, nodes)]
    stages = zip(loads, groups.sums(groups.of, instance.size), groups.replicas.tolist(), strict=True)
    return [_replicated(instance, *stage) for stage in stages]


def _times(instance: Instance, groups: Groups, nodes: NDArray[np.bool_]) -> list[list[dict[str, float]]]:
    """Return what the load of each group consists of: its longest sequence takes as long as its load."""
    stages = zip(
        _of_one_device(instance, groups, nodes),
        groups.sums(groups.of, instance.size),
        groups.replicas.tolist(),
        strict=True,
    )
    found = []
    for sequences, size, count in stages:
        shares = [{kind: time / count for kind, time in sequence.items()} for sequence in sequences]
        if count > 1:
            synchronising = {"sync": _synchronising(instance, size, count)}
            shares = [shares[0] | synchronising] if instance.overlap == "none" else [*shares, synchronising]
        found.append(shares)
    return found


def _of_one_device(instance: Instance, groups: Groups, nodes: NDArray[np.bool_]) -> list[list[dict[str, float]]]:
    """Return the times of each group, if it is one device: sequences that run at the same time."""
    time = np.where(groups.accelerator[groups.of], instance.accelerator_time, instance.cpu_time)
    computing = groups.sums(groups.of[nodes], time[nodes])
    receiver, received, sent = _tensors(instance, groups.of, nodes)
    abroad = _between_clusters(groups, receiver, groups.of[received])
    arriving = np.where(abroad, instance.slowdown, 1.0) * instance.transfer[received]
    leaving = np.where(np.isin(sent, received[abroad]), instance.slowdown, 1.0) * instance.transfer[sent]
    incoming = _on_accelerators(groups, groups.sums(receiver, arriving))
    outgoing = _on_accelerators(groups, groups.sums(groups.of[sent], leaving))
    return [_overlapped(instance.overlap, *times) for times in zip(incoming, computing, outgoing, strict=True)]


def _tensors(instance: Instance, of: Ints, nodes: NDArray[np.bool_] | None = None) -> tuple[Ints, Ints, Ints]:
    """Return tensors that cross between groups: receiving group and tensor, each pair once; and the tensors sent.

    Only tensors that ``nodes`` produce, if it is given.
    """
    tail, head = instance.graph.tail, instance.graph.head
    crossing = ~instance.artificial & (of[tail] != of[head])
    if nodes is not None:
        crossing &= nodes[tail]
    pairs = np.unique(of[head[crossing]] * instance.nodes + tail[crossing])
    return pairs // max(instance.nodes, 1), pairs % max(instance.nodes, 1), np.unique(tail[crossing]).astype(np.int64)


def _between_clusters(groups: Groups, one: Ints, other: Ints) -> NDArray[np.bool_]:
    """Return True for each pair of groups on accelerators of different clusters."""
    near, far = groups.cluster[one], groups.cluster[other]
    return (near != far) & (near >= 0) & (far >= 0)


def _on_accelerators(groups: Groups, sums: Iterable[float]) -> list[float]:
    """Return the transfer times of groups: CPUs read and write RAM at no cost."""
    return [value if on else 0.0 for value, on in zip(sums, groups.accelerator.tolist(), strict=True)]


def _overlapped(overlap: str, incoming: float, computing: float, outgoing: float) -> list[dict[str, float]]:
    """Appendix H.1: the sequences of times that run at the same time."""
    if overlap == "none":
        return [{"in": incoming, "work": computing, "out": outgoing}]
    if overlap == "half":
        return [{"work": computing}, {"in": incoming, "out": outgoing}]
    return [{"in": incoming}, {"work": computing}, {"out": outgoing}]


def _longest(sequences: list[dict[str, float]]) -> float:
    return max(math.fsum(sequence.values()) for sequence in sequences)


def _replicated(instance: Instance, load: float, size: float, count: int) -> float:
    """Appendix H.2: the devices of a stage share its samples and synchronise its parameters."""
    if count == 1:
        return load
    share, synchronising = load / count, _synchronising(instance, size, count)
    return share + synchronising if instance.overlap == "none" else max(share, synchronising)


def _synchronising(instance: Instance, size: float, count: int) -> float:
    """Time in which the devices of a stage synchronise its parameters."""
    assert instance.allreduce is not None
    return (count - 1) * size / (count * instance.allreduce)


def _latency(instance: Instance, devices: Groups, slot: Ints) -> Verdict:
    """Appendix A: the end of the schedule in which everything starts as soon as its inputs are in RAM.

    CPUs are one pool in which nothing waits for a core. A circular wait, as of a subgraph that is not contiguous, has
    no schedule and no cost.
    """
    pool = Groups(  # colour classes may be on several CPUs
        np.where(devices.accelerator[devices.of], devices.of, len(devices)),
        np.append(devices.accelerator, False),
        np.append(devices.replicas, 1),
        np.append(devices.cluster, -1),
        (*devices.names, "the CPUs"),
    )
    violations = list(_broken(instance, pool))
    tasks, turns = _tasks(instance, devices, slot)
    if instance.contiguity == "contiguous":
        violations += _too_many(instance, devices, tasks)
    waits = _waits(instance, tasks, turns)
    cycle = find_cycle(len(tasks), waits[:, 0], waits[:, 1])
    if cycle:
        violations.append(f"device: expected no circular wait, found {_path(tasks, cycle)}")
        return Verdict(False, None, tuple(violations), {"acyclic": False})
    cost = max(_runs(instance, tasks, waits)[1], default=0.0)
    return Verdict(not violations, cost, tuple(violations), {"acyclic": True})


def _tasks(instance: Instance, devices: Groups, slot: Ints) -> tuple[Groups, Ints]:
    """Return the tasks, subgraphs and single nodes on CPUs, and pairs of consecutive subgraphs, shape (pairs, 2)."""
    on = devices.accelerator[devices.of]
    key = np.where(on, devices.of * instance.nodes + slot, len(devices) * instance.nodes + np.arange(instance.nodes))
    known, first, of = np.unique(key, return_index=True, return_inverse=True)
    owner = devices.of[first]
    turns = np.flatnonzero(on[first][1:] & (owner[1:] == owner[:-1]) & on[first][:-1])
    names = tuple(
        f"{devices.names[owner[i]]}, slot {slot[v]}" if on[v] else f"node {v} on a CPU"
        for i, v in enumerate(first.tolist())
    )
    tasks = Groups(of.reshape(-1), on[first], np.ones(len(known), dtype=np.int64), devices.cluster[owner], names)
    return tasks, np.column_stack([turns, turns + 1])


def _waits(instance: Instance, tasks: Groups, turns: Ints) -> Ints:
    """Return pairs of tasks of which the second waits for the first, by an edge or a turn: shape (pairs, 2)."""
    tail, head = (tasks.of[ends].astype(np.int64) for ends in (instance.graph.tail, instance.graph.head))
    return np.concatenate([np.column_stack([tail, head])[tail != head], turns])


def _too_many(instance: Instance, devices: Groups, tasks: Groups) -> Iterator[str]:
    """Yield a sentence per accelerator with more than one subgraph, or than one of each pass."""
    for g in np.flatnonzero(devices.accelerator):
        nodes = np.flatnonzero(devices.of == g)
        held = np.unique(tasks.of[nodes])
        passes = np.unique(np.column_stack([tasks.of[nodes], instance.backward[nodes]]), axis=0)
        if len(held) > 2 or (len(held) == 2 and passes[:, 1].tolist() not in ([0, 1], [1, 0])):
            yield f"{devices.names[g]}: expected one subgraph, or one of each pass, found {len(held)}"


def _runs(instance: Instance, tasks: Groups, waits: Ints) -> tuple[list[float], list[float]]:
    """Return start and end of each task; in each pair of ``waits`` the second task waits for the first."""
    receiver, received, sent = _tensors(instance, tasks.of)
    time = np.where(tasks.accelerator[tasks.of], instance.accelerator_time, instance.cpu_time)
    moving = tasks.accelerator[receiver], tasks.accelerator[tasks.of[sent]]
    member = np.concatenate([tasks.of, receiver[moving[0]], tasks.of[sent][moving[1]]])
    spent = np.concatenate([time, instance.transfer[received][moving[0]], instance.transfer[sent][moving[1]]])
    duration = tasks.sums(member, spent)
    pairs = np.unique(waits, axis=0)
    order = Graph(len(tasks), pairs[:, 0], pairs[:, 1])
    start, before = (column.tolist() for column in order.in_csr)
    ready, finish = [0.0] * len(tasks), [0.0] * len(tasks)
    for task in order.topological_order.tolist():
        ready[task] = max((finish[other] for other in before[start[task] : start[task + 1]]), default=0.0)
        finish[task] = ready[task] + duration[task]
    return ready, finish
