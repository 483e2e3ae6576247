"""Verdicts for ``hybrid``: the time of stages, or of one batch, and the rules that a plan of stages keeps.

Definitions: "Piper: Multidimensional Planner for DNN Parallelization", Section 3, with the shared memory and the
machines that ``docs/tracks/hybrid.md`` adds. Everything is computed in fractions and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from shardmark.harness.verify import MOST_NAMED, Parts, Stages, Transfer, Verdict, malformed, misplaced
from shardmark.instances.files.columns import Floats, Ints, describe
from shardmark.instances.files.hybrid import LARGEST
from shardmark.instances.files.jsonfile import shortened
from shardmark.instances.hybrid import Instance

KEYS = ("stage", "configuration", "data_parallel", "tensor_parallel")


def verify(instance: Instance, solution: Any) -> Verdict:
    """Judge ``{"stage": [...], "configuration": [...], "data_parallel": [...], "tensor_parallel": [...]}``.

    ``stage`` and ``configuration`` have, for each node in the order of the file, its stage, from 0, and the id of its
    configuration; the other two have the degrees of each stage. A plan that breaks a rule still has a cost.
    """
    plan = read(instance, solution)
    if isinstance(plan, str):
        return malformed(plan)
    violations = tuple(_broken(plan))
    return Verdict(not violations, float(plan.cost), violations)


def parts(instance: Instance, solution: Any) -> Parts | None:
    """Return the stages of a plan, with the time per microbatch that each takes; None if it is malformed."""
    plan = read(instance, solution)
    if isinstance(plan, str) or not plan.counts.all():
        return None
    shares = [plan.need(i) / Fraction(instance.memory) if instance.memory else None for i in range(plan.stages)]
    return Parts(
        plan.stage.tolist(),
        [f"stage {i}: {d}×{t}" for i, (d, t) in enumerate(zip(plan.data, plan.tensor, strict=True))],
        [False] * plan.stages,
        [float(plan.per_microbatch(i)) for i in range(plan.stages)],
        [[{kind: float(time) for kind, time in plan.kinds(i).items()}] for i in range(plan.stages)],
        _transfers(plan),
        [None if share is None else float(share) for share in shares],
    )


def stages(instance: Instance, solution: Any) -> Stages | None:
    """Return degrees, times and memory of the stages of a plan; None if it is malformed."""
    plan = read(instance, solution)
    if isinstance(plan, str) or not plan.counts.all():
        return None
    every = range(plan.stages)
    return Stages(
        plan.data,
        plan.tensor,
        [plan.in_flight(i) for i in every],
        [float(plan.microbatch(i)) for i in every],
        [float(plan.synchronising(i)) for i in every],
        [{kind: float(size) for kind, size in plan.held(i).items()} for i in every],
    )


def latencies(instance: Instance, solution: Any) -> list[float] | None:
    """Return the seconds that one sample spends on its way into each stage and in it; None for a malformed plan.

    Their sum is the sample's latency. A tensor moves at both ends of its edge at the same time, so it takes as long as
    at the slower end, once.
    """
    plan = read(instance, solution)
    if isinstance(plan, str) or not plan.counts.all():
        return None
    return [float(plan.sample(i)) for i in range(plan.stages)]


def read(instance: Instance, solution: Any) -> Plan | str:
    """Return the plan that a solution describes, or why it describes none."""
    if not isinstance(solution, dict) or solution.keys() != set(KEYS):
        found = ", ".join(map(shortened, solution)) if isinstance(solution, dict) else describe(solution)
        return f"solution: expected an object with the keys {', '.join(KEYS)}, found {found or 'no keys'}"
    data, tensor = solution["data_parallel"], solution["tensor_parallel"]
    if not isinstance(data, list) or not 1 <= len(data) <= instance.nodes:
        return f"data_parallel: expected a list of 1 to {instance.nodes}, one per stage, found {describe(data)}"
    wrong = (
        _no_degrees(data, len(data), "data_parallel")
        or _no_degrees(tensor, len(data), "tensor_parallel")
        or misplaced(solution["stage"], [len(data)] * instance.nodes, "a stage", "stage")
    )
    if wrong:
        return wrong
    stage = np.array(solution["stage"], dtype=np.int64)
    chosen = _chosen(instance, stage, tensor, solution["configuration"])
    return chosen if isinstance(chosen, str) else Plan(instance, stage, chosen, data, tensor)


def _no_degrees(values: Any, count: int, place: str) -> str:
    """Say why ``values`` is not a list of ``count`` degrees; "" if it is."""
    if not isinstance(values, list) or len(values) != count:
        return f"{place}: expected a list of {count}, one per stage, found {describe(values)}"
    for i, value in enumerate(values):
        if type(value) is not int or not 1 <= value < LARGEST:
            return f"{place}[{i}]: expected a degree from 1 to {LARGEST - 1}, found {describe(value)}"
    return ""


def _chosen(instance: Instance, stage: Ints, tensor: Sequence[int], names: Any) -> Ints | str:
    """Return the configuration of each node, shape (n,), or why some node has none of that name and degree."""
    if not isinstance(names, list) or len(names) != instance.nodes:
        return f"configuration: expected a list of {instance.nodes}, one per node, found {describe(names)}"
    kinds = {name: kind for kind, name in enumerate(instance.kinds)}
    chosen = np.empty(instance.nodes, dtype=np.int64)
    start, degrees, kind_of = (column.tolist() for column in (instance.start, instance.degree, instance.kind))
    for v, (i, name) in enumerate(zip(stage.tolist(), names, strict=True)):
        menu = [c for c in range(start[v], start[v + 1]) if degrees[c] == tensor[i]]
        kind = kinds.get(name) if isinstance(name, str) else None
        found = [c for c in menu if kind_of[c] == kind]
        if not found:
            known = ", ".join(repr(instance.kinds[kind_of[c]]) for c in menu[:MOST_NAMED])
            expected = f"one of its configurations of degree {tensor[i]}" + (f", {known}" if known else "")
            lack = "" if known else ": it has none"
            return f"configuration[{v}]: expected {expected}, found {describe(name)}{lack}"
        chosen[v] = found[0]
    return chosen


@dataclass(frozen=True, eq=False)
class Plan:
    """Stages with their degrees, and a configuration per node: ``stage`` and ``chosen`` have shape (n,)."""

    instance: Instance
    stage: Ints
    chosen: Ints
    data: list[int]
    tensor: list[int]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.data)

    @cached_property
    def counts(self) -> Ints:
        """Number of nodes of each stage, shape (stages,)."""
        return np.bincount(self.stage, minlength=self.stages)

    @property
    def cost(self) -> Fraction:
        """The objective: seconds per microbatch of the slowest stage, or of one batch."""
        every = range(self.stages)
        if self.instance.objective == "throughput":
            return max(self.per_microbatch(i) for i in every)
        times = [self.microbatch(i) for i in every]
        rounds = (Fraction(self.instance.batch, d) - 1 for d in self.data)
        repeated = max(count * time for count, time in zip(rounds, times, strict=True))
        return sum(times, Fraction()) + repeated + max(self.synchronising(i) for i in every)

    def per_microbatch(self, i: int) -> Fraction:
        """Seconds per microbatch of a stage: its replicas work on different ones and synchronise once per batch."""
        return sum(self.kinds(i).values(), Fraction())

    def kinds(self, i: int) -> dict[str, Fraction]:
        """What `per_microbatch` consists of, by the kinds of `Parts`; gathering shared bytes counts as "sync"."""
        d = self.data[i]
        sync = self._gathering(i) / d + self.synchronising(i) / self.instance.batch
        terms = self._terms
        return {"in": terms.received[i] / d, "work": terms.work[i] / d, "out": terms.sent[i] / d, "sync": sync}

    def microbatch(self, i: int) -> Fraction:
        """Seconds of one microbatch on one replica of a stage."""
        terms = self._terms
        return terms.work[i] + terms.received[i] + terms.sent[i] + self._gathering(i)

    def sample(self, i: int) -> Fraction:
        """Seconds of one sample on its way into a stage and in it."""
        return self._arriving[i] + self._terms.work[i] + self._gathering(i)

    def synchronising(self, i: int) -> Fraction:
        """Seconds in which the replicas of a stage exchange their gradients, once per batch."""
        d = self.data[i]
        return 4 * (d - 1) * self._terms.parameters[i] / (d * self._speed(i))

    def _gathering(self, i: int) -> Fraction:
        d = self.data[i]
        return (d - 1) * self._terms.gathered[i] / (d * self._speed(i))

    def _speed(self, i: int) -> Fraction:
        """Bytes per second between the replicas of a stage."""
        work, t = self.instance, self.tensor[i]
        between = Fraction(work.bandwidth)
        if work.machine is None or work.inside is None:
            return between
        inside = Fraction(work.inside)
        return inside if self.data[i] * t <= work.machine else min(max(work.machine // t, 1) * between, inside)

    def in_flight(self, i: int) -> int:
        """Microbatches in flight on a replica: one per replica of this and later stages, shared by its replicas."""
        return -(-self._from_here[i] // self.data[i])

    @cached_property
    def _from_here(self) -> list[int]:
        """Replicas of each stage and all later ones."""
        return list(accumulate(reversed(self.data)))[::-1]

    def held(self, i: int) -> dict[str, Fraction]:
        """Bytes per device of a stage: "activations" in flight, "fixed" ones, and its share of "shared" ones."""
        terms = self._terms
        return {
            "fixed": terms.fixed[i],
            "shared": terms.shared[i] / self.data[i],
            "activations": terms.stashed[i] * self.in_flight(i),
        }

    def need(self, i: int) -> Fraction:
        """Bytes per device of a stage."""
        return sum(self.held(i).values(), Fraction())

    @cached_property
    def _terms(self) -> Terms:
        work, chosen = self.instance, self.chosen
        received, sent = self._moved()

        def sums(column: Floats) -> list[Fraction]:
            return _sums(self.stage, column[chosen], self.stages)

        return Terms(
            work=sums(work.time),
            parameters=sums(work.parameters),
            stashed=sums(work.stashed),
            fixed=sums(work.fixed),
            shared=sums(work.shared),
            gathered=sums(work.gathered),
            received=received,
            sent=sent,
        )

    def _moved(self) -> tuple[list[Fraction], list[Fraction]]:
        """Seconds per microbatch for tensors that enter and leave each stage: by edge and end, and twice.

        Forward the activation moves, backward its gradient; both ends of an edge count.
        """
        graph, extra = self.instance.graph, self._extra
        return self._times(self.stage[graph.head], extra[0]), self._times(self.stage[graph.tail], extra[1])

    @cached_property
    def _arriving(self) -> list[Fraction]:
        """The same for tensors that enter each stage, by edge, but at the slower end."""
        return self._times(self.stage[self.instance.graph.head], self._extra.max(axis=0))

    def _times(self, end: Ints, extra: Floats) -> list[Fraction]:
        """Seconds per stage for the edges between stages that have an ``end`` in it, with ``extra`` bytes per edge."""
        work = self.instance
        crossing = self.stage[work.graph.tail] != self.stage[work.graph.head]
        both = np.concatenate([work.communicated[crossing], extra[crossing]])
        total = _sums(np.tile(end[crossing], 2), both, self.stages)
        return [2 * bytes_ / Fraction(work.bandwidth) for bytes_ in total]

    @cached_property
    def _extra(self) -> Floats:
        """Bytes that the configurations at the head and at the tail of every edge add to it, shape (2, edges)."""
        work = self.instance
        first, edges = work.incident
        node = np.repeat(np.arange(work.nodes), np.diff(first))
        at = work.sync_start[self.chosen][node] + np.arange(len(edges)) - first[:-1][node]
        found = np.empty((2, work.edges))
        found[(work.graph.head[edges] != node).astype(np.int64), edges] = work.sync[at]
        return found


@dataclass(frozen=True)
class Terms:
    """Sums over the nodes of each stage, see `files.hybrid.Workload`; ``received`` and ``sent`` in seconds."""

    work: list[Fraction]
    parameters: list[Fraction]
    stashed: list[Fraction]
    fixed: list[Fraction]
    shared: list[Fraction]
    gathered: list[Fraction]
    received: list[Fraction]
    sent: list[Fraction]


def _sums(group: Ints, values: Floats, groups: int) -> list[Fraction]:
    """Exact sums of the values of each group."""
    order = np.argsort(group, kind="stable")
    pieces = np.split(values[order], np.cumsum(np.bincount(group, minlength=groups))[:-1])
    return [_exact_sum(piece.tolist()) for piece in pieces]


def _exact_sum(values: Iterable[float]) -> Fraction:
    ratios = [value.as_integer_ratio() for value in values]
    unit = max((denominator for _, denominator in ratios), default=1)  # all are powers of two
    return Fraction(sum(numerator * (unit // denominator) for numerator, denominator in ratios), unit)


def _broken(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each broken rule."""
    work = plan.instance
    for i in np.flatnonzero(plan.counts == 0)[:MOST_NAMED].tolist():
        yield f"stage {i}: expected at least one node, found none"
    tail, head = plan.stage[work.graph.tail], plan.stage[work.graph.head]
    for e in np.flatnonzero(tail > head)[:MOST_NAMED].tolist():
        u, v = int(work.graph.tail[e]), int(work.graph.head[e])
        yield f"edge {u} -> {v}: expected no earlier stage for node {v}, found stage {head[e]} after stage {tail[e]}"
    yield from _broken_degrees(plan)
    for i in range(plan.stages):
        if plan.need(i) > Fraction(work.capacity):
            over = plan.need(i) - Fraction(work.memory)
            yield (
                f"stage {i}: expected at most {_bytes(Fraction(work.memory))} bytes per device, found "
                f"{_bytes(plan.need(i))} with {_count(plan.in_flight(i))} in flight, {_bytes(over)} too many"
            )


def _broken_degrees(plan: Plan) -> Iterator[str]:
    work = plan.instance
    for i, d in enumerate(plan.data):
        if work.batch % d:
            yield f"data_parallel[{i}]: expected a divisor of the batch of {work.batch} microbatches, found {d}"
    for i, t in enumerate(plan.tensor):
        if work.machine is not None and t > work.machine:
            yield f"tensor_parallel[{i}]: expected at most {work.machine}, the devices of a machine, found {t}"
    used = sum(d * t for d, t in zip(plan.data, plan.tensor, strict=True))
    if used > work.devices:
        yield f"solution: expected at most {work.devices} devices, found {used}, {used - work.devices} too many"
    if sum(plan.data) > work.batch:
        found = f"{sum(plan.data)}, {sum(plan.data) - work.batch} too many"
        yield f"data_parallel: expected a sum of at most {work.batch}, the microbatches of a batch, found {found}"


def _count(microbatches: int) -> str:
    return f"{microbatches} microbatch{'' if microbatches == 1 else 'es'}"


def _bytes(size: Fraction) -> str:
    """A size as text; those of plans with too many replicas may exceed float64."""
    if size.denominator == 1 and size < 10**18:
        return str(size)
    rounded = Decimal(f"{Decimal(size.numerator) / size.denominator:.11e}")
    return f"{rounded.normalize():g}"


def _transfers(plan: Plan) -> list[Transfer]:
    """Return the edges between stages, with the time at their receiving end per microbatch."""
    work = plan.instance
    found: dict[tuple[int, int], list[float]] = {}
    ends = zip(plan.stage[work.graph.tail].tolist(), plan.stage[work.graph.head].tolist(), strict=True)
    for pair, size in zip(ends, work.communicated.tolist(), strict=True):
        if pair[0] != pair[1]:
            found.setdefault(pair, []).append(2 * size)
    return [Transfer(*pair, len(sizes), math.fsum(sizes) / work.bandwidth) for pair, sizes in sorted(found.items())]
