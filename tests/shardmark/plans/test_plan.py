"""Plans of models: the split is verified, the bound holds, and what is written says the same."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from referee import answer, refusal, refused, shardmark

import shardmark as sm
from shardmark.cli.arguments import main
from shardmark.harness.verify import verify
from shardmark.instances import load
from shardmark.plans.page import _axes, strategies
from shardmark.plans.saving import load as load_plan

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SQUEEZENET = LIGHT / "light_squeezenet.onnx"


@pytest.fixture(scope="module")
def plan():
    return sm.plan(SQUEEZENET, devices=3, timeout=20)


def test_the_split_is_verified_and_its_bound_holds(plan):
    assert verify(plan.instance, plan.solution).cost == plan.cost
    assert 0 < plan.lower_bound <= plan.cost * (1 + 1e-9)
    assert plan.gap is not None
    assert plan.gap <= 0.02
    assert plan.gap_text.startswith(("proven optimal", "at most"))
    assert (plan.grade, "checked" in plan.gap_text) == ("claimed", False)
    assert replace(plan, grade="checked").gap_text == f"{plan.gap_text}; proven and checked"


def test_every_operator_of_the_file_has_its_stage(plan):
    named = [name for part in plan.parts for name in part.operators]
    assert sorted(plan.assignment) == sorted(named)
    assert all(name in plan.parts[stage].operators for name, stage in plan.assignment.items())


def test_the_busiest_stage_is_the_bottleneck_and_its_load_is_work_and_transfers(plan):
    assert max(part.load_us for part in plan.parts) == pytest.approx(plan.cost)
    for part in plan.parts:
        assert part.load_us >= part.compute_us
    assert sum(part.compute_us for part in plan.parts) == pytest.approx(plan.single_device_us)
    assert plan.speedup == pytest.approx(plan.single_device_us / plan.cost)


def test_stages_follow_the_flow(plan):
    place = plan.assignment
    names = [operator.name for operator in plan.model.operators]
    assert all(place[names[u]] <= place[names[v]] for u, v in plan.model.edges())
    assert plan.parts[0].received_bytes == plan.parts[-1].sent_bytes == 0


def test_what_is_saved_is_the_plan(plan, tmp_path):
    written = plan.save(tmp_path / "plan")
    names = sorted(path.name for path in written.parent.iterdir())
    assert names == ["instance.json", "plan.html", "plan.json", "solution.json"]
    assert sm.check(written.parent / "instance.json", written.parent / "solution.json").cost == plan.cost
    found = load_plan(written.parent)
    assert found["assignment"] == plan.assignment
    assert verify(load(written.parent / "instance.json"), found["solution"]).cost == found["cost_us"] == plan.cost
    page = (written.parent / "plan.html").read_text(encoding="utf-8")
    assert not re.search(r'(href|src)="[^#]|url\(', page), "the page needs no other file"
    assert all(part.name in page for part in plan.parts)
    headings = re.findall(r"<h\d[^>]*>([^<]+)", page)
    assert len(headings) == len(set(headings)) == 6


def test_a_plan_replaces_an_earlier_one_and_nothing_else(plan, tmp_path):
    plan.save(tmp_path)
    own = set(tmp_path.iterdir())
    for name in ("annotated.onnx", "annotated.data", "specs.json", "notes.txt"):
        (tmp_path / name).write_text("of the earlier plan")
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "stages.json").write_text("{}")
    plan.save(tmp_path)
    assert set(tmp_path.iterdir()) == own | {tmp_path / "notes.txt"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    assert "is empty or holds an earlier plan" in refusal(plan.save, tmp_path / "other")


def test_a_notebook_shows_the_answer_and_the_graph(plan):
    shown = plan._repr_html_()
    assert plan.gap_text in shown
    assert shown.count("<circle") >= len(plan.model.operators)
    assert "<svg" in plan.picture


def test_the_command_prints_the_stages_and_writes_the_plan(tmp_path):
    result = shardmark("plan", SQUEEZENET, "--devices", 2, "--timeout", 10, "--output", tmp_path / "plan")
    assert result.returncode == 0, result.stderr
    assert "stage 1" in result.stdout
    assert "2 × h100" in result.stdout
    assert json.loads((tmp_path / "plan" / "plan.json").read_text())["track"] == "pipeline"


@pytest.mark.gate
def test_a_sweep_compares_numbers_of_devices():
    found = answer("plan", SQUEEZENET, "--devices", 2, "--sweep", "1,2,4,67", "--timeout", 20)
    alone, same, four, many = found["sweep"]
    assert [row["devices"] for row in found["sweep"]] == [1, 2, 4, 67]
    assert alone["speedup"] == pytest.approx(1.0)
    assert four["speedup"] > found["speedup"] > 1
    assert {key: same[key] for key in ("cost_us", "lower_bound_us", "gap", "speedup")}.items() <= found.items()
    assert many["cost_us"] <= four["cost_us"] * 1.1, "more devices than operators"


@pytest.mark.parametrize("devices", [10_000, "h100:9000,cpu:1000"])
def test_devices_beyond_the_operators_are_idle(devices, tmp_path):
    chain(tmp_path / "chain.onnx", ["first", "second", "third"])
    found = sm.plan(tmp_path / "chain.onnx", devices=devices, timeout=10)
    assert len(found.parts) <= 3
    assert (len(found.parts) + found.layout.idle, found.gap) == (10_000, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "expected one of devices, mesh and machine, found none: --devices 4"),
        ({"devices": 2, "mesh": "2x4"}, "found devices and mesh"),
        ({"devices": "two"}, "expected a number from 1, or kinds with their numbers such as h100:6,cpu:2, found 'two'"),
        ({"devices": ["h100", "h100"]}, "expected a number or a text such as 'h100:6,cpu:2', found ['h100', 'h100']"),
        ({"devices": "h100:0"}, "found 'h100:0'"),
        ({"devices": "h100:1,t4:1,cpu:1"}, "expected one kind of accelerators and one of CPUs"),
        ({"devices": "h100:1,t4:1"}, "expected accelerators and then CPUs, such as h100:6,cpu:2"),
        ({"devices": "cpu:2,h100:1"}, "expected accelerators and then CPUs, such as h100:6,cpu:2"),
        (
            {"devices": "h100:1,cpu:1", "device": "t4"},
            "expected no device if the kinds of devices are given, found 't4'",
        ),
        ({"mesh": "2x2", "profile": True}, "profile: expected equal devices or a machine"),
        ({"devices": "h100:1,cpu:1", "profile": True}, "profile: expected equal devices or a machine"),
        ({"devices": 2, "device": "h1000"}, "expected a file *.toml, or one of h100"),
        ({"devices": 2, "device": "h1000"}, "epyc-9654, did you mean 'h100'?"),
        ({"devices": 2, "device": 3}, "device: expected a name of the catalog or the path of a file, found int"),
        ({"machine": 3}, "machine: expected the path of a file, found int"),
        ({"mesh": 2.5}, "plan: mesh: expected axis sizes of at least 2, such as 2x4, found '2.5'"),
        ({"mesh": "2x"}, "plan: mesh: expected axis sizes of at least 2, such as 2x4, found '2x'"),
        ({"mesh": (2, "two")}, "found '2xtwo'"),
        ({"mesh": np.array([2, 1])}, "found '2x1'"),
        ({"devices": 2, "timeout": "x"}, "timeout: expected a positive number"),
        ({"devices": 2, "timeout": 0}, "timeout: expected a positive number"),
        ({"devices": 2, "cores": 0}, "cores: expected a whole number, at least 1, found 0"),
        ({"devices": 2, "dims": "batch=8"}, "dims: expected sizes by name, such as {'batch': 8}, found 'batch=8'"),
        ({"devices": 2, "dims": {"batch": 8.5}}, "dims['batch']: expected a whole number, at least 1, found 8.5"),
    ],
)
def test_bad_devices_are_refused_in_a_sentence(options, words):
    assert words in refusal(sm.plan, SQUEEZENET, **{"timeout": 5, **options})


def test_a_model_that_is_no_path_is_refused():
    assert "model: expected the path of a file, found ModelProto" in refusal(sm.plan, onnx.ModelProto(), devices=2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--export", "stages", "--devices", "2"], "--export: expected --output as well"),
        (["--mesh", "2x4", "--sweep", "2"], "--sweep: expected --devices N as well"),
        (["other.onnx", "--devices", "2"], "expected one model, or `plan verify DIR`"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, expected):
    result = shardmark("plan", SQUEEZENET, *words)
    assert result.returncode == 2
    assert expected in result.stderr


def test_what_only_onnx_models_have_is_refused_for_stablehlo_before_the_search(tmp_path):
    step = tmp_path / "step.mlir"
    step.write_text("""module @step {
  func.func public @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}""")
    result = shardmark("plan", step, "--devices", 1, "--export", "stages", "--output", tmp_path / "plan")
    assert result.returncode == 2
    assert "expected an ONNX model to export stages" in result.stderr
    assert "read" not in result.stderr
    assert "expected no dims" in refusal(sm.plan, step, devices=1, dims={"batch": 8})


def test_a_plan_prints_as_its_answer_and_parts(plan):
    lines = str(plan).splitlines()
    assert f"bottleneck: {plan.cost:,.6g} µs, {plan.gap_text}" in lines
    assert lines[-1].startswith("stage 2: ")


def chain(path, names):
    """A chain of matrix products on 64 x 64 numbers, where transfers cost more than they save."""
    ends = ["x", *names]
    nodes = [onnx.helper.make_node("MatMul", [ends[i], ends[i]], [name], name=name) for i, name in enumerate(names)]
    kind = onnx.TensorProto.FLOAT
    first, last = (onnx.helper.make_tensor_value_info(name, kind, [64, 64]) for name in ("x", names[-1]))
    graph = onnx.helper.make_graph(nodes, "chain", [first], [last])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)


def test_devices_without_operators_are_counted(tmp_path):
    chain(tmp_path / "chain.onnx", ["a", "b"])
    plan = sm.plan(tmp_path / "chain.onnx", devices=2, timeout=10)
    assert len(plan.parts) == 1
    assert "devices: 2 × h100, 1 of them idle" in str(plan)


def test_the_strategies_of_a_mesh_add_up(tmp_path):
    names = [f"n{index}" for index in range(20)]
    chain(tmp_path / "chain.onnx", names)
    plan = sm.plan(tmp_path / "chain.onnx", mesh="2x2", timeout=10)
    for most in (0, 1, 15):
        rows = strategies(plan, most)
        assert sum(row["operators"] for row in rows) == len(names)
        assert sum(row["µs on one device"] for row in rows) == pytest.approx(plan.single_device_us)
        assert len(rows) <= most + 1
    plan.save(tmp_path / "plan", export="specs")
    assert "limit 80 GB; peak " in (tmp_path / "plan" / "plan.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "plan" / "specs.json").read_text())["operators"].keys() == set(names)
    assert "expected specs or annotated for a plan on a mesh, found 'stages'" in refusal(
        plan.save, tmp_path / "plan", export="stages"
    )


def test_a_folder_without_a_plan_is_not_verified(tmp_path):
    result = shardmark("plan", "verify", tmp_path)
    assert result.returncode == 2
    assert "expected the folder of a plan, with a file plan.json" in result.stderr


def test_a_folder_with_other_files_is_refused_before_the_search(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = shardmark("plan", SQUEEZENET, "--devices", 2, "--output", tmp_path)
    assert result.returncode == 2
    assert "is empty or holds an earlier plan" in result.stderr
    assert "read" not in result.stderr


def test_a_refused_plan_leaves_no_folder(tmp_path):
    refused("plan", SQUEEZENET, "--machine", tmp_path / "nowhere.json", "--output", tmp_path / "new" / "plan")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("as_json", [False, True])
def test_a_plan_that_cannot_be_written_is_shown(plan, tmp_path, monkeypatch, capsys, as_json):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shardmark.cli.commands.planning._planned", lambda *_: plan)
    monkeypatch.setattr("shardmark.plans.saving._write", full)
    words = ["plan", str(SQUEEZENET), "--devices", "3", "--output", str(tmp_path / "plan")]
    assert main([*words, "--json"] if as_json else words) == 2
    told = capsys.readouterr()
    assert (
        told.err == f"shardmark: {tmp_path / 'plan'}: expected a folder that can be written (No space left on device)\n"
    )
    if as_json:
        found = json.loads(told.out)
        assert (found["cost_us"], found["error"]["status"]) == (plan.cost, 2)
    else:
        assert plan.gap_text in told.out


@pytest.mark.parametrize("earlier", [False, True])
def test_a_plan_that_is_interrupted_while_it_is_written_changes_nothing(plan, tmp_path, monkeypatch, earlier):
    folder = tmp_path / "plan"
    if earlier:
        plan.save(folder)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("shardmark.plans.page.page", interrupt)
    with pytest.raises(KeyboardInterrupt):
        plan.save(folder)
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*")} == before


def test_an_export_that_fails_leaves_no_plan(tmp_path):
    weight = onnx.TensorProto(name="w", dims=[4, 4], data_type=onnx.TensorProto.FLOAT)
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="missing.bin")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["a"]), onnx.helper.make_node("MatMul", ["a", "w"], ["y"])]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "graph", ends[:1], ends[1:], [weight])
    (tmp_path / "model.onnx").write_bytes(onnx.helper.make_model(graph, ir_version=10).SerializeToString())
    options = ("--devices", 2, "--timeout", 1, "--output", tmp_path / "plan", "--export", "stages")
    told = refused("plan", tmp_path / "model.onnx", *options)
    assert "missing.bin: tensor w: expected its external data (there is no such file)" in told
    assert "running" not in told  # before the search
    assert not (tmp_path / "plan").exists()


def test_stages_are_not_exported_among_other_files(tmp_path):
    (tmp_path / "plan" / "stages").mkdir(parents=True)
    (tmp_path / "plan" / "plan.json").touch()  # an earlier plan
    options = ("--devices", 2, "--timeout", 1, "--output", tmp_path / "plan", "--export", "stages")
    told = refused("plan", SQUEEZENET, *options)
    assert "stages: expected no such folder, or one with an earlier manifest.json" in told
    assert "running" not in told  # before the search


def test_a_page_names_the_axes_that_split_an_operator_and_no_others():
    loops = {"both": {"x": "m", "y": "k"}, "one": {"x": None, "y": "m"}, "none": {"x": None, "y": None}}
    specs = {"operators": {name: {"loops": of} for name, of in loops.items()}}
    plan = SimpleNamespace(layout=SimpleNamespace(specs=specs))
    words = [_axes(plan, name) for name in loops]
    assert words == ["split over x and y", "split over y", "on every device"]


@pytest.mark.parametrize("option", ["", "--device", "--machine"])
def test_a_pipe_is_waited_for_nowhere(option, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    given = [option, tmp_path / "pipe.toml"] if option else []
    model = tmp_path / ("model.onnx" if option else "pipe.toml")
    assert "pipe.toml: expected a regular file, found a pipe" in refused("plan", model, "--devices", 2, *given)


def test_a_device_with_a_figure_beyond_floats_is_refused(tmp_path):
    figures = 'source = "s"\npeak = { float32 = 1e12 }\nbandwidth = 1e12\nlaunch = 0\nlink_bandwidth = 1e9\n'
    (tmp_path / "odd.toml").write_text(f"{figures}link_latency = 0\nmemory = 1{400 * '0'}\n")
    words = refused("plan", SQUEEZENET, "--devices", 2, "--device", tmp_path / "odd.toml")
    assert "memory: expected a positive number" in words


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", "model.onnx"),
        ("model", {"file": 3, "sha256": ""}),
        ("costs", 1),
        ("options", {}),
        ("options", {"dims": {"batch": "8"}}),
        ("parts", []),
        ("parts", [{"compute_us": "1"}]),
        ("assignment", [0]),
        ("assignment", {"conv1": 99}),
    ],
)
def test_an_edited_plan_is_refused(plan, tmp_path, key, value):
    path = plan.save(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {key: value}))
    words = refusal(load_plan, tmp_path)
    assert re.search(
        r"plan\.json: (parts|assignment|model|costs|options): expected a file written by `shardmark plan`", words
    )
