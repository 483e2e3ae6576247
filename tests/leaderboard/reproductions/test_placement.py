"""Reproductions of the placement paper: its figures agree, what runs and what is proved, each from end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from referee import shardmark

from shardmark.cli.terminal import report as on_screen
from shardmark.harness.campaign.discover import discover
from shardmark.harness.verify import verify
from shardmark.instances import InputError, catalog, load
from shardmark.instances.files.jsonfile import read_json
from shardmark.leaderboard.report import HERE, PAPER, Report, Split, Table
from shardmark.leaderboard.reproduction_page import render
from shardmark.leaderboard.reproductions import Cell, Run, reproductions
from shardmark.leaderboard.reproductions.placement import _shared, placement_granularity
from shardmark.leaderboard.reproductions.placement._ideals import count_ideals
from shardmark.leaderboard.reproductions.placement._shared import proof
from tests.leaderboard.reproductions.test_reproduce import carried_out

THROUGHPUT, LATENCY, GRANULARITY, SPLITS = (
    reproductions()[f"placement-{name}"] for name in ("throughput", "latency", "granularity", "splits")
)
AT_HAND = catalog.at_hand
OPERATORS_24 = catalog.locate(catalog.find("operators-24"))
BERT = "bert-3-operators-inference"

Found = Callable[[Cell], tuple[float | None, float | None]]


@pytest.fixture(autouse=True)
def one_file_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the project stands for BERT-3, for throughput and latency; nothing for the others."""
    here = {
        "throughput-inputs/OperatorGraphs/bert_l-3_inference.json",
        "latency-inputs/LayerGraphs/bert24_inference.json",
    }
    monkeypatch.setattr(catalog, "at_hand", lambda entry: OPERATORS_24 if entry.path in here else None)


def made(module: Any, found: Found, **settings: Any) -> Report:
    """The report on runs with the cost and the bound that ``found`` has for a cell."""
    chosen = replace(module.DEFAULTS, **settings)
    cells = module.plan(chosen, Path("unused"))

    def outcome(cell: Cell) -> dict[str, Any]:
        cost, bound = found(cell)
        exact = tuple(None if x is None else repr(x) for x in (cost, bound))
        return {"cost": cost, "bound": bound, "exact": exact}

    report: Report = module.report(chosen, carried_out(cells, outcome) if cells else [])
    assert on_screen(report)
    assert "<svg" in render(report, leaderboard=False)
    return report


def table(report: Report, title: str, section: int = 0) -> Table:
    """The table of a section whose title begins so."""
    [one] = [x for x in report.sections[section].tables if x.title.startswith(title)]
    return one


def row(found: Table, **keys: Any) -> dict[str, Any]:
    """The row of a table with these values."""
    [one] = [dict(x) for x in found.rows if all(x[key] == value for key, value in keys.items())]
    return one


def fine(cell: Cell) -> tuple[float | None, float | None]:
    """dp finds and proves 30, any sets 24, at least 20; nothing else finds anything."""
    known: dict[str, tuple[float | None, float | None]] = {
        "dp": (30.0, 30.0),
        "search": (24.0, None),
        "ip": (110.0, 80.0),
    }
    return known.get(cell.method, (None, 20.0 if cell.kind == "bound" else None))


def test_figures_agree_with_the_catalog_and_with_each_other() -> None:
    figures = _shared.figures()
    assert [len(figures[part]) for part in ("throughput", "layers", "latency")] == [16, 8, 8]
    for part, suite, exact in (("throughput", "placement-contiguous", "dp"), ("latency", "placement-latency", "ip")):
        names = [entry.id for entry in catalog.suite(suite) if not entry.id.endswith("-free")]
        assert list(figures[part]) == names
        for name in names:
            assert figures[part][name]["cost"][exact] in catalog.find(name).published["best_cost_source"]
    for name, known in figures["throughput"].items():
        free = catalog.find(f"{name}-free").published["best_cost_source"]
        assert free.endswith(f"rounded up from {known['cost']['ip-noncontiguous']}")
        assert min(map(float, known["cost"].values())) == float(known["cost"]["ip-noncontiguous"])
        assert ("expert" in known["cost"]) == ("layers" in name)
        assert 0 < float(known["single"]) < 1
    assert set(placement_granularity.OPERATORS) == set(figures["layers"])
    for name, text in figures["layers"].items():
        assert float(text) >= float(figures["throughput"][name]["cost"]["dp"])
    assert set(figures["splits"]) <= {name for name in figures["throughput"] if "layers" in name}


def test_ideals_of_graphs_by_hand() -> None:
    chains = load(OPERATORS_24.with_name("crossing.json"))
    assert chains.edges == 2
    assert count_ideals(chains) == 9  # 3 of a chain of two
    assert count_ideals(chains, most=8) is None
    assert count_ideals(load(OPERATORS_24.with_name("sandwich.json"))) == 5  # a chain of four


def test_ideals_are_as_many_as_printed(mirror: Path) -> None:
    counted = 0
    for name, known in _shared.figures()["throughput"].items():
        path = AT_HAND(catalog.find(name), mirror)
        if path is not None:
            assert count_ideals(load(path, "placement")) == known["ideals"], name
            counted += 1
    assert counted


def test_every_method_runs_with_its_sets_on_what_is_at_hand() -> None:
    cells = THROUGHPUT.plan(replace(THROUGHPUT.DEFAULTS, timeout=7.0, bound_timeout=3.0), Path())
    assert {cell.about[0] for cell in cells} == {BERT}
    assert {(cell.kind, cell.timeout_s) for cell in cells} == {("solver", 7.0), ("bound", 3.0)}
    sets = {cell.method: cell.problem.options.get("contiguity", "contiguous") for cell in cells}
    assert (sets["dp"], sets["ip-contiguous"], sets["search"], sets["load"]) == (
        "acyclic",
        "contiguous",
        "free",
        "free",
    )
    assert sets["equal-parts"] == "free"
    assert "expert" not in sets  # whose splits are judged
    assert {cell.problem.id for cell in cells} == {f"{BERT}{end}" for end in ("", "-acyclic", "-free")}
    assert next(cell for cell in cells if cell.method == "dp").problem.published["best_cost"] == "27.93"


def test_every_method_and_bound_is_there() -> None:
    known = {(info.kind, info.name) for info in discover() if info.track == "placement" and not info.error}
    for module in (THROUGHPUT, LATENCY, GRANULARITY, SPLITS):
        asked = {("solver", name) for name in module.DEFAULTS.solvers}
        assert asked | {("bound", name) for name in module.DEFAULTS.bounds or ()} <= known


def test_latency_has_problems_of_its_own() -> None:
    cells = LATENCY.plan(LATENCY.DEFAULTS, Path())
    assert {cell.problem.id for cell in cells} == {"bert-24-layers-latency", "bert-24-layers-latency-free"}
    assert {cell.problem.options["objective"] for cell in cells} == {"latency"}
    assert {cell.problem.options.get("contiguity") for cell in cells if cell.method == "search"} == {None, "free"}


def test_a_file_of_another_name_and_mode_is_run_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    asked = replace(
        THROUGHPUT.DEFAULTS, instances=("training-20-acyclic", "training-20-free"), solvers=("dp", "ip-contiguous")
    )
    found = {(cell.problem.id, cell.method) for cell in THROUGHPUT.plan(replace(asked, bounds=()), Path())}
    assert found == {("training-20-acyclic", "dp"), ("training-20", "ip-contiguous")}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"instances": ("diamond",)}, "expected instances of placement, found 'diamond' of intraop"),
        ({"instances": ("bert-4",)}, "expected the id of an instance"),
        ({"solvers": ("dp", "annealing")}, "expected some of dp, ip-contiguous, .*, found 'annealing'"),
    ],
)
def test_what_has_no_part_in_it_is_refused(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        THROUGHPUT.plan(replace(THROUGHPUT.DEFAULTS, **asked), Path())


def test_our_costs_and_the_papers_share_a_table_that_names_proofs() -> None:
    report = made(THROUGHPUT, fine)
    loads = table(report, "Largest load")
    assert row(loads, instance=BERT, figures=PAPER)["ip-noncontiguous"] == 21.91
    ours = row(loads, instance=BERT, figures=HERE)
    assert (ours["dp"], ours["search"], ours["dpl"], ours["gain, %"]) == (30.0, 24.0, None, pytest.approx(25.0))
    assert ours["ideals"] == count_ideals(load(OPERATORS_24))
    ratios = table(report, "Throughput")
    assert row(ratios, instance=BERT, figures=PAPER)["one-accelerator"] == 0.57
    assert row(ratios, instance=BERT, figures=PAPER)["local-search"] == pytest.approx(27.92 / 24.32)
    assert row(ratios, instance=BERT, figures=HERE)["search"] == pytest.approx(1.25)
    proved = table(report, "Row by row")
    by_dp, by_search = (row(proved, instance=BERT, method=name) for name in ("dp", "search"))
    assert (by_dp["bound"], by_dp["gap, %"], by_dp["here / paper"]) == (30.0, 0.0, pytest.approx(30 / 27.92))
    assert (by_search["bound"], by_search["gap, %"]) == (20.0, pytest.approx(20.0))  # dp's holds for fewer splits


def test_ours_are_compared_with_as_many_digits_as_are_printed() -> None:
    assert proof(27.92, 27.9186, 27.0)["here / paper"] == 1
    assert proof(27.92, 27.94, None)["here / paper"] == pytest.approx(27.94 / 27.92)
    assert proof(27.92, None, 27.0)["here / paper"] is proof(None, 27.0, None)["here / paper"] is None


def test_what_is_not_at_hand_has_the_papers_figures_and_says_so() -> None:
    report = made(THROUGHPUT, fine)
    assert report.facts["Sample"] == f"1 of 16 instances run here: {BERT}"
    told = [note for note in report.notes if note.startswith("Files missing")]
    assert len(told) == 1
    assert "gnmt-layers-training" in told[0]
    assert "`shardmark fetch placement-throughput` downloads them." in told[0]
    rows = [x for x in table(report, "Row by row").rows if x["instance"] == "bert-6-operators-inference"]
    assert {x["ended"] for x in rows} == {"file missing"}
    assert len(rows) == 6
    assert [len(x.tables[0].rows) for x in report.sections] == [5, 4, 4, 4]


@pytest.mark.parametrize("module", [THROUGHPUT, LATENCY, GRANULARITY, SPLITS])
def test_without_any_file_there_are_published_figures_only(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "at_hand", lambda entry: None)
    report: Report = module.report(module.DEFAULTS, [])
    assert report.empty
    assert "Nothing was run here: all figures are published ones." in report.notes
    assert all(x.get("figures", PAPER) == PAPER for section in report.sections for x in section.tables[0].rows)
    assert render(report, leaderboard=False)


def test_latencies_that_exceed_the_memory_are_told_and_left_out() -> None:
    report = made(LATENCY, fine)
    [words] = [words for section in report.sections for words in section.words if words.startswith("gnmt")]
    assert words.endswith("left out: scotch (636.91), expert (293.40).")
    layers = [section.title for section in report.sections].index("Layers")
    latencies = table(report, "Latency", layers)
    assert row(latencies, instance="gnmt-layers-latency", figures=PAPER)["expert"] is None
    gap = row(table(report, "Remaining gaps", layers), instance="bert-24-layers-latency")
    assert (gap["least here"], gap["bound"], gap["open there"]) == (24.0, 20.0, "<1%")
    assert gap["open, %"] == pytest.approx(100 / 6)


def test_bounds_above_costs_are_contradictions_and_count_nowhere() -> None:
    def wrong(cell: Cell) -> tuple[float | None, float | None]:
        return (None, 31.0) if cell.method == "load" else fine(cell)

    report = made(THROUGHPUT, wrong)
    assert report.contradictions == [
        f"{BERT}: the bound of load for free sets, 31.0, is above a cost verified here, 24.0.",
        f"{BERT}: the published cost of dp, 27.92, is below a bound proved here, 30.0.",
        f"{BERT}: the published cost of dpl, 27.92, is below a bound proved here, 30.0.",
    ]
    assert row(table(report, "Row by row"), instance=BERT, method="search")["bound"] == 20.0


def test_splits_of_experts_are_judged(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    monkeypatch.setenv("SHARDMARK_MIRROR", str(mirror))
    asked = replace(THROUGHPUT.DEFAULTS, instances=("bert-24-layers-training",), solvers=("expert",), bounds=("load",))
    cells = THROUGHPUT.plan(asked, Path())
    if not cells:
        pytest.skip("BERT-24 training is not in the mirror")
    rows = table(THROUGHPUT.report(asked, carried_out(cells, lambda _: {})), "Row by row").rows
    assert [x["method"] for x in rows] == ["expert"]
    assert (rows[0]["ended"], rows[0]["here"]) == ("ok", pytest.approx(rows[0]["paper"], abs=0.01))


def test_experts_whose_splits_are_not_at_hand_have_the_papers_figures() -> None:
    report = made(THROUGHPUT, fine)
    proved = [x for section in report.sections for x in section.tables[-1].rows if x["method"] == "expert"]
    assert len(proved) == 8
    assert {(x["here"], x["ended"]) for x in proved} == {(None, "split missing")}
    assert row(table(report, "Largest load"), instance=BERT, figures=HERE)["expert"] is None


def test_the_experts_latency_of_bert_24_is_that_of_six_accelerators(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    monkeypatch.setenv("SHARDMARK_MIRROR", str(mirror))
    entry, split = catalog.find("bert-24-layers-latency"), _shared.split_of_expert("bert-24-layers-inference")
    path = catalog.at_hand(entry)
    if path is None or split is None:
        pytest.skip("BERT-24 is not in the mirror")
    instance = load(path, "placement", **entry.options)
    assert not verify(instance, read_json(split)).feasible
    cost = verify(replace(instance, accelerators=6), read_json(split)).cost
    assert cost == pytest.approx(float(_shared.figures()["latency"][entry.id]["cost"]["expert"]), abs=0.005)


def ran(*arguments: object, folder: Path) -> dict[str, Any]:
    """Return the report of a reproduction as JSON."""
    places = ["--results", folder / "results", "--output", folder / "site", "--json"]
    status, out, err = shardmark("reproduce", *arguments, *places)
    assert status == 0, err
    answer: dict[str, Any] = json.loads(out)
    assert Path(answer["page"]).is_file()
    return answer


@pytest.mark.gate
@pytest.mark.usefixtures("posix_for_auto")
def test_loads_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    asked = ("--solvers", "dp,one-accelerator", "--bounds", "load", "--timeout", 60, "--bound-timeout", 60)
    answer = ran("placement-throughput", "--instances", "crossing", *asked, folder=tmp_path)
    loads, _, proved = answer["sections"][0]["tables"]
    assert loads["rows"][0] == {
        "instance": "crossing",
        "figures": HERE,
        "ideals": 9,
        "dp": 7.0,
        "one-accelerator": 12.0,
        "gain, %": 0.0,
    }
    assert [x["gap, %"] for x in proved["rows"]] == pytest.approx([0.0, 100.0], abs=1e-6)


@pytest.mark.gate
@pytest.mark.usefixtures("posix_for_auto")
def test_latencies_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    asked = ("--solvers", "greedy", "--bounds", "critical-path", "--timeout", 60, "--bound-timeout", 60)
    answer = ran("placement-latency", "--instances", "sandwich-latency", *asked, folder=tmp_path)
    latencies, gaps, _ = answer["sections"][0]["tables"]
    assert latencies["rows"][0]["greedy"] >= 11.75
    assert 0 < gaps["rows"][0]["bound"] <= 11.75


@pytest.mark.usefixtures("posix_for_auto")
def test_granularities_from_end_to_end(tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    monkeypatch.setenv("SHARDMARK_MIRROR", str(mirror))
    if AT_HAND(catalog.find("bert-12-operators-training")) is None:
        pytest.skip("BERT-12 training is not in the mirror")
    asked = ("--instances", f"bert-12-operators-training,{BERT}", "--timeout", 120)
    answer = ran("placement-granularity", *asked, folder=tmp_path)
    loads, proved = answer["sections"][0]["tables"]
    [ours] = [x for x in loads["rows"] if x["figures"] == HERE and x["instance"].startswith("bert-12")]
    assert ours["operators"] == pytest.approx(438.00, abs=0.01)
    assert ours["layers, untangled"] == pytest.approx(465.41, abs=0.01)
    assert ours["layers"] > ours["layers, untangled"]
    assert all(x["gap, %"] < 1e-6 for x in proved["rows"])
    [printed] = [x for x in loads["rows"] if x["figures"] == PAPER and x["instance"].startswith("bert-12")]
    assert (printed["layers, untangled"], printed["layers"]) == (465.41, None)
    ratios = {x["nodes"]: x["here / paper"] for x in proved["rows"] if x["instance"].startswith("bert-12")}
    one = pytest.approx(1, abs=1e-4)
    assert ratios == {"operators": one, "layers, untangled": one, "layers": None}
    assert f"By operators only, as the file has no layers: {BERT}." in answer["notes"]


def test_the_best_split_of_each_kind_is_drawn() -> None:
    def placed(cell: Cell) -> dict[str, Any]:
        everything = {"dp": (30.0, 25), "ip-contiguous": (30.0, 0), "search": (24.0, 1)}.get(cell.method)
        if everything is None:
            return {"cost": 20.0}  # without a solution
        cost, device = everything
        return {"cost": cost, "solution": [device % 3] * 24}

    cells = SPLITS.plan(SPLITS.DEFAULTS, Path())
    assert {cell.keep for cell in cells} == {True}
    report = SPLITS.report(SPLITS.DEFAULTS, carried_out(cells, placed))
    assert report.sections[0].words == ["Gain of free over contiguous sets: 50.0 % here, 27.4 % in the paper."]
    drawn = [x for section in report.sections for x in section.pictures if isinstance(x, Split)]
    assert [(x.title, x.caption.split(",")[0], x.device[0]) for x in drawn] == [
        ("Contiguous sets", "Found by dp", 0),
        ("Any sets", "Found by search", 0),
    ]
    assert report.sections[1].tables[0].rows[0]["nodes"] == 24
    assert render(report, leaderboard=False).count('class="series s1"') == 2 * 3  # at two widths, and in the legend


@pytest.mark.usefixtures("posix_for_auto")
def test_splits_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "at_hand", AT_HAND)
    asked = ("--instances", "crossing", "--solvers", "dp", "--timeout", 60)
    answer = ran("placement-splits", *asked, folder=tmp_path)
    _, contiguous = answer["sections"]
    [picture] = contiguous["pictures"]
    assert picture["edges"] == [[0, 1], [2, 3]]
    assert max(float(x["load"]) for x in contiguous["tables"][0]["rows"]) == 7.0
    assert {picture["devices"][i]["name"] for i in picture["device"]} == {"accelerator 0", "accelerator 1"}


def test_a_run_that_ended_is_told_as_it_did() -> None:
    asked = replace(THROUGHPUT.DEFAULTS, instances=(BERT,), solvers=("dp",), bounds=())
    [cell] = THROUGHPUT.plan(asked, Path())
    run = Run(cell, "crash", "of it", 1.0, None, None, None, None, False)
    report = THROUGHPUT.report(asked, [run])
    assert row(table(report, "Row by row"), method="dp")["ended"] == "crash"
    assert "dp: 1 of its runs ended with the status crash, the first because: of it." in report.notes
