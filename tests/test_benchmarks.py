"""The tracked benchmarks under pytest: `make test` runs each once, `pytest --benchmark-enable` times them."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yardstick
from tracked import benchmarks

from shardmark.instances.files.jsonfile import read_json
from shardmark.solvers.native import kahn
from shardmark.solvers.pipeline._kernels import PipelineCore

GROUPS = (
    benchmarks.Slicing,
    benchmarks.Simulation,
    benchmarks.Reading,
    benchmarks.Verification,
    benchmarks.Overhead,
    benchmarks.Gaps,
    benchmarks.Heft,
    benchmarks.Costs,
)


def cases(prefix: str) -> list[Any]:
    """Every method of every group with every parameter."""
    return [
        pytest.param(group, name, params, id=f"{group.__name__}.{name}{list(params)}")
        for group in GROUPS
        for name in vars(group)
        if name.startswith(prefix)
        for params in [(p,) for p in getattr(group, "params", ())] or [()]
    ]


def prepared(group: type, params: tuple[Any, ...]) -> Any:
    case = group()
    if hasattr(case, "setup"):
        case.setup(*params)
    return case


@pytest.mark.parametrize(("group", "name", "params"), cases("time_"))
def test_time(benchmark, group, name, params):
    case = prepared(group, params)
    try:
        benchmark(getattr(case, name), *params)
    finally:
        getattr(case, "teardown", lambda: None)()


@pytest.mark.parametrize(("group", "name", "params"), cases("track_"))
def test_figure(group, name, params):
    figure = getattr(prepared(group, params), name)(*params)
    assert math.isfinite(figure)
    assert figure >= 0


ALL_OF = """
import importlib, pathlib, pkgutil, sys
folder = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(folder.parent))
for module in pkgutil.iter_modules(importlib.import_module(folder.name).__path__, folder.name + "."):
    importlib.import_module(module.name)
"""


def test_asv_can_import_all_of_its_folder():
    root = Path(__file__).parents[1]
    folder = root / read_json(root / "asv.conf.json")["benchmark_dir"]
    done = subprocess.run([sys.executable, "-P", "-c", ALL_OF, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("stages", [1, 2, 7, 80])
def test_the_yardstick_comes_to_the_same_value(stages):
    instance = benchmarks.layered(80, stages)
    order = kahn(instance.graph, np.random.default_rng(stages).random(80))
    slicing = PipelineCore(instance).slice(order)
    assert yardstick.algorithm1(instance, order) == pytest.approx(slicing.cost, rel=1e-12)
