"""The intraop verifier against the contest's example, a slow evaluator, published vectors and broken solutions."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.harness.verify import verify
from shardmark.harness.verify.intraop import usage_profile
from shardmark.instances import load, save
from shardmark.instances.files.jsonfile import read_json
from shardmark.instances.intraop import Instance, parse

ATTACK = Path(__file__).parents[2] / "data" / "attack"
PUBLISHED = {  # cost and peak memory of the vectors, by the contest's reference evaluator
    "A": (6550261230, 444904572),
    "B": (532843, 14161040),
    "D": (309396217429, 26554095832),
    "G": (217039, 14381224),
    "M": (49928157537, 24431465400),
    "P": (662197407330, 162980115710),
    "R": (367060921200, 34732518864),
    "S": (1521949307, 300736372),
}


def problem(intervals, costs, usages, scopes=(), tables=(), limit=10**6):
    nodes = {"intervals": intervals, "costs": costs, "usages": usages}
    edges = {"nodes": list(scopes), "costs": list(tables)}
    return parse({"problem": {"nodes": nodes, "edges": edges, "usage_limit": limit}}, "test")


def diamond(limit=50):
    """Node 0 feeds 1 and 2, both feed 3; the cheap strategy of node 2 needs 55 of memory in [20, 40)."""
    return problem(
        [[0, 40], [10, 40], [20, 70], [60, 90]],
        [[5], [20, 30], [8, 16, 12], [40]],
        [[10], [25, 25], [15, 20, 15], [30]],
        [[0, 1], [0, 2], [1, 3], [2, 3]],
        [[3, 4], [50, 1, 40], [9, 2], [6, 7, 8]],
        limit,
    )


def test_a_file_without_a_limit_takes_any_amount_of_memory(tmp_path):
    """A limit of 2^63 - 1, which such a file once had, would be exceeded by one."""
    instance = load(ATTACK / "no_limit.json")
    assert instance.usage_limit is None
    assert verify(instance, read_json(ATTACK / "no_limit.sol")).feasible
    save(instance, tmp_path / "again.json")
    assert load(tmp_path / "again.json").usage_limit is None
    assert "usage_limit" not in (tmp_path / "again.json").read_text()
    assert instance.summary()["usage_limit"] is None


def slow_verdict(instance: Instance, solution: list[int]) -> tuple[int, dict[int, int]]:
    """Return cost and memory at every time step, straight from Equations (1) and (2)."""
    row = [int(instance.strategy_start[v]) + s for v, s in enumerate(solution)]
    cost = sum(int(instance.node_cost[r]) for r in row)
    for e in range(instance.edges):
        scope = instance.scope[instance.scope_start[e] : instance.scope_start[e + 1]].tolist()
        menus = [range(int(instance.strategies[v])) for v in scope]
        cell = list(itertools.product(*menus)).index(tuple(solution[v] for v in scope))
        cost += int(instance.table[instance.table_start[e] + cell])
    memory: dict[int, int] = {}
    for v, r in enumerate(row):
        for t in range(int(instance.begin[v]), int(instance.end[v])):
            memory[t] = memory.get(t, 0) + int(instance.usage[r])
    return cost, memory


@st.composite
def instances(draw):
    values = st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1), st.just(10**18))
    n = draw(st.integers(1, 5))
    menus = [draw(st.integers(1, 3)) for _ in range(n)]
    begins = [draw(st.integers(0, 6)) for _ in range(n)]
    scopes = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, max_size=4), max_size=5))
    sizes = [int(np.prod([menus[v] for v in scope])) for scope in scopes]
    return problem(
        [[b, b + draw(st.integers(0, 4))] for b in begins],
        [draw(st.lists(values, min_size=k, max_size=k)) for k in menus],
        [draw(st.lists(values, min_size=k, max_size=k)) for k in menus],
        scopes,
        [draw(st.lists(values, min_size=k, max_size=k)) for k in sizes],
        draw(st.one_of(st.integers(0, 30), st.integers(0, 2**63 - 1))),
    )


def every_verdict(instance):
    return {s: verify(instance, list(s)) for s in itertools.product(*map(range, instance.strategies.tolist()))}


def test_hand_solved_diamond():
    costs = {s: v.cost for s, v in every_verdict(diamond()).items() if v.feasible}
    assert costs == {
        (0, 0, 0, 0): 45 + (20 + 3 + 9) + (8 + 50 + 6),
        (0, 0, 2, 0): 45 + (20 + 3 + 9) + (12 + 40 + 8),
        (0, 1, 0, 0): 45 + (30 + 4 + 2) + (8 + 50 + 6),
        (0, 1, 2, 0): 45 + (30 + 4 + 2) + (12 + 40 + 8),
    }


def test_memory_sentence_names_step_amount_and_count():
    verdict = verify(diamond(), [0, 0, 1, 0])
    assert not verdict.feasible
    assert verdict.cost == 45 + (20 + 3 + 9) + (16 + 1 + 7)
    assert verdict.violations == (
        "time step 20: expected at most 50 of memory in use, found 55, 5 too much "
        "(20 time steps are above the limit, this is the worst)",
    )


def test_a_single_time_step_above_the_limit_is_not_counted():
    verdict = verify(problem([[3, 4]], [[0]], [[8]], limit=7), [0])
    assert verdict.violations == ("time step 3: expected at most 7 of memory in use, found 8, 1 too much",)


def test_intervals_are_half_open():
    adjacent = problem([[0, 5], [5, 9]], [[0], [0]], [[7], [7]], limit=7)
    overlapping = problem([[0, 6], [5, 9]], [[0], [0]], [[7], [7]], limit=7)
    empty = problem([[3, 3]], [[0]], [[99]], limit=0)
    assert verify(adjacent, [0, 0]).feasible
    assert not verify(overlapping, [0, 0]).feasible
    assert verify(empty, [0]).feasible


def test_totals_beyond_64_bits_are_exact():
    largest = 2**63 - 1
    instance = problem([[0, 1]] * 5, [[largest]] * 5, [[largest]] * 5, [[0, 4]], [[largest]], limit=largest)
    verdict = verify(instance, [0] * 5)
    assert verdict.cost == 6 * largest
    assert f"found {5 * largest}, {4 * largest} too much" in verdict.violations[0]


def test_a_cost_of_10_to_the_18_is_no_violation():
    verdict = verify(problem([[0, 1]], [[10**18]], [[1]]), [0])
    assert verdict.feasible
    assert verdict.cost == 10**18


@given(instances(), st.data())
def test_equals_slow_evaluator(instance, data):
    solution = [data.draw(st.integers(0, int(k) - 1)) for k in instance.strategies]
    cost, memory = slow_verdict(instance, solution)
    verdict = verify(instance, solution)
    over = {t: used for t, used in memory.items() if used > instance.usage_limit}
    assert verdict.cost == cost
    assert verdict.feasible == (not over)
    if over:
        worst = max(over.values())
        step = min(t for t, used in over.items() if used == worst)
        assert verdict.violations[0].startswith(f"time step {step}: ")
        excess = worst - instance.usage_limit
        steps = f" ({len(over)} time steps" if len(over) > 1 else ""
        assert f"found {worst}, {excess} too much{steps}" in verdict.violations[0]


@given(instances())
def test_usage_profile_covers_every_time_step_once(instance):
    solution = [0] * instance.nodes
    _, memory = slow_verdict(instance, solution)
    columns = usage_profile(instance, instance.usage[instance.strategy_start[:-1]])
    steps = [column.tolist() for column in columns]
    profile = {t: high * 2**32 + low for b, e, high, low in zip(*steps, strict=True) for t in range(b, e)}
    assert {t: used for t, used in profile.items() if used} == {t: used for t, used in memory.items() if used}


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        (None, "solution: expected a list of 4 integers, found null"),
        ({"strategy": [0]}, "solution: expected a list of 4 integers, found an object"),
        ([0, 0, 0], "solution: expected 4 elements, one per node, found 3"),
        ([0] * 5, "solution: expected 4 elements, one per node, found 5"),
        ([0, 2, 0, 0], "solution[1]: expected a strategy index from 0 to 1, found 2"),
        ([0, 0, -1, 0], "solution[2]: expected a strategy index from 0 to 2, found -1"),
        ([0, True, 0, 0], "solution[1]: expected a strategy index from 0 to 1, found true"),
        ([0, 1.0, 0, 0], "solution[1]: expected a strategy index from 0 to 1, found 1.0"),
        ([0, float("nan"), 0, 0], "solution[1]: expected a strategy index from 0 to 1, found nan"),
        ([0, "1", 0, 0], "solution[1]: expected a strategy index from 0 to 1, found '1'"),
        ([0, None, 0, 0], "solution[1]: expected a strategy index from 0 to 1, found null"),
        ([0, [1], 0, 0], "solution[1]: expected a strategy index from 0 to 1, found a list of 1"),
        ([0, 10**30, 0, 0], "solution[1]: expected a strategy index from 0 to 1, found 1" + 30 * "0"),
        ([0, 10**5000, 0, 0], "solution[1]: expected a strategy index from 0 to 1, found an integer of 16610 bits"),
    ],
)
def test_malformed_solutions_get_a_sentence_and_no_cost(solution, reason):
    verdict = verify(diamond(), solution)
    assert (verdict.feasible, verdict.cost, verdict.violations) == (False, None, (reason,))


def test_optimum_of_the_contest_example_is_445(mirror):
    verdicts = every_verdict(load(mirror / "google/iopddl/example.json")).values()
    assert min(verdict.cost for verdict in verdicts if verdict.feasible) == 445


@pytest.mark.thorough(cases=4)
@pytest.mark.parametrize("letter", PUBLISHED)
def test_published_vectors_verify_to_their_listed_costs(letter, mirror):
    instance = load(mirror / f"google/iopddl/benchmarks/asplos-2025-iopddl-{letter}.json.gz")
    solution = read_json(mirror / f"solutions/intraop/{letter}.json")
    verdict = verify(instance, solution)
    rows = instance.strategy_start[:-1] + np.array(solution)
    _, _, high, low = usage_profile(instance, instance.usage[rows])
    greatest = max(h * 2**32 + x for h, x in zip(high.tolist(), low.tolist(), strict=True))
    assert verdict.feasible, verdict.violations
    assert (verdict.cost, greatest) == PUBLISHED[letter]
    assert greatest == instance.peak(instance.usage[rows])
