"""Proofs of bounds on throughput by formulas: shares, prices, and flows that move costs between units of a net."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.kernels.loads import Nets
from shardmark.solvers.placement.throughput.anchored import WEIGHTS
from shardmark.solvers.placement.throughput.moves import spaces
from shardmark.solvers.placement.throughput.pooled import Pooled
from shardmark.solvers.placement.throughput.simple_bounds import load_bound, node_bound, within_memory
from shardmark.solvers.registry import Proof

#: All costs together become integers below 2 to this power.
BITS = 58


def best_formula(instance: Instance, pooled: Pooled) -> tuple[float, Proof | None]:
    """The greatest of `load_bound`, `node_bound` and a pooled bound, and its proof, None if there is none."""
    spread, alone = load_bound(instance), node_bound(instance)
    if max(pooled.bound, alone) <= spread:
        return spread, lambda: load_proof(instance)
    if alone >= pooled.bound:
        return alone, node_proof if instance.allreduce is None else None
    return pooled.bound, lambda: pooled_proof(instance, pooled)


def node_proof() -> Mapping[str, Any]:
    """The proof of `node_bound`."""
    return {"kind": "formula", "name": "node"}


def load_proof(instance: Instance) -> Mapping[str, Any]:
    """The proof of `load_bound`."""
    return {"kind": "formula", "name": "load", "balance": _balance(instance)}


def _balance(instance: Instance) -> dict[str, Any]:
    if not (instance.accelerators and instance.cpus):
        return {"share": float(instance.accelerators > 0)}
    _, share, price = within_memory(instance)
    return {"share": share, "price": price}


def pooled_proof(instance: Instance, pooled: Pooled) -> Mapping[str, Any]:
    """The proof of `pooled_bound`: the flows of a maximum flow at its share and price."""
    accelerator, cpu = instance.unit_times()
    k, cpus, share = instance.accelerators, instance.cpus, pooled.share
    network = _Network(instance)
    work = share * accelerator / k + pooled.price * instance.of_units(instance.size)
    flows = network.flows(work, share * network.cost / k, apart=(1 - share) * cpu / cpus)
    return {"kind": "formula", "name": "load", "balance": {"share": share, "price": pooled.price, **flows}}


def anchored_proof(instance: Instance, bound: float) -> Proof | None:
    """The proof of `anchored_bound`: flows for each unit that overloads every accelerator; these are moved to CPUs.

    None with replicas, and for contiguity "acyclic", as the formula does not know which units the order unites.
    """
    known = instance.allreduce is None and instance.contiguity != "acyclic"
    return (lambda: _anchored_proof(instance, bound)) if known else None


def _anchored_proof(instance: Instance, bound: float) -> Mapping[str, Any]:
    network, accelerator = _Network(instance), instance.unit_times()[0]
    moved = []
    for unit in range(len(accelerator)):
        for computing, moving in WEIGHTS[instance.overlap]:
            if not math.isfinite(accelerator[unit]):
                break
            flows, value = network.anchored(computing * accelerator, moving * network.cost, unit)
            if value >= bound:
                weight = {} if instance.overlap == "none" else {"computing": computing}
                moved.append({"unit": unit, **weight, **flows})
                break
    if not instance.cpus:  # one unit that overloads every accelerator is enough
        return {"kind": "formula", "name": "load", "moved": moved[:1]}
    on_cpu = np.isin(instance.unit, [each["unit"] for each in moved])
    balance = _balance(replace(instance, supported=instance.supported & ~on_cpu))
    return {"kind": "formula", "name": "load", "moved": moved, "balance": balance}


class _Network:
    """The units and the nets, numbered as the checker numbers them: by their units in ascending order.

    ``members``  shape (nets,): the units of each net
    ``cost``     shape (nets,): time to move its tensors
    """

    def __init__(self, instance: Instance) -> None:
        nets = spaces(replace(instance, contiguity="free"))[0].devices.nets
        costs: dict[tuple[int, ...], float] = {}
        for members, cost in zip(net_members(nets), nets.cost.tolist(), strict=True):
            costs[members] = costs.get(members, 0.0) + cost  # nets of several makers or passes are one
        self.members = sorted(costs)
        self.cost = np.array([costs[members] for members in self.members])
        self.units = len(nets.start) - 1

    def flows(self, work: Floats, cost: Floats, apart: Floats) -> dict[str, Any]:
        """Flows that show the least cost of a set of units: its ``work`` and nets, and what others cost ``apart``."""
        return self._solved(_capped(work, cost.sum() + apart.sum()), cost, apart)[0]

    def anchored(self, work: Floats, cost: Floats, unit: int) -> tuple[dict[str, Any], float]:
        """Flows that show the least load of a set with a unit, and that load."""
        apart = np.zeros(self.units)
        apart[unit] = math.inf
        return self._solved(_capped(work, cost.sum() + work[unit]), cost, apart)

    def _solved(self, work: Floats, cost: Floats, apart: Floats) -> tuple[dict[str, Any], float]:
        from ortools.graph.python import max_flow

        finite = (column[np.isfinite(column)].sum() for column in (work, cost, apart))
        exponent = min(BITS - math.frexp(float(sum(finite)))[1], 1000)
        limits = [self._whole(column, exponent) for column in (work, cost, apart)]
        pairs = [(v, e) for e, units in enumerate(self.members) for v in units]
        unit = np.array([v for v, _ in pairs], dtype=np.int64)
        enter = self.units + 2 * np.array([e for _, e in pairs], dtype=np.int64)
        every, nets = np.arange(self.units), self.units + 2 * np.arange(len(self.members))
        source = self.units + 2 * len(self.members)
        huge = np.full(len(pairs), 2 ** (BITS + 2))
        flow = max_flow.SimpleMaxFlow()
        flow.add_arcs_with_capacity(np.full(self.units, source), every, limits[2])
        flow.add_arcs_with_capacity(every, np.full(self.units, source + 1), limits[0])
        flow.add_arcs_with_capacity(nets, nets + 1, limits[1])
        out = flow.add_arcs_with_capacity(unit, enter, huge)
        back = flow.add_arcs_with_capacity(enter + 1, unit, huge)
        flow.solve(source, source + 1)
        moved = (flow.flows(out) - flow.flows(back)).tolist() if len(pairs) else []
        return {"scale": exponent, "flows": self._listed(moved)}, flow.optimal_flow() * 2.0**-exponent

    @staticmethod
    def _whole(column: Floats, exponent: int) -> Ints:
        finite = np.isfinite(column)
        return np.where(finite, np.where(finite, column, 0.0) * 2.0**exponent, 2 ** (BITS + 2)).astype(np.int64)

    def _listed(self, moved: list[int]) -> list[Any]:
        """Pairs of a net and the amounts moved to its units but the last, without nets that move nothing."""
        listed, at = list[Any](), 0
        for net, units in enumerate(self.members):
            amounts = moved[at : at + len(units)]
            at += len(units)
            if any(amounts):
                listed.append([net, amounts[:-1]])
        return listed


def _capped(work: Floats, most: float) -> Floats:
    """Work that no cheapest set pays, capped by what others cost, so that integers are as fine as these."""
    return np.where(np.isfinite(work), np.minimum(work, most), np.inf)


def net_members(nets: Nets) -> list[tuple[int, ...]]:
    """The units of each net, ascending."""
    members: list[list[int]] = [[] for _ in nets.cost]
    for v, some in enumerate(np.split(nets.of, nets.start[1:-1])):
        for net in some.tolist():
            members[net].append(v)
    return [tuple(units) for units in members]
