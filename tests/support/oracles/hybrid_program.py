"""The least cost of a plan of ``hybrid`` as an integer program for CP-SAT, for instances of whole numbers.

Stages are slots, counted from the end of the pipeline. Shares no code with the solvers.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil, floor, lcm, nextafter
from typing import Any

import numpy as np
from effort import Deferred

from shardmark.instances.hybrid import Instance, parse

cp_model = Deferred("ortools.sat.python.cp_model")  # it imports pandas


def draw(rng: random.Random, nodes: tuple[int, int] = (6, 10)) -> Instance:
    """A graph like a chain with branches, several undominated configurations per node, and scarce memory."""
    n = rng.randint(*nodes)
    edges = sorted({(u, v) for v in range(1, n) for u in (v - 1, rng.randrange(v)) if rng.random() < 0.8})
    degrees = rng.choice([[1], [1, 2], [1, 2, 4]])
    objective = rng.choice(["throughput", "step"])
    extended, machines = rng.random() < 0.4, rng.random() < 0.3
    records = []
    for v in range(n):
        menu: dict[str, list[dict[str, Any]]] = {}
        for t in degrees:
            base, held, w = rng.randint(4, 40), rng.randint(2, 12), rng.randint(0, 9)
            menu[str(t)] = [
                {
                    "id": f"c{i}",
                    "timePerSample": (base + i * rng.randint(1, 9)) // t + 1,
                    "parameterSize": w if rng.random() < 0.8 else rng.randint(0, 9),
                    "memoryUsageA": max(0, held - i * rng.randint(1, 5)) // t,
                    "memoryUsageB": rng.randint(0, 9) // t,
                    "syncTimeFw": {str(u): rng.randint(0, 3) for u, x in edges if x == v},
                    "syncTimeBw": {str(x): rng.randint(0, 3) for u, x in edges if u == v},
                    **({"memoryShared": 12 * rng.randint(0, 2), "gatherSize": rng.randint(0, 6)} if extended else {}),
                }
                for i in range(rng.randint(1, 4))
            ]
        records.append({"id": v, "TMPCs": menu})
    need = [min(c["memoryUsageA"] + c["memoryUsageB"] for m in r["TMPCs"].values() for c in m) for r in records]
    document = {
        "maxDevices": rng.randint(2, 8),
        "mbsInBatch": rng.choice([2, 4, 6, 12]),
        "maxMemoryPerDevice": max(need) + 24 + int(sum(need) * rng.uniform(0, 1.5)),
        "bandwidth": rng.choice([1, 2, 4]),
        "options": {"objective": objective},
        "nodes": records,
        "edges": [{"sourceId": u, "destId": v, "communicationCost": rng.randint(0, 12)} for u, v in edges],
        **({"devicesPerMachine": 4, "bandwidthInside": 8} if machines else {}),
    }
    return parse(document, "drawn")


class Program:
    """The program; times are in units of 1 / ``scale``. ValueError if numbers are not whole, or are too large.

    ``solution``  the best plan found, as the referee reads it; None before `solve`, or if none was found
    ``bound``     a lower bound on the cost, rounded down; None if there is no plan
    """

    def __init__(self, instance: Instance) -> None:
        self.work, self.model = instance, cp_model.CpModel()
        self.solution: dict[str, Any] | None = None
        self.bound: float | None = 0.0
        self.slots = range(min(instance.nodes, instance.batch, instance.devices))
        self.options = [
            (d, t, y)
            for d in instance.replicas.tolist()
            for t in sorted(set(instance.degree.tolist()))
            for y in range(1, -(-min(instance.batch, instance.devices) // d) + 1)
            if d * t <= instance.devices and (instance.machine is None or t <= instance.machine)
        ]
        speeds = [instance.bandwidth, *(self._speed(d, t) for d, t, _ in self.options)]
        self.scale = lcm(*(max(1, int(s)) for s in speeds)) * instance.batch * lcm(*(d for d, _, _ in self.options))
        self.most = self._most_time()
        self._variables()
        self._order()
        for slot in self.slots:
            self._stage(slot)
        self._spread_work()

    def _speed(self, d: int, t: int) -> float:
        """Bytes per second between the replicas of a stage."""
        work = self.work
        if work.machine is None or work.inside is None:
            return work.bandwidth
        return work.inside if d * t <= work.machine else min(work.machine // t * work.bandwidth, work.inside)

    def _most_time(self) -> int:
        """No cost is greater: each stage has all nodes, all configurations of them, and all edges."""
        work = self.work
        columns = (work.time, work.parameters, work.stashed, work.fixed, work.shared, work.gathered, work.sync)
        numbers = np.concatenate([*columns, work.communicated, [work.bandwidth, work.inside or 1]])
        if (numbers != np.floor(numbers)).any():
            raise ValueError("the integer program is for whole numbers")
        moved = 2 * (work.sync.sum() + 2 * work.communicated.sum() * work.configurations)
        size = moved + work.gathered.sum() + 4 * work.parameters.sum()
        most = self.scale * work.batch * (1 + len(self.slots)) * (work.time.sum() + size)
        held = work.batch * (work.batch * work.stashed.sum() + work.fixed.sum() + work.shared.sum())
        if max(most * work.batch * work.devices, held) > 2.0**60:
            raise ValueError("the numbers are too large for the integer program")
        return int(most)

    def _variables(self) -> None:
        model, work = self.model, self.work
        self.use = [[model.new_bool_var("") for _ in self.options] for _ in self.slots]
        self.pick = [[model.new_bool_var("") for _ in range(work.configurations)] for _ in self.slots]
        self.here = [[sum(picks[c] for c in self._menu(v)) for v in range(work.nodes)] for picks in self.pick]
        for v in range(work.nodes):
            model.add_exactly_one(self.pick[slot][c] for slot in self.slots for c in self._menu(v))
        self.once = [self._time() for _ in self.slots]
        self.cost, self.longest, self.repeated, self.synchronised = (self._time() for _ in range(4))
        if work.objective == "step":
            model.add(self.cost == sum(self.once) + self.repeated + self.synchronised)

    def _time(self) -> Any:
        return self.model.new_int_var(0, self.most, "")

    def _menu(self, v: int) -> range:
        return range(int(self.work.start[v]), int(self.work.start[v + 1]))

    def _order(self) -> None:
        """Edges lead to no earlier stage, that is to no later slot; the slots in use come first."""
        model, work = self.model, self.work
        for u, v in zip(work.graph.tail.tolist(), work.graph.head.tolist(), strict=True):
            for slot in self.slots:
                model.add(
                    sum(here[u] for here in self.here[: slot + 1]) <= sum(here[v] for here in self.here[: slot + 1])
                )
        for slot, uses in enumerate(self.use):
            model.add_at_most_one(uses)
            model.add(sum(self.here[slot]) >= sum(uses))
            if slot:
                model.add(sum(uses) <= sum(self.use[slot - 1]))
        used = [(d, t, x) for uses in self.use for (d, t, _), x in zip(self.options, uses, strict=True)]
        model.add(sum(d * t * x for d, t, x in used) <= work.devices)
        model.add(sum(d * x for d, _, x in used) <= work.batch)

    def _moved(self, slot: int) -> Any:
        """Bytes through the ends of edges that leave a stage, forward and backward."""
        work, moved = self.work, 0
        start, edge = work.incident
        ends = list(zip(work.graph.tail.tolist(), work.graph.head.tolist(), strict=True))
        for v in range(work.nodes):
            for j, e in enumerate(edge[start[v] : start[v + 1]].tolist()):
                other = sum(ends[e]) - v
                for c in self._menu(v):
                    pays = self.model.new_bool_var("")
                    self.model.add(pays >= self.pick[slot][c] - self.here[slot][other])
                    moved += 2 * int(work.communicated[e] + work.sync[work.sync_start[c] + j]) * pays
        return moved

    def _stage(self, slot: int) -> None:
        model, work, picks = self.model, self.work, self.pick[slot]
        later = sum(d * x for uses in self.use[:slot] for (d, _, _), x in zip(self.options, uses, strict=True))
        moved = self._moved(slot) * int(self.scale // int(work.bandwidth))
        options = list(zip(self.options, self.use[slot], strict=True))
        for c in range(work.configurations):
            model.add(picks[c] <= sum(x for (_, t, _), x in options if t == work.degree[c]))

        def total(column: Any) -> Any:
            return sum(int(value) * x for value, x in zip(column.tolist(), picks, strict=True))

        for (d, t, y), used in options:
            held = total(d * (work.stashed * y + work.fixed) + work.shared)
            model.add_linear_constraint(d * y - later, d, 2 * d - 1).only_enforce_if(used)
            model.add(held <= min(floor(d * Fraction(work.capacity)), 2**61)).only_enforce_if(used)
            rate = Fraction(self.scale * (d - 1), int(self._speed(d, t)) * d)
            assert rate.denominator == 1
            once = total(self.scale * work.time + int(rate) * work.gathered) + moved
            sync = total(4 * int(rate) * work.parameters)
            if work.objective == "throughput":
                model.add(d * work.batch * self.cost >= work.batch * once + d * sync).only_enforce_if(used)
                continue
            model.add(self.once[slot] >= once).only_enforce_if(used)
            model.add(self.repeated >= (work.batch // d - 1) * self.once[slot]).only_enforce_if(used)
            model.add(self.synchronised >= sync).only_enforce_if(used)
        model.add(self.longest >= self.once[slot])

    def _spread_work(self) -> None:
        """Follows from the rest: work on t devices per replica, spread over all devices."""
        work = self.work
        spread = sum(
            int(self.scale * t * p) * x
            for picks in self.pick
            for t, p, x in zip(work.degree.tolist(), work.time.tolist(), picks, strict=True)
        )
        rounds = self.cost if work.objective == "throughput" else self.repeated + self.longest
        self.model.add(work.devices * rounds >= spread * (1 if work.objective == "throughput" else work.batch))

    def solve(self, seconds: float, workers: int = 2) -> Fraction | None:
        """The optimum; None if there is no plan. TimeoutError if it is not proven in time."""
        self.model.minimize(self.cost)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = workers
        solver.parameters.presolve_inclusion_work_limit = 0  # or-tools issue 5293: false bounds
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            self.bound = None
            return None
        lower = Fraction(max(0, ceil(solver.best_objective_bound * (1 - 1e-12) - 1e-6)), self.scale)
        self.bound = nextafter(float(lower), 0)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self.solution = self._plan(solver)
        if status != cp_model.OPTIMAL:
            raise TimeoutError(solver.status_name(status))
        return Fraction(round(solver.objective_value), self.scale)

    def _plan(self, solver: Any) -> dict[str, Any]:
        """The plan of the solver's solution."""
        work = self.work
        used = [[o for o, x in zip(self.options, uses, strict=True) if solver.value(x)] for uses in self.use]
        stages = sum(map(bool, used))
        chosen = [
            next((s, c) for s in self.slots for c in self._menu(v) if solver.value(self.pick[s][c]))
            for v in range(work.nodes)
        ]
        return {
            "stage": [stages - 1 - slot for slot, _ in chosen],
            "configuration": [work.kinds[work.kind[c]] for _, c in chosen],
            "data_parallel": [used[slot][0][0] for slot in reversed(range(stages))],
            "tensor_parallel": [used[slot][0][1] for slot in reversed(range(stages))],
        }
