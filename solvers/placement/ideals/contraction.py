"""Contraction of a graph to items, nodes that must or may share a device, so that chains of ideals are splits.

Tarnawski et al. 2020, Appendix E, with only the reductions that keep the optimum. The published program also merges
every item of no time that has one neighbour, whatever its size and support, which can cost the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.graph import Graph, Index, csr, strong_components
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import orders
from shardmark.solvers.placement.kernels.loads import Nets

Sets = list[set[int]]


@dataclass(frozen=True, eq=False)
class Contracted:
    """Items: sets of nodes that one device takes, forward nodes with their backward nodes.

    ``item``              shape (n,), int32: the item of each node of the instance
    ``graph``             an acyclic graph on the m items, every edge to a greater number: devices follow one another
                          such that no edge goes back. The numbers are the linear extension of `dpl`
    ``accelerator_time``  shape (m,), float64: infinite if an item is not supported
    ``cpu_time, size``    shape (m,), float64
    ``nets``              a set of items per tensor that leaves its item; tensors of the same items are one if their
                          makers do not matter
    ``maker``             shape (nets,), int32: the item that makes each net's tensor
    """

    item: Index
    graph: Graph
    accelerator_time: Floats
    cpu_time: Floats
    size: Floats
    nets: Nets
    maker: Index

    @cached_property
    def path(self) -> Graph:
        """Every item with an edge to the next one: the linearization of Section 5.1.2."""
        items = np.arange(self.graph.nodes, dtype=np.int32)
        return Graph(self.graph.nodes, items[:-1], items[1:])


def contractions(instance: Instance) -> list[Contracted]:
    """The ways in which chains of ideals cover the placements of the mode ``acyclic``: one, or two for training.

    Forward edges order the devices, and all backward edges do, either reversed, as backpropagation runs, or as they
    are, as in layer graphs whose backward nodes copy the forward ones.
    """
    found = []
    for tail, head in orders(instance):
        component = strong_components(int(instance.unit.max(initial=-1)) + 1, tail, head)
        items = _Items(instance, component[instance.unit], component[tail], component[head])
        items.merge_all()
        found.append(items.numbered())
    return found


class _Items:
    """Items while they are merged; an item that was merged into another one is empty.

    ``item``             shape (n,): the first item of each node of the instance
    ``into``             the item that each was merged into, or itself
    ``before``           items with an edge to each; ``after``: items that each has an edge to
    ``nets``             the nets of each item
    ``members, maker``   the items of each net, and the one that makes its tensor
    ``cost``             of each net
    """

    def __init__(self, instance: Instance, item: Index, tail: Index, head: Index) -> None:
        self.instance, self.item = instance, item
        self.into = list(range(int(item.max(initial=-1)) + 1))
        self.before, self.after, self.nets = self._sets(), self._sets(), self._sets()
        for u, v in zip(tail.tolist(), head.tolist(), strict=True):
            if u != v:
                self.after[u].add(v)
                self.before[v].add(u)
        self.cost: list[float] = instance.transfer.tolist()
        self.maker: list[int] = item.tolist()
        self.members = self._tensors()
        for net, members in enumerate(self.members):
            for v in members:
                self.nets[v].add(net)
        self.cpu_time, self.size = (self._sums(column).tolist() for column in (instance.cpu_time, instance.size))
        time = np.where(instance.supported & bool(instance.accelerators), instance.accelerator_time, math.inf)
        self.accelerator_time = self._sums(time).tolist()
        self.roomy = float(instance.size.sum()) <= instance.memory and not instance.allreduce
        self.apart = instance.overlap == "full" or instance.cluster is not None

    def _sets(self) -> Sets:
        return [set() for _ in self.into]

    def _tensors(self) -> Sets:
        """The items that make and read each node's tensor, none if it stays within its item or is free to send."""
        members: Sets = [set() for _ in self.cost]
        item, real = self.item.tolist(), ~self.instance.artificial
        ends = self.instance.graph.tail[real].tolist(), self.instance.graph.head[real].tolist()
        for u, v in zip(*ends, strict=True):
            if self.cost[u] and item[u] != item[v]:
                members[u] |= {item[u], item[v]}
        return members

    def _sums(self, column: Floats) -> Floats:
        return np.bincount(self.item, column, len(self.into)).astype(np.float64)

    def merge_all(self) -> None:
        """Merge every item into a neighbour if that raises no load, until there is none left."""
        waiting = dict.fromkeys(range(len(self.into)))
        while waiting:
            v = next(iter(waiting))
            del waiting[v]
            host = self._host(v) if self.into[v] == v else None
            if host is not None:
                waiting |= dict.fromkeys(self._affected(v, host))
                self._merge(v, host)

    def _affected(self, v: int, host: int) -> list[int]:
        """Items that may have a host after item v is merged into its host."""
        shared = (self.members[net] for net in self.nets[v] if len(self.members[net]) <= 3)
        return sorted({host}.union(self.before[v], self.after[v], *shared))

    def _host(self, v: int) -> int | None:
        """An item whose device can take over item v, wherever v is, without raising any load; None if none is known.

        The host is the only item before or the only one after v, so that devices still have an order. Its device must
        have room. A CPU must not get more work, and an accelerator no more than the transfers that it saves: those of
        tensors that only these two items share. The host's device, or the one that v leaves, may then have to send the
        other tensors of v.
        """
        if (self.cpu_time[v] and self.instance.cpus) or (self.size[v] and not self.roomy):
            return None
        candidates = [u for side in (self.after[v], self.before[v]) if len(side) == 1 for u in side]
        return next((u for u in candidates if self._takes(u, v)), None)

    def _takes(self, u: int, v: int) -> bool:
        """True if neither the device of item u, with item v added, nor any other device gets a greater load.

        If transfers overlap with work, saved transfers do not compensate for work. If makers matter, no tensor may be
        sent by another device than before, or from another cluster.
        """
        both = {net for net in self.nets[v] if u in self.members[net]}
        saved = [self.cost[net] for net in both if len(self.members[net]) == 2]
        sent = [self.cost[net] for net in self.nets[v] - both if self.cost[net]]
        work = 0.0 if math.isinf(self.accelerator_time[u]) else self.accelerator_time[v]
        if self.instance.overlap != "none" and work:
            return False
        if self.apart and (sent or any(self.maker[net] == v and len(self.members[net]) > 2 for net in both)):
            return False
        return math.fsum([*saved, -work, *(-cost for cost in sent)]) >= 0  # the sign is exact

    def _merge(self, v: int, host: int) -> None:
        self.into[v] = host
        for here, there in ((self.before, self.after), (self.after, self.before)):
            for u in here[v]:
                there[u].discard(v)
                if u != host:
                    there[u].add(host)
                    here[host].add(u)
            here[v] = set()
        for net in self.nets[v]:
            self.members[net].discard(v)
            self.members[net].add(host)
            if self.maker[net] == v:
                self.maker[net] = host
            if len(self.members[net]) > 1:
                self.nets[host].add(net)
            else:
                self.nets[host].discard(net)
                self.members[net] = set()
        self.nets[v] = set()
        self.accelerator_time[host] += self.accelerator_time[v]
        self.cpu_time[host] += self.cpu_time[v]
        self.size[host] += self.size[v]

    def numbered(self) -> Contracted:
        """Return the remaining items, numbered along `depth_first_order`."""
        left = [v for v, host in enumerate(self.into) if v == host]
        order = depth_first_order(left, self.before, self.after)
        number = {v: i for i, v in enumerate(order)}
        for v in range(len(self.into)):
            while self.into[v] != self.into[self.into[v]]:
                self.into[v] = self.into[self.into[v]]
        of_item = np.array([number[host] for host in self.into], dtype=np.int32)
        ends = sorted((number[u], number[v]) for u in order for v in self.after[u])
        tail, head = np.array(ends, dtype=np.int32).reshape(-1, 2).T
        nets, maker = self._nets(number)
        return Contracted(
            item=of_item[self.item],
            graph=Graph(len(order), tail, head),
            accelerator_time=np.array(self.accelerator_time)[order],
            cpu_time=np.array(self.cpu_time)[order],
            size=np.array(self.size)[order],
            nets=nets,
            maker=maker,
        )

    def _nets(self, number: dict[int, int]) -> tuple[Nets, Index]:
        """The nets and their makers; nets of the same items are merged unless makers matter."""
        costs: dict[tuple[int, ...], float] = {}
        makers = dict[tuple[int, ...], int]()
        for cost, members, maker in zip(self.cost, self.members, self.maker, strict=True):
            if members:
                key = (maker if self.apart else -1, *sorted(number[v] for v in members))
                costs[key] = costs.get(key, 0.0) + cost
                makers.setdefault(key, number[maker])
        sizes = np.array([len(key) - 1 for key in costs], dtype=np.int32)
        pins = np.array([v for key in costs for v in key[1:]], dtype=np.int64)
        of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        nets = Nets(*csr(len(number), pins, of), np.array(list(costs.values()), dtype=np.float64), sizes)
        return nets, np.array(list(makers.values()), dtype=np.int32)


def depth_first_order(items: Sequence[int], before: Sets, after: Sets) -> list[int]:
    """The items in a topological order: next comes the item that became ready last, the greatest of several."""
    waiting = {v: len(before[v]) for v in items}
    ready, order = [v for v in items if not waiting[v]], list[int]()
    while ready:
        order.append(v := ready.pop())
        for w in sorted(after[v]):
            waiting[w] -= 1
            if not waiting[w]:
                ready.append(w)
    return order
