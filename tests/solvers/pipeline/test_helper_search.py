"""Stages that contain an operator with all helpers: against all sets, and against all partitions."""

from __future__ import annotations

import time
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from crosscheck.internals import pretend
from effort import some_of

from shardmark.harness.verify import verify
from shardmark.instances.pipeline import FORMAT, Instance, parse
from shardmark.instances.split_multi_output import Operation, Tensor, one_tensor_each
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.programs.certificates.cases import Case
from shardmark.solvers.pipeline.programs.certificates.claims import Claim, DividedClaim, prove_claim
from shardmark.solvers.pipeline.programs.helper_search import HelperSearch, search_stages
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MIDDLE, StageSearch
from shardmark.solvers.registry import LocalRun

SAFETY = 1e-9


def drawn(rng: np.random.Generator, stages: int, operators: int, *, work: int = 7, density: float = 0.6) -> Instance:
    """Operators of less than ``work`` that make up to three tensors for later ones, as a model of an import."""
    operations = [Operation(str(i), float(rng.integers(0, work)), 0.0) for i in range(operators)]
    for i, operation in enumerate(operations):
        for j in range(int(rng.integers(1, 4))):
            readers = [later for later in range(i + 1, operators) if rng.random() < density]
            operation.tensors += [Tensor(f"{i}.{j}", float(rng.integers(0, 6)), readers)] if readers else []
    return parse({"format": FORMAT, "name": "drawn", "stages": stages, **one_tensor_each(operations)}, "drawn", None)


@pytest.mark.parametrize(
    ("edges", "work", "output", "maker"),
    [
        ([(0, 1), (0, 2), (1, 3), (2, 4)], [5, 0, 0, 5, 5], [5, 2, 3, 0, 0], [0, 0, 0, 3, 4]),
        ([(0, 1), (0, 2), (1, 3), (2, 4)], [5, 0, 0, 5, 5], [4, 2, 3, 0, 0], [0, 1, 2, 3, 4]),  # 2 + 3 > 4
        ([(0, 1), (0, 2), (1, 3), (2, 4)], [5, 0, 1, 5, 5], [5, 2, 3, 0, 0], [0, 1, 2, 3, 4]),  # a reader that works
        ([(0, 1), (0, 2), (0, 3), (1, 3)], [5, 0, 0, 5], [9, 2, 3, 0], [0, 1, 2, 3]),  # another reader
        ([(0, 1), (2, 1), (1, 3)], [5, 0, 5, 5], [9, 2, 9, 0], [0, 1, 2, 3]),  # it reads from two
        ([(0, 1), (1, 2), (1, 3), (2, 4), (3, 5)], [5, 0, 0, 0, 5, 5], [9, 9, 2, 3, 0, 0], [0, 0, 2, 3, 4, 5]),
    ],
)
def test_which_nodes_are_helpers(
    oracle: SimpleNamespace, edges: list[tuple[int, int]], work: list[float], output: list[float], maker: list[int]
) -> None:
    """The last line: a helper whose readers are without work as well is no maker itself."""
    instance = oracle.make(edges, work, output, [0] * len(work), 2)
    search = search_stages(instance, LocalRun())
    if maker == list(range(len(maker))):
        assert type(search) is StageSearch
    else:
        assert isinstance(search, HelperSearch)
        assert search.maker.tolist() == maker


def expected_sets(search: HelperSearch, instance: Instance, closure: int) -> dict[tuple[bool, ...], int]:
    """Costs of all sets that are convex, or closed, and have all or none of a maker and its helpers."""
    reach = np.zeros((instance.nodes, instance.nodes), dtype=bool)
    tail, head = instance.graph.tail, instance.graph.head
    reach[tail, head] = True
    for v in range(instance.nodes):
        reach |= reach[:, [v]] & reach[[v]]
    found: dict[tuple[bool, ...], int] = {}
    for bits in product((False, True), repeat=instance.nodes):
        member: Any = np.array(bits)
        below, above = reach[member].any(axis=0) | (closure == FIRST), reach[:, member].any(axis=1) | (closure == LAST)
        if (member == member[search.maker]).all() and not (below & above & ~member).any():
            cut = np.unique(tail[member[tail] != member[head]])
            found[bits] = int(search.work[member].sum() + search.sent[cut].sum())
    return found


@pytest.mark.parametrize("closure", [FIRST, MIDDLE, LAST])
def test_all_sets_with_all_helpers_are_listed(closure: int) -> None:
    """By branch and bound, all of them; by annealing, no others."""
    rng = np.random.default_rng(51 + closure)
    listed = annealed = 0
    for _ in range(some_of(20)):
        instance = drawn(rng, 3, 4)
        search = search_stages(instance, LocalRun(timeout=60, cores=int(rng.integers(1, 3))))
        if instance.nodes > 10 or not isinstance(search, HelperSearch):
            continue
        weight = rng.integers(0, 5, instance.nodes)
        need, expected = int(rng.integers(1, weight.sum() // 2 + 2)), expected_sets(search, instance, closure)
        expected = {bits: cost for bits, cost in expected.items() if weight[list(bits)].sum() >= need}
        limit = 1 + int(np.quantile([*expected.values(), 0], rng.uniform(0.3, 1)))
        if rng.random() < 0.5:
            search.bound_pairs(limit)
        found = search.list_sets(weight, need, limit, 60.0, closure)
        rows = dict(zip(map(tuple, found.member.tolist()), found.cost.tolist(), strict=True))
        assert found.proved == limit
        assert rows == {bits: cost for bits, cost in expected.items() if cost < limit}
        hunted = search.annealed_sets(weight, need, limit, closure)
        for row, cost in zip(map(tuple, hunted.member.tolist()), hunted.cost.tolist(), strict=True):
            assert rows[row] == cost
        listed += len(rows)
        annealed += len(hunted.cost)
    assert listed > some_of(20)
    assert annealed > some_of(10)


@pytest.mark.gate
def test_bounds_are_at_most_the_optimum_and_meet_it(oracle: SimpleNamespace) -> None:
    """Over all partitions, also those whose helpers are elsewhere; a few bounds stay below."""
    rng = np.random.default_rng(55)
    helped = tight = 0
    for _ in range(some_of(40)):
        instance = drawn(rng, int(rng.choice([2, 3, 4, 9])), 4)
        if instance.nodes > 9:
            continue
        run = LocalRun(timeout=2.0)
        reweighted(instance, run)
        optimum = oracle.partition_optimum(instance)
        assert run.bounds[-1] <= optimum
        assert verify(instance, run.solutions[-1]).cost >= optimum * (1 - SAFETY)
        helped += isinstance(search_stages(instance, run), HelperSearch)
        tight += run.bounds[-1] >= optimum * (1 - 1e-6)
    assert helped >= some_of(10)
    assert tight >= some_of(15)


def test_no_target_above_the_optimum_is_proved(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a best known cost that is three times the true one, bounds are free to pass the optimum."""
    pretend(monkeypatch, 3.0)
    rng = np.random.default_rng(57)
    for _ in range(some_of(12)):
        instance = drawn(rng, int(rng.choice([2, 3, 9])), 4)
        if instance.nodes <= 8:
            run = LocalRun(timeout=0.3)
            reweighted(instance, run)
            assert run.bounds[-1] <= oracle.partition_optimum(instance)


def test_claims_hold_for_all_stages() -> None:
    """The checker knows no helpers: with the weights of helpers at their makers it proves as much, else often less."""
    rng = np.random.default_rng(59)
    less = 0
    for _ in range(some_of(20)):
        instance = drawn(rng, 3, 6, work=30, density=0.3)
        search = search_stages(instance, LocalRun(timeout=60))
        if not isinstance(search, HelperSearch):
            continue
        weight = rng.integers(1, 1000, instance.nodes)
        need = -(-int(weight.sum()) // 3)
        least = search.bound(search.cheapest(weight, need, 2**50).cost)
        claim = Claim(weight, [(MIDDLE, 3, need)], least)
        proved = [
            prove_claim(instance, each, time.monotonic() + 30)[0] for each in (search.of_all_stages(claim), claim)
        ]
        assert proved[0] == pytest.approx(least, rel=SAFETY)
        less += proved[1] < least * (1 - SAFETY)
    assert less >= some_of(3)


def test_cases_are_by_stages_of_makers(oracle: SimpleNamespace) -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 4)]
    search = search_stages(oracle.make(edges, [5, 0, 0, 5, 5], [5, 2, 3, 0, 0], [0] * 5, 3), LocalRun())
    assert isinstance(search, HelperSearch)
    weight = np.arange(1, 6)
    root = Case(weight, [6, 6, 6])
    root.divide(3, 0)[1].divide(2, 1)
    told = search.of_all_stages(DividedClaim(root, 7.0))
    assert isinstance(told, DividedClaim)
    assert told.root.branch == (3, 0)
    assert told.root.children[1].branch == (0, 1)
    assert [case.weight.tolist() for case in (told.root, *told.root.children)] == [[6, 0, 0, 4, 5]] * 3
