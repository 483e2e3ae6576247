"""The least cost of a plan of ``hybrid`` as an integer program for CP-SAT, for instances of whole numbers.

Stages are slots, counted from the end of the pipeline. Shares no code with the solvers.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import lcm
from typing import Any

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
    """The program; times are in units of 1 / ``scale``."""

    def __init__(self, instance: Instance) -> None:
        self.work, self.model = instance, cp_model.CpModel()
        self.slots = min(instance.nodes, instance.batch, instance.devices)
        speeds = [instance.bandwidth, instance.inside or instance.bandwidth]
        self.options = [
            (d, t, y)
            for d in instance.replicas.tolist()
            for t in sorted(set(instance.degree.tolist()))
            for y in range(1, -(-min(instance.batch, instance.devices) // d) + 1)
            if d * t <= instance.devices and (instance.machine is None or t <= instance.machine)
        ]
        self.scale = lcm(*(int(s) for s in speeds)) * instance.batch * lcm(*(d for d, _, _ in self.options))
        self.most = int(self.scale * 10**6)
        self._variables()
        self._order()
        for slot in range(self.slots):
            self._stage(slot)

    def _variables(self) -> None:
        model, work = self.model, self.work
        self.use = [[model.new_bool_var("") for _ in self.options] for _ in range(self.slots)]
        self.pick = [[model.new_bool_var("") for _ in range(work.configurations)] for _ in range(self.slots)]
        for uses in self.use:
            model.add_at_most_one(uses)
        for v in range(work.nodes):
            model.add_exactly_one(
                self.pick[slot][c] for slot in range(self.slots) for c in range(work.start[v], work.start[v + 1])
            )
        self.slot_of = [
            sum(slot * self.pick[slot][c] for slot in range(self.slots) for c in self._menu(v))
            for v in range(work.nodes)
        ]
        self.once = [model.new_int_var(0, self.most, "") for _ in range(self.slots)]
        self.repeated, self.synchronised, self.slowest = (model.new_int_var(0, self.most, "") for _ in range(3))

    def _menu(self, v: int) -> range:
        return range(int(self.work.start[v]), int(self.work.start[v + 1]))

    def _order(self) -> None:
        model, work = self.model, self.work
        ends = list(zip(work.graph.tail.tolist(), work.graph.head.tolist(), strict=True))
        self.crossing = [model.new_bool_var("") for _ in ends]
        for crossing, (u, v) in zip(self.crossing, ends, strict=True):
            model.add(self.slot_of[u] >= self.slot_of[v])
            model.add(self.slot_of[u] == self.slot_of[v]).only_enforce_if(~crossing)
        used = [(d, t, x) for uses in self.use for (d, t, _), x in zip(self.options, uses, strict=True)]
        model.add(sum(d * t * x for d, t, x in used) <= work.devices)
        model.add(sum(d * x for d, _, x in used) <= work.batch)

    def _moved(self, slot: int) -> list[Any]:
        """Terms (bytes, variable) of the edges that leave a stage."""
        work, terms = self.work, []
        start, edge = work.incident
        for v in range(work.nodes):
            for c in self._menu(v):
                for j, e in enumerate(edge[start[v] : start[v + 1]].tolist()):
                    pays = self.model.new_bool_var("")
                    self.model.add(pays >= self.pick[slot][c] + self.crossing[e] - 1)
                    terms.append(2 * int(work.communicated[e] + work.sync[work.sync_start[c] + j]) * pays)
        return terms

    def _stage(self, slot: int) -> None:
        model, work, picks = self.model, self.work, self.pick[slot]
        later = sum(d * x for uses in self.use[:slot] for (d, _, _), x in zip(self.options, uses, strict=True))
        moved = sum(self._moved(slot)) * int(self.scale // int(work.bandwidth))
        options = list(zip(self.options, self.use[slot], strict=True))
        for c in range(work.configurations):
            model.add(picks[c] <= sum(x for (_, t, _), x in options if t == work.degree[c]))

        def total(column: Any) -> Any:
            return sum(int(value) * x for value, x in zip(column.tolist(), picks, strict=True))

        for (d, t, y), used in options:
            held = total(d * (work.stashed * y + work.fixed) + work.shared)
            model.add(d * y >= later + d).only_enforce_if(used)
            model.add(held <= int(d * work.memory)).only_enforce_if(used)
            near = work.machine is not None and d * t <= work.machine
            rate = Fraction(self.scale * (d - 1), int(work.inside if near and work.inside else work.bandwidth) * d)
            assert rate.denominator == 1
            once = total(self.scale * work.time + int(rate) * work.gathered) + moved
            sync = total(4 * int(rate) * work.parameters)
            model.add(self.once[slot] >= once).only_enforce_if(used)
            model.add(self.repeated >= (work.batch // d - 1) * self.once[slot]).only_enforce_if(used)
            model.add(self.synchronised >= sync).only_enforce_if(used)
            model.add(d * work.batch * self.slowest >= work.batch * once + d * sync).only_enforce_if(used)

    def solve(self, seconds: float) -> Fraction | None:
        """The optimum; None if there is no plan. TimeoutError if it is not proven in time."""
        step = self.work.objective == "step"
        self.model.minimize(sum(self.once) + self.repeated + self.synchronised if step else self.slowest)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 2
        solver.parameters.presolve_inclusion_work_limit = 0  # or-tools issue 5293: false bounds
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return None
        if status != cp_model.OPTIMAL:
            raise TimeoutError(solver.status_name(status))
        return Fraction(round(solver.objective_value), self.scale)
