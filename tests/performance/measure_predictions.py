"""How near the times of stages that a profile predicts come to the times that `plan verify` measures."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx_models import LIGHT, equal_split, plan_folder

from shardmark.plans.runs.profile import profile
from shardmark.plans.runs.stage_runs import verify


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_predictions_are_within_40_percent_and_twice_for_the_slowest_stage(name: str, tmp_path: Path) -> None:
    path = next(path for path in LIGHT if name in path.name)
    split = equal_split(onnx.load(path), 3)
    seconds = profile(path)
    predicted = [1e6 * sum(seconds[operator] for operator in split if split[operator] == stage) for stage in range(3)]
    measured = [run.measured_us for run in verify(plan_folder(tmp_path / "plan", path, split)).stages]
    print(f"{name}: predicted {predicted} us, measured {measured} us")
    assert sum(predicted) == pytest.approx(sum(measured), rel=0.4)
    slowest = measured.index(max(measured))
    assert 0.5 < predicted[slowest] / measured[slowest] < 2
