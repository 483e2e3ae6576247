"""Values that leave too little memory for all others, against the memory of every step."""

from __future__ import annotations

import numpy as np
import pytest
from effort import some_of

from shardmark.solvers.intraop.network.dominance import simplify
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.memory_pruning import values_that_fit
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare


def by_steps(problem):
    """Which values fit with the least memory of all other variables; None if none do."""
    fits, start = np.ones(len(problem.variable), dtype=bool), problem.model.start[:-1]
    for step in range(problem.timeline.steps):
        memory = problem.memory(step)
        least = np.minimum.reduceat(memory, start)
        room = problem.room[step] - least.sum()
        if room < 0:
            return None
        fits &= memory - least[problem.variable] <= room
    return fits


@pytest.mark.gate
def test_values_that_never_fit_are_those_that_exceed_the_room_of_a_step(tiny):
    seen = set()
    for seed in range(some_of(150)):
        instance = tiny.draw(np.random.default_rng(seed), nodes=8, arity=2)
        timeline = Timeline.of(instance)
        model = prepare(instance, timeline)
        if model is None or (model := simplify(instance, timeline, model)) is None or not model.variables:
            continue
        problem = Problem(instance, timeline, model)
        expected, found = by_steps(problem), values_that_fit(problem.footprint, problem.room)
        if expected is None:
            assert found is None
        else:
            assert (found == expected).all()
        seen.add(None if expected is None else bool(expected.all()))
    assert seen >= {False, True}


def test_a_value_that_only_two_nodes_together_make_too_large_goes(tiny):
    same = [0, 10**18, 10**18, 0]
    nodes = [(0, 2, [0, 5], [4, 0]), (0, 2, [0, 5], [4, 0]), (1, 2, [0, 1], [3, 2])]
    instance = tiny.make(nodes, [((0, 1), same)], limit=9)
    problem = Problem.of(instance, Timeline.of(instance))
    assert problem.model.variables == 1
    assert problem.model.cost(np.zeros(1, dtype=np.int64)) == tiny.best(instance)[1]
