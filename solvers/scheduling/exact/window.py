"""HeadsTails of a schedule: vertices that start one after another and are arranged anew, while the rest stays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError
from instances.files.columns import Floats, Ints
from instances.graph import Graph
from instances.scheduling import Instance
from solvers.scheduling._kernels import Execution, Simulator
from solvers.scheduling.schedules.heads_tails import HeadsTails

#: The least share of a makespan that a better one saves.
WORTH = 1e-7


@dataclass(frozen=True)
class Schedule:
    """Vertices on their devices as they ran there, and the tail of each.

    ``device``    shape (n,), int64
    ``behind``    shape (n,): the longest path from the end of a vertex to the end of the schedule, over tensors, as if
                  links were independent, and over vertices that follow on its device
    """

    device: Ints
    execution: Execution
    behind: Floats

    @cached_property
    def sequence(self) -> Ints:
        """All vertices as they start, shape (n,)."""
        return self.execution.sequence.astype(np.int64)

    @property
    def makespan(self) -> float:
        """Time at which the last vertex has finished."""
        return self.execution.makespan


class Timing:
    """Runs vertices in a sequence, and backwards."""

    def __init__(self, instance: Instance) -> None:
        graph = instance.graph
        self.forward = Simulator(instance)
        self._backward = Simulator(
            replace(
                instance,
                graph=Graph(graph.nodes, graph.head, graph.tail),
                bandwidth=np.ascontiguousarray(instance.bandwidth.T),
                memory=np.full(instance.devices, np.inf),
                links="independent",
            )
        )

    def schedule(self, device: Ints, execution: Execution) -> Schedule:
        """The schedule of an execution, with the tail of each vertex."""
        return Schedule(device, execution, in_sequence(self._backward, device, execution.sequence[::-1]).start)


def in_sequence(simulator: Simulator, device: Ints, sequence: NDArray[np.integer]) -> Execution:
    """Each device runs its vertices as they stand in a sequence of all, shape (n,)."""
    return simulator.in_order(device, sequence[np.argsort(device[sequence], kind="stable")])


@dataclass(frozen=True)
class Window:
    """Vertices that start one after another in a schedule, as an instance on those devices that they may go to.

    ``vertices``  shape (w,): their numbers in the schedule
    ``devices``   shape (d,): the numbers of the devices in the schedule
    ``ends``      when they can start on each of these devices, and what is behind them
    ``around``    the makespan if they took no time
    ``makespan``  that of the schedule
    """

    vertices: Ints
    devices: Ints
    ends: HeadsTails
    around: float
    makespan: float

    def put_back(self, schedule: Schedule, device: Ints, order: Ints) -> tuple[Ints, Ints]:
        """Devices of all vertices, and a sequence of them, with those of the window on other devices, in an order.

        The schedule may be a later one: then the vertices take the places that they have there.
        """
        devices, sequence = schedule.device.copy(), schedule.sequence.copy()
        devices[self.vertices] = self.devices[device]
        inside = np.zeros(len(sequence), dtype=np.bool_)
        inside[self.vertices] = True
        sequence[inside[sequence]] = self.vertices[order]
        return devices, sequence


@dataclass(frozen=True)
class Cutter:
    """Cuts windows out of schedules, in which units may go to some ``choices`` of devices."""

    instance: Instance
    choices: int
    rng: np.random.Generator

    @cached_property
    def _members(self) -> Ints:
        """Number of vertices of each unit."""
        return np.bincount(self.instance.unit)

    def cut(self, schedule: Schedule, first: int, last: int, free: int) -> Window | None:
        """The vertices from one place in the sequence to before another, so many critical units of them free to move.

        Of groups only those move that are in the window as a whole. None if the makespan surely stays as it is.
        """
        vertices, worth = schedule.sequence[first:last], schedule.makespan * (1 - WORTH)
        start, behind, around = _ends(self.instance, schedule, first, last)
        time = self.instance.complexity[vertices][:, None] / self.instance.speed
        moving = self._moving(schedule, vertices, free)
        choice = self._choice(schedule, vertices, moving, start + time + behind < worth)
        if around >= worth or not all(map(len, choice)):
            return None
        devices = np.unique(np.concatenate(choice))
        try:
            part = _part(self.instance, vertices, devices, choice, moving)
        except InputError:  # no two of the devices that are left to the ends of some edge are linked
            return None
        several = np.zeros(len(devices), dtype=np.bool_)
        ends = HeadsTails(part, start[:, devices], time[:, devices], behind[:, devices], several)
        return Window(vertices, devices, ends, around, schedule.makespan)

    def _moving(self, schedule: Schedule, vertices: Ints, free: int) -> Ints:
        """The most critical units, so many at most, that are among some vertices with all their members."""
        units, first, inside = np.unique(self.instance.unit[vertices], return_index=True, return_counts=True)
        whole = inside == self._members[units]
        length = (schedule.execution.finish + schedule.behind)[vertices[first]]
        order = np.lexsort((self.rng.random(len(units)), -length))
        return units[order[whole[order]][:free]]

    def _choice(self, schedule: Schedule, vertices: Ints, moving: Ints, possible: NDArray[np.bool_]) -> list[Ints]:
        """Devices that each vertex may go to, as far as they are ``possible``, shape (w, k)."""
        unit = self.instance.unit[vertices]
        choice = [schedule.device[v : v + 1] for v in vertices.tolist()]
        for number in moving.tolist():
            members = np.flatnonzero(unit == number)
            devices = self._devices(schedule, number, vertices[members], np.all(possible[members], axis=0))
            for at in members.tolist():
                choice[at] = devices
        return [devices[row[devices]] for devices, row in zip(choice, possible, strict=True)]

    def _devices(self, schedule: Schedule, unit: int, members: Ints, possible: NDArray[np.bool_]) -> Ints:
        """The device of a unit, some of its neighbours' and others by chance, among those that are possible."""
        graph, number = self.instance.graph, int(self.instance.unit_choice[unit])
        every = np.arange(self.instance.devices) if number < 0 else self.instance.unit_choices[number]
        every = every[possible[every]]
        neighbours = [of(v) for v in members.tolist() for of in (graph.predecessors, graph.successors)]
        near = np.intersect1d(schedule.device[np.concatenate(neighbours)], every)
        near = self.rng.permutation(near)[: self.choices // 2]
        listed = [schedule.device[members[:1]], near, self.rng.permutation(every)]
        return np.array(list(dict.fromkeys(np.concatenate(listed).tolist()))[: self.choices])


def _ends(instance: Instance, schedule: Schedule, first: int, last: int) -> tuple[Floats, Floats, float]:
    """Heads and tails of the vertices of a window on each device, shape (w, k), and the path around.

    The path around is the longest that leads through none of them.
    """
    graph, device = instance.graph, schedule.device
    before, inside, after = np.split(schedule.sequence, [first, last])
    part = np.zeros(instance.nodes, dtype=np.int64)
    place = part.copy()
    part[inside], part[after], place[inside] = 1, 2, np.arange(len(inside))
    finish = schedule.execution.finish
    rest = finish - schedule.execution.start + schedule.behind
    free, left = (_latest(instance, device, *of) for of in ((before, finish), (after, rest)))
    start, behind = (np.tile(ends, (len(inside), 1)) for ends in (free, left))
    into, out, past = (
        np.flatnonzero((part[graph.tail] == a) & (part[graph.head] == b)) for a, b in ((0, 1), (1, 2), (0, 2))
    )
    tail, head = graph.tail[into], graph.head[out]
    moved = _transfer(instance.size[into], instance.bandwidth[device[tail]])
    np.maximum.at(start, place[graph.head[into]], finish[tail][:, None] + moved)
    moved = _transfer(instance.size[out], instance.bandwidth[:, device[head]].T)
    np.maximum.at(behind, place[graph.tail[out]], rest[head][:, None] + moved)
    tail, head = graph.tail[past], graph.head[past]
    moved = _transfer(instance.size[past], instance.bandwidth[device[tail], device[head]][:, None])[:, 0]
    around = (finish[tail] + moved + rest[head]).max(initial=(free + left).max())
    return start, behind, float(around)


def _latest(instance: Instance, device: Ints, vertices: Ints, time: Floats) -> Floats:
    """The greatest time of some vertices on each device, shape (k,); nothing without any."""
    latest = np.zeros(instance.devices)
    np.maximum.at(latest, device[vertices], time[vertices])
    return latest


def _transfer(size: Floats, bandwidth: Floats) -> Floats:
    """Times of tensors at bandwidths, a row per tensor; infinite without a link."""
    with np.errstate(divide="ignore"):
        return np.divide(size[:, None], bandwidth, out=np.zeros(bandwidth.shape), where=size[:, None] > 0)


def _part(instance: Instance, vertices: Ints, devices: Ints, choice: list[Ints], moving: Ints) -> Instance:
    """Some vertices on some devices, each with those that it may go to; units that move stay together."""
    place = np.full(instance.nodes, -1)
    place[vertices] = np.arange(len(vertices))
    tail, head = place[instance.graph.tail], place[instance.graph.head]
    edges = np.flatnonzero((tail >= 0) & (head >= 0))
    sets = {tuple(np.searchsorted(devices, each).tolist()): None for each in choice}
    numbers = {each: number for number, each in enumerate(sets)}
    unit = instance.unit[vertices]
    return Instance(
        name=instance.name,
        graph=Graph(len(vertices), tail[edges], head[edges]),
        node_names=("",) * len(vertices),
        complexity=instance.complexity[vertices],
        size=instance.size[edges],
        colocation=np.where(np.isin(unit, moving), unit, -1),
        choices=tuple(np.array(each, dtype=np.int64) for each in sets),
        choice=np.array([numbers[tuple(np.searchsorted(devices, each).tolist())] for each in choice]),
        device_names=("",) * len(devices),
        speed=instance.speed[devices],
        memory=np.full(len(devices), np.inf),
        bandwidth=instance.bandwidth[np.ix_(devices, devices)],
    )
