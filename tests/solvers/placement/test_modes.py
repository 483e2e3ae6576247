"""The documentation's table of modes: what a method takes is split or bounded, and it declines the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fuzz import methods
from gpart import install

from shardmark.instances.placement import parse
from shardmark.solvers.registry import Declined, LocalRun, Solver

pytestmark = pytest.mark.gate(cases=2)

PAGE = Path(__file__).parents[3] / "docs" / "tracks" / "placement.md"
MODES: dict[str, dict[str, Any]] = {
    "free": {"contiguity": "free"},
    "contiguous": {},
    "acyclic": {"contiguity": "acyclic"},
    "latency, contiguous": {"objective": "latency"},
    "latency, free": {"objective": "latency", "contiguity": "free"},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "gpipe": {"schedule": "gpipe"},
    "overlap": {"overlap": "half"},
    "cluster": {"cluster": 2, "slowdown": 2.0},
    "allreduce": {"allreduce": 5.0},
}
NODE = {"cpuLatency": 5, "supportedOnFpga": True, "isBackwardNode": False, "size": 1}
EDGES = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
GRAPH = {
    "maxSizePerFPGA": 9,
    "maxFPGAs": 4,
    "maxCPUs": 1,
    "nodes": [{"id": v, "fpgaLatency": 1 + v % 3, **NODE} for v in range(6)],
    "edges": [{"sourceId": a, "destId": b, "cost": 0.5} for a, b in EDGES],
}


def table() -> dict[str, dict[str, str]]:
    """Return the page's entry of each method in each column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    begin = next(i for i, line in enumerate(lines) if line.startswith("| method | free"))
    columns = [cell.strip() for cell in lines[begin].split("|")[2:-1]]
    rows = {}
    for line in lines[begin + 2 :]:
        names, *cells = line.split("|")[1:-1]
        if len(cells) != len(columns):
            break
        for name in names.split("`")[1::2]:
            rows[name] = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
    return rows


METHODS = methods("placement")


def test_every_method_has_a_row() -> None:
    assert METHODS.keys() == {*table(), "expert"}


@pytest.mark.parametrize("name", table())
def test_a_method_takes_what_the_table_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    cells = table()[name]
    plain = [mode for mode in ("free", "contiguous", "acyclic") if cells[mode]]
    for mode, options in MODES.items():
        assert done(METHODS[name], options) == promised(cells[mode]), mode
    for option, options in OPTIONS.items():
        for mode in plain or ["contiguous"]:
            expected = promised(cells[mode] if cells[option] else "")
            assert done(METHODS[name], {**MODES[mode], **options}) == expected, (option, mode)


def promised(cell: str) -> set[str]:
    """Kinds of results of a cell."""
    return {"": set[str](), "s": {"split"}, "b": {"bound"}}.get(cell, {"split", "bound"})


def done(method: Solver, options: dict[str, Any]) -> set[str]:
    """Kinds of results that a method has for the graph; none if it declines."""
    settings = {"most": 1000} if method.name == "search" else {}
    run = LocalRun(timeout=20)
    try:
        method.function(parse(GRAPH, "graph.json", **options), run, **settings)
    except Declined as reason:
        return {"not installed"} if "install" in str(reason) else set()
    found = {"split": run.solutions, "bound": run.bounds}
    return {kind for kind, reports in found.items() if reports}
