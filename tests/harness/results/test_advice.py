"""Which solver to use: shares of the best cost within a time, the nearest sizes, and classes of size."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import pytest

from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.results.ranking.advice import advice, decisions, nearest, shares


@pytest.fixture(scope="module")
def scored(small_campaign: dict[str, Path]) -> Iterator[Tables]:
    with closing(Store.open(small_campaign["pipeline"])) as store:
        yield tables(store)


def rows(*found: tuple[str, int, str, float, float | None]) -> pl.DataFrame:
    names = ("instance", "nodes", "solver", "share", "time_s")
    made = [{"track": "t", "division": "", "checksum": row[0], **dict(zip(names, row, strict=True))} for row in found]
    return pl.DataFrame(made, infer_schema_length=None)


@pytest.mark.parametrize("seconds", [0.2, 10.0])
def test_shares_are_those_of_the_solutions_found_by_then(scored: Tables, seconds: float) -> None:
    costs: dict[str, float] = {}
    for row in scored.incumbents.filter(feasible=1).iter_rows(named=True):
        if row["time_s"] <= seconds:
            costs[row["run"]] = min(row["cost"], costs.get(row["run"], row["cost"]))
    runs = scored.runs.filter(kind="solver").rows(named=True)
    best: dict[str, float] = {}
    for run in runs:
        if run["id"] in costs:
            best[run["checksum"]] = min(costs[run["id"]], best.get(run["checksum"], costs[run["id"]]))
    expected: dict[Any, list[float]] = defaultdict(list)
    for run in runs:
        if run["checksum"] in best:
            share = best[run["checksum"]] / costs[run["id"]] if run["id"] in costs else 0.0
            expected[run["instance"], run["solver"]].append(share)
    found = {(row["instance"], row["solver"]): row["share"] for row in shares(scored, seconds).iter_rows(named=True)}
    assert found == pytest.approx({key: mean(values) for key, values in expected.items()})


def test_the_solver_that_comes_closest_is_first() -> None:
    """Of equal ones that which is better elsewhere, else the sooner one."""
    found = rows(
        ("a", 10, "slow", 1.0, 9.0),
        ("b", 10, "slow", 1.0, 9.0),
        ("a", 10, "fast", 1.0, 1.0),
        ("b", 10, "fast", 1.0, 1.0),
        ("a", 10, "near", 0.985, 0.1),
        ("b", 10, "near", 0.9, 0.1),
        ("a", 10, "absent", 1.0, 0.1),
    )
    ranked = advice(found, found)
    assert [row["solver"] for row in ranked] == ["fast", "slow", "near", "absent"]
    assert [(row["share"], row["close"], row["instances"]) for row in ranked] == [
        (1.0, 2, 2),
        (1.0, 2, 2),
        (pytest.approx(0.9425), 1, 2),
        (0.5, 1, 2),
    ]

    elsewhere = rows(("c", 10, "slow", 0.9, 9.0), ("c", 10, "fast", 0.8, 1.0))
    assert [row["solver"] for row in advice(found, pl.concat([found, elsewhere]))][:2] == ["slow", "fast"]


def test_the_nearest_sizes_count() -> None:
    sizes = {"a": 1, "b": 10, "c": 90, "d": 100, "e": 120, "f": 500, "g": 9000}
    found = rows(*((name, nodes, "s", 1.0, 1.0) for name, nodes in sizes.items()))
    assert set(nearest(found, 100)["instance"]) == {"b", "c", "d", "e", "f"}
    assert set(nearest(found, 0)["instance"]) == {"a", "b", "c", "d", "e"}


def test_every_kind_of_instance_has_a_row_for_each_time(scored: Tables) -> None:
    found = decisions(scored, (0.2, 10.0))
    sizes = [json.loads(summary)["nodes"] for summary in scored.instances["summary"]]
    assert {(row["least"], row["most"]) for row in found} == {(0, 50), (50, 200)}
    assert all(0 < row["share"] <= 1 for row in found if row["limit_s"] == 10.0)
    assert {(row["least"], row["instances"]) for row in found if row["limit_s"] == 10.0} == {
        (0, sum(nodes <= 50 for nodes in sizes)),
        (50, sum(50 < nodes <= 200 for nodes in sizes)),
    }
