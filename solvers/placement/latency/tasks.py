"""An instance for latency as tasks for the compiled core: its nodes, or contracted parts of its graph."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph, Index, csr
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import blocks
from shardmark.solvers.placement.kernels.latency import LatencyPlacement, LatencyProblem


class Contraction:
    """An instance contracted to parts.

    ``node``   shape (n,): the part of each node, 0, 1, ..., c - 1
    ``tasks``  the parts as tasks; in the pool a part takes as long as its longest path, an overestimate
    """

    def __init__(self, instance: Instance, node: Ints, item: Ints) -> None:
        """Contract nodes; parts of one ``item``, shape (n,), 0, 1, ..., share a device, and items hold whole units."""
        self.node = node
        count, items = int(node.max(initial=-1)) + 1, int(item.max(initial=-1)) + 1
        tail, head = node[instance.graph.tail], node[instance.graph.head]
        pairs = np.unique((tail * count + head)[tail != head])
        unit, backward = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
        unit[node], backward[node] = item, instance.backward
        maker, transfer, net, reader = _nets(instance, node)
        sent = instance.transfer * (1 + np.diff(instance.graph.out_csr[0]))
        serial = float(instance.accelerator_time.sum() + sent.sum())  # no schedule without the pool takes longer
        self.tasks = LatencyProblem(
            unlimited=instance.contiguity == "free",
            accelerators=min(instance.accelerators, int(instance.unit.max(initial=-1)) + 1),
            memory=instance.capacity,
            pool_penalty=0.0 if instance.cpus else 2 * serial + 1,
            graph=Graph(count, pairs // max(count, 1), pairs % max(count, 1)),
            unit=unit,
            backward=backward,
            accelerator_time=_on_accelerators(instance, node, item),
            cpu_time=_in_pool(instance, node),
            size=np.bincount(item, weights=instance.size, minlength=items).astype(np.float64),
            maker=maker,
            transfer=transfer,
            net=net,
            reader=reader,
        )

    @cached_property
    def work(self) -> int:
        """Time of a schedule, in nodes and edges."""
        return self.tasks.graph.nodes + self.tasks.graph.edges

    def pooled(self) -> LatencyPlacement:
        """The placement of everything in the pool."""
        tasks = self.tasks
        subgraphs = np.arange(tasks.subgraphs, dtype=np.int32)
        nobody = np.full(tasks.graph.nodes, -1, dtype=np.int32)
        owner = np.zeros_like(subgraphs) if tasks.unlimited else subgraphs // 2
        return LatencyPlacement(nobody, owner, np.zeros(tasks.subgraphs), np.zeros(tasks.accelerators, dtype=np.int32))

    def filled(self) -> LatencyPlacement:
        """A placement of the items that gain most on accelerators: one each, or if ``unlimited`` as many as fit.

        The gain of an item is its time in the pool minus its time on an accelerator, including all its transfers.
        """
        tasks, placement = self.tasks, self.pooled()
        sent = np.bincount(tasks.maker, weights=tasks.transfer, minlength=len(tasks.unit))
        read = np.bincount(tasks.reader, weights=tasks.transfer[tasks.net], minlength=len(tasks.unit))
        gain = np.bincount(tasks.unit, weights=tasks.cpu_time - tasks.accelerator_time - sent - read)
        with np.errstate(over="ignore"):
            chosen = np.argsort(-gain / np.maximum(tasks.size, 1e-300) if tasks.unlimited else -gain, kind="stable")
        chosen = chosen[(gain > 0)[chosen]]
        device = np.full(len(tasks.size), -1)
        if tasks.unlimited:
            device[:] = self._next_fit(chosen)
        else:
            device[chosen[: tasks.accelerators]] = np.arange(min(len(chosen), tasks.accelerators))
        there = device[tasks.unit]
        subgraphs = np.arange(len(there)) if tasks.unlimited else 2 * there + tasks.backward
        placement.subgraph[:] = np.where(there < 0, -1, subgraphs)
        if tasks.unlimited:
            placement.owner[:-1] = np.maximum(there, 0)
        return placement

    def _next_fit(self, chosen: Ints) -> Ints:
        """The accelerator of each chosen item, in topological order while memory suffices; -1 for other items."""
        tasks = self.tasks
        taken = np.zeros(len(tasks.size), dtype=bool)
        taken[chosen[np.cumsum(tasks.size[chosen]) <= tasks.accelerators * tasks.memory]] = True
        items = tasks.unit[tasks.graph.topological_order]
        used, room, device = 0, tasks.memory, np.full(len(tasks.size), -1)
        for item in items[np.sort(np.unique(items, return_index=True)[1])].tolist():
            if taken[item] and tasks.size[item] > room:
                used, room = used + 1, tasks.memory
            if taken[item] and used < tasks.accelerators:
                room -= float(tasks.size[item])
                device[item] = used
        return device

    def expand(self, placement: LatencyPlacement) -> LatencyPlacement:
        """Convert a placement of parts to one of nodes, which may have more subgraphs."""
        more = (len(self.node) + 1 if self.tasks.unlimited else self.tasks.subgraphs) - self.tasks.subgraphs
        owner, delay = np.pad(placement.owner, (0, more)), np.pad(placement.delay, (0, more))
        return LatencyPlacement(placement.subgraph[self.node], owner, delay, placement.merged)

    def restrict(self, placement: LatencyPlacement) -> LatencyPlacement:
        """Convert a placement of nodes that splits no part to one of parts."""
        part = self.pooled()
        if not self.tasks.unlimited:
            part.subgraph[self.node] = placement.subgraph
            return LatencyPlacement(part.subgraph, placement.owner, placement.delay, placement.merged)
        used, of = np.unique(np.append(placement.subgraph, -1), return_inverse=True)
        part.subgraph[self.node] = of[:-1] - 1
        part.owner[: len(used) - 1], part.delay[: len(used) - 1] = placement.owner[used[1:]], placement.delay[used[1:]]
        return part


def _on_accelerators(instance: Instance, node: Ints, item: Ints) -> Floats:
    """Time of each part on an accelerator; infinite if its item does not fit one."""
    time = np.bincount(node, weights=instance.accelerator_time).astype(np.float64)
    unfit = np.bincount(item, weights=~instance.supported) > 0
    unfit |= np.bincount(item, weights=instance.size) > instance.capacity
    time[node[unfit[item]]] = np.inf
    return time


def _in_pool(instance: Instance, node: Ints) -> Floats:
    """Time of each part in the pool: its longest path."""
    start, tail = (column.tolist() for column in instance.graph.in_csr)
    of, end = node.tolist(), instance.cpu_time.tolist()
    for v in instance.graph.topological_order.tolist():
        end[v] += max((end[u] for u in tail[start[v] : start[v + 1]] if of[u] == of[v]), default=0.0)
    longest = np.zeros(int(node.max(initial=-1)) + 1)
    np.maximum.at(longest, node, end)
    return longest


def _nets(instance: Instance, node: Ints) -> tuple[Ints, Floats, Ints, Index]:
    """Return makers of tensors that other parts read, ascending, with transfer times, then nets and their readers."""
    tail, head = instance.graph.tail, instance.graph.head
    sent = ~instance.artificial & (instance.transfer[tail] > 0) & (node[tail] != node[head])
    of_part = np.argsort(node, kind="stable")
    place = np.empty_like(of_part)
    place[of_part] = np.arange(len(node))
    count = int(node.max(initial=0)) + 1
    pairs = np.unique(place[tail[sent]] * count + node[head[sent]])
    made, net = np.unique(pairs // count, return_inverse=True)
    made = of_part[made]
    return node[made], instance.transfer[made], net.reshape(-1), (pairs % count).astype(np.int32)


class Blocks:
    """The blocks of an instance, which make up its parts: no edge leads to an earlier block.

    ``of``  shape (n,): the block of each node
    """

    def __init__(self, instance: Instance) -> None:
        self.instance, self.of = instance, blocks(instance)
        tail, head, backward = instance.graph.tail, instance.graph.head, instance.backward
        ordering = (backward[tail] == backward[head]) & (self.of[tail] != self.of[head])
        ends = np.sort(np.column_stack([self.of[tail], self.of[head]])[ordering], axis=1)
        self.graph = Graph(int(self.of.max(initial=-1)) + 1, *np.unique(ends, axis=0).T)
        self.size = np.bincount(self.of, weights=instance.size)
        self.nodes = np.bincount(self.of)
        self.supported = np.bincount(self.of, weights=~instance.supported) == 0

    def parts(self, subgraph: Index, count: int, share: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The part and the item of each node: at least ``count`` runs of blocks of a topological order.

        A run takes at most a ``share`` of the memory of an accelerator and has nodes of one subgraph only, or of one
        per pass; ``subgraph``, shape (n,), is that of each node. Blocks outside such runs become single nodes.
        """
        label, whole = self._labels(subgraph)
        limits = self.instance.nodes / count, share * self.instance.capacity
        run = np.array(self._runs(label, whole, limits, rng))[self.of]
        unit, backward = self.instance.unit, self.instance.backward
        apart = ~whole[self.of]
        item = np.unique(np.where(apart, unit, len(unit) + run), return_inverse=True)[1].reshape(-1)
        first = len(unit) + 2 * item + backward
        node = np.unique(np.where(apart, np.arange(len(unit)), first), return_inverse=True)[1].reshape(-1)
        return node, item

    def _labels(self, subgraph: Index) -> tuple[Ints, NDArray[np.bool_]]:
        """Subgraph of each block in each pass, shape (blocks, 2), -2 if none; and a mask: no other subgraph."""
        label, whole = np.full((self.graph.nodes, 2), -2), np.ones(self.graph.nodes, dtype=bool)
        for part in (False, True):
            mine = self.instance.backward == part
            label[self.of[mine], int(part)] = subgraph[mine]
            whole[self.of[mine][label[self.of[mine], int(part)] != subgraph[mine]]] = False
        return label, whole

    def _runs(
        self, label: Ints, whole: NDArray[np.bool_], limits: tuple[float, float], rng: np.random.Generator
    ) -> list[int]:
        """The run of each block: a topological order, cut between labels and at the limits of nodes and size."""
        start, head = (column.tolist() for column in self.graph.out_csr)
        most, room = limits
        labels, nodes, sizes = label.tolist(), self.nodes.tolist(), self.size.tolist()
        kinds = np.where(whole, self.supported, -1).tolist()
        run, number = [-1] * self.graph.nodes, -1
        held, size, key, kind = 0, 0.0, [-2, -2], -1
        before = [-1] * self.graph.nodes  # the last run that a block is behind
        for b in self._order(label, rng):
            both = [max(pair) for pair in zip(key, labels[b], strict=True)]
            joins = all(x in (-2, y) for x, y in zip(key + labels[b], both + both, strict=True))
            joins &= kind == kinds[b] != -1 and before[b] == number
            if not joins or held + nodes[b] > most or size + sizes[b] > room:
                number, held, size, both, kind = number + 1, 0, 0.0, labels[b], kinds[b]
            run[b], held, size, key = number, held + nodes[b], size + sizes[b], both
            for c in head[start[b] : start[b + 1]]:
                before[c] = number
        return run

    def _order(self, label: Ints, rng: np.random.Generator) -> Iterator[int]:
        """Yield blocks in a random topological order that prefers the last label, and successors of the last block."""
        tail, head = self.graph.tail, self.graph.head
        shuffled = rng.permutation(len(tail))
        start, heads = (column.tolist() for column in csr(self.graph.nodes, tail[shuffled], head[shuffled]))
        waiting = np.diff(self.graph.in_csr[0]).tolist()
        of = np.unique(label, axis=0, return_inverse=True)[1].reshape(-1).tolist()
        ready: dict[int, list[int]] = {}
        for b in np.flatnonzero(np.array(waiting) == 0).tolist():
            ready.setdefault(of[b], []).append(b)
        while ready:
            key = next(reversed(ready))
            while ready[key]:
                b = ready[key].pop()
                yield b
                for c in heads[start[b] : start[b + 1]]:
                    waiting[c] -= 1
                    if not waiting[c]:
                        ready.setdefault(of[c], []).append(c)
            del ready[key]
