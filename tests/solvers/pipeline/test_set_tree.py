"""Branch and bound over all sets that may be stages: pairs of sets, proofs, and partitions that it finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import some_of

from shardmark.harness.verify import verify
from shardmark.instances.generate import families
from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline._set_kernels import compatible_sets, packed, unpacked, weigh_sets
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Incumbent, search_first
from shardmark.solvers.pipeline.programs.set_pool import SetPool
from shardmark.solvers.pipeline.programs.stage_search import StageSearch
from shardmark.solvers.pipeline.trees.set_program import SetProgram
from shardmark.solvers.pipeline.trees.set_search import SetSearch
from shardmark.solvers.pipeline.trees.set_tree import SetSubproblem, SetTree, _cycle
from shardmark.solvers.registry import LocalRun

pytestmark = pytest.mark.gate(cases=2)


def reach(graph: Graph) -> Any:
    """Return which node is another or comes before it, shape (n, n), bool."""
    below = np.eye(graph.nodes, dtype=bool)
    for u in graph.topological_order[::-1].tolist():
        below[u] |= below[graph.successors(u)].any(axis=0)
    return below


def is_partition(sets: Any, below: Any) -> bool:
    """Tell if sets hold each node once, and no paths lead from one to another and back over any of them."""
    if (np.sum(sets, axis=0) != 1).any():
        return False
    leads = np.array([[(below[a].any(axis=0) & b).any() for b in sets] for a in sets])
    for _ in sets:
        leads = leads @ leads
    return not (leads & leads.T & ~np.eye(len(sets), dtype=bool)).any()


def test_sets_of_a_partition_within_the_slack_are_kept(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(51)
    kept = dropped = 0
    for _ in range(some_of(60)):
        instance = oracle.draw(rng, 5, 3)
        below = reach(instance.graph)
        member = np.array([bits for bits in product((False, True), repeat=5) if any(bits)])
        weight = rng.integers(0, 9, 5)
        weighs = member @ weight
        assert (weigh_sets(packed(member), weight) == weighs).all()
        member = member[(rng.random(len(member)) < 0.6) & (weighs > 0)]
        member = member[np.argsort(-(member @ weight), kind="stable")]
        heaviest = int((member @ weight).max())
        loss, slack = heaviest - member @ weight, int(rng.integers(0, 2 * heaviest))
        keep = compatible_sets(packed(member), loss, heaviest, weight, packed(below), slack)
        needed = {
            at
            for k in (1, 2, 3)
            for chosen in combinations(range(len(member)), k)
            if loss[list(chosen)].sum() <= slack and is_partition(member[list(chosen)], below)
            for at in chosen
        }
        assert keep[list(needed)].all()
        assert compatible_sets(packed(member), loss, heaviest, weight, packed(below), slack, 0.0).all()
        kept, dropped = kept + len(needed), dropped + int((~keep).sum())
    assert kept >= some_of(100)
    assert dropped > some_of(500)


def test_a_program_weighs_only_the_sets_in_question() -> None:
    """Three nodes in pairs: with all pairs, 1.5 of them cover the nodes; without one, it takes two."""
    member = packed(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool))
    program = SetProgram(member, 3, lambda: 60.0)
    for alive, covers in ((np.arange(3), 1.5), (np.arange(2), 2.0), (np.arange(3), 1.5)):
        found = program.weigh(alive, 3)
        assert found is not None
        assert found.total / found.heaviest == pytest.approx(covers, abs=1e-3)
        assert program.cover()[1].sum() == pytest.approx(covers)


def test_a_program_unpacks_few_sets_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sets of 4 of 8 nodes: two of them cover the nodes, however few are looked at together."""
    member = packed(np.array([[v in chosen for v in range(8)] for chosen in combinations(range(8), 4)]))
    rows: list[int] = []

    def counted(some: Any, nodes: int) -> Any:
        rows.append(len(some))
        return unpacked(some, nodes)

    monkeypatch.setattr("shardmark.solvers.pipeline.trees.set_program.unpacked", counted)
    monkeypatch.setattr("shardmark.solvers.pipeline.trees.set_program.MOST_FLAGS", 40)
    found = SetProgram(member, 8, lambda: 60.0).weigh(np.arange(len(member)), 2)
    assert found is not None
    assert found.total / found.heaviest == pytest.approx(2.0, abs=1e-3)
    assert max(rows) == 5


def test_the_shortest_cycle_is_found() -> None:
    leads = np.zeros((6, 6), dtype=bool)
    assert _cycle(leads) == []
    leads[[0, 1, 2, 3, 4, 5], [1, 2, 3, 0, 5, 3]] = True
    assert sorted(_cycle(leads)) == [0, 1, 2, 3]
    leads[2, 1] = True
    assert sorted(_cycle(leads)) == [1, 2]


def test_bits_are_flags() -> None:
    flags = np.random.default_rng(52).random((3, 70)) < 0.5
    assert (unpacked(packed(flags), 70) == flags).all()


def tree_of(
    instance: Instance, factor: float, optimum: float, cores: int, *, known_cost: bool = False
) -> tuple[SetTree, LocalRun]:
    """Return a tree over all sets that cost less than the optimum times a factor.

    Nothing is known before, or if ``known_cost``, a partition that costs just that.
    """
    run = LocalRun(timeout=60.0, cores=cores)
    stage_search = StageSearch(instance, run)
    search, known = search_first(instance, run)
    target = stage_search.units(factor * optimum)
    incumbent = Incumbent(stage_search, instance, search, known.core, target if known_cost else 2**52)
    listed = stage_search.list_sets(np.ones(instance.nodes, dtype=np.int64), 1, target, 60.0, most=10**4)
    return SetTree(packed(listed.member), packed(reach(instance.graph)), incumbent, target, 0.0), run


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("paired", [0, 10_000])
def test_targets_up_to_the_optimum_are_refuted_and_no_others(
    oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, cores: int, paired: int
) -> None:
    monkeypatch.setattr("shardmark.solvers.pipeline.trees.set_tree.MOST_PAIRED", paired)
    rng = np.random.default_rng(53)
    for _ in range(some_of(12)):
        instance = oracle.draw(rng, int(rng.integers(3, 8)), int(rng.integers(2, 5)), density=0.4)
        optimum = oracle.partition_optimum(instance)
        for factor, refuted in ((1 - 1e-9, True), (1.02, False)):
            tree, run = tree_of(instance, factor, optimum, cores)
            assert tree.refute(cores) == refuted
            assert verify(instance, run.solutions[-1]).cost == pytest.approx(optimum, rel=1e-9) or not refuted


def test_the_known_cost_is_proved_by_branching() -> None:
    """A target equal to the known cost does not end the search: to refute it proves the known partition optimal."""
    instance = replace(families()["watts-strogatz"].build(0, nodes=24, costs_from="all"), stages=5)
    tree, _ = tree_of(instance, 1 - 1e-9, 1695.73, 1, known_cost=True)
    visit, calls = tree._visit, []

    def counted(program: SetProgram, node: SetSubproblem) -> list[SetSubproblem] | None:
        calls.append(node)
        return visit(program, node)

    tree._visit = counted  # type: ignore[method-assign]
    assert tree.refute(1)
    assert len(calls) > 1


def test_sets_that_lose_little_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are fewer; a proof takes all sets, and none follows if one of the two lists is not complete."""
    instance = replace(families()["watts-strogatz"].build(0, nodes=24, costs_from="all"), stages=5)
    sizes: list[int] = []
    monkeypatch.setattr(SetTree, "refute", lambda tree, _: sizes.append(len(tree._member)) is None)
    for most, lists in ((10**4, 2), (10, 1)):
        monkeypatch.setattr("shardmark.solvers.pipeline.trees.set_search.MOST_SETS", most)
        run, pool = LocalRun(timeout=60.0), SetPool(24)
        stage_search = StageSearch(instance, run)
        search, known = search_first(instance, run)
        incumbent = Incumbent(stage_search, instance, search, known.core, stage_search.units(1700.0))
        proved = SetSearch(incumbent, run, Bounds(instance, run), pool, instance.work)._prove(incumbent.limit, 30.0)
        assert proved == (lists == 2)
        assert len(sizes) == lists
        assert sizes[0] < sizes[-1] or lists == 1
        sizes.clear()


@pytest.mark.parametrize("seed", [75, 77])
def test_nine_stages_are_proved(oracle: SimpleNamespace, seed: int) -> None:
    """The weights of nodes alone prove 1 less."""
    rng = np.random.default_rng(seed)
    edges = [(u, v) for u in range(24) for v in range(u + 1, 24) if rng.random() < 0.15]
    instance = oracle.make(edges, rng.integers(1, 6, 24).tolist(), rng.integers(1, 6, 24).tolist(), [0] * 24, 9)
    run = LocalRun(timeout=10.0)
    reweighted(instance, run)
    assert run.bounds[-1] == pytest.approx(verify(instance, run.solutions[-1]).cost, rel=1e-9)
