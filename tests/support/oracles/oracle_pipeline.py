"""``pipeline`` by its definition, in exact fractions: the cost of a solution, and the optimum of small instances.

Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference", Section 2.2. Shares no code with the
verifier or the solvers.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from fuzz import numbers

from shardmark.instances import InputError
from shardmark.instances.pipeline import FORMAT, Instance, parse


class Oracle:
    """An instance as plain sets and fractions."""

    def __init__(self, instance: Instance) -> None:
        self.nodes, self.stages = range(instance.nodes), instance.stages
        self.edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
        self.before = [{u for u, head in self.edges if head == v} for v in self.nodes]
        self.after = [{w for tail, w in self.edges if tail == v} for v in self.nodes]
        columns = (instance.work, instance.output_size, instance.param_size)
        self.work, self.size, self.params = ([Fraction(x) for x in column.tolist()] for column in columns)
        self.bandwidth = Fraction(instance.bandwidth)
        self.memory = None if instance.memory is None else Fraction(instance.memory)

    def stage_cost(self, stage: Iterable[int], peak: Callable[[frozenset[int]], Fraction]) -> Fraction:
        """Equation (3): work, tensors that cross, each once per stage, and the overflow of the memory."""
        nodes = frozenset(stage)
        read = {u for v in nodes for u in self.before[v]} - nodes
        sent = {v for v in nodes if self.after[v] - nodes}
        moved = sum((self.size[v] for v in read | sent), Fraction())
        if self.memory is not None and nodes:
            moved += max(Fraction(), sum(self.params[v] for v in nodes) + peak(nodes) - self.memory)
        return sum((self.work[v] for v in nodes), Fraction()) + moved / self.bandwidth

    def held(self, stage: frozenset[int], done: frozenset[int], v: int) -> Fraction:
        """Return the memory in use while ``v`` executes after the nodes ``done`` of its stage.

        Its own output, inputs of the stage that are still to be read, and outputs that are still to be read or leave.
        """
        to_run = stage - done
        waiting = {u for u in self.nodes if u not in to_run and self.after[u] & to_run}
        leaving = {u for u in done if self.after[u] - stage}
        return sum((self.size[u] for u in {v} | waiting | leaving), Fraction())

    def peak_of(self, order: Sequence[int]) -> Fraction:
        """Return the peak memory of tensors of a stage whose nodes run in this order."""
        stage = frozenset(order)
        return max(self.held(stage, frozenset(order[:at]), v) for at, v in enumerate(order))

    def least_peak(self, stage: frozenset[int]) -> Fraction:
        """Return the least such peak over all orders."""

        @cache
        def rest(done: frozenset[int]) -> Fraction:
            ready = [v for v in stage - done if not self.before[v] & (stage - done)]
            return min((max(self.held(stage, done, v), rest(done | {v})) for v in ready), default=Fraction())

        return rest(frozenset())

    def usual_order(self, stage: frozenset[int]) -> list[int]:
        """Return the default order of a stage: always the first of the nodes that are ready."""
        order: list[int] = []
        while left := stage - set(order):
            order.append(min(v for v in left if not self.before[v] & left))
        return order

    def acyclic(self, stage: Sequence[int]) -> bool:
        """Return True if the quotient graph of a partition has no cycle."""
        left = set(stage)
        while left:
            last = {b for b in left if not any(stage[u] == b != stage[v] in left for u, v in self.edges)}
            if not last:
                return False
            left -= last
        return True


def judge(instance: Instance, solution: Any) -> tuple[bool, Fraction | None]:
    """Return whether a solution with valid numbers is feasible, and its cost; None if its order is invalid."""
    oracle = Oracle(instance)
    stage, order = (solution["block"], solution.get("order")) if isinstance(solution, dict) else (solution, None)
    if order is not None:
        place = {v: at for at, v in enumerate(order)}
        if len(place) < instance.nodes or any(stage[u] == stage[v] and place[u] > place[v] for u, v in oracle.edges):
            return False, None

    def peak(nodes: frozenset[int]) -> Fraction:
        return oracle.peak_of(oracle.usual_order(nodes) if order is None else [v for v in order if v in nodes])

    parts = [[v for v in oracle.nodes if stage[v] == b] for b in set(stage)]
    return oracle.acyclic(stage), max((oracle.stage_cost(part, peak) for part in parts), default=Fraction())


def optimum(instance: Instance) -> Fraction:
    """Return the least cost of any acyclic partition into at most k stages, each in its best order.

    The stages of such a partition have an order in which edges lead to later ones, so every prefix of them is closed
    under predecessors: all chains of such sets are tried.
    """
    oracle = Oracle(instance)
    whole = frozenset(oracle.nodes)

    @cache
    def cost(stage: frozenset[int]) -> Fraction:
        return oracle.stage_cost(stage, oracle.least_peak)

    @cache
    def best(done: frozenset[int], stages: int) -> Fraction:
        if stages == 1 or done == whole:
            return cost(whole - done)
        return min(max(cost(stage), best(done | stage, stages - 1)) for stage in _openings(oracle, whole - done))

    return best(frozenset(), max(1, min(instance.stages, instance.nodes)))


def _openings(oracle: Oracle, left: frozenset[int]) -> Iterator[frozenset[int]]:
    """Yield all nonempty sets of nodes to which nothing else of ``left`` leads."""
    for count in range(1, len(left) + 1):
        for some in itertools.combinations(sorted(left), count):
            if not any(oracle.before[v] & left - set(some) for v in some):
                yield frozenset(some)


def draw(rng: random.Random, most_nodes: int = 6) -> Instance:
    """Return a small instance with numbers of one extreme kind or of several, and often a memory that just suffices."""
    while True:
        with suppress(InputError):  # numbers whose sums are beyond float64
            return _fitted(rng, parse(document(rng, rng.randint(0, most_nodes)), "drawn"))


def document(rng: random.Random, n: int, densities: Sequence[float] = (0.2, 0.5, 0.8)) -> dict[str, Any]:
    """Return the file of a graph of ``n`` nodes without a memory, whose numbers may be beyond float64 together."""
    number, density = numbers(rng), rng.choice(densities)
    rank = rng.sample(range(n), n)
    pairs = [[u, v] for u in range(n) for v in range(n) if rank[u] < rank[v] and rng.random() < density]
    bulk = rng.choice([1, 1, 1, 10 ** rng.uniform(2, 7)])  # sizes that dwarf the work
    scales = {"work": 1, "output_size": bulk, "param_size": bulk}
    return {
        "format": FORMAT,
        "stages": rng.choice([1, 2, 2, 3, 3, 4, n + 1, 2**31 - 1]),
        "bandwidth": rng.choice([1, 1, 1, 3, 0.1, 1e-300, 1e300, 10 ** rng.uniform(-20, 20)]),
        "memory": None,
        "nodes": {name: [number() * scale for _ in range(n)] for name, scale in scales.items()},
        "edges": rng.sample(pairs, len(pairs)),
    }


def _fitted(rng: random.Random, instance: Instance) -> Instance:
    """Return the instance, mostly with a memory: 0, near the need of a stage, or arbitrary."""
    need = float(instance.param_size.sum() + instance.output_size.sum())
    if instance.nodes and rng.random() < 0.5:
        oracle = Oracle(instance)
        stage = frozenset(rng.sample(oracle.nodes, rng.randint(1, instance.nodes)))
        need = float(sum(oracle.params[v] for v in stage) + oracle.least_peak(stage))
    work = float(instance.work.sum()) * instance.bandwidth * rng.choice([1, rng.random(), 1e-4, 1e-6])
    near = [
        need,
        math.nextafter(need, 0),
        math.nextafter(need, math.inf),
        need * rng.random(),
        need - work,
        need + work,
    ]
    memory = rng.choice([None, None, 0.0, *near])
    return instance if memory is None else replace(instance, memory=min(max(memory, 0.0), sys.float_info.max))


def draw_solution(rng: random.Random, instance: Instance) -> Any:
    """Return stage numbers, mostly ascending along the edges, with or without an order of execution."""
    n, highest = instance.nodes, min(instance.stages, instance.nodes + 1) - 1
    stage = [rng.randint(0, highest) for _ in range(n)]
    order = instance.graph.topological_order.tolist()
    if rng.random() < 0.7:
        for v, number in zip(order, sorted(stage), strict=True):
            stage[v] = number
    if rng.random() < 0.5:
        return stage
    return {"block": stage, "order": rng.sample(order, n) if rng.random() < 0.3 else order}
