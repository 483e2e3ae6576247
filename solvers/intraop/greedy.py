"""A constructive heuristic under several prices of memory, each result improved by single moves."""

from __future__ import annotations

import time

import numpy as np

from instances.intraop import Instance
from solvers.intraop._construct import cheapest, construct
from solvers.intraop._memory import Footprint, Timeline
from solvers.intraop._record import Record
from solvers.intraop._reduce import prepare
from solvers.registry import Run, solver

#: Prices of memory, as fractions of what a unit of it cost in the solution built without a price.
PRICES = (0.001, 0.01, 0.1, 1.0, 10.0)
#: Seconds kept back at the end for the last report.
RESERVE = 0.2


@solver(track="intraop", source="steepest regret construction, first-improvement descent")
def greedy(instance: Instance, run: Run) -> None:
    """Decide node after node, largest regret first, then improve single nodes; best of several prices of memory."""
    timeline = Timeline.of(instance)
    record, end = Record(instance, run, timeline), run.deadline - RESERVE
    record.offer(cheapest(instance.usage, instance.strategy_start))
    model = prepare(instance, timeline) or prepare(instance, timeline, tolerant=True)
    assert model is not None, "a tolerant model forbids no table entry"
    footprint = Footprint(instance, timeline, model)
    memory = model.fold((timeline.usage - timeline.least()[timeline.owner]).astype(np.float64))

    def attempt(price: float) -> float:
        """Report what a price leads to; the cost of the built solution for a unit of memory above the least."""
        search = construct(footprint, memory * price, end)
        used = memory[model.start[:-1] + search.value].sum()
        unit = model.cost(search.value) / used if used else 0.0
        if search.repair(end):
            search.descend(end)
        record.offer(model.lift(instance, search.value))
        return unit

    unit = attempt(0.0)
    for price in PRICES:
        if unit and time.monotonic() < end:
            attempt(unit * price)
