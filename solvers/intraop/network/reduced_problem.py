"""The reduced problem: a network of cost functions, and memory in use over time."""

from __future__ import annotations

import dataclasses
import math
import time
from functools import cached_property
from typing import TypeVar

import numpy as np

from instances.files.columns import Floats, Ints
from instances.intraop import Instance
from solvers.intraop.network.dominance import simplify
from solvers.intraop.network.memory import Footprint, Timeline
from solvers.intraop.network.memory_pruning import values_that_fit
from solvers.intraop.network.model import Mask, Model
from solvers.intraop.network.ragged import offsets, spread, within
from solvers.intraop.network.reduction import prepare, reduce

Number = TypeVar("Number", Ints, Floats)

#: Values are looked for that cannot fit while there are more than this fraction.
FEW = 0.01


class Problem:
    """Choose a value for every variable of a model such that memory suffices in every step, at least cost.

    The methods of `cfn-native` share it: they read the arrays of ``model`` (costs) and ``footprint`` (memory), and
    hand back values, shape (v,), that ``model.lift`` turns into strategies.

    ``variable``  shape (rows,): variable of every value
    ``room``      shape (steps,): memory that is left to the nodes whose memory depends on values
    """

    def __init__(self, instance: Instance, timeline: Timeline, model: Model) -> None:
        self.instance, self.timeline, self.model = instance, timeline, model
        self.footprint = Footprint(instance, timeline, model)
        self.variable = np.repeat(np.arange(model.variables), model.sizes)
        value = np.zeros(model.variables, dtype=np.int64)
        varying = self._profile(self.footprint.usage[self._first_usage].astype(np.int64))
        self.room = timeline.limit - (self.footprint.profile(value) - varying)

    @classmethod
    def of(
        cls, instance: Instance, timeline: Timeline, *, tolerant: bool = False, until: float = math.inf
    ) -> Problem | None:
        """The reduced problem of an instance; None where every assignment that fits has a forbidden entry.

        At the time ``until`` it is taken as it is then.
        """
        model = prepare(instance, timeline, tolerant=tolerant, until=until)
        return None if model is None else cls._reduced(instance, timeline, model, until)

    @classmethod
    def _reduced(cls, instance: Instance, timeline: Timeline, model: Model, until: float = math.inf) -> Problem | None:
        """The problem without what dominance and memory rule out; None if nothing is left.

        That ends at the time ``until``, or when memory rules out few values at once. Rounded memory rules out none.
        """
        left, go_on = model, timeline.exact
        while go_on:
            simple = simplify(instance, timeline, left, until)
            if simple is None:
                return None
            problem = cls(instance, timeline, simple)
            values = values_that_fit(problem.footprint, problem.room)
            if values is None or values.all():
                return None if values is None else problem
            fewer = problem._fewer(values, np.ones(len(simple.cell), dtype=bool))
            if fewer is None:
                return None
            left, go_on = fewer, values.mean() < 1 - FEW and time.monotonic() < until
        return cls(instance, timeline, left)

    @cached_property
    def _first_usage(self) -> Ints:
        """Place in ``footprint.usage`` of every node under the first value of its variable."""
        foot = self.footprint
        return foot.usage_start[foot.variable] + np.arange(len(foot.begin)) - foot.start[foot.variable]

    @cached_property
    def usages(self) -> tuple[Ints, Ints, Ints]:
        """``(row, usage, start)``: all nodes one after another, of each every value's row and memory."""
        foot, sizes = self.footprint, self.model.sizes
        count = sizes[foot.variable]
        place = np.repeat(self._first_usage, count) + within(count) * np.repeat(foot.nodes[foot.variable], count)
        return spread(self.model.start[foot.variable], count), foot.usage[place], offsets(count)

    def _profile(self, of_node: Number) -> Number:
        """The sum over the nodes of the footprint that are live, shape (steps,)."""
        change = np.zeros(self.timeline.steps + 1, dtype=of_node.dtype)
        np.add.at(change, self.footprint.begin, of_node)
        np.add.at(change, self.footprint.end, -of_node)
        result: Number = np.cumsum(change)[:-1]
        return result

    def expected(self, weight: Floats) -> Floats:
        """Memory in use in every step, beside ``limit - room``, where each value has a weight, shape (rows,)."""
        row, usage, start = self.usages
        if not len(row):
            return np.zeros(self.timeline.steps)
        return self._profile(np.add.reduceat(usage * weight[row], start[:-1]))

    def memory(self, step: int) -> Ints:
        """Memory that every value adds at one time step, shape (rows,)."""
        foot = self.footprint
        node = np.flatnonzero((foot.begin <= step) & (step < foot.end))
        row, usage, start = self.usages
        place = spread(start[node], start[node + 1] - start[node])
        result = np.zeros(len(self.variable), dtype=np.int64)
        np.add.at(result, row[place], usage[place])
        return result

    def overload(self, value: Ints) -> Ints:
        """Memory above the limit in every step, negative where there is room, for values of shape (v,)."""
        return self.footprint.profile(value) - self.timeline.limit

    def keep(self, values: Mask, cells: Mask) -> Problem | None:
        """The problem with some values, shape (rows,), and cells of pairs only, reduced; None if nothing is left.

        Of the assignments that are left and fit, one of least cost is in it.
        """
        fewer = self._fewer(values, cells)
        return None if fewer is None else self._reduced(self.instance, self.timeline, fewer)

    def _fewer(self, values: Mask, cells: Mask) -> Model | None:
        """The model with some values and cells only, reduced."""
        model = self.model
        unary = np.where(values, model.unary, model.forbidden)
        return reduce(dataclasses.replace(model, unary=unary, cell=np.where(cells, model.cell, model.forbidden)))

    def first_values(self, of_row: Ints) -> Ints:
        """The value of every variable that has the least entry, the first of equals; shape (v,)."""
        start = self.model.start[:-1]
        least = np.minimum.reduceat(of_row, start)
        hit = np.flatnonzero(of_row == least[self.variable])
        return hit[np.searchsorted(hit, start)] - start


def worst_steps(overload: Ints | Floats, count: int) -> list[int]:
    """Up to ``count`` steps of greatest overload, above 0 and apart from each other by a fiftieth of all steps."""
    left, apart = overload.copy(), len(overload) // 50
    found: list[int] = []
    while len(found) < count and len(left) and left[step := int(np.argmax(left))] > 0:
        found.append(step)
        left[max(0, step - apart) : step + apart + 1] = 0
    return found
