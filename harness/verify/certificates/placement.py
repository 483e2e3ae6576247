"""Proofs for ``placement``: formulas with parameters, for throughput and for latency.

``{"kind": "formula", "name": NAME, ...}`` (docs/certificates/placement.md has the argument). Units are those of the
instance, numbered by their first nodes; nodes that the only CPU must take are one unit.

``critical-path``  latency: the longest path
``memory-path``    latency: ``path``, nodes that each have an edge to the next
``node``           throughput: the load of the device of each unit, with its neighbours
``load``           throughput: ``balance``, and before it ``moved``, units that overload every accelerator: a list of
                   objects with a ``unit``, ``flows`` and ``computing``, each valid for the units left by those before

A balance has a ``share`` of accelerator time from 0 to 1, a ``price`` of memory, ``flows`` and ``computing``.

``flows``      ``[net, [amount, ...]]``: costs moved between the units of a net, one amount for each but the last, in
               units of 2^-``scale``
``computing``  weight of computation from 0 to 1 if transfers overlap with it; the rest is that of transfers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from shardmark.harness.verify.certificates import Clock, Exact, Unproven, fraction, integer, integers
from shardmark.harness.verify.certificates.placement_configurations import configurations
from shardmark.harness.verify.certificates.placement_states import states
from shardmark.harness.verify.certificates.placement_units import Time, Units, least_of
from shardmark.instances.files.columns import describe
from shardmark.instances.placement import Instance

LARGEST_AMOUNT, MOST_SCALE = 1 << 62, 1100


def formula(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the value of a formula, which no placement costs less than."""
    name = proof.get("name")
    if not isinstance(name, str) or name not in FORMULAS:
        raise Unproven(f"proof.name: expected one of {', '.join(FORMULAS)}, found {describe(name)}")
    objective, value = FORMULAS[name]
    if instance.objective != objective:
        raise Unproven(f"proof.name: expected a formula for {instance.objective}, found {name}")
    return max(Fraction(0), value(Units(instance, clock), proof))


# ---------------------------------------------------------------- throughput


def load(units: Units, proof: Mapping[str, Any]) -> Exact:
    """Return the least of the loads of accelerators with a moved unit, and of work balanced without them."""
    told = proof.get("moved", [])
    if not isinstance(told, list) or not all(isinstance(each, dict) for each in told):
        raise Unproven(f"proof.moved: expected a list of objects, found {describe(told)}")
    bounds = []
    for each in told:
        units.clock.tick()
        if units.instance.allreduce is not None:
            raise Unproven("proof.moved: expected none, as stages have replicas")
        unit = integer(each, "unit", 0, len(units.fast) - 1)
        bounds.append(_anchored(units, unit, each))
        units.fast[unit] = None
    if bounds and not units.finite:  # no device is left for a unit that costs less
        return min(bounds)
    balance = proof.get("balance")
    if not isinstance(balance, dict):
        raise Unproven(f"proof.balance: expected an object, found {describe(balance)}")
    bounds.append(max(_balanced(units, balance), _heaviest(units)))
    return min(bounds)


def _heaviest(units: Units) -> Exact:
    """Return the greatest least time of a unit, as it is on one device unless stages have replicas."""
    if units.instance.allreduce is not None:
        return 0
    return max(map(least_of, units.fast, units.slow), default=0)


def _balanced(units: Units, told: Mapping[str, Any]) -> Exact:
    """Return the least cost of a division of the units between accelerators and CPUs, at a share and a price."""
    instance, share, price = units.instance, fraction(told, "share"), fraction(told, "price")
    if not 0 <= share <= 1 or price < 0:
        raise Unproven("proof.balance: expected a share from 0 to 1 and a price from 0 on")
    if not units.finite:
        raise Unproven("proof.balance: expected a device for every unit")
    k, cpus = max(instance.accelerators, 1), max(instance.cpus, 1)
    moved, excess, computing = _moved(units, told, share / k)
    total = -price * k * units.room - excess
    for fast, slow, size, flow in zip(units.fast, units.slow, units.size, moved, strict=True):
        on = None if fast is None else share / k * computing * fast + price * size + flow
        off = None if slow is None else (1 - share) / cpus * slow
        total += least_of(on, off)
    return total


def _anchored(units: Units, unit: int, told: Mapping[str, Any]) -> Exact:
    """Return a bound on the load of any accelerator that has a unit."""
    moved, excess, computing = _moved(units, told, Fraction(1))
    total = -excess
    for v, (fast, flow) in enumerate(zip(units.fast, moved, strict=True)):
        if fast is not None:
            total += computing * fast + flow if v == unit else min(Fraction(0), computing * fast + flow)
    return total


def _moved(units: Units, told: Mapping[str, Any], factor: Fraction) -> tuple[list[Fraction], Fraction, Fraction]:
    """Return what flows move to each unit, their excess over the costs of nets, and the weight of computation.

    Costs of nets have the weight of transfers, times a factor.
    """
    moving = computing = Fraction(1)
    if units.instance.overlap != "none":
        computing = fraction(told, "computing", 1)
        if not 0 <= computing <= 1:
            raise Unproven("proof.computing: expected a weight from 0 to 1")
        moving = (1 - computing) / {"half": 1, "full": 2}[units.instance.overlap]
    unit = Fraction(2) ** -integer(told, "scale", -MOST_SCALE, MOST_SCALE)
    flows, moved, excess = told.get("flows", []), [Fraction(0)] * len(units.fast), Fraction(0)
    if not isinstance(flows, list) or not all(isinstance(each, list) and len(each) == 2 for each in flows):
        raise Unproven("proof.flows: expected a list of pairs [net, amounts]")
    nets = integers({"flows": [each[0] for each in flows]}, "flows", len(units.nets))
    if any(late <= early for early, late in pairwise([-1, *nets])) or max(nets, default=-1) >= len(units.nets):
        raise Unproven(f"proof.flows: expected increasing numbers of {len(units.nets)} nets")
    for net, (_, amounts) in zip(nets, flows, strict=True):
        units.clock.tick()
        members, cost = units.nets[net]
        if not isinstance(amounts, list) or len(amounts) != len(members) - 1:
            raise Unproven(f"proof.flows: expected {len(members) - 1} amounts for net {net}, found {describe(amounts)}")
        given = [amount * unit for amount in integers({"flows": amounts}, "flows", LARGEST_AMOUNT)]
        given.append(-sum(given, Fraction(0)))
        for member, amount in zip(members, given, strict=True):
            moved[member] += amount
        excess += max(Fraction(0), sum(max(Fraction(0), amount) for amount in given) - factor * moving * cost)
    return moved, excess, computing


def node(units: Units, proof: Mapping[str, Any]) -> Exact:
    """Return the greatest least load of the device of a unit.

    An accelerator either has a neighbour of the unit too, or pays for the tensors between them.
    """
    if units.instance.allreduce is not None:
        raise Unproven("proof.name: expected another formula, as stages have replicas")
    busy = [Fraction(0) if fast is None else fast for fast in units.fast]
    for (unit, other), moved in units.shared_tensors().items():
        busy[unit] += least_of(moved, units.fast[other])
    sequences, best = {"none": 1, "half": 2, "full": 3}[units.instance.overlap], Fraction(0)
    for fast, slow, load in zip(units.fast, units.slow, busy, strict=True):
        best = max(best, least_of(None if fast is None else max(fast, load / sequences), slow))
    return best


# ------------------------------------------------------------------- latency


def critical_path(units: Units, proof: Mapping[str, Any]) -> Exact:
    """Return the greatest sum of least times on a path."""
    end = [Fraction(0)] * units.instance.nodes
    for v in units.instance.graph.topological_order.tolist():
        units.clock.tick()
        before = max((end[u] for u in units.before[v]), default=Fraction(0))
        end[v] = before + least_of(units.fast_of_node(v), units.slow_of_node(v))
    return max(end, default=0)


def memory_path(units: Units, proof: Mapping[str, Any]) -> Exact:
    """Return the least time for the nodes of a path: each on a CPU, or in a run of nodes on an accelerator."""
    path = integers(proof, "path", units.instance.nodes)
    if any(not 0 <= v < units.instance.nodes for v in path) or any(u not in units.before[v] for u, v in pairwise(path)):
        raise Unproven("proof.path: expected nodes that each have an edge to the next")
    place = {v: at for at, v in enumerate(path)}
    read = [[place[u] for u in units.read[v] if u in place] for v in path]
    until = [-1] * len(path)
    for at, tensors in enumerate(read):
        for u in tensors:
            until[u] = at
    done = [Fraction(0)]
    for last, v in enumerate(path):
        slow = units.slow_of_node(v)
        best: Time = None if slow is None else done[last] + slow
        busy, held, incoming, outside, present = Fraction(0), Fraction(0), Fraction(0), set[int](), set[int]()
        for first in range(last, -1, -1):
            units.clock.tick()
            fast, unit, cost = units.fast_of_node(path[first]), units.of[path[first]], units.transfer[path[first]]
            held += 0 if unit in present else units.size[unit]
            present.add(unit)
            if fast is None or held > units.room or (best is not None and busy + fast >= best):
                break
            busy += fast + (cost if until[first] > last else 0)
            incoming -= cost if first in outside else 0
            outside.discard(first)
            for u in set(read[first]) - outside:
                incoming += units.transfer[path[u]]
                outside.add(u)
            best = least_of(best, done[first] + busy + incoming)
        if best is None:
            raise Unproven("proof.path: expected nodes that some device takes")
        done.append(best)
    return done[-1]


FORMULAS: Mapping[str, tuple[str, Callable[[Units, Mapping[str, Any]], Exact]]] = {
    "critical-path": ("latency", critical_path),
    "load": ("throughput", load),
    "memory-path": ("latency", memory_path),
    "node": ("throughput", node),
}

PROOFS = {"configurations": configurations, "formula": formula, "states": states}
