"""Proofs for ``intraop``: a network that is reduced, costs moved in it, prices of memory, and cases.

``{"kind": "costs-moved", "cutoff": c, "steps": [...], "cases": [...]}``, see docs/certificates/intraop.md.
Each step has one of the keys

``merged``    ``[variable, the one that determines it, ...]``; with ``kept``, a hexadecimal mask of the rows left
``replaced``  ``[row, row that replaces it or -1, ...]``
``leaves``    ``[[variable, its value for each value of the other end of its only pair...], ...]``
``unfit``     ``[row, time step in which it does not fit, ...]``
``scale``     and nothing but it and the following: a round

``messages``  for each pair and every value of its lower variable, the cost that moves from the pair's table to the
              value, in units of 2^-``scale``; all 0 if empty. Then each value of the higher variable gets the least of
              its entries, unless ``messages`` has the costs for these, too, after those for the lower one of each pair
``prices``    ``[time step, price]``: cost of a byte, not negative, in units of 2^-(``scale`` + ``price_scale``)
``order``     variables, for a dynamic program after the round: nothing is left below the cut-off

A case has ``of`` (the number of an earlier case, or -1 for the proof itself), ``variable``, ``values`` and steps of its
own: there the variable takes one of these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Clock, Unproven, integer, integers
from shardmark.harness.verify.certificates.intraop.merging import merge
from shardmark.harness.verify.certificates.intraop.network import Network, NothingLeft
from shardmark.harness.verify.certificates.intraop.replacement import Replacement
from shardmark.harness.verify.certificates.intraop.rounds import Round, least_left
from shardmark.harness.verify.certificates.intraop.states import States
from shardmark.instances.files.columns import describe
from shardmark.instances.intraop import Instance


def costs_moved(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> int:
    """Return the greatest whole number that no solution costs less than, by the steps and cases of a proof."""
    cutoff = proof.get("cutoff")
    if type(cutoff) is not int:
        raise Unproven(f"proof.cutoff: expected an integer, found {describe(cutoff)}")
    cases = _objects(proof, "cases")
    parents = [integer(case, "of", -1, number - 1) for number, case in enumerate(cases)]
    inner: dict[int, list[int]] = {}  # of each case that is divided, the cases that it is divided into
    for number, parent in enumerate(parents):
        inner.setdefault(parent, []).append(number)
    root = Network(instance, cutoff, clock)
    bounds, networks, divided = {-1: _by_steps(root, proof, cutoff)}, {-1: root}, set[int]()
    for number, (parent, case) in enumerate(zip(parents, cases, strict=True)):
        clock.tick()
        network = networks[parent].copy()
        if number == inner[parent][0] and _all_taken(network, [cases[each] for each in inner[parent]]):
            divided.add(parent)
        network.alive[_rows(network, case)] &= _values(network, case)
        bounds[number] = _by_steps(network, case, cutoff)
        if number in inner:
            networks[number] = network
        if number == inner[parent][-1]:
            del networks[parent]
    for number in sorted(divided, reverse=True):  # the inner ones first
        bounds[number] = max(bounds[number], min(bounds[each] for each in inner[number]))
    return bounds[-1]


def _objects(proof: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of objects of a proof, empty if it has none of that name."""
    found = proof.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Unproven(f"proof.{key}: expected a list of objects, found {describe(found)}")
    return found


def _rows(network: Network, case: Mapping[str, Any]) -> slice:
    """Return the rows of a case's variable."""
    variable = integer(case, "variable", 0, len(network.start) - 2)
    return slice(network.start[variable], network.start[variable + 1])


def _values(network: Network, case: Mapping[str, Any]) -> Any:
    """Return a mask of the values of a case."""
    rows = _rows(network, case)
    taken = np.zeros(rows.stop - rows.start, dtype=bool)
    taken[_numbers(case, "values", len(taken))] = True
    return taken


def _all_taken(network: Network, cases: list[dict[str, Any]]) -> bool:
    """Return whether each value of one variable that is left belongs to one of these cases."""
    rows = _rows(network, cases[0])
    taken = np.zeros(rows.stop - rows.start, dtype=bool)
    for case in cases:
        network.clock.tick()
        if _rows(network, case) == rows:
            taken |= _values(network, case)
    return not (network.alive[rows] & ~taken).any()


def _by_steps(network: Network, case: Mapping[str, Any], cutoff: int) -> int:
    """Return the bound, at most the cut-off, that the steps of a case prove; leave out what they rule out."""
    bound = network.least
    try:
        for told in _objects(case, "steps"):
            network.clock.tick()
            if "merged" in told:
                merge(network, *_couples(told, "merged", len(network.sizes)), _kept(network, told))
            elif "replaced" in told:
                replacement = Replacement(network)
                for old, new in zip(*_couples(told, "replaced", len(network.cost), -1), strict=True):
                    network.clock.tick()
                    replacement.value(old, new)
            elif "leaves" in told:
                _replace_leaves(network, told)
            elif "unfit" in told:
                _leave_out_unfit(network, told)
            else:
                network.propagate()
                found = Round(network, told, cutoff)
                bound = max(bound, found.bound)
                if bound >= cutoff:
                    return cutoff
                found.leave_out()
                if "order" in told:
                    network.propagate()
                    if not States(found).reach_the_end(_numbers(told, "order", len(network.sizes))):
                        return cutoff
        network.propagate()
    except NothingLeft:
        return cutoff
    return min(bound, cutoff)


def _numbers(told: Mapping[str, Any], key: str, end: int, least: int = 0) -> list[int]:
    """Return a list of integers of a step, from ``least`` on and below ``end``."""
    found = integers(told, key, max(end - 1, -least))
    if not all(least <= each < end for each in found):
        raise Unproven(f"proof.steps.{key}: expected numbers from {least} to {end - 1}")
    return found


def _couples(told: Mapping[str, Any], key: str, end: int, least: int = 0) -> tuple[list[int], list[int]]:
    """Return the numbers of a step at even places, which are from 0 on, and those at odd places."""
    found = _numbers(told, key, end, least)
    if len(found) % 2 or min(found[::2], default=0) < 0:
        raise Unproven(f"proof.steps.{key}: expected numbers two by two")
    return found[::2], found[1::2]


def _kept(network: Network, told: Mapping[str, Any]) -> Any:
    """Return the mask of rows that a step keeps: a bit for each, in bytes of two digits; all rows if it has none."""
    if "kept" not in told:
        return np.ones(len(network.cost), dtype=bool)
    try:
        found = np.unpackbits(np.frombuffer(bytes.fromhex(told["kept"]), dtype=np.uint8))
    except (TypeError, ValueError):
        raise Unproven("proof.steps.kept: expected hexadecimal digits") from None
    if len(found) != -(-len(network.cost) // 8) * 8:
        raise Unproven(f"proof.steps.kept: expected {len(network.cost)} bits, found {len(found)}")
    return found[: len(network.cost)].astype(bool)


def _replace_leaves(network: Network, told: Mapping[str, Any]) -> None:
    """Keep of each of some variables with one pair the best value for each value of the other end."""
    lists = told["leaves"]
    if not isinstance(lists, list) or not all(isinstance(each, list) and each for each in lists):
        raise Unproven("proof.steps.leaves: expected a list of lists")
    replacement = Replacement(network)
    for each in lists:
        variable, *values = _numbers({"leaves": each}, "leaves", len(network.cost))
        if variable >= len(network.sizes):
            raise Unproven(f"proof.steps.leaves: expected a variable, found {variable}")
        network.clock.tick()
        replacement.leaf(variable, values)


def _leave_out_unfit(network: Network, told: Mapping[str, Any]) -> None:
    """Leave out rows that exceed the limit at a step, even with the least memory of all other variables."""
    found = integers(told, "unfit", 2**63 - 1)
    rows = _numbers({"unfit": found[::2]}, "unfit", len(network.cost))
    if len(found) % 2 or not len(network.step) or min(found[1::2], default=0) < network.step[0]:
        raise Unproven("proof.steps.unfit: expected rows and time steps")
    steps = np.searchsorted(network.step, np.array(found[1::2], dtype=np.int64), side="right") - 1
    for step in np.unique(steps).tolist():
        network.clock.tick()
        memory = network.memory(step)
        low, _ = least_left(network, memory)
        room = network.limit - int(network.fixed[step]) - sum(low.tolist())
        unfit = memory - np.repeat(low, network.sizes) > room
        some = np.array(rows, dtype=np.int64)[steps == step]
        if not unfit[some].all():
            raise Unproven(f"proof.steps.unfit: expected rows that exceed the limit at step {network.step[step]}")
        network.alive[some] = False


PROOFS = {"costs-moved": costs_moved}
