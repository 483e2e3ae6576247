"""Sharded networks follow the cost model; their memory limits can be met and bind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.instances.generate import families, hand_solved
from shardmark.instances.generate.networks import architectures
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.generate.sharding import LATENCY, Problem, generated_mesh
from shardmark.instances.models.sharding.problem import IMPOSSIBLE

SMALL = {"layers": 2, "batch": 8, "sequence": 64, "width": 128, "heads": 4, "vocabulary": 512}


def build(name, seed=1, **parameters):
    return families()[name].build(seed, **parameters)


def transformer(mesh="2x4", *, training=True, joint=False):
    model = architectures.transformer(**SMALL, head_groups=1)
    return Problem(model, generated_mesh(mesh), training, joint, [1.0] * len(model.operators))


def test_every_weight_is_a_node_that_lives_all_the_time():
    problem = transformer(training=False)
    weights = [node for node in problem.nodes if node.role.endswith("/weight")]
    assert len(weights) == 2 * 8 + 3
    assert {(node.begin, node.end) for node in weights} == {(0, problem.steps)}
    shared = build("sharded-sequence-to-sequence", steps=5)
    assert shared.edges > 2 * shared.nodes


def test_tensors_live_until_their_last_reader_or_backward_step():
    forward, both = transformer(training=False), transformer(training=True)
    count = len(forward.model.operators)
    for problem in (forward, both):
        operators = [node for node in problem.nodes if not node.role.endswith("/weight")]
        for index, node in enumerate(operators):
            readers = [v for u, v in problem.model.edges() if u == index]
            last = 2 * count - 1 - index if problem.training else max(readers, default=index)
            assert (node.begin, node.end) == (index, last + 1)


def by_loops(problem, role):
    """Costs of an operator by the loops that it splits, one per mesh axis."""
    node = next(node for node in problem.nodes if node.role == role)
    operator = next(operator for operator in problem.model.operators if operator.role == role)
    names = [*operator.loops, None]
    return {tuple(names[i] for i in split): cost for split, cost in zip(node.splits, node.costs.tolist(), strict=True)}


def test_summing_partial_results_costs_more_than_splitting_the_output():
    problem = transformer("4", training=False)
    cost = by_loops(problem, "down")
    assert cost[("hidden",)] > cost[("batch",)] + LATENCY
    assert cost[(None,)] > cost[("batch",)]


def test_training_pays_for_gradients_of_replicated_weights():
    without, training = (transformer("4", training=flag) for flag in (False, True))
    for problem, tied in ((without, 0), (training, LATENCY)):
        cost = by_loops(problem, "up")
        # Splitting the batch sums the weight's gradient, splitting hidden units that of the input.
        assert min(cost[("batch",)], cost[("hidden",)]) >= tied


def test_fused_operators_take_the_layout_they_find():
    problem = transformer()
    rigid = [edge for edge in problem.edges if edge.rigid]
    assert len(rigid) == 2 * 4
    for edge in rigid:
        first, second = (problem.nodes[node] for node in edge.nodes)
        cells = zip(itertools.product(first.layouts.tolist(), second.layouts.tolist()), edge.costs.flat, strict=True)
        assert all(cost == (0 if a == b else IMPOSSIBLE) for (a, b), cost in cells)


def test_crosscuts_tie_like_operators():
    problem = transformer()
    before = len(problem.edges)
    problem.tie(1)
    ties = problem.edges[before:]
    assert len(ties) == 14 + 8  # operators of the second layer, and their weights
    for edge in ties:
        first, second = (problem.nodes[node] for node in edge.nodes)
        assert (first.layer, first.role) == (second.layer - 1, second.role)
        assert np.array_equal(edge.costs == 0, np.eye(len(first.costs)))
    chosen = problem.greedy(frugal=True)
    assert all(chosen[edge.nodes[0]] == chosen[edge.nodes[1]] for edge in ties)


def test_joint_collectives_pay_latency_once():
    apart, joint = transformer(joint=False), transformer(joint=True)
    assert max(len(edge.nodes) for edge in joint.edges) == 3
    scores = next(i for i, node in enumerate(joint.nodes) if node.role == "scores")
    (together,) = [edge for edge in joint.edges if edge.nodes[-1] == scores]
    tables = [edge.costs for edge in apart.edges if edge.nodes[-1] == scores]
    added = tables[0][:, None, :] + tables[1][None, :, :]
    saved = added - together.costs
    moving = (tables[0] > 0)[:, None, :] & (tables[1] > 0)[None, :, :]
    assert abs(saved - np.where(moving, 2 * LATENCY, 0)).max() <= 1


SHARDED = [name for name in families() if name.startswith("sharded")]


@pytest.mark.parametrize("name", SHARDED)
@pytest.mark.parametrize("training", [0, 1])
def test_limits_can_be_met_and_are_below_the_fast_assignment(name, training):
    small = {"layers": 2} if "layers" in families()[name].parameters else {}
    loose, tight = (build(name, training=training, tightness=t, mesh="4", **small) for t in (0.0, 1.0))
    assert tight.usage_limit <= loose.usage_limit
    assert tight.usage_limit >= tight.summary()["least_peak_usage"]


@pytest.mark.parametrize("crosscut", [0, 1])
def test_the_frugal_assignment_is_feasible_and_possible(crosscut):
    problem = transformer()
    if crosscut:
        problem.tie(1)
    for tightness in (0.0, 0.5, 1.0):
        instance = problem.instance(tightness)
        verdict = verify(instance, problem.greedy(frugal=True))
        assert verdict.feasible
        assert verdict.cost < IMPOSSIBLE
    fast = verify(instance, problem.greedy(frugal=False))
    assert not fast.feasible
    assert fast.cost < verdict.cost


def test_menus_trade_cost_against_memory():
    instance = build("menus", nodes=60)
    assert instance.edges == 0
    for start, end in itertools.pairwise(instance.strategy_start.tolist()):
        assert (np.diff(instance.node_cost[start:end]) > 0).all()
        assert (np.diff(instance.usage[start:end]) < 0).all()
    assert not verify(instance, [0] * 60).feasible
    assert verify(instance, (instance.strategies - 1).tolist()).feasible


@pytest.mark.parametrize(
    ("function", "optimum", "unlimited"), [(hand_solved.diamond, 137, 101), (hand_solved.triangle, 6, 3)]
)
def test_hand_solved_choices(function, optimum, unlimited):
    instance = function(Draws(0))
    solutions = itertools.product(*map(range, instance.strategies.tolist()))
    verdicts = [verify(instance, list(solution)) for solution in solutions]
    assert min(v.cost for v in verdicts if v.feasible) == optimum
    assert min(v.cost for v in verdicts) == unlimited
