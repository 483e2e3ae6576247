"""Exact reduction by cost and memory: remove dominated values, and merge leaves determined by their neighbour.

Unlike `reduction.reduce`, it keeps an optimum, not every assignment.
"""

from __future__ import annotations

import dataclasses
import math
import time

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop._kernels import FORBIDDEN, CostNetwork
from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.model import Contraction, Mask, Model, contract
from shardmark.solvers.intraop.network.ragged import offsets, spread, within
from shardmark.solvers.intraop.network.reduction import reduce

#: Rounds continue as long as one leaves less than this fraction of the values.
WORTHWHILE = 0.99


def simplify(instance: Instance, timeline: Timeline, model: Model, until: float = math.inf) -> Model | None:
    """Return a smaller model that keeps a cheapest fitting assignment; None if all of these have a forbidden entry.

    The timeline must be exact, as rounded memory does not show which value uses less. Stops at the time ``until``.
    """
    before = math.inf
    while len(model.unary) < WORTHWHILE * before and time.monotonic() < until:
        before = len(model.unary)
        given = _DominanceInput(instance, timeline, model)
        values, log = given.network.undominated(*given.columns)
        if model.record is not None:
            model.record.replaced(log)
        fewer = reduce(dataclasses.replace(model, unary=np.where(values, model.unary, model.forbidden)), until)
        if fewer is None:
            return None
        given = _DominanceInput(instance, timeline, fewer)
        model = contract(fewer, _plan(fewer, given))
    return model


class _DominanceInput:
    """Inputs of the core's eliminations: network, costs, memory of each value, variables to skip."""

    def __init__(self, instance: Instance, timeline: Timeline, model: Model) -> None:
        allowed = model.cell < model.forbidden
        self.network = CostNetwork(model.start, model.tail, model.head, np.where(allowed, model.cell, FORBIDDEN))
        skip = np.zeros(model.variables, dtype=bool)
        for scope, _ in model.wide:
            skip[list(scope)] = True
        footprint = Footprint(instance, timeline, model)
        self.columns = (model.unary, *memory_by_span(footprint, may_bind(footprint)), skip)


def may_bind(footprint: Footprint) -> Mask:
    """Mask, shape (steps,), of the steps in which the greatest memory of all nodes exceeds the limit."""
    timeline, model = footprint.timeline, footprint.model
    most = np.zeros(len(timeline.begin), dtype=np.int64)
    owner = timeline.owner[model.member]
    np.maximum.at(most, owner, timeline.usage[model.member])
    return timeline.profile(most) > timeline.limit


def memory_by_span(footprint: Footprint, matters: Mask) -> tuple[Ints, Ints]:
    """Return ``(start, usage)``: memory of each value per span, an interval with constant live nodes of the variable.

    In the j-th of its w spans, value k of variable i uses ``usage[start[i] + k * w + j]``. Only steps of the mask
    ``matters``, shape (steps,), count.
    """
    foot, some = footprint, offsets(matters.astype(np.int64))
    node = np.flatnonzero(some[foot.end] > some[foot.begin])
    of_span, begin, end, place = spans(foot, node)
    width = np.bincount(of_span, minlength=foot.model.variables)
    first, start = offsets(width)[:-1], offsets(width * foot.model.sizes)
    variable = foot.variable[node]
    count = foot.model.sizes[variable]
    value = within(count)
    of_node = np.repeat(foot.usage_start[variable] + node - foot.start[variable], count)
    used = foot.usage[of_node + value * np.repeat(foot.nodes[variable], count)]
    change = np.zeros(int(start[-1]), dtype=np.int64)
    row = np.repeat(start[variable], count) + value * np.repeat(width[variable], count)
    for column, sign in ((place[: len(node)], 1), (place[len(node) :], -1)):
        np.add.at(change, row + np.repeat(column - first[variable], count), sign * used)
    count = np.diff(start)
    span = np.repeat(first, count) + within(count) % np.maximum(np.repeat(width, count), 1)
    return start, np.where((some[end] > some[begin])[span], np.cumsum(change), 0)


def spans(footprint: Footprint, node: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return ``(variable, begin, end, place)`` of the spans between begins and ends of some nodes of the footprint.

    The last span of every variable is empty. ``place``, shape (2 * nodes,), has the span that starts at the begin of
    each node, then at the end of each.
    """
    steps, variable = footprint.timeline.steps + 1, footprint.variable[node]
    cuts = np.concatenate([variable * steps + footprint.begin[node], variable * steps + footprint.end[node]])
    keys, place = np.unique(cuts, return_inverse=True)
    variable, begin = np.divmod(keys, steps)
    last = np.append(np.diff(variable) > 0, True)[: len(keys)]
    return variable, begin, np.where(last, begin, np.append(begin[1:], 0)[: len(keys)]), place


def _plan(model: Model, given: _DominanceInput) -> Contraction:
    """Merge each functional leaf into its neighbour."""
    parent, response = given.network.functional_leaves(*given.columns)
    child = np.flatnonzero(parent >= 0)
    root = np.arange(model.variables)
    root[child] = parent[child]
    kept, new = np.unique(root, return_inverse=True)
    count = model.sizes[root]
    start, value = offsets(count), within(count)
    pair = _only_pair(model)[child]
    first = given.network.message[pair] + np.where(model.head[pair] == root[child], model.sizes[model.tail[pair]], 0)
    if model.record is not None:
        model.record.leaves(
            child, root[child], [response[at : at + n] for at, n in zip(first, count[child], strict=True)]
        )
    value[spread(start[child], count[child])] = response[spread(first, count[child])]
    return Contraction(model.sizes[kept], new, start, value)


def _only_pair(model: Model) -> Ints:
    """A pair of every variable, shape (v,); of leaves, the only one."""
    pair = np.zeros(model.variables, dtype=np.int64)
    pair[model.tail] = np.arange(len(model.tail))
    pair[model.head] = np.arange(len(model.tail))
    return pair
