"""Costs and bounds from one end of float64 to the other: every table has a row for them, every page a number."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import polars as pl
import pytest

from shardmark.harness.results.database import Store
from shardmark.harness.results.export import csv, export_table, parquet, run_table
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.results.records import Bound, Incumbent
from shardmark.leaderboard.build import build
from tests.leaderboard.conftest import HOST, Filler

LEAST, MOST = 5e-324, sys.float_info.max
COSTS = (-1.0, 0.0, LEAST, 1e-300, 1.0, 1e300, MOST)
WHOLE_COSTS = (0, 1, 2**63, 10**308)
#: A run can state any finite number as its bound.
BOUNDS = (-MOST, -1.0, -LEAST, 0, LEAST, 1e-300, 1.0, 1e300, MOST)


def instances() -> Iterator[tuple[str, float, float]]:
    """Track, cost and bound of each."""
    for track, costs in (("pipeline", COSTS), ("intraop", WHOLE_COSTS)):
        yield from ((track, cost, bound) for cost, bound in product(costs, BOUNDS))


@pytest.fixture(scope="module")
def extreme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """An instance for every cost and bound: a solver found the cost, another one the greatest, a method the bound."""
    store = Store.open(tmp_path_factory.mktemp("results"), create=True)
    number = store.add_campaign("2025-11-21T06:00:00+00:00", ["shardmark", "run"], "0.1.0", HOST)
    fillers = {track: Filler(store, number, track) for track in ("pipeline", "intraop")}
    with store.transaction():
        for filler in fillers.values():
            for name, kind in (("good", "solver"), ("bad", "solver"), ("lower", "bound")):
                filler.declare(name, kind)
        for track, cost, bound in instances():
            name = f"{cost!r} over {bound!r}"
            published = {"best_cost": repr(cost)} if bound == 0 else {}
            store.add_instance(f"{track}-{name}", name, track, {"nodes": 3}, published)
            worst = WHOLE_COSTS[-1] if track == "intraop" else MOST
            for solver, found in (("good", cost), ("bad", worst)):
                steps = [Incumbent(0.1, True, worst), Incumbent(0.2, True, found)]
                fillers[track].add(solver, "solver", 0, name, "ok", "", found, steps, [])
            fillers[track].add("lower", "bound", 0, name, "ok", "", None, [], [Bound(0.1, -MOST), Bound(0.2, bound)])
    yield tables(store)
    store.close()


def test_every_score_is_a_number_from_0_to_1(extreme: Tables) -> None:
    assert run_table(extreme).height == 3 * len(list(instances()))
    for frame in (extreme.runs, extreme.results):
        for column in ("score", "certified", "bound_score"):
            assert frame[column].drop_nulls().is_between(0.0, 1.0).all()
    for name in ("score_sum", "score_geomean", "certified_sum", "certified_geomean"):
        assert extreme.solvers[name].is_finite().all()
    assert extreme.bounds["bound_sum"].is_finite().all()
    assert extreme.anytime["score"].is_between(0.0, 1.0 + 1e-12).all()


def test_a_gap_is_infinite_only_beyond_float64(extreme: Tables) -> None:
    good = extreme.runs.filter(pl.col("solver") == "good")
    gaps = {row["instance"]: row["gap"] for row in good.iter_rows(named=True)}
    assert gaps[f"1.0 over {LEAST!r}"] == gaps["1e+300 over 1e-300"] == float("inf")
    assert gaps[f"{MOST!r} over 1.0"] == MOST
    assert gaps["1 over 1.0"] == 0.0
    assert gaps["1.0 over 0"] is gaps["0.0 over -1.0"] is None
    assert not any(gap is not None and gap != gap for gap in gaps.values())


def test_every_table_is_exported(extreme: Tables) -> None:
    for name in ("runs", "solvers", "incumbents", "bounds", "published"):
        frame = export_table(extreme, name)
        assert pl.read_parquet(parquet(frame)).equals(frame)
        assert pl.read_csv(csv(frame), infer_schema=False).height == frame.height


def test_every_page_has_numbers(extreme: Tables, tmp_path: Path) -> None:
    site = build(extreme, tmp_path / "site").parent
    assert len(list((site / "instances").rglob("*.html"))) == len(list(instances()))
    for page in site.rglob("*.html"):
        assert not re.search(r"\b(inf|nan)\b", page.read_text(encoding="utf-8")), page
