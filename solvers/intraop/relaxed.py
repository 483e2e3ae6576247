"""The lower bound of the problem without its memory limit, a cost function network, as far as toulbar2 proves it."""

from __future__ import annotations

import time

import numpy as np

from instances.columns import Ints
from instances.intraop import Instance
from solvers.intraop._memory import Timeline
from solvers.intraop._model import Model
from solvers.intraop._network import Network, Status
from solvers.intraop._reduce import prepare
from solvers.intraop._workers import Workers
from solvers.registry import Run, bound

#: Seconds kept back at the end for the child to answer.
RESERVE = 0.2
#: Message passing goes on while an iteration gains more than the fraction; share of the remaining time for it all.
STAGES = ((0.01, 0.1), (0.001, 0.3), (0.00001, 1.0))


@bound(
    track="intraop",
    name="cfn-relaxed",
    source="Soft Constraints, Strong Solutions, Equation (5) with multipliers of zero",
    deterministic=False,
)
def cfn_relaxed(instance: Instance, run: Run) -> None:
    """Minimise the cost without the memory limit, over strategies that fit beside the least of all others (toulbar2).

    A minimum that keeps the limit is reported as a solution.
    """
    run.bound(instance.cheapest_parts())
    timeline = Timeline.of(instance)
    for tolerant in (False, True):
        model = prepare(instance, timeline, tolerant=tolerant)
        if model is not None and _bound(instance, run, timeline, model):
            return


def _bound(instance: Instance, run: Run, timeline: Timeline, model: Model) -> bool:
    """Report better and better bounds above the simplest; False if the model has no assignment at all.

    What a model forbids costs more than any assignment without it, so the bound holds for all solutions.
    """
    network, best = Network(model), instance.cheapest_parts()
    for accuracy, share in STAGES:
        answer = _minimise(network, run, accuracy, share * (run.remaining() - RESERVE))
        if answer is None:
            continue
        status, proven = answer[:2].tolist()
        if status == Status.IMPOSSIBLE:
            return False
        if proven << model.shift > best:
            best = proven << model.shift
            run.bound(best)
        if status == Status.OPTIMAL:
            strategy = model.lift(instance, answer[2:])
            usage = timeline.usage[instance.strategy_start[:-1] + strategy]
            if (timeline.profile(usage) <= timeline.limit).all():
                run.report(strategy.tolist())
            return True
    return True


def _minimise(network: Network, run: Run, accuracy: float, seconds: float) -> Ints | None:
    """Minimise without penalties in a child: ``[status, bound in costs of the model, *values]``, None if cut off."""
    until = time.monotonic() + seconds  # no later than the child is asked to stop: an end before it is the search's own

    def job() -> Ints:
        found = network.minimise(nothing, seconds, until, discrepancies=0, accuracy=accuracy)
        value = nothing[:0] if found.value is None else found.value
        proven = -(-found.bound // network.scale)  # whole costs: round up
        if found.value is not None and found.status == Status.OPTIMAL:
            proven = network.model.cost(found.value)
        return np.concatenate([[found.status, proven], value])

    nothing = np.zeros(len(network.model.unary), dtype=np.int64)
    with Workers() as workers:
        workers.launch(None, job, seconds)
        answers = workers.collect(run.deadline - RESERVE / 2)
    return answers[0][1] if answers else None
