"""The lower bounds against brute force over all acyclic partitions, in full and cut short."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.instances.generate import families
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline._kernels import PipelineCore
from shardmark.solvers.pipeline.bounds.anchored import anchored
from shardmark.solvers.pipeline.bounds.bottleneck import bottleneck, bottleneck_no_cut_io, bottleneck_no_dag
from shardmark.solvers.pipeline.bounds.bottleneck_guess import bottleneck_guess
from shardmark.solvers.pipeline.bounds.exact import _shape as shape
from shardmark.solvers.pipeline.bounds.exact import _work_before as work_before
from shardmark.solvers.pipeline.bounds.exact import exact
from shardmark.solvers.pipeline.bounds.reweighted import ANNEALING, reweighted
from shardmark.solvers.pipeline.bounds.simple import simple
from shardmark.solvers.pipeline.bounds.windows import windows
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Incumbent, capped, search_first
from shardmark.solvers.pipeline.programs.mip import Program
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import LocalRun

pytestmark = pytest.mark.gate(cases=4)

#: Largest distance of a bound that is proved optimal below the optimum, from the solvers' tolerances.
SAFETY = 2e-6

METHODS = (simple, bottleneck, exact)

#: Number of random graphs on which each bound is held against brute force.
GRAPHS = (
    *((simple, 60), (bottleneck, 6), (bottleneck_no_dag, 6), (bottleneck_no_cut_io, 6), (bottleneck_guess, 3)),
    *((exact, 24), (anchored, 80), (reweighted, 45), (windows, 20)),
)


def bound_by(method: Any, instance: Instance, **limits: Any) -> LocalRun:
    run = LocalRun(**limits)
    method(instance, run)
    assert all(earlier < later for earlier, later in zip(run.bounds, run.bounds[1:], strict=False))
    return run


@pytest.mark.thorough(cases=5)
@pytest.mark.parametrize(("number", "method", "graphs"), [(i, *row) for i, row in enumerate(GRAPHS)])
def test_bounds_are_at_most_the_optimum_of_all_partitions(
    oracle: SimpleNamespace, number: int, method: Any, graphs: int
) -> None:
    """On 250 graphs together, each method its own; those of the exact program are the optimum."""
    rng = np.random.default_rng([11, number])
    for nodes in (8, 8, *rng.integers(0, 8, graphs - 2).tolist()):
        instance = oracle.draw(rng, nodes, int(rng.integers(1, nodes + 2)))
        optimum = oracle.partition_optimum(instance)
        run = bound_by(method, instance)
        assert instance.work_bound() <= run.bounds[-1] <= optimum
        if method is exact:
            assert run.bounds[-1] >= optimum * (1 - SAFETY)
            assert verify(instance, run.solutions[-1]).cost == pytest.approx(optimum, rel=1e-9)


def test_the_graphs_are_250() -> None:
    assert sum(graphs for _, graphs in GRAPHS) == 250


@pytest.mark.gate
def test_exact_counts_the_overflow_of_the_best_order(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(27)
    counted, graphs = 0, 16
    for _ in range(graphs):
        instance = oracle.draw(rng, int(rng.integers(1, 7)), int(rng.integers(1, 4)), limited=True)
        optimum = oracle.partition_optimum(instance)
        run = bound_by(exact, instance)
        assert optimum * (1 - 5 * SAFETY) <= run.bounds[-1] <= optimum
        counted += optimum > 1.01 * oracle.partition_optimum(replace(instance, memory=None))
    assert counted >= graphs // 4


def test_without_an_order_the_exact_bound_is_a_bound(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that are too large for an execution order in the program have only what is certain in it."""
    monkeypatch.setattr("shardmark.solvers.pipeline.programs.mip.MOST_ORDER_ROWS", 0)
    rng = np.random.default_rng(28)
    for _ in range(8):
        instance = oracle.draw(rng, int(rng.integers(1, 7)), int(rng.integers(1, 3)), limited=True)
        assert bound_by(exact, instance).bounds[-1] <= oracle.partition_optimum(instance)
    two_chains = replace(
        families()["overflow"].build(1), stages=1
    )  # 9 in every order: one chain's end waits for the other
    assert bound_by(exact, two_chains).bounds[-1] == pytest.approx(8, rel=2 * SAFETY)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["chain", "slicing-trap", "overflow"])
def test_exact_proves_the_small_embedded_graphs(name: str, stages: int) -> None:
    """All of at most 30 nodes."""
    instance = replace(families()[name].build(1), stages=stages)
    run = bound_by(exact, instance)
    assert run.bounds[-1] == pytest.approx(verify(instance, run.solutions[-1]).cost, rel=2 * SAFETY)


@pytest.mark.gate
def test_the_hierarchy_of_the_paper(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(12)
    stronger = 0
    for _ in range(4):
        instance = oracle.draw(rng, 6, int(rng.integers(2, 4)), density=0.3)
        values = [bound_by(method, instance).bounds[-1] for method in METHODS]
        assert values[0] <= values[1] <= values[2] * (1 + SAFETY)
        assert values[2] <= oracle.partition_optimum(instance)
        stronger += values[0] < values[1] < values[2]
    assert stronger >= 2


def test_what_is_left_out_of_a_program_never_strengthens_it(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(19)
    weaker = np.zeros(2)
    for _ in range(4):
        instance = oracle.draw(rng, 6, int(rng.integers(2, 4)), density=0.4)
        without = [bound_by(method, instance).bounds[-1] for method in (bottleneck_no_dag, bottleneck_no_cut_io)]
        whole = bound_by(bottleneck, instance).bounds[-1]
        guessed = bound_by(bottleneck_guess, instance).bounds[-1]
        assert instance.work_bound() <= min(without)
        assert max(without) <= whole * (1 + SAFETY)
        assert whole <= guessed * (1 + SAFETY)
        assert guessed <= oracle.partition_optimum(instance)
        weaker += (without[1] < whole * (1 - SAFETY), whole < guessed * (1 - SAFETY))
    assert weaker.min() >= 1


def test_without_the_dag_a_stage_may_leave_out_what_lies_between(oracle: SimpleNamespace) -> None:
    """Nodes 0 and 2 without 1 would cost 10 for work, 6 and 1 for tensors; 1 and 3 cost 14, 6 and 1."""
    edges = [(0, 1), (1, 2), (0, 2), (3, 1)]
    instance = oracle.make(edges, [5, 9, 5, 5], [6, 1, 0, 50], [0] * 4, 3)
    assert bound_by(bottleneck_no_dag, instance).bounds[-1] == pytest.approx(17, rel=SAFETY)
    assert bound_by(bottleneck, instance).bounds[-1] == pytest.approx(21, rel=SAFETY)
    assert bound_by(bottleneck_no_cut_io, instance).bounds[-1] == pytest.approx(9, rel=SAFETY)


@pytest.mark.parametrize("cores", [1, 2])
def test_two_stages_are_guessed_exactly(oracle: SimpleNamespace, cores: int) -> None:
    """As in the paper: with k = 2 nothing is merged. Two cores solve both programs at once."""
    rng = np.random.default_rng(20)
    for _ in range(6):
        instance = oracle.draw(rng, 7, 2, density=0.3)
        assert bound_by(bottleneck_guess, instance, cores=cores).bounds[-1] == pytest.approx(
            oracle.partition_optimum(instance), rel=SAFETY
        )


@pytest.mark.gate
def test_overflow_is_left_out_of_the_relaxations(oracle: SimpleNamespace) -> None:
    instance = oracle.draw(np.random.default_rng(13), 6, 3, density=0.3)
    tight = replace(instance, memory=0.0)
    for method in (simple, bottleneck, bottleneck_guess):
        assert bound_by(method, tight).bounds[-1] == pytest.approx(bound_by(method, instance).bounds[-1], rel=SAFETY)
    search, known = search_first(tight, LocalRun(timeout=30))
    free = oracle.sliced(PipelineCore(instance), known.order)
    assert known.slicing.cost == free.cost < search.cost
    search, known = search_first(tight, LocalRun(timeout=30), overflow=True)
    assert known.slicing.cost == search.cost > free.cost


@pytest.mark.parametrize("method", [method for method, _ in GRAPHS])
@pytest.mark.parametrize(
    ("edges", "work", "output", "stages"),
    [
        ([], [], [], 2),
        ([], [4], [1], 3),
        ([(0, 1)], [0, 0], [0, 0], 2),
        ([], [4, 4, 4], [1, 1, 1], 2),
        ([(0, 1)], [0, 0], [5, 5], 2),
        ([(0, 1)], [1e-9, 2e-9], [0, 0], 2),
        ([(0, 1), (0, 2)], [1e-290, 1e-290, 1e-290], [1e-290, 0, 0], 2),
        ([(0, 1), (1, 2)], [1e12, 1, 1e12], [1, 1e15, 1], 9),
        ([(0, 1), (1, 2)], [4, 9, 6], [1e21, 1, 1], 3),
        ([(0, 1), (2, 3), (1, 4), (3, 5)], [4, 9, 6, 3, 2, 1], [1, 1e30, 1e307, 1, 1, 1], 3),
    ],
)
def test_degenerate_instances(
    oracle: SimpleNamespace, method: Any, edges: Any, work: list[float], output: list[float], stages: int
) -> None:
    instance = oracle.make(edges, work, output, [0] * len(work), stages)
    optimum = oracle.partition_optimum(instance)
    value = bound_by(method, instance).bounds[-1]
    assert instance.work_bound() <= value <= optimum
    if method is exact:
        assert value >= optimum * (1 - SAFETY)


@pytest.mark.parametrize("method", [exact, bottleneck, bottleneck_guess, anchored, reweighted, windows])
@pytest.mark.parametrize(("memory", "bandwidth"), [(None, 1e-300), (3.0, 1e-300), (1e10, 1e-300), (1e30, 1.0)])
def test_more_to_send_than_an_engine_counts_to(
    oracle: SimpleNamespace, method: Any, memory: float | None, bandwidth: float
) -> None:
    instance = oracle.make([(0, 1), (1, 2)], [1, 2, 3], [1, 1, 1], [1, 2, 3], 2, bandwidth=bandwidth, memory=memory)
    optimum = oracle.partition_optimum(instance)
    value = bound_by(method, instance).bounds[-1]
    assert value <= optimum
    if method is exact or (memory is None and method is not windows):
        assert value >= optimum * (1 - SAFETY)


def test_windows_count_the_tensors_of_a_chain(oracle: SimpleNamespace) -> None:
    """Twelve nodes of work 10 in four stages: three tensors of 1 are sent and received."""
    chain = [(v, v + 1) for v in range(11)]
    instance = oracle.make(chain, [10] * 12, [1 if v % 3 == 2 else 9 for v in range(12)], [0] * 12, 4)
    assert oracle.partition_optimum(instance) == 32
    assert 30 < bound_by(windows, instance).bounds[-1] <= 32


def test_windows_count_who_receives_a_tensor_whose_readers_fill_several_stages(oracle: SimpleNamespace) -> None:
    """Six readers of work 10 in four stages that send nothing: three stages but the producer's receive 2."""
    star = [(0, v) for v in range(1, 7)]
    instance = oracle.make(star, [10, *[10] * 6], [2, *[0] * 6], [0] * 7, 4)
    assert oracle.partition_optimum(instance) == 22
    assert bound_by(windows, instance).bounds[-1] == pytest.approx((70 + 4 * 2) / 4, rel=1e-3)
    huge = oracle.make(star, [0, *[10] * 6], [1000, *[0] * 6], [0] * 7, 4)
    assert oracle.partition_optimum(huge) == 60
    assert 59 < bound_by(windows, huge).bounds[-1] <= 60


def test_windows_bound_a_graph_without_nodes_or_work(oracle: SimpleNamespace) -> None:
    assert bound_by(windows, oracle.make([], [], [], [], 3)).bounds[-1] == 0
    assert bound_by(windows, oracle.make([(0, 1)], [0, 0], [5, 0], [0, 0], 2)).bounds[-1] == 0


def test_a_tensor_too_dear_to_cut_joins_its_ends(oracle: SimpleNamespace) -> None:
    """With the memory limit, which forbids to shrink it: 17 for the first two nodes, 13 for the others."""
    instance = oracle.make([(0, 1), (1, 2), (2, 3)], [8, 8, 6, 6], [1e15, 1, 1, 1], [0] * 4, 2, memory=2e15)
    assert bound_by(bottleneck, instance).bounds[-1] == pytest.approx(17, rel=SAFETY)


@pytest.mark.parametrize("factor", [1.0, 2.0, 3.0])
def test_capping_tensors_leaves_the_optimum(oracle: SimpleNamespace, factor: float) -> None:
    rng = np.random.default_rng(31)
    for _ in range(10):
        drawn = oracle.draw(rng, 6, 3)
        dear = rng.choice([1.0, factor * drawn.bandwidth * drawn.work.sum()], drawn.nodes)
        instance = replace(drawn, output_size=np.maximum(drawn.output_size, dear))
        assert oracle.partition_optimum(capped(instance)) == pytest.approx(oracle.partition_optimum(instance))
    limited = replace(instance, memory=1.0)
    assert capped(limited) is limited


@pytest.mark.parametrize("forwards", [True, False])
def test_the_work_before_a_node_is_counted_as_far_as_time_and_memory_allow(
    oracle: SimpleNamespace, forwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of two nodes make no difference; a clock that runs out within a chunk leaves the rest of it out."""
    monkeypatch.setattr("shardmark.solvers.pipeline.bounds.exact.CLOCK", 1)
    instance = oracle.make([(v, v + 1) for v in range(9)], [1.0] * 10, [0] * 10, [0] * 10, 3)
    run = LocalRun()
    whole = np.arange(1, 11) if forwards else np.arange(10, 0, -1)
    run.memory = 2 * 10 * 9 / 2**20 / 0.1 + 1e-4
    assert work_before(instance, run, 10.0, forwards=forwards).tolist() == whole.tolist()
    ticks = iter(range(1000, 0, -1))
    monkeypatch.setattr(run, "remaining", lambda: next(ticks))
    run.memory = 4096.0
    cut_short = work_before(instance, run, 5.5, forwards=forwards)
    assert (cut_short <= whole).all()
    assert 0 < cut_short.sum() < whole.sum()


@pytest.mark.gate
def test_a_bound_cut_short_is_a_bound(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a bad first slicing, so that taking the cost of what is known for a bound would show."""
    instance = oracle.draw(np.random.default_rng(14), 90, 6, density=0.05)
    known = LocalRun(timeout=60)
    search_first(instance, known)
    cost = verify(instance, known.solutions[-1]).cost
    monkeypatch.setattr(
        "shardmark.solvers.pipeline.programs.incumbent.anneal",
        lambda search, run, **_: search.offer(run.rng.random(search.instance.nodes)),
    )
    for method, seconds in product((bottleneck, bottleneck_guess, exact), (0.1, 0.4)):
        run = bound_by(method, instance, timeout=seconds)
        first = verify(instance, run.solutions[0]).cost
        assert first > 1.1 * cost
        assert instance.work_bound() <= run.bounds[-1] < cost


@pytest.mark.parametrize(
    ("status", "dual", "proved"),
    [
        ("optimal", 1.0, 1.0),
        ("timelimit", 0.5, 0.5),
        ("unknown", 0.5, 0.5),
        ("timelimit", 1.0, None),
        ("memlimit", 2.0, None),
    ],
)
def test_a_dual_bound_that_meets_the_primal_one_counts_only_at_the_end(
    oracle: SimpleNamespace, status: str, dual: float, proved: float | None
) -> None:
    """SCIP gives one as the other while it frees the tree of a solve that a limit has cut short."""
    instance = oracle.draw(np.random.default_rng(18), 10, 3, density=0.2)
    run = LocalRun()
    _, known = search_first(instance, run)
    program = Program(instance, shape(instance, known, run))
    top = known.slicing.cost * program.scale
    program.model = SimpleNamespace(
        getStatus=lambda: status,
        getDualbound=lambda: dual * top,
        getPrimalbound=lambda: top,
        getNVars=lambda transformed: 100,
    )
    expected = -np.inf if proved is None else proved * known.slicing.cost
    assert program.lower_bound() == pytest.approx(expected, rel=SAFETY)
    assert program.lower_bound() <= expected


@pytest.mark.parametrize("known", [True, False])
def test_a_program_that_has_the_known_partition_is_never_believed_to_have_none(
    oracle: SimpleNamespace, known: bool
) -> None:
    instance = oracle.draw(np.random.default_rng(18), 10, 3, density=0.2)
    run = LocalRun()
    _, found = search_first(instance, run)
    given = shape(instance, found, run)
    program = Program(instance, given if known else replace(given, stage=None))
    program.model = SimpleNamespace(getStatus=lambda: "infeasible")
    expected = -np.inf if known else found.slicing.cost
    assert program.lower_bound() == pytest.approx(expected, rel=SAFETY)


@pytest.mark.parametrize("method", [bottleneck, bottleneck_guess, exact])
def test_what_does_not_fit_is_left_at_the_simple_bound(
    oracle: SimpleNamespace, method: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    instance = oracle.draw(np.random.default_rng(15), 30, 3, density=0.1)
    run = bound_by(method, instance, memory=0.5)
    assert run.bounds == [instance.work_bound()]
    assert "do not fit into 0 MiB: not solved" in capsys.readouterr().err


@pytest.mark.gate
def test_the_engine_improves_the_slicing_that_it_starts_from(
    oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = oracle.draw(np.random.default_rng(16), 20, 3, density=0.15)
    monkeypatch.setattr(
        "shardmark.solvers.pipeline.programs.incumbent.anneal",
        lambda search, run, **_: search.offer(np.zeros(search.instance.nodes)),
    )
    run = bound_by(exact, instance, timeout=250.0)  # a busy machine takes many times as long
    costs = [verify(instance, solution).cost for solution in run.solutions]
    assert len(costs) > 1
    assert costs[-1] == pytest.approx(run.bounds[-1], rel=SAFETY)


def test_bounds_are_reported_only_as_they_grow(oracle: SimpleNamespace) -> None:
    instance = oracle.make([], [3, 1], [0, 0], [0, 0], 2)
    run = LocalRun()
    bounds = Bounds(instance, run)
    for value in (2.0, 3.5, 3.5, 3.6, -np.inf):
        bounds.offer(value, step=0.1)
    bounds.offer(3.6)
    assert run.bounds == [instance.work_bound(), 3.5, 3.6]


def test_a_search_takes_its_share_of_the_time_only(oracle: SimpleNamespace) -> None:
    instance = oracle.draw(np.random.default_rng(17), 50, 5, density=0.05)
    assert Search(instance, LocalRun(timeout=60), share=0.0).over()
    assert not Search(instance, LocalRun(timeout=60), share=0.1).over()


def test_partitions_are_annealed_once_a_target_fails(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal stages without edges meet the first bound; in the other graph some target fails first."""
    even = oracle.make([], [1] * 8, [0] * 8, [0] * 8, 4)
    drawn = replace(families()["watts-strogatz"].build(0, nodes=24, costs_from="all"), stages=5)
    calls: list[float] = []
    monkeypatch.setattr(Incumbent, "anneal", lambda _, run, share: calls.append(share))
    for instance, annealed in ((even, 0), (drawn, 1)):
        run = LocalRun(timeout=20.0)
        reweighted(instance, run)
        assert run.bounds[-1] == pytest.approx(verify(instance, run.solutions[-1]).cost, rel=1e-9)
        assert len(calls) == annealed
    assert 0 < calls[0] <= ANNEALING
