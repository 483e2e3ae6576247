"""Heads and tails of vertices, computed from an instance of ``scheduling`` in exact integers, rounded down."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify.certificates import Clock, Unproven, integer, integers
from shardmark.instances.files.columns import Floats, Ints, describe
from shardmark.instances.graph import Graph
from shardmark.instances.scheduling import Instance

MOST_SCALE = 1200
#: Greater times count as this; no sum of `MOST_ANCESTORS` and two more wraps.
LARGEST = 1 << 57
MOST_ANCESTORS = 24
#: The ancestors of a vertex with more inputs are not considered together with it.
MOST_INPUTS = 64
MOST_REACH = 64
#: Most cases times devices, squared with ``elsewhere``: sequences take up to 192 bytes for each, several times.
MOST_CASES = 1 << 14
#: Most cases times squared devices: lags take 8 bytes for each, for all ancestors.
MOST_LAGS = 1 << 20
#: Times to send a tensor are kept for this many sizes; 128 KiB each for the most devices.
MOST_SIZES = 256
#: Most vertices times squared devices, and devices, for heads.
MOST_CELLS, MOST_DEVICES = 1 << 26, 128


def scale_of(proof: Mapping[str, Any]) -> int:
    """Return the scale of a proof: heads and tails are in units of 2^-scale."""
    return integer(proof, "scale", -MOST_SCALE, MOST_SCALE)


def heads_and_tails(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> tuple[Ints, Ints]:
    """Return the heads and the tails of all vertices on all devices, shape (n, k) each."""
    if instance.nodes * instance.devices**2 > MOST_CELLS or instance.devices > MOST_DEVICES:
        raise Unproven(
            f"proof.name: expected fewer vertices and devices, found {instance.nodes} and {instance.devices}"
        )
    forwards = _Heads(instance, instance.graph, instance.bandwidth, proof, clock)
    backwards = _Heads(instance, instance.graph.reversed, instance.bandwidth.T, proof, clock)
    return forwards.start, backwards.start


def _rounded(quotient: Floats, scale: int) -> Ints:
    """Return quotients that were rounded to float64 as units of 2^-scale, below their exact values; at most LARGEST."""
    below = np.nextafter(quotient, 0.0)
    with np.errstate(over="ignore"):
        units = np.floor(np.ldexp(below, scale))
    return np.minimum(units, float(LARGEST)).astype(np.int64)


def allowed(instance: Instance) -> NDArray[np.bool_]:
    """Return which devices the units allow their vertices to use, shape (n, k)."""
    table = np.ones((len(instance.unit_choices) + 1, instance.devices), dtype=bool)
    for at, choice in enumerate(instance.unit_choices):
        table[at] = np.isin(np.arange(instance.devices), choice)
    return np.asarray(table[instance.unit_choice][instance.unit])


def running_times(instance: Instance, scale: int) -> Ints:
    """Return the running times of all vertices on all devices, shape (n, k); LARGEST where they may not run."""
    time = _rounded(instance.complexity[:, None] / instance.speed, scale)
    return np.where(allowed(instance), time, LARGEST)


def _cases(proof: Mapping[str, Any], nodes: int) -> dict[int, list[list[int]]]:
    """Return the lists of vertices whose devices are distinguished, by their first ones."""
    lists, found = proof.get("cases", []), dict[int, list[list[int]]]()
    if not isinstance(lists, list):
        raise Unproven(f"proof.cases: expected a list of lists, found {describe(lists)}")
    for vertices in lists:
        first = (integers({"cases": vertices}, "cases", nodes) or [-1])[0]
        found.setdefault(first, []).append(vertices)
    return found


class _Heads:
    """Heads of the vertices of a graph on all devices: ``start``, shape (n, k).

    For an ancestor u of v, with the devices of v along the last axis:

    ``lag``       time from the end of u to the start of v, by the device of u, another one: shape (k, k)
    ``apart``     time from the start of u to that of v if u is on another device
    ``together``  the same if both are on one device
    ``rest``      time from the end of u to the start of v if both are on one device
    ``late``      start of v if u is on another device; with ``elsewhere``, by any device, and so is ``rest``

    ``sent`` are the times to send a tensor of a size, shape (k, k); ``sent_away`` those to any other device, (k,).

    In cases by the devices of some vertices, all of these, starts and times have one more axis, the first.
    """

    def __init__(self, instance: Instance, graph: Graph, bandwidth: Floats, proof: Mapping[str, Any], clock: Clock):
        self.scale = scale_of(proof)
        self.ancestors = integer(proof, "ancestors", 0, MOST_ANCESTORS)
        self.reach = integer(proof, "reach", 0, MOST_REACH)
        self.elsewhere = integer(proof, "elsewhere", 0, 1) == 1
        cases = _cases(proof, instance.nodes)
        self.unit, self.graph, self.clock = instance.unit, graph, clock
        self.own = np.eye(instance.devices, dtype=bool)
        fastest_out = np.where(self.own, 0.0, bandwidth).max(axis=1)
        self.sent = lru_cache(MOST_SIZES)(lambda size: self._times_to_send(size, bandwidth))
        self.sent_away = lru_cache(MOST_SIZES)(lambda size: self._times_to_send(size, fastest_out))
        self.start = np.where(allowed(instance), 0, LARGEST)
        self.time = running_times(instance, self.scale)
        self.inputs: list[list[tuple[int, float]]] = [[] for _ in range(graph.nodes)]
        for u, v, size in zip(graph.tail.tolist(), graph.head.tolist(), instance.size.tolist(), strict=True):
            self.inputs[v].append((u, size))
        order = self._order()
        self.position = np.empty(graph.nodes, dtype=np.int64)
        self.position[order] = np.arange(graph.nodes)
        self.device: dict[int, Ints] = {}  # of some units, in every case
        self.case: dict[int, tuple[Ints, ...]] = {}  # starts and times in the cases, of vertices that depend on them
        for v in order.tolist():
            self.start[v] = self._raised(v)
            for vertices in cases.get(v, ()):
                self._consider_cases(vertices)

    def _order(self) -> Ints:
        """Return a topological order by earliest start on the fastest devices."""
        ends, place = np.zeros(self.graph.nodes, dtype=np.int64), np.empty(self.graph.nodes, dtype=np.int64)
        time = self.time.min(axis=1)
        place[self.graph.topological_order] = np.arange(self.graph.nodes)
        for v in self.graph.topological_order.tolist():
            before = max((int(ends[u]) for u, _ in self.inputs[v]), default=0)
            ends[v] = min(before + int(time[v]), LARGEST)
        return np.lexsort((place, ends))

    def _consider_cases(self, vertices: list[int]) -> None:
        """Raise the heads of the next vertices after the first to the least of those by the devices of all of these."""
        self.clock.tick()
        first, *others = vertices
        self._distinguish(first, self.start[first])
        for v in self._followers(first):
            start = self._raised(v)
            if v in others and int(self.unit[v]) not in self.device:
                self._distinguish(v, start)
            else:
                self._fix(v, start)
        for v, (start, _) in self.case.items():
            self.start[v] = np.maximum(self.start[v], start.min(axis=0))
        self.device, self.case = {}, {}

    def _distinguish(self, v: int, start: Ints) -> None:
        """Divide each case by the device of a vertex."""
        k, before = len(self.own), len(start) if start.ndim > 1 else 1
        if before * k**2 * (k if self.elsewhere else 1) > MOST_CASES or before * k**3 > MOST_LAGS:
            raise Unproven(f"proof.cases: expected fewer vertices at a time, found {v} after {before} cases")
        self.device = {unit: np.repeat(device, k) for unit, device in self.device.items()}
        self.case = {
            u: tuple(np.repeat(each, k, axis=0) if each.ndim > 1 else each for each in ends)
            for u, ends in self.case.items()
        }
        self.device[int(self.unit[v])] = np.tile(np.arange(k), before)
        self._fix(v, np.repeat(np.atleast_2d(start), k, axis=0))

    def _fix(self, v: int, start: Ints) -> None:
        """Note the starts of a vertex; in each case, it runs only on a device that its unit has there."""
        time = self.time[v]
        if int(self.unit[v]) in self.device:
            here = self.own[self.device[int(self.unit[v])]]
            start, time = np.where(here, start, LARGEST), np.where(here, time, LARGEST)
        self.case[v] = start, time

    def _followers(self, x: int) -> list[int]:
        """Return the first vertices that come after x by paths, in order."""
        found: list[int] = []
        waiting = {x}
        while len(found) < self.reach and waiting:
            self.clock.tick()
            v = min(waiting, key=lambda each: int(self.position[each]))
            waiting.remove(v)
            if v != x:
                found.append(v)
            readers = self.graph.successors(v).tolist()
            waiting.update(readers if len(readers) <= MOST_INPUTS else ())
        return found

    def _of(self, v: int) -> tuple[Ints, ...]:
        """Return the starts and times of a vertex."""
        return self.case.get(v, (self.start[v], self.time[v]))

    def _times_to_send(self, size: float, bandwidth: Floats) -> Ints:
        if size == 0:
            return np.zeros(bandwidth.shape, dtype=np.int64)
        with np.errstate(divide="ignore"):
            return _rounded(size / bandwidth, self.scale)

    def _late(self, u: int, lag: Ints) -> Ints:
        """Return the start of v, by its device, if u is on another one."""
        start, time = self._of(u)
        ends = np.minimum(start + time, LARGEST)[..., None]
        return np.minimum(np.where(self.own, LARGEST, ends + lag).min(axis=-2), LARGEST)

    def _raised(self, v: int) -> Ints:
        """Return the heads of a vertex, from each input alone, then from ancestors that must run in sequence."""
        self.clock.tick()
        start = self.start[v]
        for u, size in self.inputs[v]:
            self.clock.tick()
            here = np.minimum(sum(self._of(u)), LARGEST)
            if self.unit[u] != self.unit[v]:
                here = np.minimum(here, self._late(u, self.sent(size)))
            start = np.maximum(start, here)
        rows = self._rows(v, start)
        return np.maximum(start, self._in_sequence(rows, start)) if rows else start

    def _rows(self, v: int, start: Ints) -> dict[int, dict[str, Ints]]:
        """Return the ancestors, nearest first, that some device of v must share, with what is known of them."""
        rows: dict[int, dict[str, Ints]] = {}
        readers: dict[int, list[tuple[int, float]]] = {}
        for u, size in self.inputs[v]:
            readers.setdefault(u, []).append((v, size))
        waiting = set(readers)
        while waiting and len(rows) < self.ancestors:
            u = max(waiting, key=lambda each: int(self.position[each]))
            waiting.remove(u)
            row = self._row(u, v, readers[u], rows)
            if (row["late"] > (start[..., None, :] if self.elsewhere else start)).any():
                rows[u] = row
                for w, size in self.inputs[u] if len(self.inputs[u]) <= MOST_INPUTS else ():
                    readers.setdefault(w, []).append((u, size))
                    waiting.add(w)
        return rows

    def _row(
        self, u: int, v: int, readers: list[tuple[int, float]], rows: Mapping[int, Mapping[str, Ints]]
    ) -> dict[str, Ints]:
        """Return what the readers of the tensors of u, which have rows, or are v, tell of it."""
        k = len(self.own)
        lag, rest = np.zeros((k, k), dtype=np.int64), np.zeros(k, dtype=np.int64)
        for x, size in readers:
            sent = self.sent(size)
            if x == v:
                lag = np.maximum(lag, sent)
                continue
            row, time = rows[x], self._of(x)[1]
            path = time[..., None] + row["lag"]  # x on the device of u
            stays = row["together"]
            if self.unit[x] != self.unit[u]:
                fixed = self.device.get(int(self.unit[x]))
                away = self.sent_away(size) if fixed is None else sent.T[fixed]
                path = np.minimum(path, sent + row["together"][..., None, :])  # x on the device of v
                path = np.minimum(path, away[..., None] + row["apart"][..., None, :])  # x on a third device
                stays = np.minimum(stays, away + row["apart"])
            lag, rest = np.maximum(lag, path), np.maximum(rest, stays)
        lag, rest = np.minimum(lag, LARGEST), np.minimum(rest, LARGEST)
        if self.unit[u] == self.unit[v]:
            lag = np.full_like(lag, LARGEST)
        begin, time = self._of(u)
        row = {
            "lag": lag,
            "apart": np.minimum(np.where(self.own, LARGEST, time[..., None] + lag).min(axis=-2), LARGEST),
            "together": np.minimum(time + rest, LARGEST),
        }
        if not self.elsewhere:
            return {**row, "rest": rest, "late": self._late(u, lag)}
        found = np.where(self.own, (begin + row["together"])[..., None, :], (begin + time)[..., None] + lag)  # u there
        others = [np.delete(found, e, axis=-2).min(axis=-2, initial=LARGEST) for e in range(k)]
        return {**row, "rest": np.where(self.own, rest[..., None, :], lag), "late": np.stack(others, axis=-2)}

    def _in_sequence(self, rows: Mapping[int, Mapping[str, Ints]], start: Ints) -> Ints:
        """Return the least starts of v: before any time, those that are late apart have run on one device, in sequence.

        That is the device of v or, with an axis more before the last, any one.
        """
        shape = (*start.shape, start.shape[-1]) if self.elsewhere else start.shape
        ends = [[each[..., None] if self.elsewhere else each for each in self._of(u)] for u in rows]
        late, rest, begin, time = (
            np.array([np.broadcast_to(each, shape) for each in column])
            for column in (
                [row["late"] for row in rows.values()],
                [row["rest"] for row in rows.values()],
                [first for first, _ in ends],
                [takes for _, takes in ends],
            )
        )
        by_start = np.argsort(-begin, axis=0, kind="stable")
        late, rest, begin, time = (np.take_along_axis(each, by_start, axis=0) for each in (late, rest, begin, time))
        total, least, latest = np.zeros_like(late), np.full_like(late, LARGEST), np.zeros_like(late)
        for at, first in enumerate(begin):
            forced: NDArray[np.bool_] = late[at] >= late  # before the time, an element of late, along axis 0
            total += np.where(forced, time[at], 0)
            least = np.where(forced, np.minimum(least, rest[at]), least)
            latest = np.where(forced, np.maximum(latest, first + total + least), latest)
        found = np.minimum(late, latest).max(axis=0)
        return np.asarray(found.max(axis=-2) if self.elsewhere else found)
