"""Our own method: exact reduction, Lagrangian bounds by message passing, the integer program of what they leave."""

from __future__ import annotations

import time

from instances.intraop import Instance
from solvers.intraop._construct import cheapest
from solvers.intraop._contradiction import contradiction, lack_of_memory
from solvers.intraop._dominance import simplify
from solvers.intraop._memory import Timeline
from solvers.intraop._model import IMPOSSIBLE, Model
from solvers.intraop._native import Native
from solvers.intraop._record import Record
from solvers.intraop._reduce import prepare
from solvers.registry import Declined, Run, solver

#: Seconds kept back at the end, for what does not stop at once: a fraction of the run's time, and its range.
RESERVE, LEAST_RESERVE, LARGEST_RESERVE = 0.02, 0.35, 1.0
#: Fraction of the time for finding the edge by which nothing is left.
REASON = 0.3


@solver(
    track="intraop",
    source="Kolmogorov 2006 for the bounds; Perron and Didier, CP-SAT, for what they leave",
    deterministic=False,
)
def cfn_native(instance: Instance, run: Run) -> None:
    """Reduce exactly, bound by multipliers and message passing, and solve what bounds leave as an integer program.

    An instance without an assignment that fits, or with entries of 10^17 and more in every one that does, is declined
    with the time step or the edge that shows it, after the least bad assignment has been reported.
    """
    end = run.deadline - min(max(RESERVE * run.remaining(), LEAST_RESERVE), LARGEST_RESERVE)
    timeline = Timeline.of(instance)
    record = Record(instance, run, timeline)
    record.offer(cheapest(instance.usage, instance.strategy_start))
    if record.excess and (reason := lack_of_memory(instance)):
        raise Declined(reason)
    bound = instance.cheapest_parts()
    run.bound(bound)
    model = _model(instance, timeline, tolerant=False)
    if model is not None and Native(run, record, instance, timeline, model, reported=bound, end=end).solve():
        return
    if timeline.exact and bound < IMPOSSIBLE:
        bound = IMPOSSIBLE
        run.bound(bound)
    reason = contradiction(instance, timeline, time.monotonic() + REASON * run.remaining())
    model = _model(instance, timeline, tolerant=True)
    assert model is not None, "a tolerant model forbids no table entry"
    Native(run, record, instance, timeline, model, reported=bound, end=end).solve()
    if timeline.exact:
        raise Declined(reason)


def _model(instance: Instance, timeline: Timeline, *, tolerant: bool) -> Model | None:
    """The reduced model; None where every assignment that fits has an entry of 10^17 or more."""
    model = prepare(instance, timeline, tolerant=tolerant)
    return simplify(instance, timeline, model) if model is not None and timeline.exact else model
