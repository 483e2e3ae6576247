"""The reduced problem: a network of cost functions with memory in use over time."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Container
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.dominance import simplify
from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.memory_pruning import values_that_fit
from shardmark.solvers.intraop.network.model import Mask, Model
from shardmark.solvers.intraop.network.ragged import Numbers, interval_sums, offsets, spread, within
from shardmark.solvers.intraop.network.record import Record
from shardmark.solvers.intraop.network.reduction import prepare, reduce

#: Memory pruning is repeated while it removes more than this fraction of the values.
WORTHWHILE = 0.01


class Problem:
    """Minimise the cost of an assignment, shape (v,), of a model subject to the memory limit in every step.

    The methods of `cfn-native` share it: they read ``model`` (costs) and ``footprint`` (memory), and return assignments
    that ``model.lift`` converts to strategies.

    ``variable``  shape (rows,): variable of every value
    ``room``      shape (steps,): memory available to the nodes whose memory depends on values
    """

    def __init__(self, instance: Instance, timeline: Timeline, model: Model) -> None:
        self.instance, self.timeline, self.model = instance, timeline, model
        self.footprint = Footprint(instance, timeline, model)
        self.variable = np.repeat(np.arange(model.variables), model.sizes)
        value = np.zeros(model.variables, dtype=np.int64)
        varying = self.profile(self.footprint.usage[self._first_usage].astype(np.int64))
        self.room = timeline.limit - (self.footprint.profile(value) - varying)

    @classmethod
    def of(
        cls, instance: Instance, timeline: Timeline, *, tolerant: bool = False, until: float = math.inf
    ) -> Problem | None:
        """Reduce an instance until a time; None if every assignment that fits has a forbidden entry."""
        model = prepare(instance, timeline, tolerant=tolerant, until=until)
        return None if model is None else cls.reduced(instance, timeline, model, until)

    @classmethod
    def reduced(cls, instance: Instance, timeline: Timeline, model: Model, until: float = math.inf) -> Problem | None:
        """Apply dominance and memory pruning until they achieve little or time is up; None if nothing is left.

        If memory is rounded, nothing is pruned.
        """
        left, go_on = model, timeline.exact
        while go_on:
            simple = simplify(instance, timeline, left, until)
            if simple is None:
                return None
            problem = cls(instance, timeline, simple)
            values = values_that_fit(problem.footprint, problem.room, simple.record)
            if values is None or values.all():
                return None if values is None else problem
            fewer = problem._fewer(values, np.ones(len(simple.cell), dtype=bool), simple.record)
            if fewer is None:
                return None
            left, go_on = fewer, values.mean() < 1 - WORTHWHILE and time.monotonic() < until
        return cls(instance, timeline, left)

    @cached_property
    def _first_usage(self) -> Ints:
        """Place in ``footprint.usage`` of every node under the first value of its variable."""
        foot = self.footprint
        return foot.usage_start[foot.variable] + np.arange(len(foot.begin)) - foot.start[foot.variable]

    @cached_property
    def usages(self) -> tuple[Ints, Ints, Ints]:
        """Return ``(row, usage, start)``: node by node, the row and the memory of every value."""
        foot, sizes = self.footprint, self.model.sizes
        count = sizes[foot.variable]
        place = np.repeat(self._first_usage, count) + within(count) * np.repeat(foot.nodes[foot.variable], count)
        return spread(self.model.start[foot.variable], count), foot.usage[place], offsets(count)

    @property
    def allowed(self) -> int:
        """Number of values plus that of allowed cells."""
        return len(self.model.unary) + int((self.model.cell < self.model.forbidden).sum())

    def profile(self, of_node: Numbers) -> Numbers:
        """Sum over the live nodes of the footprint per step, shape (steps,)."""
        return interval_sums(of_node, self.footprint.begin, self.footprint.end, self.timeline.steps)

    def expected(self, weight: Floats) -> Floats:
        """Expected memory in every step beyond ``limit - room``, for weights of values, shape (rows,)."""
        row, usage, start = self.usages
        if not len(row):
            return np.zeros(self.timeline.steps)
        return self.profile(np.add.reduceat(usage * weight[row], start[:-1]))

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
        """Memory above the limit in every step, negative if there is room, for an assignment of shape (v,)."""
        return self.footprint.profile(value) - self.timeline.limit

    def restrict(self, values: Mask, cells: Mask, record: Record | None = None) -> Problem | None:
        """Restrict the problem to masks of values, shape (rows,), and cells of pairs; None if nothing is left.

        The result keeps a cheapest remaining assignment that fits.
        """
        fewer = self._fewer(values, cells, record)
        return None if fewer is None else self.reduced(self.instance, self.timeline, fewer)

    def _fewer(self, values: Mask, cells: Mask, record: Record | None) -> Model | None:
        """Restrict and reduce the model."""
        model = self.model
        unary, cell = np.where(values, model.unary, model.forbidden), np.where(cells, model.cell, model.forbidden)
        return reduce(dataclasses.replace(model, unary=unary, cell=cell, record=record))


def worst_steps(overload: Ints | Floats, count: int, known: Container[int] = ()) -> list[int]:
    """Up to ``count`` unknown steps of greatest positive overload, at least a fiftieth of all steps apart."""
    left, apart = overload.copy(), len(overload) // 50
    found: list[int] = []
    while len(found) < count and len(left) and left[step := int(np.argmax(left))] > 0:
        found.append(step)
        left[max(0, step - apart) : step + apart + 1] = 0
    return [step for step in found if step not in known]
