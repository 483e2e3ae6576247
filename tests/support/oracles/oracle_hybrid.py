"""``hybrid`` by its definition, in exact fractions: the cost of a plan, and the optimum of small instances.

Tarnawski, Narayanan, Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization", Section 3, and the
additions of ``docs/tracks/hybrid.md``. Shares no code with the verifier or the solvers.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from fuzz import numbers

from shardmark.instances import InputError
from shardmark.instances.hybrid import Instance, parse, to_document

Plan = Sequence["Stage"]

#: Devices or microbatches at most; one less has many divisors.
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Configuration:
    """One entry of the file."""

    name: str
    degree: int
    p: Fraction
    w: Fraction
    a: Fraction
    b: Fraction
    m: Fraction
    g: Fraction
    forward: dict[int, Fraction]
    backward: dict[int, Fraction]


@dataclass(frozen=True)
class Stage:
    """A configuration per node, replicas ``d`` and devices of each, ``t``."""

    chosen: tuple[tuple[int, Configuration], ...]
    d: int
    t: int


class Oracle:
    """A file as plain dictionaries and fractions."""

    def __init__(self, instance: Instance) -> None:
        document = to_document(instance)
        self.K, self.N = document["maxDevices"], document["mbsInBatch"]
        self.room = Fraction(float(document["maxMemoryPerDevice"]) * (1 + 1e-9))
        self.B = Fraction(document["bandwidth"])
        self.P = document.get("devicesPerMachine")
        self.inside = Fraction(document.get("bandwidthInside", document["bandwidth"]))
        self.step = document.get("options", {}).get("objective") == "step"
        ids = [node["id"] for node in document["nodes"]]
        self.nodes = range(len(ids))
        self.c = {
            (ids.index(edge["sourceId"]), ids.index(edge["destId"])): Fraction(edge["communicationCost"])
            for edge in document["edges"]
        }
        self.menu = [
            [self._configuration(ids, int(t), entry) for t, entries in node["TMPCs"].items() for entry in entries]
            for node in document["nodes"]
        ]

    def _configuration(self, ids: list[int], degree: int, entry: dict[str, Any]) -> Configuration:
        keys = ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB", "memoryShared", "gatherSize")
        sync = [
            {ids.index(int(end)): Fraction(size) for end, size in entry[key].items()}
            for key in ("syncTimeFw", "syncTimeBw")
        ]
        return Configuration(entry["id"], degree, *(Fraction(entry.get(key, 0)) for key in keys), *sync)

    def replica_time(self, stage: Stage) -> Fraction:
        """L: seconds of a microbatch on one replica."""
        inside = {v for v, _ in stage.chosen}
        time = Fraction()
        for v, chosen in stage.chosen:
            time += chosen.p + Fraction(stage.d - 1, stage.d) * chosen.g / self.speed(stage)
            for (u, w), c in self.c.items():
                if w == v and u not in inside:
                    time += 2 * (c + chosen.forward[u]) / self.B
                if u == v and w not in inside:
                    time += 2 * (c + chosen.backward[w]) / self.B
        return time

    def sync_time(self, stage: Stage) -> Fraction:
        """G: seconds of the synchronisation of gradients after a batch."""
        total = sum((chosen.w for _, chosen in stage.chosen), Fraction())
        return 4 * total * (stage.d - 1) / (stage.d * self.speed(stage))

    def speed(self, stage: Stage) -> Fraction:
        """Bytes per second between replicas."""
        if self.P is None:
            return self.B
        return self.inside if stage.d * stage.t <= self.P else min(max(self.P // stage.t, 1) * self.B, self.inside)

    def fits(self, stage: Stage, later: int) -> bool:
        """Whether a stage fits its devices, with so many replicas in the stages after it."""
        y = math.ceil(Fraction(stage.d + later, stage.d))
        return sum(x.a * y + x.b + x.m / stage.d for _, x in stage.chosen) <= self.room

    def cost(self, plan: Plan) -> Fraction:
        """The objective of a plan."""
        times = [(self.replica_time(stage), self.sync_time(stage), stage.d) for stage in plan]
        if not self.step:
            return max(time / d + sync / self.N for time, sync, d in times)
        repeated = max((Fraction(self.N, d) - 1) * time for time, _, d in times)
        return sum(time for time, _, _ in times) + repeated + max(sync for _, sync, _ in times)

    def feasible(self, plan: Plan) -> bool:
        """Whether a plan keeps all rules."""
        place = {v: i for i, stage in enumerate(plan) for v, _ in stage.chosen}
        return (
            all(stage.chosen for stage in plan)
            and all(place[u] <= place[w] for u, w in self.c)
            and all(self.N % stage.d == 0 and (self.P is None or stage.t <= self.P) for stage in plan)
            and sum(stage.d * stage.t for stage in plan) <= self.K
            and sum(stage.d for stage in plan) <= self.N
            and all(self.fits(stage, sum(s.d for s in plan[i + 1 :])) for i, stage in enumerate(plan))
        )

    def plan_of(self, solution: Any) -> Plan | None:
        """The plan of a solution; None if a node has no such configuration."""
        stages = []
        for i, (d, t) in enumerate(zip(solution["data_parallel"], solution["tensor_parallel"], strict=True)):
            chosen = []
            for v in self.nodes:
                if solution["stage"][v] == i:
                    named = [x for x in self.menu[v] if (x.degree, x.name) == (t, solution["configuration"][v])]
                    if not named:
                        return None
                    chosen.append((v, named[0]))
            stages.append(Stage(tuple(chosen), d, t))
        return stages

    def plans(self) -> Iterator[Plan]:
        """Yield all feasible plans, built from the last stage to the first."""
        after = [{w for u, w in self.c if u == v} for v in self.nodes]

        def extend(left: frozenset[int], plan: tuple[Stage, ...], devices: int, later: int) -> Iterator[Plan]:
            if not left:
                yield plan
            for members in _closings(left, after):
                for stage in self.stages_on(members):
                    if devices + stage.d * stage.t <= self.K and later + stage.d <= self.N and self.fits(stage, later):
                        used = devices + stage.d * stage.t
                        yield from extend(left - set(members), (stage, *plan), used, later + stage.d)

        yield from extend(frozenset(self.nodes), (), 0, 0)

    @cache  # noqa: B019
    def stages_on(self, members: tuple[int, ...]) -> list[Stage]:
        """All stages that hold some nodes, with one microbatch in flight if that fits."""
        found = []
        for t in {x.degree for v in members for x in self.menu[v]}:
            if t > self.K or (self.P is not None and t > self.P):
                continue
            menus = [[x for x in self.menu[v] if x.degree == t] for v in members]
            for choice in itertools.product(*menus):
                for d in range(1, min(self.N, self.K // t) + 1):
                    stage = Stage(tuple(zip(members, choice, strict=True)), d, t)
                    if self.N % d == 0 and self.fits(stage, 0):
                        found.append(stage)
        return found


def _closings(left: frozenset[int], after: list[set[int]]) -> Iterator[tuple[int, ...]]:
    """Yield all nonempty sets of nodes that lead to nothing else of ``left``."""
    for count in range(1, len(left) + 1):
        for some in itertools.combinations(sorted(left), count):
            if not any(after[v] & left - set(some) for v in some):
                yield some


def judge(instance: Instance, solution: Any) -> tuple[bool, Fraction | None]:
    """Return whether a well-formed solution is feasible, and its cost; None if a node has no such configuration."""
    oracle = Oracle(instance)
    plan = oracle.plan_of(solution)
    return (False, None) if plan is None else (oracle.feasible(plan), oracle.cost(plan))


def optimum(instance: Instance) -> Fraction | None:
    """Return the least cost of any plan; None if there is none."""
    oracle = Oracle(instance)
    return min((oracle.cost(plan) for plan in oracle.plans()), default=None)


def false_reason(instance: Instance, best: Fraction | None, reason: str) -> bool:
    """Return True if a solver declines because nothing fits, though something does."""
    return best is not None and reason == "no stages fit the devices and their memory"


def draw(rng: random.Random, most_nodes: int = 4) -> Instance:
    """Return a small instance with numbers of one extreme kind or of several, and often a memory that just suffices."""
    while True:
        with suppress(InputError):  # numbers whose sums are beyond float64, or a node that fits nowhere
            instance = parse(document(rng, rng.randint(1, most_nodes)), "drawn")
            return _fitted(rng, instance)


def document(rng: random.Random, n: int) -> dict[str, Any]:
    """Return a file of ``n`` nodes with a memory that always suffices."""
    number = numbers(rng)
    rank, density = rng.sample(range(n), n), rng.choice([0.2, 0.5, 0.9])
    ids = rng.sample(range(-9, 99), n)
    edges = [(u, v) for u in range(n) for v in range(n) if rank[u] < rank[v] and rng.random() < density]
    degrees = rng.sample([1, 2, 3, 4, 8], rng.randint(1, 2))
    names, ours = rng.choice([["vanilla"], ["vanilla", "recomputed"]]), rng.random() < 0.4
    bulk = rng.choice([0, 1, 1, 10 ** rng.uniform(-9, 9)])  # sizes against times

    def entry(name: str, v: int) -> dict[str, Any]:
        return {
            "id": name,
            "timePerSample": number(),
            **{key: number() * bulk for key in ("parameterSize", "memoryUsageA", "memoryUsageB")},
            **({key: number() * bulk for key in ("memoryShared", "gatherSize")} if ours else {}),
            "syncTimeFw": {str(ids[u]): number() * bulk for u, w in edges if w == v},
            "syncTimeBw": {str(ids[w]): number() * bulk for u, w in edges if u == v},
        }

    def menu(v: int) -> dict[str, Any]:
        mine = degrees if rng.random() < 0.8 else degrees[:1]
        return {str(t): [entry(name, v) for name in names] for t in mine}

    devices = rng.choice([1, 2, 3, 4, 5, 6, 8, LARGEST])
    machine = {"devicesPerMachine": rng.choice([1, 2, 4]), "bandwidthInside": rng.choice([1, 7, 0.5, 1e9])}
    return {
        "maxDevices": devices,
        "maxMemoryPerDevice": 1e308,
        "bandwidth": rng.choice([1, 1, 3, 0.1, 10 ** rng.uniform(-20, 20), 10 ** rng.uniform(-322, 308)]),
        "mbsInBatch": rng.choice([1, 2, 3, 4, 4, 6, 6, 6 if devices == LARGEST else LARGEST - 1]),
        **(machine if rng.random() < 0.3 else {}),
        "options": {"objective": rng.choice(["throughput", "step"])},
        "nodes": [{"id": ids[v], "TMPCs": menu(v)} for v in range(n)],
        "edges": [{"sourceId": ids[u], "destId": ids[v], "communicationCost": number() * bulk} for u, v in edges],
    }


def _fitted(rng: random.Random, instance: Instance) -> Instance:
    """Return the instance, mostly with a memory near the need of some stage."""
    oracle = Oracle(instance)
    choices = [stage for v in oracle.nodes for stage in oracle.stages_on((v,))]
    choices += oracle.stages_on(tuple(oracle.nodes))
    stage, y = rng.choice(choices), rng.randint(1, 4)
    need = float(sum(x.a * y + x.b + x.m / stage.d for _, x in stage.chosen))
    near = [need, need * (1 - 1e-9), math.nextafter(need, 0), need * (1 + 1e-6), need * (1 + rng.random())]
    memory = rng.choice([1e308, *near])
    return parse(json.loads(json.dumps({**to_document(instance), "maxMemoryPerDevice": memory})), "drawn")


def draw_solution(rng: random.Random, instance: Instance) -> Any:
    """Return a plan, mostly with ascending stages and configurations that exist."""
    oracle, n = Oracle(instance), instance.nodes
    count = rng.randint(1, n)
    numbers = [*range(count), *(rng.randrange(count) for _ in range(n - count))]
    rng.shuffle(numbers)
    stage = list(numbers)
    if rng.random() < 0.8:
        for v, number in zip(instance.graph.topological_order.tolist(), sorted(numbers), strict=True):
            stage[v] = number
    tensor = [
        rng.choice([x.degree for v in oracle.nodes if stage[v] == i for x in oracle.menu[v]]) for i in range(count)
    ]
    data = [rng.choice([1, 1, 1, 2, 3, 6]) for _ in range(count)]
    names = [[x.name for x in oracle.menu[v] if x.degree == tensor[stage[v]]] or ["vanilla"] for v in oracle.nodes]
    return {
        "stage": stage,
        "configuration": [rng.choice(some) for some in names],
        "data_parallel": data,
        "tensor_parallel": tensor,
    }
