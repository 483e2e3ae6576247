"""The pipeline verifier against hand-solved graphs, a slow evaluator and broken solutions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.harness.verify import parts, verify
from shardmark.instances.pipeline import Instance, parse


def pipeline(work, output, edges, *, params=None, stages=2, bandwidth=1, memory=None):
    document = {
        "format": "shardmark/pipeline/1",
        "stages": stages,
        "bandwidth": bandwidth,
        "memory": memory,
        "nodes": {"work": work, "output_size": output, "param_size": params or [0] * len(work)},
        "edges": edges,
    }
    return parse(document, "test")


def fan():
    """Node 0 feeds 1, 2 and 3; all feed 4."""
    edges = [[0, 1], [0, 2], [0, 3], [1, 4], [2, 4], [3, 4]]
    return pipeline([1, 2, 3, 4, 5], [10, 20, 30, 40, 50], edges, stages=3, bandwidth=10)


def slow_peak(instance: Instance, stage: list[int], order: list[int], number: int) -> Fraction:
    """Peak of Equation (2), by walking through the stage's nodes and listing what is in memory."""
    inside = [v for v in order if stage[v] == number]
    edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    peak = Fraction(0)
    for step, node in enumerate(inside):
        done, ahead = inside[: step + 1], inside[step:]
        needed = {u for u, v in edges if v in ahead and stage[u] != number}
        needed |= {u for u, v in edges if u in done and (v in ahead or stage[v] != number)}
        peak = max(peak, sum((Fraction(instance.output_size[u]) for u in needed | {node}), Fraction(0)))
    return peak


def slow_cost(instance: Instance, stage: list[int], order: list[int]) -> Fraction:
    """Equations (1) to (4) in fractions, one stage at a time."""
    edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    worst = Fraction(0)
    for number in set(stage):
        members = [v for v in order if stage[v] == number]
        inputs = {u for u, v in edges if stage[v] == number and stage[u] != number}
        outputs = {u for u, v in edges if stage[u] == number and stage[v] != number}
        moved = sum(Fraction(instance.output_size[u]) for u in inputs)
        moved += sum(Fraction(instance.output_size[u]) for u in outputs)
        if instance.memory is not None:
            params = sum(Fraction(instance.param_size[v]) for v in members)
            excess = params + slow_peak(instance, stage, order, number) - Fraction(instance.memory)
            moved += max(excess, Fraction(0))
        work = sum(Fraction(instance.work[v]) for v in members)
        worst = max(worst, work + moved / Fraction(instance.bandwidth))
    return worst


def is_acyclic(instance: Instance, stage: list[int]) -> bool:
    """Return True if some order of the stages has no edge that leads back."""
    pairs = {(stage[u], stage[v]) for u, v in zip(instance.graph.tail, instance.graph.head, strict=True)}
    orders = itertools.permutations(sorted(set(stage)))
    return any(all(order.index(a) <= order.index(b) for a, b in pairs) for order in orders)


@st.composite
def instances(draw):
    size = st.one_of(st.integers(0, 9), st.floats(0, 1e6), st.sampled_from([0.1, 1e-300, 1e300, 2.0**53 + 2]))
    n = draw(st.integers(1, 6))
    pairs = [[u, v] for u in range(n) for v in range(u + 1, n)]
    edges = draw(st.lists(st.sampled_from(pairs), unique_by=tuple)) if pairs else []
    label = draw(st.permutations(range(n)))
    column = st.lists(size, min_size=n, max_size=n)
    return pipeline(
        draw(column),
        draw(column),
        [[label[u], label[v]] for u, v in edges],
        params=draw(column),
        stages=draw(st.integers(1, 4)),
        bandwidth=draw(st.sampled_from([1, 0.1, 3, 1e6])),
        memory=draw(st.one_of(st.none(), st.integers(0, 40))),
    )


def test_each_tensor_counts_once_for_a_stage_and_direction():
    # Stage 1 receives the tensor of node 0 once, though two of its nodes consume it, and sends two.
    verdict = verify(fan(), [0, 1, 1, 2, 2])
    assert verdict.feasible
    stage_0 = 1 + 10 / 10
    stage_1 = 2 + 3 + 10 / 10 + (20 + 30) / 10
    stage_2 = 4 + 5 + (10 + 20 + 30) / 10
    assert verdict.cost == max(stage_0, stage_1, stage_2) == 15


def test_stage_numbers_need_no_order_and_may_stay_empty():
    assert verify(fan(), [2, 0, 0, 1, 1]).cost == 15
    everything = verify(fan(), [1, 1, 1, 1, 1])
    assert everything.feasible
    assert everything.cost == 15


def test_a_cycle_is_reported_with_stages_and_edges_and_has_a_cost():
    verdict = verify(fan(), [2, 2, 0, 2, 2])
    assert not verdict.feasible
    assert verdict.cost == 1 + 2 + 4 + 5 + (30 + 10) / 10
    assert verdict.violations == (
        "solution: expected no cycle among the stages, found 0 -> 2 -> 0 through the edges 2 -> 4, 0 -> 2",
    )


def test_overflow_depends_on_the_execution_order():
    # Two chains 0 -> 1 and 2 -> 3 that end in small tensors: one after the other is 11, both at once 20.
    def chains(memory):
        return pipeline([1] * 4, [10, 1, 10, 1], [[0, 1], [2, 3]], params=[2] * 4, stages=1, memory=memory)

    stage = [0] * 4
    assert verify(chains(19), {"block": stage, "order": [0, 1, 2, 3]}).cost == 4
    assert verify(chains(19), {"block": stage, "order": [0, 2, 1, 3]}).cost == 4 + (8 + 21 - 19)
    assert verify(chains(18), stage).cost == 4 + (8 + 11 - 18)


def test_peak_holds_inputs_until_used_and_outputs_to_the_end():
    # Stage {1, 2} reads the tensor of 0 for node 2; node 1's output goes to stage {3}.
    instance = pipeline([0] * 4, [5, 7, 1, 0], [[0, 2], [1, 3], [2, 3]], stages=3, memory=0)
    # 12 while node 1 executes, 13 while node 2 does; input 5, outputs 8.
    assert verify(instance, [0, 1, 1, 2]).cost == 5 + 8 + 13


@given(instances(), st.data())
def test_equals_slow_evaluator(instance, data):
    stage = [data.draw(st.integers(0, instance.stages - 1)) for _ in range(instance.nodes)]
    verdict = verify(instance, stage)
    kahn = []
    while left := [v for v in range(instance.nodes) if v not in kahn]:
        # Smallest index first among the nodes whose producers in the stage are done.
        before = {v: [u for u in instance.graph.predecessors(v).tolist() if stage[u] == stage[v]] for v in left}
        kahn.append(min(v for v in left if set(before[v]) <= set(kahn)))
    assert verdict.cost == float(slow_cost(instance, stage, kahn))
    assert verdict.feasible == is_acyclic(instance, stage)


@given(instances(), st.data())
def test_equals_slow_evaluator_in_a_given_order(instance, data):
    stage = [data.draw(st.integers(0, instance.stages - 1)) for _ in range(instance.nodes)]
    order = data.draw(st.permutations(range(instance.nodes)))
    edges = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True)
    late = [(u, v) for u, v in edges if stage[u] == stage[v] and order.index(u) > order.index(v)]
    verdict = verify(instance, {"block": stage, "order": order})
    if late:
        u, v = late[0]
        reason = f"order[{order.index(v)}]: expected node {u} before node {v}, which consumes its output"
        assert (verdict.feasible, verdict.cost) == (False, None)
        assert verdict.violations[-1].startswith(reason)
    else:
        assert verdict.cost == float(slow_cost(instance, stage, order))
        assert verdict.feasible == is_acyclic(instance, stage)


def test_cost_is_rounded_only_once():
    instance = pipeline([0.1] * 10, [0] * 10, [], stages=1)
    assert verify(instance, [0] * 10).cost == float(10 * Fraction(0.1))


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        ("01", "solution: expected a list of 5 integers, found '01'"),
        ([0], "solution: expected 5 elements, one per node, found 1"),
        ([0, 0, 0, 0, 3], "solution[4]: expected a stage from 0 to 2, found 3"),
        ([0, 0, 0, 0, False], "solution[4]: expected a stage from 0 to 2, found false"),
        ([0, 0, 0, 0, 2.0], "solution[4]: expected a stage from 0 to 2, found 2.0"),
        ([0, 0, 0, 0, float("nan")], "solution[4]: expected a stage from 0 to 2, found nan"),
        ([-1, 0, 0, 0, 0], "solution[0]: expected a stage from 0 to 2, found -1"),
        ([10**30, 0, 0, 0, 0], "solution[0]: expected a stage from 0 to 2, found 1" + 30 * "0"),
        ({}, "solution: expected a list of 5 stages, or an object with the keys block and order, found none"),
        (
            {"stages": [0] * 5},
            "solution: expected a list of 5 stages, or an object with the keys block and order, found 'stages'",
        ),
        (
            {"block": [0] * 5, "cost": 1},
            "solution: expected a list of 5 stages, or an object with the keys block and order, found 'block', 'cost'",
        ),
        ({"block": [0] * 4}, "block: expected 5 elements, one per node, found 4"),
        ({"block": None}, "block: expected a list of 5 integers, found null"),
        ({"block": [0] * 5, "order": 5}, "order: expected a list of 5 integers, found 5"),
        ({"block": [0] * 5, "order": [0, 1, 2, 3, 5]}, "order[4]: expected a node index from 0 to 4, found 5"),
        ({"block": [0] * 5, "order": [0, 1, 2, 3, 3]}, "order: expected every node once, but node 4 is missing"),
        (
            {"block": [0] * 5, "order": [0, 1, 2, 4, 3]},
            "order[3]: expected node 3 before node 4, which consumes its output in the same stage",
        ),
    ],
)
def test_malformed_solutions_get_a_sentence_and_no_cost(solution, reason):
    verdict = verify(fan(), solution)
    assert (verdict.feasible, verdict.cost, verdict.violations) == (False, None, (reason,))


def test_an_empty_graph_costs_nothing():
    assert verify(pipeline([], [], []), []).cost == 0.0


def test_the_cost_of_a_solution_is_that_of_its_dearest_stage():
    instance = fan()
    for solution in ([2, 0, 0, 0, 0], {"block": [2, 0, 0, 0, 0], "order": [0, 1, 2, 3, 4]}):
        found = parts(instance, solution)
        assert (found.names, found.loads) == (["stage 0", "stage 2"], [15.0, 2.0])
        assert verify(instance, solution).cost == 15.0
