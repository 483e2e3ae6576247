"""Commands on instances of ``hybrid``: options of the file's own numbers, and two kinds of memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from referee import answer, refused

PLAN = {
    "stage": [0, 0, 1],
    "configuration": ["recomputed", "recomputed", "stored"],
    "data_parallel": [2, 1],
    "tensor_parallel": [1, 1],
}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return path


def test_options_replace_the_numbers_of_the_file(plan: Path) -> None:
    found = answer("info", "trade", "--devices", "5", "--memory", "64", "--batch", "8", "--bandwidth", "2.5")
    assert (found["track"], found["objective"]) == ("hybrid", "throughput")
    assert (found["devices"], found["memory"], found["batch"], found["bandwidth"]) == (5, 64, 8, 2.5)
    found = answer("check", "trade", str(plan))
    assert (found["cost"], found["lower_bound"], found["optimal"]) == (8, 8, True)
    assert answer("check", "trade", str(plan), "--objective", "step")["cost"] == 42
    assert answer("check", "trade-step", str(plan))["best_known"] == 38


def test_a_plan_that_exceeds_the_memory_tells_by_how_much(plan: Path) -> None:
    found = answer("check", "trade", str(plan), "--memory", "9.5", status=1)
    assert found["violations"] == [
        "stage 0: expected at most 9.5 bytes per device, found 10 with 2 microbatches in flight, 0.5 too many"
    ]


def test_memory_is_that_of_a_device_where_a_track_has_it_and_else_that_of_the_run(tmp_path: Path) -> None:
    file = str(tmp_path / "bound.json")
    answer("bound", "chain", "--method", "simple", "--memory", "700", "--output", file, "--quiet")
    assert json.loads(Path(file).read_text())["memory_mib"] == 700
    answer("bound", "chain", "--method", "simple", "--memory-limit", "600", "--output", file, "--quiet")
    assert json.loads(Path(file).read_text())["memory_mib"] == 600
    found = answer("solve", "trade", "--solver", "same-degrees", "--memory", "64", "--memory-limit", "600", "--quiet")
    assert (found["memory"], found["cost"]) == (64, 7.5)


def test_an_objective_of_another_track_is_refused() -> None:
    expected = "trade: option objective: expected one of throughput, step, found 'latency'"
    assert expected in refused("info", "trade", "--objective", "latency")
    assert "option objective: expected an option of pipeline: stages" in refused("info", "chain", "--objective", "step")
