"""Large neighbourhood search: blocks get new values, optimal given the rest, with memory at a price."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop._kernels import BlockLimits, MemoryNetwork
from shardmark.solvers.intraop.network.ragged import interval_sums, offsets
from shardmark.solvers.intraop.network.reduced_problem import Problem

#: Room that no load exceeds.
BOUNDLESS = 2**62


class LargeNeighbourhood:
    """Large neighbourhoods of one problem; an assignment is a value per variable, shape (v,).

    Time is divided into spans in which the same nodes are live; the room of a span is that of its tightest step.

    ``room``  shape (spans,): memory available to the nodes whose memory depends on values
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, model, foot = problem, problem.model, problem.footprint
        cuts = np.unique(np.concatenate([[0], foot.begin, foot.end]))
        cuts = cuts[cuts < problem.timeline.steps]
        self._begin, self._end = np.searchsorted(cuts, foot.begin), np.searchsorted(cuts, foot.end)
        self.room = np.minimum.reduceat(problem.room, cuts) if len(problem.room) else problem.room
        self._cuts = cuts
        scopes = [np.stack([model.tail, model.head], axis=1).ravel(), *(np.array(scope) for scope, _ in model.wide)]
        arity = np.array([2] * len(model.tail) + [len(scope) for scope, _ in model.wide], dtype=np.int64)
        cells = [model.cell, *(cost.ravel() for _, cost in model.wide)]
        tables = offsets(arity), np.concatenate(scopes), np.concatenate(cells).astype(np.float64)
        memory = foot.start, self._begin, self._end, foot.usage_start, foot.usage
        cost, boundless = model.unary.astype(np.float64), np.full(len(self.room), BOUNDLESS)
        self._tight, self._wide = (
            MemoryNetwork(model.start, cost, tables, memory, room) for room in (self.room, boundless)
        )

    def load(self, value: Ints) -> Ints:
        """Memory in use in every span by the nodes whose memory depends on values."""
        foot = self.problem.footprint
        place = foot.usage_start[foot.variable] + value[foot.variable] * foot.nodes[foot.variable]
        used = foot.usage[place + np.arange(len(foot.begin)) - foot.start[foot.variable]]
        return interval_sums(used, self._begin, self._end, len(self.room))

    def price(self, of_span: Floats) -> Floats:
        """Price of the memory of every value, shape (rows,), for prices per byte in every span."""
        row, usage, start = self.problem.usages
        until = np.concatenate([[0.0], np.cumsum(of_span)])
        of_node = until[self._end] - until[self._begin]
        weight = usage * np.repeat(of_node, np.diff(start))
        return np.bincount(row, weight, minlength=len(self.problem.variable)).astype(np.float64)

    def span_prices(self, multipliers: dict[int, float]) -> Floats:
        """Prices per byte in every span, given those of some steps."""
        result = np.zeros(len(self.room))
        for step, multiplier in multipliers.items():
            result[np.searchsorted(self._cuts, step, side="right") - 1] += multiplier
        return result

    def step_prices(self, price: Floats) -> dict[int, float]:
        """Non-zero prices per byte, assigned to the first step of their span."""
        return {int(self._cuts[span]): float(price[span]) for span in np.flatnonzero(price)}

    def improve(
        self, value: Ints, price: Floats, limits: BlockLimits, work: float, random: np.random.Generator, *, fits: bool
    ) -> tuple[Ints, Ints, float]:
        """Return ``(value, load, gain)`` after blocks of about ``work``; see `MemoryNetwork.improve`.

        If ``fits``, no change raises the load of a span beyond its room; else memory is limited only by its price.
        """
        field = self._tight if fits else self._wide
        value, load = value.copy(), self.load(value)
        state = random.integers(0, 2**63, size=1).astype(np.uint64)
        gain = field.improve(price, value, load, limits, work, state)
        return value, load, gain
