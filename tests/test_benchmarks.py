"""The tracked benchmarks under pytest: `make test` runs each once, `pytest --benchmark-enable` times them."""

from __future__ import annotations

import math
from typing import Any

import benchmarks
import pytest

GROUPS = (benchmarks.Slicing, benchmarks.Reading, benchmarks.Verification, benchmarks.Overhead, benchmarks.Gaps)


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
