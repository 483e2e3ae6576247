"""Scores against tables worked out by hand."""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from shardmark.harness.records.history import FILE_NAME, FOLDER
from shardmark.harness.results import export
from shardmark.harness.results.database import Store
from shardmark.harness.results.export import export_table, run_table, shown_table
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.results.records import Bound, Certificate, Incumbent, Record
from shardmark.harness.results.rows import COLUMNS, KEYS, MOST_SHOWN, shown
from shardmark.instances import InputError, catalog, tracks

HOST = {"cpu": "Example 3000", "cores": 4, "memory_mib": 8192}


class Book:
    """A results database filled by short calls; one campaign unless `campaign` is called again."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(folder, create=True)
        self.number = 0
        self.known: set[tuple[str, ...]] = set()  # solvers and instances
        self.campaign()

    def campaign(self, host: dict[str, Any] = HOST) -> None:
        """Begin another campaign; later runs belong to it."""
        day = f"2025-01-{self.number + 1:02d}T00:00:00+00:00"
        self.number = self.store.add_campaign(day, ["shardmark", "run"], "0.1.0", host)

    def instance(
        self, name: str, track: str = "intraop", *, checksum: str = "", options: Any = None, **published: Any
    ) -> None:
        """Record an instance whose checksum is its name by default."""
        checksum = checksum or f"{track}/{name}"
        self.known.add((checksum,))
        self.store.add_instance(checksum, name, track, {"nodes": 3} | (options or {}), published)

    def run(
        self,
        solver: str,
        instance: str,
        cost: int | float | None = None,
        *,
        track: str = "intraop",
        checksum: str = "",
        kind: str = "solver",
        bound: int | float | None = None,
        version: str = "v1",
        **facts: Any,
    ) -> str:
        """Record a run, with its cost as the one incumbent and its bound as the one bound unless given.

        Its instance is recorded as well if that is unknown.
        """
        if (track, solver, version) not in self.known:
            self.known.add((track, solver, version))
            self.store.add_solver(version, track, solver, kind, "A paper", "Does it.", {"depth": 2})
        checksum = checksum or f"{track}/{instance}"
        if (checksum,) not in self.known:
            self.instance(instance, track, checksum=checksum)
        facts.setdefault("incumbents", [] if cost is None else [Incumbent(0.5, True, cost)])
        facts.setdefault("bounds", [] if bound is None else [Bound(0.75, bound)])
        defaults: dict[str, Any] = {
            "seed": 0,
            "timeout_s": 2.0,
            "memory_mib": 1024.0,
            "cores": 1,
            "started": "2025-01-01T00:00:01+00:00",
            "stop": "exit",
            "reason": "",
            "status": "none" if cost is None and bound is None else "ok",
            "wall_s": 1.0,
            "cpu_s": 0.9,
            "peak_mib": 50.0,
            "solver_hash": version,
        }
        merged = {**defaults, **facts}
        limits = [merged[key] for key in ("seed", "timeout_s", "memory_mib", "cores")]
        name = json.dumps([track, solver, checksum, version, *limits, self.number])
        record = Record(name, track, instance, checksum, solver, kind, cost=cost, lower_bound=bound, **merged)
        self.store.add_run(self.number, record)
        return name

    def tables(self, records: Path = FOLDER) -> Tables:
        """Score the runs in the book, compared with the records of a folder."""
        return tables(self.store, records=records)


def test_a_run_killed_from_outside_is_not_scored_but_what_it_found_is_known(book: Book) -> None:
    killed = {"status": "killed", "stop": "killed", "reason": "killed by SIGKILL"}
    for name in ("one", "two"):
        book.run("fast", name, 20)
    book.run("slow", "one", 20)
    book.run("slow", "two", 10, **killed)
    book.run("slow", "two", 40, **{**killed, "status": "ok"}, seed=1)
    book.run("low", "one", kind="bound", bound=5, **killed)
    found = book.tables()
    run = row(found.runs, solver="slow", seed=0, instance="two")
    assert (run["cost"], run["score"], run["best"], run["certified"]) == (10.0, None, False, None)
    assert row(found.results, solver="slow", instance="two")["score"] == 10 / 40
    assert row(found.solvers, solver="fast")["score_sum"] == 1 + 10 / 20
    assert row(found.solvers, solver="slow")["expected"] == 2
    assert found.bounds.is_empty()
    assert "not scored: 2. `shardmark run` repeats them." in " ".join(found.notes["note"])


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path)
    yield book
    book.store.close()


def row(frame: pl.DataFrame, **where: Any) -> dict[str, Any]:
    """Return the only row of a frame with these values."""
    return frame.row(by_predicate=pl.all_horizontal(pl.col(k) == v for k, v in where.items()), named=True)


def notes(scored: Tables) -> list[tuple[str | None, str]]:
    """Return instance and sentence of every note."""
    return scored.notes.select("instance", "note").rows()


def test_contest_example(book: Book) -> None:
    """Moffitt & Fegade's rule on three teams and three instances: 100/300, 200/500 and so on, summed."""
    costs = {"team-a": (100, 500, 800), "team-b": (300, 200, 900), "team-c": (600, 700, 400)}
    for team, row_of_costs in costs.items():
        for name, cost in zip("xyz", row_of_costs, strict=True):
            book.run(team, name, cost)
    ranking = book.tables().solvers
    assert ranking["solver"].to_list() == ["team-a", "team-b", "team-c"]
    assert ranking["rank"].to_list() == [1, 2, 3]
    assert ranking["score_sum"].to_list() == pytest.approx([1 + 2 / 5 + 1 / 2, 1 / 3 + 1 + 4 / 9, 1 / 6 + 2 / 7 + 1])
    assert ranking["score_geomean"][0] == pytest.approx((1 * 0.4 * 0.5) ** (1 / 3))
    assert ranking["best"].to_list() == [1, 1, 1]
    assert ranking["certified_sum"].to_list() == [0, 0, 0]
    assert ranking["certified_geomean"].to_list() == [None, None, None]
    assert ranking["first_share"].to_list() == [None, None, None]  # three instances are too few to resample


def test_certified_scores_and_proofs(book: Book) -> None:
    book.run("greedy", "x", 125)
    book.run("exact", "x", 100, bound=80)
    book.run("relax", "x", kind="bound", bound=100)
    book.run("greedy", "y", 50)
    book.run("relax", "y", kind="bound", bound=25)
    scored = book.tables()
    greedy = row(scored.solvers, solver="greedy")
    assert greedy["certified_sum"] == pytest.approx(100 / 125 + 25 / 50)
    assert greedy["certified_geomean"] == pytest.approx(math.sqrt(0.8 * 0.5))
    assert (greedy["certified_instances"], greedy["proven"], greedy["covered"]) == (2, 0, 2)
    exact = row(scored.solvers, solver="exact")
    assert (exact["proven"], exact["covered"], exact["instances"], exact["coverage"]) == (1, 1, 2, 0.5)
    assert (exact["solved"], exact["runs"], exact["expected"], exact["missing"]) == (1, 1, 2, 1)
    x = row(scored.instances, instance="x")
    assert (x["best_cost_exact"], x["best_by"], x["lower_bound_exact"], x["bound_by"]) == (
        "100",
        ["exact"],
        "100",
        ["relax"],
    )
    assert (x["gap"], x["proven"], x["runs"], x["solved"]) == (0.0, True, 3, 2)
    run = row(scored.runs, solver="greedy", instance="x")
    assert (run["gap"], run["best"], run["proven"]) == (pytest.approx(0.25), False, False)
    assert row(scored.runs, solver="exact", instance="x")["bound_score"] == pytest.approx(0.8)


def test_only_a_proof_certifies_the_whole_optimum(book: Book) -> None:
    """A bound proves a decimal cost within a relative 1e-5, and an integer cost less than 1 above it."""
    book.run("a", "decimal", 10.0, track="pipeline", bound=10.0 * (1 - 1e-7))
    book.run("b", "decimal", 10.0 * (1 + 1e-7), track="pipeline")
    book.run("a", "integer", 4, bound=3.25)
    book.run("a", "large", 2 * 10**21, bound=2 * 10**21 - 1)
    runs = book.tables().runs
    near = row(runs, solver="b")
    assert (near["score"], near["certified"], near["best"], near["proven"]) == (1.0, 1.0, False, True)
    runs = runs.filter(pl.col("solver") == "a")
    found = {x["instance"]: (x["certified"], x["bound_score"], x["proven"]) for x in runs.iter_rows(named=True)}
    assert (found["decimal"], found["integer"]) == ((1.0, 1.0, True), (1.0, 1.0, True))
    certified, score, proven = found["large"]
    assert (0.999 < certified < 1, 0.999 < score < 1, proven) == (True, True, False)


def test_solvers_that_report_bounds_stand_among_the_bound_methods(book: Book) -> None:
    book.run("exact", "x", 100, bound=80)
    book.run("exact", "y", 100)
    book.run("greedy", "x", 120)
    book.run("liar", "x", 110, bound=105)
    book.run("relax", "x", kind="bound", bound=90)
    bounds = book.tables().bounds
    assert bounds["solver"].to_list() == ["relax", "exact"]
    exact = row(bounds, solver="exact")
    assert (exact["kind"], exact["bound_sum"], exact["bounded"], exact["expected"]) == ("solver", 0.8, 1, 2)


def test_unpublished_values_are_not_called_published(book: Book) -> None:
    sources = {"best_cost_source": "enumeration of all placements", "lower_bound_source": "ours: a bound"}
    book.instance("x", best_cost="7", lower_bound="6", **sources)
    book.instance("y", best_cost="7", best_cost_source="A paper, Table 1", lower_bound="6")
    book.run("a", "y", 9)
    book.run("a", "x", 9)
    found = book.tables().instances.sort("instance")
    assert found["best_by"].to_list() == found["bound_by"].to_list() == [["known beforehand"], ["published"]]


def test_notes_of_the_catalog_are_included_and_code_quotes_are_dropped(book: Book) -> None:
    book.store.add_solver("v1", "pipeline", "a", "solver", "", "Take ``first``.", {})
    book.known.add(("pipeline", "a", "v1"))
    for track in ("scheduling", "pipeline"):
        book.run("a", "fork-join", 9.0, track=track)
    scored = book.tables()
    found = dict(scored.instances.select("track", "about").iter_rows())
    assert found == {"scheduling": catalog.find("fork-join").note, "pipeline": ""}
    assert found["scheduling"]
    assert row(scored.solvers, track="pipeline")["description"] == "Take first."


def test_bound_methods(book: Book) -> None:
    for name, cost in (("x", 100), ("y", 10), ("z", 7)):
        book.run("greedy", name, cost)
    for name, bound in (("x", 50), ("y", 10)):
        book.run("strong", name, kind="bound", bound=bound)
    for name, bound in (("x", 40), ("y", 10), ("z", 0)):
        book.run("weak", name, kind="bound", bound=bound)
    book.run("strong", "z", kind="bound", status="crash", reason="fell over", stop="crash")
    scored = book.tables()
    strong, weak = (row(scored.bounds, solver=name) for name in ("strong", "weak"))
    assert (strong["bound_sum"], weak["bound_sum"]) == pytest.approx((1.5, 1.4))
    assert (strong["bound_geomean"], weak["bound_geomean"]) == pytest.approx((math.sqrt(0.5), math.sqrt(0.4)))
    assert (strong["bound_best"], weak["bound_best"]) == (2, 2)  # weak's 0 is the best there is on z
    assert (strong["bound_proves"], weak["bound_proves"]) == (1, 1)
    assert (strong["covered"], strong["bounded"], strong["coverage"]) == (2, 2, pytest.approx(2 / 3))
    assert scored.bounds["solver"].to_list() == ["strong", "weak"]
    assert scored.solvers["solver"].to_list() == ["greedy"]


def test_incumbents_of_bounds_and_bounds_of_solvers_count_for_the_instance(book: Book) -> None:
    book.run("mip", "x", 80, kind="bound", bound=60)
    book.run("tree", "x", 100, bound=70)
    scored = book.tables()
    x = row(scored.instances, instance="x")
    assert (x["best_cost_exact"], x["best_by"], x["lower_bound_exact"], x["bound_by"]) == (
        "80",
        ["mip"],
        "70",
        ["tree"],
    )
    assert row(scored.solvers, solver="tree")["score_sum"] == pytest.approx(0.8)
    assert row(scored.bounds, solver="mip")["bound_sum"] == pytest.approx(60 / 80)


def test_seeds_are_averaged_within_an_instance(book: Book) -> None:
    book.run("other", "x", 50)
    book.run("other", "y", 50)
    for seed, cost in enumerate((50, 100, None)):
        book.run("luck", "x", cost, seed=seed)
    book.run("luck", "y", 200)
    scored = book.tables()
    luck = row(scored.solvers, solver="luck")
    assert luck["score_sum"] == pytest.approx((1 + 0.5 + 0) / 3 + 0.25)
    assert luck["score_geomean"] == pytest.approx(math.sqrt(0.5 * 0.25))
    assert (luck["covered"], luck["solved"], luck["expected"], luck["coverage"]) == (2, 3, 4, 0.75)
    cell = row(scored.results, solver="luck", instance="x")
    assert (cell["runs"], cell["solved"], cell["best"]) == (3, 2, True)


FREE, LATENCY = {"contiguity": "free"}, {"objective": "latency"}


def test_instances_of_different_modes_are_ranked_apart(book: Book) -> None:
    """Two solvers are each best in one mode; a third declines one mode, and an instance of the other."""
    for name, options in (("a", {}), ("b", {"memory": 8.0}), ("c", FREE), ("d", FREE), ("e", LATENCY)):
        book.instance(name, "placement", options=options)
    for name, dp, search in (("a", 10.5, 21.0), ("b", 10.5, 21.0), ("c", 42.0, 10.5), ("d", 42.0, 10.5)):
        book.run("dp", name, dp, track="placement")
        book.run("search", name, search, track="placement")
    for name in "abc":
        book.run("picky", name, track="placement", status="declined", reason="no")
    book.run("picky", "d", 10.5, track="placement")
    book.run("shy", "c", track="placement", status="declined", reason="no")
    book.run("search", "e", 7.5, track="placement")
    book.run("load", "a", track="placement", kind="bound", bound=5.25)
    book.run("load", "e", track="placement", kind="bound", status="declined", reason="no")
    scored = book.tables()
    assert scored.divisions == {"placement": ["throughput, contiguous", "throughput, free", "latency, contiguous"]}
    shown = ("division", "solver", "rank", "score_sum", "instances", "covered", "solved", "expected")
    assert scored.solvers.select(shown).rows() == [
        ("latency, contiguous", "search", 1, 1.0, 1, 1, 1, 1),
        ("throughput, contiguous", "dp", 1, 2.0, 2, 2, 2, 2),
        ("throughput, contiguous", "search", 2, 1.0, 2, 2, 2, 2),
        ("throughput, free", "search", 1, 2.0, 2, 2, 2, 2),
        ("throughput, free", "picky", 2, 1.0, 2, 1, 1, 2),
        ("throughput, free", "dp", 3, 0.5, 2, 2, 2, 2),
    ]
    assert scored.declined.select("division", "solver", "kind", "runs").rows() == [
        ("latency, contiguous", "load", "bound", 1),
        ("throughput, contiguous", "picky", "solver", 2),
        ("throughput, free", "shy", "solver", 1),
    ]
    declines = scored.runs.filter(pl.col("status") == "declined", pl.col("solver") == "picky").sort("instance")
    assert declines["score"].to_list() == [None, None, 0.0]
    assert scored.bounds.select("division", "instances", "missing").rows() == [("throughput, contiguous", 2, 1)]
    assert notes(scored) == [
        (None, "Not run on every instance of throughput, contiguous, scored 0 on the others: load.")
    ]
    assert run_table(scored).select("instance", "division").unique().height == 5


def test_a_method_that_declines_everything_has_no_rank(book: Book) -> None:
    """One solution gives it a rank, also in a track without modes."""
    book.run("greedy", "x", 10)
    book.run("picky", "x", status="declined", reason="no")
    book.run("torn", "x", 20, status="declined", reason="no, but have this")
    scored = book.tables()
    assert scored.divisions == {"intraop": [""]}
    assert scored.solvers.select("solver", "score_sum").rows() == [("greedy", 1.0), ("torn", 0.5)]
    assert scored.declined.select("solver", "description").rows() == [("picky", "Does it.")]


def test_a_division_is_scored_as_if_there_were_no_other(book: Book) -> None:
    """The tables of a database of many modes equal those of the instances of each mode alone."""
    rng = random.Random(6)
    modes = [{}, FREE, LATENCY, {"overlap": "half"}, {"schedule": "gpipe"}, {"allreduce": 2.5}, {"cluster": 2}]
    with book.store.transaction():
        for i in range(60):
            options = rng.choice(modes)
            book.instance(f"i{i}", "placement", options=options)
            for j in range(9):
                kind = "bound" if j % 3 == 2 else "solver"
                refuses = (options == FREE and j < 3) or rng.random() < 0.2
                costs = [] if refuses else [round(100 + 50 * rng.random(), 3) for _ in range(3)]
                facts: dict[str, Any] = {"kind": kind, "seed": rng.randrange(3)}
                if refuses:
                    facts |= {"status": "declined"}
                elif kind == "bound":
                    facts |= {"bound": costs[0] - 30}
                else:
                    found = [Incumbent(k + rng.random(), True, cost) for k, cost in enumerate(costs)]
                    facts |= {"incumbents": found, "cost": min(costs)}
                book.run(f"s{j}", f"i{i}", track="placement", **facts)
    scored = book.tables()
    assert len(scored.divisions["placement"]) == 7
    assert scored.declined.select("division", "solver").rows() == [("throughput, free", f"s{j}") for j in range(3)]
    parts = ("instances", "runs", "results", "solvers", "bounds", "declined", "profiles", "anytime", "contradictions")
    for division in scored.divisions["placement"]:
        own = scored.instances.filter(pl.col("division") == division)
        alone = tables(book.store, set(own["id"]))
        for name in parts:
            together = getattr(scored, name).filter(pl.col("division") == division)
            assert together.height or name == "declined"
            assert_frame_equal(together, getattr(alone, name), rel_tol=1e-12)


def test_the_terminal_names_divisions_if_there_are_several(book: Book) -> None:
    book.run("dp", "x", 1.5, track="placement")
    book.run("greedy", "i", 3)
    assert "division" not in shown_table(run_table(book.tables()), "runs").columns
    book.instance("y", "placement", options=FREE)
    book.run("dp", "y", 1.5, track="placement")
    shown = shown_table(run_table(book.tables()), "runs")
    assert shown.columns[:3] == ["track", "division", "instance"]
    assert shown["division"].to_list() == ["", "throughput, contiguous", "throughput, free"]
    assert shown_table(run_table(book.tables()).clear(), "runs").height == 0
    ranks = shown_table(export_table(book.tables(), "solvers"), "solvers").select("division", "rank", "solver")
    assert ranks.rows() == [("", 1, "greedy"), ("throughput, contiguous", 1, "dp"), ("throughput, free", 1, "dp")]
    bounds = export_table(book.tables(), "bounds")
    names = ["track", "instance", "solver", "seed"]
    assert bounds.columns[:5] == [*names, "run"]
    assert shown_table(bounds, "bounds").columns == [*names, "time_s", "value_exact"]


def test_integers_are_compared_exactly_beyond_64_bits(book: Book) -> None:
    large = 10**24 + 1
    book.run("first", "x", large)
    book.run("second", "x", large + 1)
    book.run("proof", "x", kind="bound", bound=large)
    book.run("wrong", "x", kind="bound", bound=large + 1)
    scored = book.tables()
    assert row(scored.instances, instance="x")["best_cost_exact"] == str(large)
    for name, told in (("first", True), ("second", False)):
        assert row(scored.runs, solver=name).items() >= {"best": told, "proven": told}.items()
    assert scored.contradictions["solver"].to_list() == ["wrong"]


def test_integer_optimum_is_proven_by_a_bound_less_than_one_below(book: Book) -> None:
    book.run("tree", "x", 217039)
    book.run("close", "x", kind="bound", bound=217038.5)
    book.run("far", "x", kind="bound", bound=217038)
    scored = book.tables()
    assert row(scored.runs, solver="tree")["proven"]
    assert [row(scored.bounds, solver=name)["bound_proves"] for name in ("close", "far")] == [1, 0]
    assert row(scored.runs, solver="tree")["gap"] == 0.0


def test_float_costs_are_compared_to_a_relative_1e9(book: Book) -> None:
    for name, cost in (("a", 2.0), ("b", 2.000000001), ("c", 2.00000001)):
        book.run(name, "x", cost, track="pipeline")
    for name, bound in (("within", 2.000000001), ("below", 1.9999), ("lowered", 1.999998), ("above", 2.0000001)):
        book.run(name, "x", track="pipeline", kind="bound", bound=bound)
    scored = book.tables()
    assert [row(scored.runs, solver=name)["best"] for name in "abc"] == [True, True, False]
    assert scored.contradictions["solver"].to_list() == ["above"]
    proofs = {name: row(scored.bounds, solver=name)["bound_proves"] for name in ("within", "lowered", "below", "above")}
    assert proofs == {"within": 1, "lowered": 1, "below": 0, "above": 0}


def test_contradictions_are_kept_apart(book: Book) -> None:
    book.run("greedy", "x", 100)
    book.run("liar", "x", kind="bound", bound=101)
    book.run("honest", "x", kind="bound", bound=60)
    scored = book.tables()
    wrong = scored.contradictions.row(0, named=True)
    assert (wrong["solver"], wrong["bound_exact"], wrong["cost_exact"], wrong["against"]) == (
        "liar",
        "101",
        "100",
        "greedy",
    )
    assert row(scored.instances, instance="x")["lower_bound_exact"] == "60"
    liar = row(scored.bounds, solver="liar")
    assert (liar["bound_sum"], liar["bound_geomean"], liar["bounded"], liar["contradictions"]) == (0.0, None, 0, 1)
    run = row(scored.runs, solver="liar")
    assert (run["bound_trusted"], run["bound_score"]) == (False, None)
    assert row(scored.runs, solver="greedy")["certified"] == pytest.approx(0.6)


def test_published_values_count_and_can_be_contradicted(book: Book) -> None:
    book.instance("x", best_cost="80", lower_bound="40.5", source="A paper")
    book.instance("y", best_cost="30", lower_bound="20")
    book.run("greedy", "x", 100)
    book.run("greedy", "y", 10)
    scored = book.tables()
    x = row(scored.instances, instance="x")
    assert (x["best_cost_exact"], x["best_by"]) == ("80", ["published"])
    assert (x["lower_bound_exact"], x["bound_by"]) == ("40.5", ["published"])
    assert row(scored.solvers, solver="greedy")["score_sum"] == pytest.approx(0.8 + 1)
    wrong = scored.contradictions.row(0, named=True)
    assert (wrong["instance"], wrong["solver"], wrong["run"], wrong["bound_exact"]) == ("y", "published", None, "20")


def record_line(checksum: str, instance: str, kind: str, value: str) -> str:
    """Return a line of the history of the records."""
    solution = "f" * 64 if kind == "cost" else ""
    limits = {"seed": 0, "timeout_s": 1.0, "memory_mib": 64.0, "cores": 1, "wall_s": 1.0}
    about = {"instance": instance, "checksum": checksum, "kind": kind, "value": value, "solution": solution}
    made = {"method": "m", "version": "v", "machine": "x", "date": "2025-01-02", "by": "Ada"}
    return f"{json.dumps(about | limits | made)}\n"


def test_records_count_by_checksum_and_can_be_contradicted(book: Book, tmp_path: Path) -> None:
    """A poor cost is not the best known one for want of others; a name alone makes no record."""
    x, y, z = ("a" * 64, "b" * 64, "c" * 64)
    known = [(x, "diamond", "80", "60"), (y, "triangle", "80", "60"), (z, "overflow", "80", "60")]
    lines = [
        record_line(checksum, name, kind, value)
        for checksum, name, *values in known
        for kind, value in zip(("cost", "bound"), values, strict=True)
    ]
    (tmp_path / FILE_NAME).write_text("".join(lines))
    book.run("greedy", "renamed", 100, checksum=x)
    book.run("greedy", "triangle", 50, checksum=y)
    book.run("greedy", "overflow", 80, checksum=z, bound=90)
    book.run("greedy", "diamond", 100)
    scored = book.tables(tmp_path)
    found = {
        row["instance"]: (row["best_cost_exact"], row["best_by"], row["lower_bound_exact"], row["bound_by"])
        for row in scored.instances.iter_rows(named=True)
    }
    assert found == {
        "renamed": ("80", ["records"], "60", ["records"]),
        "triangle": ("50", ["greedy"], None, []),
        "overflow": ("80", ["greedy", "records"], "60", ["records"]),
        "diamond": ("100", ["greedy"], None, []),
    }
    run = row(scored.runs, instance="renamed")
    assert (run["score"], run["certified"], run["best"]) == (0.8, 0.6, False)
    wrong = scored.contradictions.select("instance", "solver", "run", "bound_exact", "cost_exact", "against")
    assert set(wrong.rows()) == {
        ("triangle", "records", None, "60", "50", "greedy"),
        ("overflow", "greedy", row(scored.runs, instance="overflow")["id"], "90", "80", "greedy"),
    }


def test_cost_zero(book: Book) -> None:
    book.run("a", "x", 0)
    book.run("b", "x", 5)
    book.run("bound", "x", kind="bound", bound=0)
    scored = book.tables()
    runs = scored.runs.filter(pl.col("kind") == "solver").sort("solver").select("score", "certified", "gap")
    assert runs.rows() == [(1.0, 1.0, 0.0), (0.0, 0.0, None)]
    totals = scored.solvers.sort("solver").select("score_geomean", "certified_geomean", "certified_instances")
    assert totals.rows() == [(1.0, 1.0, 1), (0.0, None, 0)]
    assert row(scored.bounds, solver="bound")["bound_sum"] == 1.0
    assert row(scored.anytime, solver="a")["score"] == 1.0


@pytest.mark.parametrize(("cost", "bound"), [(0, -1), (0.0, -1e308), (1e-300, -1e308)])
def test_a_negative_bound_certifies_nothing(book: Book, cost: float, bound: float) -> None:
    book.run("a", "x", cost)
    book.run("lower", "x", kind="bound", bound=bound)
    scored = book.tables()
    assert row(scored.runs, solver="a").items() >= {"score": 1.0, "certified": 0.0, "gap": None}.items()
    assert row(scored.runs, solver="lower")["bound_score"] == 0.0


def test_nothing_solved(book: Book) -> None:
    book.run("a", "x", status="timeout", reason="ran out of time", stop="timeout")
    book.run("bound", "x", kind="bound", bound=3)
    scored = book.tables()
    a = row(scored.solvers, solver="a")
    assert (a["score_sum"], a["score_geomean"], a["certified_sum"], a["coverage"]) == (0, None, 0, 0)
    assert row(scored.instances, instance="x")["lower_bound_exact"] == "3"
    assert row(scored.bounds, solver="bound")["bound_sum"] == 0.0
    assert scored.profiles.is_empty()


def test_empty_database(book: Book) -> None:
    scored = book.tables()
    assert (scored.tracks, scored.runs.height, scored.solvers.height, scored.notes.height) == ({}, 0, 0, 0)
    assert run_table(scored).is_empty()


def test_newest_run_of_the_newest_version_counts(book: Book) -> None:
    for name in "xy":
        book.run("a", name, 50)
        book.run("b", name, 100)
    book.campaign()
    book.run("a", "x", 80, version="v2")
    book.run("b", "x", 200)
    scored = book.tables()
    assert row(scored.solvers, solver="a")["hash"] == "v2"
    assert row(scored.instances, instance="x")["best_cost_exact"] == "80"
    assert row(scored.instances, instance="y")["best_cost_exact"] == "100"
    assert row(scored.solvers, solver="a")["score_sum"] == 1.0  # its first version's run on y is gone
    assert row(scored.solvers, solver="b")["score_sum"] == pytest.approx(80 / 200 + 1)
    sentences = [note for _, note in notes(scored)]
    assert any("Not run on every instance" in note and note.endswith(": a.") for note in sentences)
    assert any(note.startswith("3 runs of older solver versions") for note in sentences)
    assert scored.campaigns["runs"].to_list() == [1, 2]


def test_unequal_limits_are_noted(book: Book) -> None:
    for name in "xy":
        book.run("a", name, 50)
    book.run("b", "x", 50, timeout_s=10.0, cores=2)
    book.run("b", "y", 50)
    book.run("bound", "y", kind="bound", bound=1, timeout_s=60.0)  # bounds are not compared with solvers
    assert notes(book.tables()) == [
        (None, "Not run on every instance, scored 0 on the others: bound."),
        (None, "Runs under different time, core or memory limits are compared on 1 of its instances."),
        ("x", "Its solver runs had different limits: 2 s, 1 core, 1024 MiB; 10 s, 2 cores, 1024 MiB."),
    ]


def test_several_machines_are_noted(book: Book) -> None:
    book.run("a", "x", 50)
    book.campaign({**HOST, "cores": 8})
    book.run("b", "x", 50)
    [(instance, note)] = notes(book.tables())
    assert instance is None
    assert note.startswith("Runs from 2 machines are compared: Example 3000, 4 cores, 8192 MiB; Example 3000, 8 cores")


def test_the_machine_of_a_run_is_that_of_its_campaign_and_its_name(book: Book) -> None:
    book.store.add_host(1, "far", {**HOST, "cores": 16})
    book.run("a", "x", 50)
    book.run("b", "x", 50, host="far")
    book.campaign({**HOST, "cores": 99})  # has no runs
    scored = book.tables()
    assert scored.hosts.select("campaign", "name", "runs").rows() == [(1, "", 1), (1, "far", 1), (2, "", 0)]
    [(_, note)] = notes(scored)
    assert note.endswith("Example 3000, 16 cores, 8192 MiB; Example 3000, 4 cores, 8192 MiB.")


def test_disturbed_machines_are_noted(book: Book) -> None:
    book.run("a", "x", 50)
    book.run("b", "x", 50)
    book.store.end_campaign(1, "2025-01-02T00:00:00+00:00", {"": []})
    assert notes(book.tables()) == []
    book.store.end_campaign(1, "2025-01-02T00:00:00+00:00", {"": ["It was hot.", "It swapped."]})
    begin = "The machine was disturbed in a campaign with"
    assert notes(book.tables()) == [(None, f"{begin} 2 of its runs. It was hot. It swapped.")]


def test_limits_enforced_in_different_ways_are_noted(book: Book) -> None:
    book.run("a", "x", 50, backend="posix")
    book.run("b", "x", 50, backend="")  # its file could not be imported
    book.run("c", "x", 50)  # of the first schema
    assert notes(book.tables()) == []
    book.run("d", "x", 50, backend="benchexec")
    assert notes(book.tables()) == [(None, "The limits of its runs were enforced in different ways: benchexec, posix.")]


def test_a_limit_on_cpu_time_is_unequal_only_if_it_binds(book: Book) -> None:
    book.run("a", "x", 50)
    book.run("b", "x", 50, cpu_limit_s=3.0)  # 1 core, 2 s and the second added for the end
    book.run("c", "x", 50, cpu_limit_s=100.0)
    assert notes(book.tables()) == []
    book.run("d", "x", 50, cpu_limit_s=1.0)
    sentence = "Its solver runs had different limits: 2 s, 1 core, 1024 MiB, 1 s of CPU time; 2 s, 1 core, 1024 MiB."
    assert ("x", sentence) in notes(book.tables())


def test_contents_that_share_an_id_are_told_apart(book: Book) -> None:
    book.run("a", "g.json", 50, checksum="aaaaaaaa1")
    book.run("a", "g.json", 90, checksum="bbbbbbbb2")
    scored = book.tables()
    assert scored.instances["instance"].to_list() == ["g.json@aaaaaaaa", "g.json@bbbbbbbb"]
    assert row(scored.solvers, solver="a")["score_sum"] == 2.0
    assert any("2 different contents or options share the id g.json" in note for _, note in notes(scored))


def test_tracks_are_apart_and_in_the_project_order(book: Book) -> None:
    book.run("random", "x", 4.0, track="pipeline")
    book.run("random", "x", 8)
    scored = book.tables()
    assert list(scored.tracks) == ["intraop", "pipeline"]
    assert all(text and "`" not in text and not text.startswith("Track") for text in scored.tracks.values())
    assert scored.solvers["score_sum"].to_list() == [1.0, 1.0]


def test_equal_sums_share_a_rank(book: Book) -> None:
    for solver, name, cost in (("a", "x", 1), ("a", "y", 2), ("b", "x", 2), ("b", "y", 1), ("c", "x", 4)):
        book.run(solver, name, cost)
    assert book.tables().solvers.select("solver", "rank").rows() == [("a", 1), ("b", 1), ("c", 3)]


def test_times_are_those_of_the_final_cost_and_bound(book: Book) -> None:
    found = [Incumbent(0.1, True, 90), Incumbent(0.2, False, 50), Incumbent(0.4, True, 50), Incumbent(0.9, True, 50)]
    proved = [Bound(0.3, 10), Bound(0.6, 20), Bound(0.7, 15)]
    book.run("a", "x", 50, bound=20, incumbents=found, bounds=proved)
    book.run("a", "y", 50, incumbents=[Incumbent(1.4, True, 50)])
    scored = book.tables()
    x = row(scored.runs, instance="x")
    assert (x["time_to_best_s"], x["time_to_bound_s"]) == (0.4, 0.6)
    assert row(scored.solvers, solver="a")["time_to_best_s"] == pytest.approx((0.4 + 1.4) / 2)


@pytest.mark.parametrize(
    ("first", "early"),
    [
        (Incumbent(0.2, True, 52.5), 1),
        (Incumbent(0.2, True, 52.6), 0),
        (Incumbent(0.3, True, 50), 0),
        (Incumbent(0.2, False, 50), 0),
    ],
)
def test_a_solution_within_a_tenth_of_the_time_that_costs_little_more_than_the_last_is_early(
    book: Book, first: Incumbent, early: int
) -> None:
    book.run("a", "x", 50, incumbents=[first, Incumbent(1.0, True, 50)])  # of 2 s
    book.run("a", "y", None)
    scored = book.tables()
    assert row(scored.runs, instance="x")["early"] is bool(early)
    assert row(scored.runs, instance="y")["early"] is None
    assert row(scored.solvers, solver="a")["early"] == early


def test_profiles_and_anytime_curves(book: Book) -> None:
    book.run("best", "x", 50)
    book.run("best", "y", 50)
    steps = [(0.05, False, 50), (0.1, True, 200), (0.2, True, 400), (0.3, True, 100)]
    book.run("slow", "x", 100, incumbents=[Incumbent(*step) for step in steps])
    for seed, cost in enumerate((50, None)):
        book.run("slow", "y", cost, seed=seed)
    scored = book.tables()
    slow = pl.col("solver") == "slow"
    assert scored.profiles.filter(slow).select("ratio", "share").rows() == [(1.0, 0.25), (2.0, 0.75)]
    curve = scored.anytime.filter(slow).select("time_s", "score").rows()
    assert curve == [(0.1, 0.125), (0.3, pytest.approx(0.25)), (0.5, pytest.approx(0.5))]
    assert curve[-1][1] * 2 == pytest.approx(row(scored.solvers, solver="slow")["score_sum"])


def test_firmness_of_a_ranking(book: Book) -> None:
    for i in range(8):
        for solver, cost in (("best", 10), ("same", 10), ("varied", 10 * (1 + i % 2)), ("half", 20)):
            book.run(solver, str(i), cost)
    ranking = book.tables().solvers
    best, same, varied, half = (row(ranking, solver=name) for name in ("best", "same", "varied", "half"))
    assert (best["score_low"], best["score_high"], best["first_share"]) == (8.0, 8.0, 1.0)
    assert same["first_share"] == 1.0
    assert (half["score_low"], half["score_high"], half["first_share"]) == (4.0, 4.0, 0.0)
    # Of 8 drawn instances a binomial number costs half a point: 1 to 7 of them in the middle 95 % of the draws.
    assert (varied["score_low"], varied["score_sum"], varied["score_high"]) == (4.5, 6.0, 7.5)
    assert varied["first_share"] == pytest.approx(2**-8, abs=0.01)


@pytest.mark.parametrize(
    ("encode", "read", "suffix"), [(export.parquet, pl.read_parquet, "parquet"), (export.csv, pl.read_csv, "csv")]
)
def test_export(
    book: Book, tmp_path: Path, encode: Callable[..., bytes], read: Callable[..., Any], suffix: str
) -> None:
    book.run("a", "x", 10**20, reason='said "no", twice')
    book.run("bound", "x", kind="bound", bound=10**20)
    path = tmp_path / f"runs.{suffix}"
    frame = export_table(book.tables(), "runs")
    path.write_bytes(encode(frame))
    back = read(path)
    assert back.columns == frame.columns
    assert back["reason"].to_list() == ["", 'said "no", twice']
    assert [str(cost) for cost in back["cost_exact"]] == ["None", "1" + "0" * 20]
    assert back["cost"].to_list() == [None, 1e20]
    assert back["certified"].to_list() == [None, 1.0]


def test_every_exact_text_of_an_exported_table_has_a_float_to_compute_with(book: Book) -> None:
    book.instance("contest-G", **G)
    for name, cost in (("near", 9), ("far", 12)):
        book.run(name, "contest-G", cost, bound=cost - 1)
    scored = book.tables()
    assert scored.runs["cost"].min() == 9.0  # of texts it would be "12"
    for name in ("runs", "incumbents", "bounds", "published"):
        frame = pl.read_parquet(io.BytesIO(export.parquet(export_table(scored, name))))
        exact = [column for column in frame.columns if column.endswith("_exact")]
        assert exact, name
        for column in exact:
            floats = frame[column.removesuffix("_exact")]
            assert floats.dtype == pl.Float64
            assert floats.to_list() == frame[column].cast(pl.Float64).to_list()


DECIMAL = "a number as decimal text, within float64"
TRACK = f"one of {', '.join(tracks())}"
PUBLISHED = "JSON, an object whose best_cost and lower_bound are decimal text if they are there"
MACHINE = "JSON, an object whose packages, and a yardstick of positive seconds, are objects if they are there"
HUGE_CLAIM = '{"end": "done", "cost": "1e999", "lower_bound": null, "solutions": 1, "bounds": 0}'
CLAIM = "JSON, an object with end, cost, lower_bound, solutions and bounds"
SUMMARY = "JSON, an object whose nodes, if they are there, are a whole number below 2^63"


@pytest.mark.parametrize(
    ("table", "column", "value", "expected"),
    [
        ("runs", "cost", "{broken", f"{DECIMAL}, or NULL"),
        ("runs", "cost", "1e999", f"{DECIMAL}, or NULL"),
        ("runs", "cost", "-1e999", f"{DECIMAL}, or NULL"),
        ("runs", "cost", "1e999999999", f"{DECIMAL}, or NULL"),
        ("runs", "cost", "7" * 6001, f"{DECIMAL}, or NULL"),
        ("runs", "cost", f"0.{'0' * 6001}7", f"{DECIMAL}, or NULL"),
        ("runs", "lower_bound", "1e999", f"{DECIMAL}, or NULL"),
        ("runs", "lower_bound", "1/3", f"{DECIMAL}, or NULL"),
        ("runs", "track", "<x>", TRACK),
        ("runs", "kind", "<x>", "one of solver, bound"),
        ("runs", "feasible", 2, "one of 0, 1"),
        ("runs", "enforced", "{broken", "JSON, an object of texts, or NULL"),
        ("runs", "enforced", '{"wall": []}', "JSON, an object of texts, or NULL"),
        ("runs", "claimed", "[]", f"{CLAIM}, or NULL"),
        ("runs", "claimed", "{}", f"{CLAIM}, or NULL"),
        ("runs", "claimed", "[" * 100_000, f"{CLAIM}, or NULL"),
        ("runs", "claimed", HUGE_CLAIM, f"{CLAIM}, or NULL"),
        ("runs", "seed", "{broken", "an integer"),
        ("runs", "wall_s", "{broken", "a finite number"),
        ("runs", "wall_s", math.inf, "a finite number"),
        ("incumbents", "cost", "nan", f"{DECIMAL}, or NULL"),
        ("incumbents", "cost_float", math.inf, "a finite number, or NULL"),
        ("incumbents", "time_s", -math.inf, "a finite number"),
        ("bounds", "value", "1e999", DECIMAL),
        ("bounds", "value_float", math.inf, "a finite number"),
        ("instances", "track", "<x>", TRACK),
        ("instances", "summary", "[]", SUMMARY),
        ("instances", "summary", '{"nodes": "x"}', SUMMARY),
        ("instances", "summary", '{"nodes": 1e400}', SUMMARY),
        ("instances", "summary", f'{{"nodes": {2**63}}}', SUMMARY),
        ("instances", "summary", '{"nodes": -1}', SUMMARY),
        ("instances", "summary", '{"name": "\\ud800"}', SUMMARY),
        ("instances", "published", "[]", PUBLISHED),
        ("instances", "published", '{"best_cost": "about 80"}', PUBLISHED),
        ("instances", "published", '{"lower_bound": 1e999}', PUBLISHED),
        ("solvers", "params", "3", "JSON, an object"),
        ("campaigns", "command", '"run"', "JSON, a list of texts"),
        ("campaigns", "command", "[1]", "JSON, a list of texts"),
        ("campaigns", "started", "yesterday", "a time as 2025-01-31T12:00:00+00:00"),
        ("campaigns", "started", "2025-01-31", "a time as 2025-01-31T12:00:00+00:00"),
        ("campaigns", "ended", "", "a time as 2025-01-31T12:00:00+00:00, or NULL"),
        ("hosts", "facts", "[]", MACHINE),
        ("hosts", "facts", '{"packages": [1]}', MACHINE),
        ("hosts", "facts", '{"yardstick": {"memory": 0}}', MACHINE),
        ("hosts", "disturbances", "{}", "JSON, a list of texts, or NULL"),
        ("hosts", "disturbances", "[null]", "JSON, a list of texts, or NULL"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_wrong_value_is_reported_with_its_place(
    book: Book, table: str, column: str, value: Any, expected: str
) -> None:
    book.run("a", "x", 50, bound=40)
    book.store.connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with pytest.raises(InputError) as caught:
        book.tables()
    assert caught.value.source.endswith("results.sqlite")
    assert caught.value.place.startswith(f"{table} ")
    assert caught.value.place.endswith(f" {column}")
    words, _, found = caught.value.expected.partition(", found ")
    assert words == f"expected {expected}"
    assert len(found) <= MOST_SHOWN + 1
    assert repr(value).startswith(found[:20])
    assert repr(value).endswith(found[-20:])


@pytest.mark.parametrize(
    ("change", "place", "expected"),
    [
        ("DELETE FROM instances", "checksum, track", "checksum, track of a row of instances"),
        ("UPDATE instances SET track = 'pipeline'", "checksum, track", "checksum, track of a row of instances"),
        ("DELETE FROM solvers", "track, solver, solver_hash", "track, name, hash of a row of solvers"),
        ("DELETE FROM campaigns", "campaign", "id of a row of campaigns"),
    ],
)
def test_a_run_with_a_dangling_reference_is_reported(book: Book, change: str, place: str, expected: str) -> None:
    run = book.run("a", "x", 50)
    book.store.connection.executescript(f"PRAGMA foreign_keys = OFF; {change}")
    with pytest.raises(InputError) as caught:
        book.tables()
    assert caught.value.place == f"runs id {shown(run)} {place}"
    assert caught.value.expected.startswith(f"expected {expected}, found")


def test_a_bound_has_the_grade_of_its_own_certificate_and_an_instance_the_best_one(book: Book) -> None:
    def proof(proven: int | float | None) -> Certificate:
        return Certificate({"bound": 0}, proven, 0.1, "")

    for name, certificate in (("checked", proof(8)), ("weak", proof(7)), ("failed", proof(None)), ("without", None)):
        book.run(name, "one", kind="bound", bound=8, certificate=certificate)
    book.run("any", "one", 10)
    book.run("above", "one", kind="bound", bound=11, certificate=proof(11))
    book.run("claimed", "two", kind="bound", bound=9, certificate=proof(8))
    book.instance("three", best_cost="10", lower_bound="9", lower_bound_source="Example et al. 2024")
    book.run("lagrange", "three", kind="bound", bound=9)
    book.run("lp", "three", kind="bound", bound=8)
    book.run("toulbar2", "three", kind="bound", bound=10)
    book.run("settled", "four", 10.0, bound=10.0, track="pipeline", certificate=proof(9.99999))
    book.run("checked", "five", 10, bound=8, certificate=proof(8))
    book.run("claimed", "five", kind="bound", bound=9)
    found = book.tables()
    grades = {(r["instance"], r["solver"]): r["grade"] for r in found.runs.iter_rows(named=True)}
    assert grades == {
        ("one", "checked"): "checked",
        ("one", "weak"): "claimed",
        ("one", "failed"): "claimed",
        ("one", "without"): "claimed",
        ("one", "any"): None,
        ("one", "above"): None,
        ("two", "claimed"): "claimed",
        ("three", "lagrange"): "agreed",
        ("three", "lp"): "agreed",
        ("three", "toulbar2"): "claimed",
        ("four", "settled"): "checked",
        ("five", "checked"): "checked",
        ("five", "claimed"): "claimed",
    }
    instances = dict(found.instances.select("instance", "grade").iter_rows())
    assert instances == {"one": "checked", "two": "claimed", "three": "claimed", "four": "checked", "five": "claimed"}


@pytest.mark.parametrize("table", sorted(COLUMNS.keys() - {"certificates"}))
def test_a_missing_table_or_column_is_reported(book: Book, table: str) -> None:
    book.store.connection.executescript(f"PRAGMA foreign_keys = OFF; ALTER TABLE {table} RENAME TO other")
    with pytest.raises(InputError, match=rf"results.sqlite: {table}: expected .* \(no such table: {table}\)"):
        book.tables()
    last = list(COLUMNS[table])[-1]
    book.store.connection.executescript(f"ALTER TABLE other RENAME TO {table}; ALTER TABLE {table} RENAME {last} TO x")
    with pytest.raises(InputError, match=rf"results.sqlite: {table}: expected .*{last}.* \(no such column: {last}\)"):
        book.tables()


def test_all_columns_but_solutions_and_repeated_floats_are_read(book: Book) -> None:
    for table, kinds in COLUMNS.items():
        there = {column[1] for column in book.store.connection.execute(f"PRAGMA table_info({table})")}
        left_out = {"runs": {"solution", "cost_float", "lower_bound_float"}, "certificates": {"content"}}
        assert there - set(kinds) == left_out.get(table, set())
        assert set(kinds) <= there
        assert set(KEYS[table]) <= set(kinds)


def test_every_table_can_be_exported(book: Book) -> None:
    claimed = {"end": "done", "cost": "50", "lower_bound": "40", "solutions": 1, "bounds": 1}
    held = {"backend": "posix", "enforced": {"wall": "hard"}, "co_runners": 1, "verified": "feasible"}
    run = book.run("a", "x", 50, bound=40, claimed=claimed, processes=64, output_mib=1.5, cpu_limit_s=3.0, **held)
    scored = book.tables()
    tall = {name: export_table(scored, name) for name in ("runs", "incumbents", "bounds", "campaigns", "hosts")}
    for frame in tall.values():
        assert frame.height == 1
        assert export.csv(frame).count(b"\n") == 2
        assert pl.read_parquet(export.parquet(frame)).equals(frame)
    assert tall["incumbents"].rows(named=True)[0]["run"] == tall["bounds"].rows(named=True)[0]["run"] == run
    [row_of_run] = tall["runs"].rows(named=True)
    told = {
        **held,
        "claimed": claimed,
        "processes": 64,
        "output_mib": 1.5,
        "cpu_limit_s": 3.0,
        "host": "",
        "stop": "exit",
    }
    for name in ("claimed", "enforced"):
        row_of_run[name] = json.loads(row_of_run[name])
    assert row_of_run.items() >= told.items()
    assert json.loads(tall["hosts"]["facts"][0]) == HOST


G = {"best_cost": "217039", "lower_bound": "217039"}


def test_published_results_are_listed_with_ours_and_count_nowhere(book: Book) -> None:
    book.instance("contest-G", **G)
    book.run("ours", "contest-G", 271299, bound=200000)
    scored = book.tables()
    assert scored.solvers["solver"].to_list() == ["ours"]
    assert set(scored.profiles["solver"]) == set(scored.anytime["solver"]) == {"ours"}
    assert len(scored.published) == 11
    first = row(scored.published, who="1st place")
    assert (first["value_exact"], first["kind"], first["role"], first["better"]) == ("217039", "cost", "winner", True)
    assert first["of_cost"] == pytest.approx(217039 / 271299)
    assert first["of_bound"] == pytest.approx(217039 / 200000)
    third = row(scored.published, who="3rd place")
    assert (third["of_cost"], third["better"]) == (pytest.approx(362368 / 271299), False)
    assert row(scored.published, kind="bound")["better"]
    assert not scored.published["contradicted"].any()
    assert export_table(scored, "published")["value_exact"].to_list()[:2] == ["217039", "217039"]


def test_a_published_result_that_is_as_good_as_ours_is_not_better(book: Book) -> None:
    book.instance("contest-G", **G)
    book.run("ours", "contest-G", 217039, bound=217039)
    published = book.tables().published
    assert published.filter(value_exact="217039")["kind"].unique().sort().to_list() == ["bound", "cost"]
    assert not published["better"].any()
    assert not published["contradicted"].any()


def test_nothing_feasible_is_no_result(book: Book) -> None:
    book.instance("contest-D", best_cost="309396217429")
    book.run("ours", "contest-D", 4 * 10**11)
    scored = book.tables()
    for name in ("5th place", "XLA"):
        found = row(scored.published, who=name)
        assert [found[key] for key in ("value_exact", "value", "of_cost", "better")] == [None, None, None, False]


def test_a_published_cost_below_our_bound_is_exact(book: Book) -> None:
    book.instance("contest-G", **G)
    book.run("ours", "contest-G", 300000, bound=217040)
    scored = book.tables()
    wrong = scored.published.filter(pl.col("contradicted"))
    better = ["1st place", "2nd place", "1st place later (median)", "1st place later (best)", "Lagrangian"]
    assert wrong["who"].to_list() == better
    assert not wrong["better"].any()
    told = row(scored.contradictions, solver="ours")
    assert (told["bound_exact"], told["cost_exact"], told["against"]) == ("217040", "217039", "published")


def test_a_published_bound_above_our_cost_is_exact(book: Book) -> None:
    book.instance("contest-G", **G)
    book.run("ours", "contest-G", 217038)
    scored = book.tables()
    assert scored.published.filter(pl.col("contradicted"))["kind"].to_list() == ["bound"]
    told = row(scored.contradictions, instance="contest-G")
    assert (told["solver"], told["bound_exact"], told["cost_exact"], told["against"]) == (
        "published",
        "217039",
        "217038",
        "ours",
    )


def test_a_bound_of_ours_that_our_own_cost_refutes_says_nothing_of_others(book: Book) -> None:
    book.instance("contest-G", **G)
    book.run("ours", "contest-G", 217039)
    book.run("wrong", "contest-G", kind="bound", bound=217040)
    assert not book.tables().published["contradicted"].any()


def test_a_file_that_shares_only_a_catalog_name_has_no_published_results(book: Book) -> None:
    book.run("ours", "contest-G", 5)
    assert book.tables().published.is_empty()
