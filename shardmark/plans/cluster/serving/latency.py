"""The layout in which one sample takes the least time.

A sample passes all stages, one after another, and is on one replica of each, so stages have one. Its time is the sum of
the times of the stages, which the referee tells: what goes from one stage to another takes time at both ends. Stages
are runs of consecutive blocks. The fastest stage of some blocks on so many devices follows block by block from the
choices that are not worse in both time and memory, and the best layout of the first i blocks on at most k devices from
those of fewer blocks: two dynamic programs.

Their times are integers, each rounded down, so the value is a lower bound. If every block reads from the one before it,
the blocks have one order, and the bound holds for all layouts of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from shardmark.harness import verify
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Ints
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
    stages = verify.stages(instance, solution)
    assert stages is not None
    return math.fsum(stages.microbatch)


def fastest(instance: Instance) -> Certified:
    """The layout with the least latency, of those whose stages are runs of consecutive nodes.

    ``instance`` has edges to later nodes only. Its configurations keep nothing per microbatch, and those of a node and
    degree move the same bytes. Raises InputError if no layout fits.
    """
    scale = _scale(instance)
    menus = [_Menu(instance, degree, scale) for degree in np.unique(instance.degree).tolist()]
    most = min(instance.devices, instance.nodes * max(menu.degree for menu in menus))
    best = np.full((instance.nodes + 1, most + 1), NEVER, dtype=np.int64)  # by nodes, and devices at most
    best[0] = 0
    least, begin, degree = best.copy(), np.zeros_like(best), np.zeros_like(best)
    chosen: dict[tuple[int, int, int], Chosen] = {}
    for first in range(instance.nodes):
        for menu in (menu for menu in menus if menu.degree <= most):
            for last, time, bound, choice in menu.stages(first, Fraction(instance.capacity)):
                end = np.s_[last + 1, menu.degree :]
                before = np.s_[first, : most + 1 - menu.degree]
                np.minimum(least[end], least[before] + bound, out=least[end])
                found = best[before] + time
                better = found < best[end]
                if better.any():
                    chosen[first, last + 1, menu.degree] = choice
                for table, value in ((best, found), (begin, first), (degree, menu.degree)):
                    np.copyto(table[end], value, where=better)
    if best[-1, -1] >= NEVER:
        raise _too_little(instance)
    solution = _solution(instance, list(_traced(begin, degree))[::-1], chosen)
    return Certified(solution, latency(instance, solution), *_bound(instance, menus, int(least[-1, -1]), scale))


def _bound(instance: Instance, menus: Sequence[_Menu], least: int, scale: int) -> tuple[float, str]:
    """A lower bound in seconds of any layout, and its method; ``least`` is that of runs of consecutive nodes."""
    edges = set(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    if all((v, v + 1) in edges for v in range(instance.nodes - 1)):
        return _down(Fraction(least, scale)), "dynamic program"
    fast = (min(time for menu in menus for time, _, _ in menu.choices[v]) for v in range(instance.nodes))
    return _down(Fraction(sum(fast), scale)), "fastest configuration of each block"


class _Menu:
    """The nodes on so many devices: time in units, bytes per device, and index of each of their configurations."""

    def __init__(self, instance: Instance, degree: int, scale: int) -> None:
        self.degree = degree
        self.choices: list[list[tuple[int, Fraction, int]]] = []
        self._enters: list[dict[int, int]] = []  # for every node, the time at its end of an edge, by the other end
        self._leaves: list[dict[int, int]] = []
        start, edges = instance.incident
        tail, head = instance.graph.tail.tolist(), instance.graph.head.tolist()
        for v in range(instance.nodes):
            of_node = range(int(instance.start[v]), int(instance.start[v + 1]))
            menu = [c for c in of_node if instance.degree[c] == degree]
            self.choices.append([(_units(instance.time[c], scale), _bytes(instance, c), c) for c in menu])
            enters, leaves = dict[int, int](), dict[int, int]()
            for at, edge in enumerate(edges[start[v] : start[v + 1]].tolist() if menu else ()):
                more = Fraction(float(instance.sync[instance.sync_start[menu[0]] + at]))
                moved = 2 * (Fraction(float(instance.communicated[edge])) + more)
                time = math.floor(moved / Fraction(instance.bandwidth) * scale)
                if head[edge] == v:
                    enters[tail[edge]] = time
                else:
                    leaves[head[edge]] = time
            self._enters.append(enters)
            self._leaves.append(leaves)

    def stages(self, first: int, capacity: Fraction) -> Iterator[tuple[int, int, int, Chosen]]:
        """Of every stage that begins with a node and fits: last node, time, lower bound of it, and configurations."""
        moved, fast, dropped = 0, 0, False
        labels: list[tuple[int, Fraction, Chosen]] = [(0, Fraction(), None)]
        for v in range(first, len(self.choices)):
            more = ((t + time, n + need, (c, chosen)) for t, n, chosen in labels for time, need, c in self.choices[v])
            labels = _undominated(label for label in more if label[1] <= capacity)
            if not labels:
                return
            dropped = dropped or len(labels) > MOST_CHOICES
            labels = [*labels[: MOST_CHOICES - 1], labels[-1]] if dropped else labels
            fast += min(time for time, _, _ in self.choices[v])
            moved += sum(self._leaves[v].values())
            for u, cost in self._enters[v].items():
                moved += cost if u < first else -self._leaves[u][v]
            yield v, moved + labels[0][0], moved + (fast if dropped else labels[0][0]), labels[0][2]


def _undominated(labels: Iterator[tuple[int, Fraction, Chosen]]) -> list[tuple[int, Fraction, Chosen]]:
    """Labels of which no other one has less time and less memory, the fastest first."""
    found: list[tuple[int, Fraction, Chosen]] = []
    for label in sorted(labels, key=lambda label: label[:2]):
        if not found or label[1] < found[-1][1]:
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


def _traced(begin: Ints, degree: Ints) -> Iterator[tuple[int, int, int]]:
    """First node, end and degree of the stages of the best layout, the last stage first."""
    nodes, devices = begin.shape[0] - 1, begin.shape[1] - 1
    while nodes:
        first, width = int(begin[nodes, devices]), int(degree[nodes, devices])
        yield first, nodes, width
        nodes, devices = first, devices - width


def _solution(
    instance: Instance, stages: Sequence[tuple[int, int, int]], chosen: Mapping[tuple[int, int, int], Chosen]
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
        "tensor_parallel": [width for _, _, width in stages],
    }


def _down(value: Fraction) -> float:
    return math.nextafter(float(value), 0.0)


def _too_little(instance: Instance) -> InputError:
    """Why no layout fits: the devices together have too little memory for one replica."""
    held = np.minimum.reduceat((instance.fixed + instance.shared) * instance.degree, instance.start[:-1]).sum()
    expected = f"expected memory for one replica, at least {held:,.0f} bytes in all, in whole blocks"
    found = f"found {instance.devices} devices of {instance.memory:,.0f}"
    return InputError(instance.source, "maxMemoryPerDevice", f"{expected}; {found}")


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
