"""What the proofs for ``placement`` know of an instance, in exact fractions."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from shardmark.harness.verify.certificates import Clock
from shardmark.instances.placement import Instance

Time = Fraction | None  # None: infinite


def least_of(one: Time, other: Time) -> Fraction:
    """Return the lesser of two times; 0 if both are infinite, so that an instance without a placement proves little."""
    some = [time for time in (one, other) if time is not None]
    return min(some, default=Fraction(0))


class Units:
    """Colocation units, by the number of their first node; nodes that the only CPU must take are one unit.

    ``of``        the unit of each node
    ``fast``      time of each unit on an accelerator, None if none can take it
    ``slow``      time of each unit on a CPU, None if there is none
    ``size``      memory of each unit; ``room``: that of an accelerator, with the referee's tolerance
    ``transfer``  time to move the tensor of each node
    ``before``    nodes with an edge to each node; ``read``: without those that only order
    ``nets``      units that make or read the same tensor, in ascending order, and the time to move it; tensors of the
                  same units are one net
    """

    def __init__(self, instance: Instance, clock: Clock) -> None:
        self.instance, self.clock = instance, clock
        self.room = Fraction(instance.room)
        self.transfer = [Fraction(x) for x in instance.transfer.tolist()]
        self.before: list[set[int]] = [set() for _ in range(instance.nodes)]
        self.read: list[set[int]] = [set() for _ in range(instance.nodes)]
        ends = instance.graph.tail.tolist(), instance.graph.head.tolist(), instance.artificial.tolist()
        for u, v, artificial in zip(*ends, strict=True):
            self.before[v].add(u)
            if not artificial:
                self.read[v].add(u)
        self.of = instance.unit.tolist()
        self._sum_up()
        if instance.objective == "throughput" and instance.cpus == 1 and instance.contiguity != "free":
            self._unite(self._on_the_only_cpu())
        self.nets = self._nets()

    def _sum_up(self) -> None:
        """Sum the columns of nodes over the units."""
        instance, count = self.instance, max(self.of, default=-1) + 1
        fast, slow, self.size = ([Fraction(0)] * count for _ in range(3))
        able = [instance.accelerators > 0] * count
        columns = (instance.accelerator_time, instance.cpu_time, instance.size, instance.supported)
        for unit, a, c, m, supported in zip(self.of, *(column.tolist() for column in columns), strict=True):
            fast[unit] += Fraction(a)
            slow[unit] += Fraction(c)
            self.size[unit] += Fraction(m)
            able[unit] &= supported
        self.fast: list[Time] = [
            time if can and size <= self.room else None for time, can, size in zip(fast, able, self.size, strict=True)
        ]
        self.slow: list[Time] = list(slow) if instance.cpus else [None] * count

    def _on_the_only_cpu(self) -> list[bool]:
        """Return which nodes are on the CPU: none else can take them, or they are between two such nodes of a pass."""
        forced = [self.fast[unit] is None for unit in self.of]
        order, back = self.instance.graph.topological_order.tolist(), self.instance.backward.tolist()
        while True:
            before, after = list(forced), list(forced)
            for v in order:
                before[v] |= any(before[u] and back[u] == back[v] for u in self.before[v])
            for v in reversed(order):
                for u in self.before[v]:
                    after[u] |= after[v] and back[u] == back[v]
            units = {self.of[v] for v in order if before[v] and after[v]}
            grown = [unit in units for unit in self.of]
            if grown == forced:
                return forced
            forced = grown
            self.clock.tick()

    def _unite(self, forced: list[bool]) -> None:
        """Make one unit of some nodes, which no accelerator takes, and number all units by their first nodes."""
        number: dict[int, int] = {}
        self.of = [number.setdefault(-1 if on else unit, len(number)) for unit, on in zip(self.of, forced, strict=True)]
        self._sum_up()
        if -1 in number:
            self.fast[number[-1]] = None

    def _nets(self) -> list[tuple[tuple[int, ...], Fraction]]:
        members: list[set[int]] = [{unit} for unit in self.of]
        for v, tensors in enumerate(self.read):
            for u in tensors:
                members[u].add(self.of[v])
        nets: dict[tuple[int, ...], Fraction] = {}
        for units, cost in zip(members, self.transfer, strict=True):
            if len(units) > 1 and cost:
                key = tuple(sorted(units))
                nets[key] = nets.get(key, Fraction(0)) + cost
        return sorted(nets.items())

    @property
    def finite(self) -> bool:
        """True if every unit has a device."""
        return all(fast is not None or slow is not None for fast, slow in zip(self.fast, self.slow, strict=True))

    def shared_tensors(self) -> dict[tuple[int, int], Fraction]:
        """Return the time of tensors that an accelerator moves for a unit if another unit is elsewhere.

        These are the tensors that the unit reads from the other one, and those that it makes whose slowest reader the
        other one is.
        """
        shared: dict[tuple[int, int], Fraction] = {}
        readers: list[set[int]] = [set() for _ in self.of]
        for v, tensors in enumerate(self.read):
            for u in tensors:
                readers[u].add(self.of[v])
        for u, units in enumerate(readers):
            others = sorted(units - {self.of[u]}, key=lambda unit: (self.fast[unit] is None, self.fast[unit] or 0))
            ends: Iterable[tuple[int, int]] = [(unit, self.of[u]) for unit in others]
            for pair in [*ends, *((self.of[u], unit) for unit in others[-1:])]:
                shared[pair] = shared.get(pair, Fraction(0)) + self.transfer[u]
        return shared

    def fast_of_node(self, v: int) -> Time:
        """Time of a node on an accelerator."""
        return None if self.fast[self.of[v]] is None else Fraction(float(self.instance.accelerator_time[v]))

    def slow_of_node(self, v: int) -> Time:
        """Time of a node on a CPU."""
        return None if self.slow[self.of[v]] is None else Fraction(float(self.instance.cpu_time[v]))
