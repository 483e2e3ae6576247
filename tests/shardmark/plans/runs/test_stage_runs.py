"""`plan verify` runs the stages of a plan, and tells if they compute what the whole model computes, and how fast."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import LIGHT, equal_split, plan_folder, random_weights
from referee import answer, refused

from shardmark.instances import InputError
from shardmark.plans.runs import running, stage_runs
from shardmark.plans.runs.page import slowest_stages
from shardmark.plans.runs.stage_runs import StageRun, StageRuns, verify

MODEL = next(path for path in LIGHT if "squeezenet" in path.name)


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_runs, "SECONDS", 0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = random_weights(onnx.load(MODEL))
    onnx.save(model, tmp_path / "model.onnx")
    return plan_folder(tmp_path / "plan", tmp_path / "model.onnx", equal_split(model, 3))


def test_stages_compute_what_the_whole_model_computes(folder: Path) -> None:
    told: list[str] = []
    found = verify(folder, tell=told.append)
    assert found.equal
    assert told[0] == "costs of the plan: roofline; times are measured on this machine"
    assert told[2:] == ["running stage 0", "running stage 1", "running stage 2"]
    rows = found.rows()
    assert [row["stage"] for row in rows] == [0, 1, 2]
    assert [row["predicted_us"] for row in rows] == [10, 20, 30]
    for row in rows:
        assert row["difference"] <= 1e-5
        assert row["ratio"] == row["measured_us"] / row["predicted_us"] > 0


def test_a_stage_that_computes_something_else_is_found(folder: Path) -> None:
    path = folder / "stages/stage-1.onnx"
    model = onnx.load(path)
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Neg"
    onnx.save(model, path)
    with pytest.raises(InputError, match=r"stage-1\.onnx: .* found an edited one"):
        verify(folder)
    manifest = json.loads((folder / "stages/manifest.json").read_text())
    manifest["stages"][1]["sha256"] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "stages/manifest.json").write_text(json.dumps(manifest))
    found = verify(folder)
    assert not found.equal
    assert [run.difference > 1e-5 for run in found.stages] == [False, True, True]


def test_missing_files_are_named(folder: Path) -> None:
    (folder / "stages/stage-2.onnx").unlink()
    with pytest.raises(InputError, match=r"stage-2\.onnx: expected a file that can be read"):
        verify(folder)
    (folder / "stages/manifest.json").unlink()
    with pytest.raises(InputError, match="--export stages"):
        verify(folder)
    (folder / "plan.json").unlink()
    with pytest.raises(InputError, match=r"expected the folder of a plan, with a file plan\.json"):
        verify(folder)


def test_a_model_that_has_moved_is_found_in_the_plans_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").rename(folder / "model.onnx")
    assert verify(folder).equal
    (folder / "model.onnx").unlink()
    with pytest.raises(InputError, match=rf"^{tmp_path}/model\.onnx: "):
        verify(folder)


def test_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    other = next(path for path in LIGHT if "shufflenet" in path.name)
    plan["model"]["file"] = str(other)
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="expected the model of the plan"):
        verify(folder)
    plan["model"]["sha256"] = hashlib.sha256(other.read_bytes()).hexdigest()
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="expected the stages of this plan, found those of another plan"):
        verify(folder)


def test_stages_of_an_earlier_plan_are_refused(folder: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    plan["assignment"] = dict.fromkeys(plan["assignment"], 0)
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="expected the stages of this plan, found those of another plan"):
        verify(folder)


def test_stages_of_a_plan_for_other_sizes_are_refused(tmp_path: Path) -> None:
    """Their operators may lie in the same stages."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    nodes = [onnx.helper.make_node("Relu", ["x"], ["a"]), onnx.helper.make_node("Neg", ["a"], ["y"])]
    opsets = [onnx.helper.make_opsetid("", 21)]
    graph = onnx.helper.make_graph(nodes, "graph", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "model.onnx")
    folders = [
        plan_folder(tmp_path / f"{batch}", tmp_path / "model.onnx", {"a": 0, "y": 1}, {"batch": batch})
        for batch in (2, 3)
    ]
    assert verify(folders[1]).equal
    shutil.copy(folders[0] / "plan.json", folders[1])
    with pytest.raises(
        InputError, match=r"manifest\.json: expected the stages of this plan, found those of another plan"
    ):
        verify(folders[1])


@pytest.mark.parametrize("option", ["--dim=batch=8", "--devices=2", "--profile", "--seed=3", "--export=stages"])
def test_options_of_a_search_are_refused_after_verify(option: str, tmp_path: Path) -> None:
    told = refused("plan", "verify", tmp_path, option)
    assert f"{option.partition('=')[0]}: expected no such option after `plan verify`" in told


@pytest.mark.parametrize(
    ("defect", "sentence"),
    [
        ({"format": "other"}, "format: expected 'shardmark/stages/1'"),
        ({"stages": [{}]}, r"stages\[0\]: expected a key 'stage'"),
        ({"more": 1}, "expected only the keys"),
    ],
)
def test_a_manifest_of_another_form_is_refused(folder: Path, defect: dict[str, object], sentence: str) -> None:
    path = folder / "stages/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | defect))
    with pytest.raises(InputError, match=sentence):
        verify(folder)


@pytest.mark.parametrize(
    "defect",
    [{"sha256": []}, {"file": "../model.onnx"}, {"operators": 3}, {"outputs": [{}]}, {"inputs": 3}, {"stage": None}],
)
def test_a_manifest_with_an_edited_stage_is_refused(folder: Path, defect: dict[str, object]) -> None:
    path = folder / "stages/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["stages"][1] |= defect
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"stages\[1\]: expected a file written by --export stages"):
        verify(folder)


def test_without_onnx_runtime_one_sentence_says_how_to_get_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match="pip install onnxruntime"):
        verify(folder)


def test_a_model_that_the_runtime_does_not_know_is_one_sentence(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Riddle", ["x"], ["y"], domain="example.org")
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "riddle", ports[:1], ports[1:])
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("example.org", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "riddle.onnx")
    folder = plan_folder(tmp_path / "plan", tmp_path / "riddle.onnx", {"y": 0})
    with pytest.raises(InputError, match="expected a model that ONNX Runtime runs"):
        verify(folder)


def test_differences_are_relative_to_the_largest_number() -> None:
    expected = np.array([1000.0, 1.0, np.nan, np.inf])
    assert stage_runs._difference(expected, expected) == 0
    assert stage_runs._difference(np.array([1000.0, 2.0]), np.array([1000.0, 1.0])) == 1e-3
    assert stage_runs._difference(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == np.inf
    assert stage_runs._difference(np.array([1.0, np.inf]), np.array([1.0, 2.0])) == np.inf
    assert stage_runs._difference(np.array([1.0]), np.array([0.0])) == np.inf
    assert stage_runs._difference(np.zeros(2), np.zeros(3)) == np.inf
    assert stage_runs._difference(np.array([True]), np.array([False])) == np.inf


def test_medians_stand_if_their_sample_is_narrow_or_large() -> None:
    assert running.is_stable([1.0] * 5)
    assert not running.is_stable([1.0, 1.1, 1.2, 1.3, 1.4])
    assert running.is_stable([1.0, 1.01, 1.02, 1.03, 1.04] * 10)


def test_stages_of_compressed_models_run(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx.gz"
    path.write_bytes(gzip.compress(MODEL.read_bytes()))
    folder = plan_folder(tmp_path / "plan", path, equal_split(onnx.load(MODEL), 2))
    assert verify(folder).equal


def test_several_plans_make_a_page_of_the_site(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    result = answer("plan", "verify", folder, other, "--output", tmp_path / "site")
    assert [row["same outputs"] for row in result] == ["yes", "yes"]
    assert {row["model"] for row in result} == {str(folder), str(other)}
    page = (tmp_path / "site" / "reproduce" / "stage-runs.html").read_text()
    assert "The slowest stage" in page
    assert page.count("<tr") == 3


def test_the_slowest_stage_by_plan_is_held_against_its_measurement() -> None:
    stages = [StageRun(0, 500.0, 900.0, 0.0), StageRun(1, 2000.0, 1600.0, 0.0)]
    [row] = slowest_stages({"model": StageRuns(stages)})
    assert (row["slowest stage"], row["planned ms"], row["measured ms"]) == (1, 2.0, 1.6)
    assert row["difference %"] == pytest.approx(25.0)
