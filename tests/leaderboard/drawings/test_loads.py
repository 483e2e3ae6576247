"""Drawings of loads: rows follow the data flow, pieces add up to what the referee says, and text is escaped."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import oracle_pipeline
import pytest
from oracle_placement import draw_solution
from placements import draw_instance

from shardmark.harness.verify import Transfer, verify
from shardmark.leaderboard.drawings.loads_layout import drawing, in_order
from shardmark.leaderboard.drawings.loads_svg import MAX_ARCS, MAX_ROWS, draw, key, rows_to_draw
from shardmark.leaderboard.report import Load, Loads, Tensors

HOSTILE = "<script>alert('x')</script> & \"quoted\""


def longest(times: Iterable[Mapping[str, float]]) -> float:
    return max(sum(sequence.values()) for sequence in times)


def test_loads_of_placements_are_those_of_the_verdict() -> None:
    rng = random.Random(7)
    drawn = 0
    while drawn < 60:
        instance = draw_instance(rng)
        solution = draw_solution(rng, instance)
        verdict, loads = verify(instance, solution), drawing(instance, solution, bound=0.5)
        if not verdict.feasible or instance.objective == "latency":
            assert loads is None or verdict.cost is not None
            continue
        assert loads is not None
        if instance.schedule == "pipedream":
            assert loads.cost == pytest.approx(verdict.cost)
            assert loads.bound == 0.5
            assert all(longest(row.times) == pytest.approx(row.load) for row in loads.rows)
        else:
            assert (loads.cost, loads.bound, tuple(loads.passes)) == (None, None, ("forward", "backward"))
            forward, backward = (
                [longest(half) for half in passes] for passes in zip(*map(halves, loads.rows), strict=True)
            )
            assert max(forward) + max(backward) == pytest.approx(verdict.cost)
        assert sum(row.nodes for row in loads.rows) == instance.nodes
        drawn += 1


def halves(row: Load) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The sequences of the forward pass, and those of the backward pass."""
    middle = len(row.times) // 2
    return list(map(dict, row.times[:middle])), list(map(dict, row.times[middle:]))


@pytest.mark.parametrize("seed", range(30))
def test_loads_of_pipelines_are_those_of_the_verdict(seed: int) -> None:
    rng = random.Random(seed)
    instance = oracle_pipeline.draw(rng)
    solution = oracle_pipeline.draw_solution(rng, instance)
    verdict, loads = verify(instance, solution), drawing(instance, solution)
    if not verdict.feasible or not instance.nodes:
        return
    assert loads is not None
    assert loads.cost == verdict.cost
    assert all(longest(row.times) == pytest.approx(row.load) for row in loads.rows)
    place = {row.name: i for i, row in enumerate(loads.rows)}
    stage = solution["block"] if isinstance(solution, dict) else solution
    ends = [(place[f"stage {stage[u]}"], place[f"stage {stage[v]}"]) for u, v in edges_of(instance)]
    assert {(arc.source, arc.target) for arc in loads.tensors} == {(a, b) for a, b in ends if a != b}
    assert all(arc.source < arc.target for arc in loads.tensors)


def edges_of(instance: Any) -> list[tuple[int, int]]:
    return list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))


def test_rows_follow_the_data_and_a_cycle_starts_at_the_earliest() -> None:
    chain = [Transfer(2, 0, 1, 1.0), Transfer(0, 1, 1, 1.0)]
    assert in_order([5.0, 6.0, 9.0], chain) == [2, 0, 1]
    assert in_order([5.0, 6.0, 4.0], [*chain, Transfer(1, 2, 1, 1.0)]) == [2, 0, 1]
    assert in_order([3.0, 1.0], []) == [1, 0]


def many(rows: int) -> Loads:
    """Loads of rows, each of which sends to all later ones."""
    found = [Load(f"stage {i}", 1.0 + i, [{"work": 1.0 + i}], 2) for i in range(rows)]
    arcs = [Tensors(a, b, 1, 1.0 + a, HOSTILE) for b in range(rows) for a in range(b)]
    return Loads(found, arcs, "load", cost=float(rows), bound=1.0)


def test_the_greatest_loads_are_drawn_and_the_rest_is_counted() -> None:
    loads = many(MAX_ROWS + 3)
    assert rows_to_draw(loads) == list(range(3, MAX_ROWS + 3))
    page = str(draw(loads))
    assert "Not drawn: 3 rows with lesser loads, 1,896 arcs with less to transfer." in page
    assert HOSTILE not in page
    assert len(page) < 200_000
    tree = ET.fromstring(f"<div>{page}</div>")
    wide = tree.find("./div[@class='wide']/svg")
    assert wide is not None
    assert [x.get("class") for x in wide.iter("path") if "arc" in (x.get("class") or "")] == ["arc many"] * MAX_ARCS
    assert page == str(draw(many(MAX_ROWS + 3)))


def test_pieces_lie_side_by_side() -> None:
    row = Load(HOSTILE, 6.0, [{"in": 1.0, "work": 3.0, "out": 2.0}], 3, 0.5)
    page = str(draw(Loads([row], [], "load", cost=6.0, bound=6.0)))
    assert "<script>" not in page
    assert "bottleneck = lower bound: 6" in page
    wide = page.split('class="narrow"')[0]
    found = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"[^>]*class="time', wide)
    ends = [(float(x), float(x) + float(width)) for x, width in found]
    assert all(0 <= b[0] - a[1] < 1 for a, b in pairwise(ends))
    assert "50 %" in wide


def test_rows_that_run_at_the_same_time_are_explained() -> None:
    loads = Loads([Load("CPU 1", 2.0, [{"work": 2.0}, {"in": 1.0}], 1)], [], "load", cost=2.0)
    assert "the longest is the load" in key(loads)
    assert "forward pass" in key(Loads(loads.rows, [], "load", passes=("forward", "backward")))
