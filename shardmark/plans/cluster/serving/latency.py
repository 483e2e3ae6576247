"""The layout in which one sample takes the least time.

A sample passes all stages, one after another, and is on one replica of each, so stages have one. Its time is that of
the stages and of what goes from one to another, which the referee tells: a tensor takes as long as at the slower one of
its ends. Stages are runs of consecutive blocks. The fastest stage of some blocks on so many devices follows block by
block from the choices that are not worse in time and memory, and the best layout of the first i blocks on at most k
devices, the last stage with t of them, from those of fewer blocks: two dynamic programs.

Their times are integers, each rounded down, so the value is a lower bound. What comes from a block further back than
the one before the stage counts at the receiving end, which may be the faster one. If every block reads from the one
before it, the blocks have one order, and the bound holds for all layouts of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from shardmark.harness.verify.hybrid import latencies
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.hybrid import Instance
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.practice import Practice, best_of
from shardmark.plans.solving import Certified

#: Sums of times stay below this many units, so that they fit 64 bits; NEVER is above.
UNITS, NEVER = 2**60, 2**62
#: Choices of a stage that are compared, at most. Of more, the fastest are kept, and the bound leaves memory out.
MOST_CHOICES = 1000

#: Configurations of the blocks of a stage, the last one first.
Chosen = tuple[int, "Chosen"] | None


def latency(instance: Instance, solution: Mapping[str, Any]) -> float:
    """Seconds of one sample through all stages."""
    stages = latencies(instance, solution)
    assert stages is not None
    return math.fsum(stages)


def fastest(instance: Instance, working: Floats) -> Certified:
    """The layout with the least latency, of those whose stages are runs of consecutive nodes.

    ``instance`` has edges to later nodes only. Its configurations keep nothing per microbatch, and those of a node and
    degree move the same bytes. ``working`` has for each of them, shape (c,), the bytes that its node needs while it
    runs. Raises InputError if no layout fits.
    """
    scale = _scale(instance)
    menus = [_Menu(instance, degree, working, scale) for degree in np.unique(instance.degree).tolist()]
    most = min(instance.devices, instance.nodes * max(menu.degree for menu in menus))
    # by nodes, devices at most, and menu of the last stage
    best = np.full((instance.nodes + 1, most + 1, len(menus)), NEVER, dtype=np.int64)
    best[0] = 0
    least, begin, before = best.copy(), np.zeros_like(best), np.zeros_like(best)
    chosen: dict[tuple[int, int, int], Chosen] = {}
    for first in range(instance.nodes):
        for number, menu in ((number, menu) for number, menu in enumerate(menus) if menu.degree <= most):
            sources = np.s_[first, : most + 1 - menu.degree]
            for last, time, bound, choice in menu.stages(first, menus):
                end = np.s_[last + 1, menu.degree :, number]
                np.minimum(least[end], (least[sources] + bound).min(axis=1), out=least[end])
                found = best[sources] + time
                better = found.min(axis=1) < best[end]
                if better.any():
                    chosen[first, last + 1, number] = choice
                for table, value in ((begin, first), (before, found.argmin(axis=1)), (best, found.min(axis=1))):
                    np.copyto(table[end], value, where=better)
    if best[-1, -1].min() >= NEVER:
        raise _too_little(instance)
    solution = _solution(instance, list(_traced(best, begin, before, menus))[::-1], chosen, menus)
    return Certified(solution, latency(instance, solution), *_bound(instance, menus, int(least[-1, -1].min()), scale))


def _bound(instance: Instance, menus: Sequence[_Menu], least: int, scale: int) -> tuple[float, str]:
    """A lower bound in seconds of any layout, and its method; ``least`` is that of runs of consecutive nodes."""
    edges = set(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    if all((v, v + 1) in edges for v in range(instance.nodes - 1)):
        return _down(Fraction(least, scale)), "dynamic program"
    fast = (min(choice.time for menu in menus for choice in menu.choices[v]) for v in range(instance.nodes))
    return _down(Fraction(sum(fast), scale)), "fastest configuration of each block"


class _Choice(NamedTuple):
    """Configurations of some nodes: units of time, memory per device, and most of one of them while it runs."""

    time: int
    bytes: int
    working: int
    chosen: Chosen


class _Menu:
    """The nodes on so many devices: their configurations, and the units of time that edges take at each end."""

    def __init__(self, instance: Instance, degree: int, working: Floats, scale: int) -> None:
        self.degree = degree
        held = [_bytes(instance, c) for c in range(instance.configurations)]
        needed = [Fraction(float(size)) for size in working]
        part = max(size.denominator for size in [*held, *needed])  # all are powers of two
        self.capacity = math.floor(Fraction(instance.capacity) * part)
        self.choices: list[list[_Choice]] = []
        self.enters: list[dict[int, int]] = []  # for every node, by the node at the other end
        self.leaves: list[dict[int, int]] = []
        start, edges = instance.incident
        tail, head = instance.graph.tail.tolist(), instance.graph.head.tolist()
        for v in range(instance.nodes):
            of_node = range(int(instance.start[v]), int(instance.start[v + 1]))
            menu = [c for c in of_node if instance.degree[c] == degree]
            self.choices.append(
                [
                    _Choice(_units(instance.time[c], scale), int(held[c] * part), int(needed[c] * part), (c, None))
                    for c in menu
                ]
            )
            enters, leaves = dict[int, int](), dict[int, int]()
            for at, edge in enumerate(edges[start[v] : start[v + 1]].tolist() if menu else ()):
                more = Fraction(float(instance.sync[instance.sync_start[menu[0]] + at]))
                moved = 2 * (Fraction(float(instance.communicated[edge])) + more)
                time = math.floor(moved / Fraction(instance.bandwidth) * scale)
                if head[edge] == v:
                    enters[tail[edge]] = time
                else:
                    leaves[head[edge]] = time
            self.enters.append(enters)
            self.leaves.append(leaves)

    def stages(self, first: int, menus: Sequence[_Menu]) -> Iterator[tuple[int, Ints, Ints, Chosen]]:
        """Of every stage that begins with a node and fits: last node, time, lower bound of it, and configurations.

        Both times are by the menu of the stage before, shape (menus,).
        """
        moved, fast, dropped = np.zeros(len(menus), dtype=np.int64), 0, False
        labels = [_Choice(0, 0, 0, None)]
        for v in range(first, len(self.choices)):
            labels = _undominated(self._longer(labels, v))
            if not labels:
                return
            dropped = dropped or len(labels) > MOST_CHOICES
            if dropped:
                smallest = min(labels, key=lambda label: label.bytes + label.working)
                labels = _undominated(iter([*labels[: MOST_CHOICES - 1], smallest]))
            fast += min(choice.time for choice in self.choices[v])
            for u, time in self.enters[v].items():
                sent = [menu.leaves[u].get(v, 0) if u == first - 1 else 0 for menu in menus]
                moved += np.maximum(time, sent) if u < first else 0
            quickest = labels[0]
            yield v, moved + quickest.time, moved + (fast if dropped else quickest.time), quickest.chosen

    def _longer(self, labels: Sequence[_Choice], v: int) -> Iterator[_Choice]:
        """The choices for one more node that fit."""
        for label in labels:
            for choice in self.choices[v]:
                working, size = max(label.working, choice.working), label.bytes + choice.bytes
                if size + working <= self.capacity and choice.chosen is not None:
                    yield _Choice(label.time + choice.time, size, working, (choice.chosen[0], label.chosen))


def _undominated(labels: Iterator[_Choice]) -> list[_Choice]:
    """Choices of which no other one has less time and less memory of both kinds, the fastest first."""
    found, sizes, workings = list[_Choice](), list[int](), list[int]()
    for label in sorted(labels, key=lambda label: label[:3]):
        at = bisect_right(sizes, label.bytes)  # sizes ascend, their workings descend
        if at and workings[at - 1] <= label.working:
            continue
        end = at
        while end < len(sizes) and workings[end] >= label.working:
            end += 1
        sizes[at:end], workings[at:end] = [label.bytes], [label.working]
        found.append(label)
    return found


def _units(seconds: float, scale: int) -> int:
    return math.floor(Fraction(float(seconds)) * scale)


def _bytes(instance: Instance, c: int) -> Fraction:
    return Fraction(float(instance.fixed[c])) + Fraction(float(instance.shared[c]))


def _scale(instance: Instance) -> int:
    """Units of time per second."""
    moved = 2 * (2 * instance.communicated.sum() * instance.configurations + instance.sync.sum()) / instance.bandwidth
    total = max(float(instance.time.sum() + moved), 1e-6)
    return max(1, int(UNITS / total))


def _traced(best: Ints, begin: Ints, before: Ints, menus: Sequence[_Menu]) -> Iterator[tuple[int, int, int]]:
    """First node, end and menu of the stages of the best layout, the last stage first."""
    nodes, devices = best.shape[0] - 1, best.shape[1] - 1
    menu = int(best[-1, -1].argmin())
    while nodes:
        place = nodes, devices, menu
        first = int(begin[place])
        yield first, nodes, menu
        nodes, devices, menu = first, devices - menus[menu].degree, int(before[place])


def _solution(
    instance: Instance,
    stages: Sequence[tuple[int, int, int]],
    chosen: Mapping[tuple[int, int, int], Chosen],
    menus: Sequence[_Menu],
) -> dict[str, Any]:
    names = list[str]()
    for stage in stages:
        last, mine = chosen[stage], list[str]()
        while last is not None:
            mine.append(instance.kinds[int(instance.kind[last[0]])])
            last = last[1]
        names += reversed(mine)
    return {
        "stage": [number for number, (first, end, _) in enumerate(stages) for _ in range(first, end)],
        "configuration": names,
        "data_parallel": [1] * len(stages),
        "tensor_parallel": [menus[menu].degree for _, _, menu in stages],
    }


def _down(value: Fraction) -> float:
    return math.nextafter(float(value), 0.0)


def _too_little(instance: Instance) -> InputError:
    """Why no layout fits: the devices together have too little memory for one replica."""
    held = np.minimum.reduceat((instance.fixed + instance.shared) * instance.degree, instance.start[:-1]).sum()
    expected = f"expected memory for one replica, at least {held:,.0f} bytes in all, in whole blocks"
    found = f"found {instance.devices} devices of {instance.memory:,.0f}"
    return InputError(instance.source, "memory", f"{expected}; {found}")


def customs(instance: Instance, costs: Sequence[Sequence[Costs]]) -> list[Practice]:
    """What people do today: equal layers with the best equal degrees, and tensor parallelism in one machine."""
    degrees = sorted(set(instance.degree.tolist()))
    grid = (
        (stages, 1, degree)
        for degree in degrees
        for stages in range(1, min(instance.nodes, instance.devices // degree) + 1)
    )
    choices = {
        "equal layers, the best equal degrees": grid,
        "tensor parallelism in one machine": iter([(1, 1, degrees[-1])]),
    }
    found = (best_of(instance, costs, name, iter(grid), latency) for name, grid in choices.items())
    return [practice for practice in found if practice is not None]
