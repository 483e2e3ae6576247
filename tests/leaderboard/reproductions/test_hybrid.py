"""The reproduction of Piper: what runs, the tables beside the program's, and longer models."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shardmark.cli.terminal import report as on_screen
from shardmark.harness.results.published import piper_figures
from shardmark.instances import catalog, parse
from shardmark.leaderboard.report import Report, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions.hybrid import hybrid
from shardmark.leaderboard.reproductions.hybrid._lengthened import lengthened

SMALL = replace(hybrid.DEFAULTS, instances=("bert-32-8-8gib-1920", "bert-32-8-1gib-1920", "bert-32-64-8gib-480"))


def run_of(entry: str, method: str, cost: float | None, bound: float | None = None) -> Run:
    path = catalog.CATALOG  # never read: a report needs the problem's id only
    cell = Cell(hybrid.Problem.of(catalog.find(entry), path), "solver", method, 1.0, 0, entry)
    return Run(cell, "ok", "", 1.0, cost, 0.5, bound, 0.5, False, cpu_s=0.02, peak_mib=30.0)


def table(report: Report, section: int, number: int = 0) -> Table:
    return report.sections[section].tables[number]


def test_rows_have_the_program_s_values_and_ours_beside_them():
    optimum = float(piper_figures()["program"]["bert-32-8-8gib-1920"]["tps"])
    runs = [
        run_of("bert-32-8-8gib-1920", "dp", optimum, optimum),
        run_of("bert-32-8-8gib-1920", "no-recomputation", 2 * optimum),
        run_of("bert-32-8-1gib-1920", "dp", None),
    ]
    found = hybrid.report(SMALL, runs)
    assert [section.title.partition(",")[0] for section in found.sections] == [
        "BERT-32 at three memories",
        "BERT-32 at 8 GiB with three batches",
        "Running times",
    ]
    row, none = (dict(row) for row in table(found, 0).rows)
    assert (row["devices"], row["GiB"], row["batch"]) == (8, 8, 1920)
    assert row["program"] == row["dp"] == pytest.approx(165.85575)
    assert row["gap, %"] == 0
    assert row["program / dp"] == 1
    assert row["program, equal stages"] == pytest.approx(230.978)
    assert none["program"] is none["dp"] is None
    assert dict(table(found, 0, 1).rows[0])["no-recomputation"] == 2
    assert found.sections[0].words[0] == "dp proves its plan optimal on 1 of 2 instances."
    assert dict(table(found, 2).rows[0])["program / dp"] == pytest.approx(2)
    assert "program / dp" in on_screen(found)


def test_without_files_the_report_has_the_published_figures(monkeypatch, tmp_path):
    monkeypatch.setenv("SHARDMARK_MIRROR", str(tmp_path))
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path))
    assert hybrid.plan(SMALL, tmp_path) == []
    found = hybrid.report(SMALL, [])
    assert found.notes[0] == "Nothing was run here: all figures are published ones."
    assert [dict(row)["program"] for row in table(found, 1).rows] == [
        pytest.approx(165.85575),
        pytest.approx(20.30357617791494),
    ]


def test_every_method_runs_and_the_exact_one_on_longer_models(tmp_path):
    if catalog.at_hand(catalog.find(hybrid.LONGEST)) is None:
        pytest.skip("needs the published files")
    cells = hybrid.plan(replace(SMALL, instances=(hybrid.LONGEST,)), tmp_path)
    assert [cell.method for cell in cells] == [*hybrid.DEFAULTS.solvers, "dp", "dp", "dp"]
    longer = [cell.problem.instance for cell in cells[-3:]]
    assert [instance.nodes for instance in longer] == [37 + 16, 37 + 32, 37 + 64]
    assert {(x.devices, x.memory, x.batch) for x in longer} == {(2048, 8.0 * 2**30, 1920)}


def layer(name: str, v: int, into: list[int], out: list[int]) -> dict[str, Any]:
    sync = {"syncTimeFw": {str(u): 10 * u + v for u in into}, "syncTimeBw": {str(w): 10 * v + w for w in out}}
    usual = {"id": "only", "timePerSample": v, "parameterSize": v, "memoryUsageA": v, "memoryUsageB": v}
    return {"id": v, "name": name, "TMPCs": {"1": [{**usual, **sync}]}}


def test_a_longer_model_has_copies_of_the_middle_layer_in_a_row():
    """Node 0 is read by all layers 1 to 3; node 4 reads the last."""
    edges = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (3, 4)]
    into = {v: [u for u, w in edges if w == v] for v in range(5)}
    out = {v: [w for u, w in edges if u == v] for v in range(5)}
    names = ["mask", "layer", "layer", "layer", "head"]
    document = {
        "maxDevices": 9,
        "maxMemoryPerDevice": 99,
        "bandwidth": 1,
        "mbsInBatch": 2,
        "nodes": [layer(name, v, into[v], out[v]) for v, name in enumerate(names)],
        "edges": [{"sourceId": u, "destId": v, "communicationCost": u + 1} for u, v in edges],
    }
    assert lengthened(document, 3) == document
    found = parse(json.dumps(lengthened(document, 5)).encode(), "longer")  # refused if an edge has no entry
    assert found.ids.tolist() == [0, 1, 2, 5, 6, 3, 4]
    pairs = [(int(found.ids[u]), int(found.ids[v])) for u, v in zip(found.graph.tail, found.graph.head, strict=True)]
    assert sorted(pairs) == [(0, 1), (0, 2), (0, 3), (0, 5), (0, 6), (1, 2), (2, 5), (3, 4), (5, 6), (6, 3)]
    assert found.time.tolist() == [0, 1, 2, 2, 2, 3, 4]
    inner = {pair: size for pair, size in zip(pairs, found.communicated.tolist(), strict=True) if 0 not in pair}
    assert inner == {(1, 2): 2, (2, 5): 2, (5, 6): 2, (6, 3): 3, (3, 4): 4}
