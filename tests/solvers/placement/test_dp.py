"""The dynamic program over ideals: against every placement of small graphs, and against published optima."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import optimum
from patience import given_time
from placements import built, cost_of, judged

from shardmark.harness.verify.placement import verify
from shardmark.instances import InputError, load
from shardmark.instances.generate import families
from shardmark.instances.placement import Instance, parse
from shardmark.solvers._ideals import IdealEnumerator, Ideals
from shardmark.solvers.placement.dp import dp, dpl
from shardmark.solvers.placement.ideals.contraction import _Items, contractions
from shardmark.solvers.placement.ideals.splits import ideal_programs
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=2)

GO = np.zeros(1, dtype=np.int32)  # never stops

MIRROR = os.environ.get("SHARDMARK_MIRROR")
THROUGHPUT = Path(MIRROR or "") / "msr-fiddle" / "dnn-partitioning" / "throughput-inputs"


def random_document(rng: np.random.Generator, most_nodes: int = 8) -> dict[str, Any]:
    """A graph in the paper's format, with a backward pass half of the time."""
    n = int(rng.integers(1, most_nodes + 1))
    backward = np.arange(n) >= (n if rng.random() < 0.5 else rng.integers(0, n + 1))
    whole = rng.random() < 0.5
    number = (lambda high: int(rng.integers(0, high))) if whole else (lambda high: float(rng.random() * high))
    density, unsupported, coloured = rng.random(3) * (0.6, 0.3, 0.7)
    nodes = [
        {
            "id": 7 * v - 3,
            "supportedOnFpga": bool(rng.random() >= unsupported),
            "cpuLatency": number(30) if rng.random() < 0.8 else 0,
            "fpgaLatency": number(8) if rng.random() < 0.7 else 0,
            "isBackwardNode": bool(backward[v]),
            "size": number(6),
            **({"colorClass": int(rng.integers(0, 5))} if rng.random() < coloured else {}),
        }
        for v in range(n)
    ]
    cost = [number(6) for _ in range(n)]
    edges = [
        {"sourceId": 7 * u - 3, "destId": 7 * v - 3, "cost": cost[u], "isArtificial": bool(rng.random() < 0.1)}
        for u, v in itertools.combinations(range(n), 2)
        if rng.random() < density
    ]
    devices = [(1, 0), (2, 0), (3, 0), (0, 2), (1, 1), (2, 1), (1, 2), (4, 0), (2, 2)]
    accelerators, cpus = devices[int(rng.integers(0, len(devices) if n <= 6 else 7))]
    memory = 100 if rng.random() < 0.5 else number(20)
    return {
        "maxSizePerFPGA": memory,
        "maxFPGAs": accelerators,
        "maxCPUs": cpus,
        "nodes": nodes,
        "edges": edges,
        "options": {"contiguity": "acyclic"},
    }


def random_instances(count: int, seed: int) -> list[Instance]:
    rng, found = np.random.default_rng(seed), list[Instance]()
    while len(found) < count:
        document = random_document(rng)
        with contextlib.suppress(InputError):  # what no accelerators can hold, where there are no CPUs
            found.append(parse(document, f"graph {len(found)}"))
    return found


@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_best_of_all_placements(seed: int) -> None:
    for instance in random_instances(some_of(50), seed):
        best = optimum(instance)
        run = LocalRun()
        if best is None:
            with pytest.raises(Declined, match=r"^no placement fits the memory of the accelerators$"):
                dp(instance, run)
            assert run.solutions == run.bounds == []
            continue
        dp(instance, run)
        assert best * (1 - 1e-9) - 1e-12 <= run.bounds[0] <= best
        assert cost_of(instance, run.solutions[-1]) == pytest.approx(float(best), rel=1e-9)


@pytest.mark.gate
def test_linear_extensions_give_placements_no_better_than_the_best() -> None:
    found = 0
    for instance in random_instances(100, 77):
        run, least = LocalRun(), optimum(instance) or 0
        dpl(instance, run)
        for solution in run.solutions:
            assert judged(instance, solution) >= least
            found += 1
    assert found > 50


def test_without_the_split_of_a_linear_extension_the_best_is_the_same() -> None:
    for instance in random_instances(60, 5):
        best = math.inf
        for program in ideal_programs(instance, GO):
            placement = program.best(program.ideals(100.0), math.inf)
            if placement is not None:
                best = min(best, placement.cost)
        least = optimum(instance)
        assert best == pytest.approx(math.inf if least is None else float(least), rel=1e-9)


def fork(costs: list[float], readers: list[list[int]], times: list[float], **options: Any) -> Instance:
    """Nodes whose tensors have these costs and readers; an accelerator holds at most all but one of them."""
    edges = [(u, v, costs[u]) for u, heads in enumerate(readers) for v in heads]
    return built(times, edges, (2, 0, len(times) - 1), contiguity="acyclic", **options)


@pytest.mark.parametrize("overlap", ["none", "half", "full"])
@pytest.mark.parametrize("large", [1e16, 1e300])
def test_a_large_tensor_that_leaves_a_sum_leaves_nothing_behind(overlap: str, large: float) -> None:
    """The second node reads 1e16, or makes it for the third: together they pay 3.3 for what else they share."""
    made = fork([3.3, large, 0.0, 0.7], [[3], [2], [3], []], [0.3, 0.1, 0.2, 0.5], overlap=overlap)
    read = fork([large, 3.3, 0.7, 0.0], [[1], [2], [3], []], [0.3, 0.1, 0.2, 0.5], overlap=overlap)
    for instance in (made, read):
        best, run = optimum(instance), LocalRun()
        dp(instance, run)
        assert best is not None
        assert judged(instance, run.solutions[-1]) == best < 10
        assert best * (1 - 1e-11) < run.bounds[-1] <= best


def test_a_chain_of_large_tensors_is_added_up_anew_again_and_again() -> None:
    """Sums that hold one tensor of 1e16 at a time, as nodes join a set, and a small one throughout."""
    times, costs = [1.0] * 9, [0.1, *[1e16 * 1.1**v for v in range(7)], 0.0]
    readers = [[8], *[[v + 1] for v in range(1, 8)], []]
    best, run = optimum(chain := fork(costs, readers, times)), LocalRun()
    dp(chain, run)
    assert judged(chain, run.solutions[-1]) == best
    assert best is not None
    assert best * (1 - 1e-11) < run.bounds[-1] <= best < 9


#: Table 1 of the paper: the printed values of DP and DPL.
PUBLISHED = {
    "OperatorGraphs/bert_l-3_inference.json": ("27.92", "27.92"),
    "OperatorGraphs/bert_l-3_training.json": ("65.30", "65.30"),
    "OperatorGraphs/bert_L-12_training.json": ("438.00", "438.00"),
    "OperatorGraphs/resnet50_inference.json": ("124.35", "124.35"),
    "LayerGraphs/bert24_inference.json": ("17.79", "17.79"),
    "LayerGraphs/bert24_training.json": ("41.75", "41.75"),
    "LayerGraphs/resnet50_training.json": ("78.63", "78.65"),
    "LayerGraphs/gnmt_inference.json": ("32.91", "32.91"),
}


@pytest.mark.skipif(not THROUGHPUT.is_dir(), reason="needs the paper's files under SHARDMARK_MIRROR")
@pytest.mark.parametrize("file", PUBLISHED)
def test_published_optima(file: str) -> None:
    instance = load(THROUGHPUT / file, "placement", contiguity="acyclic")
    for method, expected in zip((dp, dpl), PUBLISHED[file], strict=True):
        run = LocalRun()
        method(instance, run)
        assert f"{cost_of(instance, run.solutions[-1]):.2f}" == expected
        assert [f"{bound:.2f}" for bound in run.bounds] == [expected] * (method is dp)


def line(nodes: int, **options: Any) -> Instance:
    """Nodes in a row, each a unit of work, on four accelerators with room for all; tensors are free to send."""
    options = {"contiguity": "acyclic", **options}
    return built([1] * nodes, itertools.pairwise(range(nodes)), (4, 0, nodes), cpu=1, **options)


def bare(nodes: int) -> Instance:
    """The same nodes without edges, so that every set of them is an ideal, and with a CPU."""
    return built([1] * nodes, (), (4, 1, nodes), cpu=1, contiguity="acyclic")


def test_a_long_line_is_cut_evenly() -> None:
    run = LocalRun()
    dpl(instance := line(2000), run)
    assert np.bincount(run.solutions[-1]).tolist() == [500, 500, 500, 500]
    dp(instance, run)
    assert run.bounds == pytest.approx([500])


def test_times_that_stand_for_never_do_not_loosen_the_bound() -> None:
    never, run = dataclasses.replace(line(8), cpu_time=np.full(8, 1e15), cpus=1), LocalRun()
    dp(never, run)
    assert run.bounds[-1] == pytest.approx(verify(never, run.solutions[-1].tolist()).cost, rel=1e-9)


def test_more_ideals_than_memory_allows_leave_the_split_of_a_linear_extension(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = LocalRun(memory=64.0), LocalRun(memory=64.0)
    for method, run in zip((dp, dpl), runs, strict=True):
        method(bare(40), run)
    assert [run.bounds for run in runs] == [[], []]
    assert [solution.tolist() for solution in runs[0].solutions] == [runs[1].solutions[0].tolist()]
    assert re.search(r"more than \d\d\d,\d\d\d ideals, too many for 64 MiB; dpl takes", capsys.readouterr().err)


def test_more_devices_than_a_table_has_room_for_are_refused() -> None:
    wide = dataclasses.replace(line(4000), accelerators=2000)
    with pytest.raises(Declined, match=r"4,001 prefixes for 2000 accelerators and 0 CPUs is too large for 64 MiB"):
        dpl(wide, LocalRun(memory=64.0))


def test_pieces_are_cut_where_a_table_of_all_has_no_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmark.solvers.placement.ideals.dynamic_program.CHAINED", (100, 4))
    dpl(line(4000), run := LocalRun(memory=0.3))
    assert np.bincount(run.solutions[-1]).max() < 1050
    assert re.search(r"or for few devices, only: a table of \d,\d\d\d prefixes for 4", capsys.readouterr().err)


def test_modules_of_branches_have_as_many_ideals_as_there_are_ways_to_stop_in_them() -> None:
    instance = families()["inception"].build(1)
    (program,) = ideal_programs(instance, GO)
    squares, lines, forks = 3 * (4 * 7 * 10 * 5), 4 * (4 * 10 * 16 * 5), 2 * (4 * (4 + 16) * (7 + 16) * 5)
    assert len(program.ideals(100.0)) == 22 + squares + 4 * 10 * 2 + lines + 7 * 13 * 2 + forks


@pytest.mark.parametrize("nodes", [60, 23])  # ends the count; may end the list or what follows
def test_the_time_leaves_the_split_of_a_linear_extension(nodes: int) -> None:
    def within(seconds: float) -> LocalRun:
        run = LocalRun(memory=2.0**40 if nodes == 60 else 8192.0, timeout=seconds)
        dp(bare(nodes), run)
        return run

    run = given_time(within, lambda run: bool(run.solutions), 0.2)
    assert len(run.solutions) == 1
    assert run.bounds == []


def test_the_time_ends_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = ideal_programs(bare(12), stop := np.zeros(1, dtype=np.int32))
    listing = IdealEnumerator.list

    def stopped(core: IdealEnumerator, *given: int) -> Ideals:
        stop[0] = 1
        return listing(core, *given)

    monkeypatch.setattr(IdealEnumerator, "list", stopped)
    with pytest.raises(Declined, match=r"the time ended before the ideals were listed \(4,096 counted\)"):
        program.ideals(100.0)


def held(sizes: list[float], memory: float) -> Instance:
    """Nodes in a row, four times as fast on the one accelerator as on the CPU."""
    edges = [(v, v + 1, 1) for v in range(len(sizes) - 1)]
    return built([2] * len(sizes), edges, (1, 1, memory), cpu=8, size=sizes, contiguity="acyclic")


@pytest.mark.gate
def test_no_bound_is_above_a_placement_that_fits_the_memory_to_the_last_bit() -> None:
    rng, fitting, count = np.random.default_rng(3), 0, some_of(400)
    for _ in range(count):
        sizes = rng.random(int(rng.integers(2, 6))).tolist()
        instance = held(sizes, math.fsum(sizes) / (1 + 1e-9) * (1 + int(rng.integers(-3, 4)) * 2.0**-52))
        run, verdict = LocalRun(), verify(instance, [0] * len(sizes))
        dp(instance, run)
        assert cost_of(instance, run.solutions[-1]) > 0
        if verdict.feasible:
            assert verdict.cost is not None
            assert run.bounds[-1] <= verdict.cost
            fitting += 1
    assert count / 4 < fitting < count * 3 / 4


@pytest.mark.parametrize("overlap", ["none", "half", "full"])
def test_a_sum_added_up_anew_keeps_nothing_of_what_is_then_taken_off(overlap: str) -> None:
    """Of a line of nodes the last one stands alone: it reads of all but the first, whose transfer is the longest."""
    nodes, short, long = 688, 0.9150178466371635, 172937.8
    cost = [long, *[short] * (nodes - 2)]
    pairs = [*itertools.pairwise(range(nodes)), (0, nodes - 2), *((v, nodes - 1) for v in range(1, nodes - 2))]
    edges, run = [(u, v, cost[u]) for u, v in pairs], LocalRun(timeout=60)
    dp(built([0] * nodes, edges, (2, 0, nodes - 1), cpu=1, contiguity="acyclic", overlap=overlap), run)
    assert Fraction(max(run.bounds)) <= (nodes - 2) * Fraction(short)


@pytest.mark.parametrize(("contiguity", "kind"), [("acyclic", ""), ("contiguous", " acyclic")])
def test_four_nodes_of_three_do_not_fit_three_accelerators_of_less_than_six(contiguity: str, kind: str) -> None:
    instance = dataclasses.replace(line(4, contiguity=contiguity), accelerators=3, memory=5.9, size=np.full(4, 3.0))
    with pytest.raises(Declined, match=f"^no{kind} placement fits the memory of the accelerators$"):
        dp(instance, LocalRun())


class CutShort(LocalRun):
    """A run whose time is over when the first split is reported."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = np.zeros(1, dtype=np.int32)

    def report(self, solution: Any, cost: float | None = None) -> None:
        super().report(solution, cost)
        self.stop[0] = 1


def test_what_the_time_does_not_suffice_for_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmark.solvers.placement.dp.deadline", lambda run: contextlib.nullcontext(run.stop))
    run = CutShort()
    dp(line(50), run)
    assert (len(run.solutions), run.bounds) == (1, [])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"objective": "latency", "contiguity": "contiguous"}, "for throughput"),
        ({"contiguity": "free"}, "expected contiguity contiguous or acyclic"),
        ({"schedule": "gpipe"}, "is for the schedule pipedream, found gpipe"),
    ],
)
def test_options_that_chains_of_ideals_do_not_cover_are_declined(options: dict[str, Any], reason: str) -> None:
    for method in (dp, dpl):
        with pytest.raises(Declined, match=reason):
            method(line(3, **options), LocalRun())


def test_splits_into_contiguous_sets_are_bounded_by_the_ideals_of_a_pass() -> None:
    run = LocalRun(certify=True)
    dp(line(9, contiguity="contiguous"), run)
    assert run.bounds == pytest.approx([9 / 4, 3])
    assert run.certificate is not None
    assert run.certificate[1]["pass"] == "forward"


def test_devices_on_a_cycle_lower_the_bound() -> None:
    crossed = built([5, 4, 2, 1], [(0, 1, 0), (2, 3, 0)], (2, 0, 4), cpu=1, contiguity="contiguous")
    run = LocalRun()
    dp(crossed, run)
    assert verify(crossed, run.solutions[-1].tolist()).cost == 7  # contiguous sets on a cycle have loads of 6
    assert max(run.bounds, default=0) <= 6


def test_items_of_no_time_are_merged_where_that_costs_nothing() -> None:
    chain = [(v, v + 1, 1) for v in range(3)]
    for supported, items in ((True, 2), (False, 3)):  # the first node, which else only a CPU takes
        columns = {"cpu": [0, 50, 0, 50], "size": 0, "supported": [supported, True, True, True]}
        (contracted,) = contractions(built([0, 5, 0, 5], chain, **columns))
        assert contracted.graph.nodes == items


def test_a_tensor_within_an_item_keeps_the_item_from_no_other() -> None:
    """The first tensor takes longer than the second, but is sent by nobody once its maker and reader are together."""
    row = built([0, 0, 5], [(0, 1, 5), (1, 2, 1)], cpu=[0, 0, 5], size=0)
    (contracted,) = contractions(row)
    assert contracted.graph.nodes == 1


def test_many_items_are_merged_around_one_without_looking_at_all_of_it_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pairs whose second node goes into the first, and all of whose tensors one node reads."""
    looked, takes = [0], _Items._takes

    def counted(items: _Items, u: int, v: int) -> bool:
        looked[0] += len(items.nets[v])
        return takes(items, u, v)

    monkeypatch.setattr(_Items, "_takes", counted)
    pairs, reader = 500, 1000
    ends = [(v, v + 1) for v in range(0, reader, 2)] + [(v, reader) for v in range(reader)] + [(reader, reader + 1)]
    times = [3, 0] * pairs + [0, 7]
    (contracted,) = contractions(built(times, [(u, v, 1) for u, v in ends], cpu=times, size=0))
    assert contracted.graph.nodes == pairs + 2
    assert looked[0] < 10 * pairs * 2
