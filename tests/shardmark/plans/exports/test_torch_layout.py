"""Layouts as PyTorch pipelines: split points, modules by stage, and models of which there are none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from referee import shardmark

import shardmark as sm
from shardmark.instances import InputError
from shardmark.plans.exports.torch_layout import torch_layout

SCOPES = "pkg.torch.onnx.name_scopes"
WIDTH = 512
#: Modules of the operators of a decoder, in the order of its file; the last one of every layer is no product.
DECODER = ("model.embed", *(f"model.layers.{i}.{part}" for i in range(8) for part in ("up", "down", "act")), "head")


def saved(path, modules=DECODER):
    """A chain of products in modules, and of activations for those called ``act``; None is no module.

    ``late`` adds two results of the first layer of `DECODER`, and ``join`` its result and the chain's.
    """
    nodes, weights, last = [], [], "t0"
    for index, module in enumerate(modules):
        kind = {"act": "Tanh", "late": "Add", "join": "Add"}.get((module or "").rpartition(".")[2], "MatMul")
        other = {"MatMul": f"w{index}", "Add": "t2" if module == "late" else "late"}.get(kind)
        written = "late" if module == "late" else f"t{index + 1}"
        reads = ["t4" if module == "late" else last, *([other] if other else [])]
        made = helper.make_node(kind, reads, [written], name=f"node{index}")
        if kind == "MatMul":
            weights.append(numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), f"w{index}"))
        if module:
            levels = module.split(".")
            paths = [".".join(levels[:end]) for end in range(len(levels) + 1) if levels[:end][-1:] != ["layers"]]
            made.metadata_props.add(key=SCOPES, value=repr([*paths, "op"]))
        last = last if module == "late" else written
        nodes.append(made)
    first, end = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, WIDTH]) for name in ("t0", last))
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [first], [end], weights)), path)
    return path


def device(path, memory):
    """A device on which a pipeline is better than replicas, with a memory in bytes."""
    numbers = "peak = { float32 = 1e12 }\nbandwidth = 1e11\nlaunch = 0\nlink_bandwidth = 1e9\nlink_latency = 0"
    path.write_text(f'source = "a test"\nmemory = {memory}\n{numbers}\n')
    return path


def exported(tmp_path, memory=1e9, batch=64, **options):
    model, slow = saved(tmp_path / "m.onnx"), device(tmp_path / "device.toml", memory)
    layout = sm.plan(model, cluster=(1, 4), batch=batch, max_tensor=1, device=slow, timeout=20, **options)
    layout.save(tmp_path / "plan", export="torch")
    return layout, json.loads((tmp_path / "plan" / "layout.torch.json").read_text())


def test_a_stage_begins_with_a_module_and_all_modules_are_named_once(tmp_path):
    layout, found = exported(tmp_path)
    modules = [stage["modules"] for stage in found["stages"]]
    assert len(modules) == len(layout.stages) == 4
    assert [name for names in modules for name in names] == [
        "model.embed",
        *(f"model.layers.{i}" for i in range(8)),
        "head",
    ]
    assert found["split_points"] == [names[0] for names in modules[1:]]
    assert [stage["data_parallel"] for stage in found["stages"]] == [stage.replicas for stage in layout.stages]
    assert {stage["tensor_parallel"] for stage in found["stages"]} == {1}
    assert (found["schedule"], found["batch"], found["microbatch"], found["microbatches"]) == ("1F1B", 64, 2, 32)


def test_recomputed_modules_are_those_of_recomputed_blocks(tmp_path):
    fits = exported(tmp_path)[0]
    needed = max(stage.memory for stage in fits.stages)
    layout, found = exported(tmp_path, memory=needed - 1)
    assert [tuple(stage["recomputed"]) for stage in found["stages"]] == [stage.recomputed for stage in layout.stages]
    assert any(stage["recomputed"] for stage in found["stages"])


def test_the_folder_has_the_problem_and_is_replaced(tmp_path):
    layout, _ = exported(tmp_path, train="none")
    names = {path.name for path in (tmp_path / "plan").iterdir()}
    assert names == {"plan.json", "plan.html", "instance.json", "solution.json", "layout.torch.json"}
    assert json.loads((tmp_path / "plan" / "layout.torch.json").read_text())["schedule"] is None
    done = shardmark("check", tmp_path / "plan" / "instance.json", tmp_path / "plan" / "solution.json", "--json")
    assert json.loads(done.stdout)["cost"] == pytest.approx(layout.cost_s)
    layout.save(tmp_path / "plan")
    assert {path.name for path in (tmp_path / "plan").iterdir()} == names - {"layout.torch.json"}


CLUSTER = ("--cluster", "1x2", "--max-tensor", 1, "--batch", 4, "--timeout", 10)


def test_the_command_line_writes_it(tmp_path):
    model = saved(tmp_path / "m.onnx")
    done = shardmark("plan", model, *CLUSTER, "--export", "torch", "--output", tmp_path / "plan", "--json")
    found = json.loads(done.stdout)
    layout = json.loads((tmp_path / "plan" / "layout.torch.json").read_text())
    assert len(layout["stages"]) == len(found["stages"])
    assert json.loads((tmp_path / "plan" / "plan.json").read_text()) == found


STABLEHLO = """module @m { func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32> } }"""


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, ("--export", "torch"), "expected --output as well"),
        (
            None,
            ("--export", "stages", "--output", "plan"),
            "expected torch or specs for a layout on a cluster, found 'stages'",
        ),
        (STABLEHLO, ("--export", "torch", "--output", "plan"), "expected an ONNX model with PyTorch modules"),
        ((None, None), ("--export", "torch", "--output", "plan"), "torch.onnx.export(..., dynamo=True) writes them"),
        ("no model", ("--export", "torch", "--output", "plan"), "expected an ONNX model"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_the_search(tmp_path, content, options, message):
    path = tmp_path / "model"
    if isinstance(content, str):
        path.write_text(content)
    else:
        saved(path, content or DECODER)
    done = shardmark("plan", path, *CLUSTER, *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]
    assert "running" not in done.stderr
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize(
    ("modules", "begins", "held"),
    [
        (("one", *["two"] * 6, "three"), ["three"], [["one", "two"], ["three"]]),
        (  # "late" needs no layer, but the file has it after them
            (*DECODER[:-1], "late", "join"),
            ["model.layers.4"],
            [
                ["model.embed", *(f"model.layers.{i}" for i in range(4))],
                [*(f"model.layers.{i}" for i in range(4, 8)), "late", "join"],
            ],
        ),
    ],
)
def test_stages_begin_where_modules_do_in_the_order_of_the_file(tmp_path, modules, begins, held):
    model, slow = saved(tmp_path / "m.onnx", modules), device(tmp_path / "device.toml", 1e9)
    layout = sm.plan(model, cluster=(1, 2), batch=64, max_tensor=1, device=slow, timeout=20)
    layout.save(tmp_path / "plan", export="torch")
    found = json.loads((tmp_path / "plan" / "layout.torch.json").read_text())
    assert found["split_points"] == begins
    assert [stage["modules"] for stage in found["stages"]] == held


def test_stages_in_another_order_than_the_file_are_refused(tmp_path):
    """As of two towers, of which the file has the first one in the last stage."""
    layout, _ = exported(tmp_path)
    turned = [3 - stage for stage in layout.solution["stage"]]
    with pytest.raises(InputError, match=r"expected stages in the order of the file to export torch; model.layers"):
        torch_layout(replace(layout, solution={**layout.solution, "stage": turned}))


def with_parameters(path, names, folded=None):
    """Write into a file what PyTorch's exporter says of parameters: their names, and constants ``folded`` from them."""
    model = onnx.load(path)
    text = "\n# inputs\n" + "\n".join(f"p{i}: PARAMETER target='{name}'" for i, name in enumerate(names))
    model.graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value=text)
    for constant, sources in (folded or {}).items():
        info = model.graph.value_info.add(name=constant)
        info.type.tensor_type.elem_type = TensorProto.FLOAT
        info.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=repr(sources))
    onnx.save(model, path)
    return path


def gathered(path):
    """Position embeddings for fixed positions: rows of a table, which the reader folds, added to the first product."""
    model = onnx.load(path)
    table = numpy_helper.from_array(np.zeros((4, WIDTH), np.float32), "model.places.weight")
    model.graph.initializer.extend([table, numpy_helper.from_array(np.array([0, 1]), "positions")])
    rows = helper.make_node("Gather", ["model.places.weight", "positions"], ["rows"], name="rows")
    scopes = ["", "model", "model.places", "op"]
    rows.metadata_props.add(key=SCOPES, value=repr(scopes))
    added = helper.make_node("Add", ["t1", "rows"], ["placed"], name="placed")
    added.metadata_props.add(key=SCOPES, value=repr(["", "model", "op"]))
    for node in model.graph.node:
        node.input[:] = ["placed" if name == "t1" else name for name in node.input]
    model.graph.node.insert(1, added)
    model.graph.node.insert(1, rows)
    onnx.save(model, path)
    return path


def modules_of(path, stages=2):
    """Lists of modules, and those in none, of the file's layout with so many stages."""
    slow = device(path.with_name("device.toml"), 1e9)
    layout = sm.plan(path, cluster=(1, stages), batch=64, max_tensor=1, device=slow, timeout=20)
    found = torch_layout(layout)
    return [stage["modules"] for stage in found["stages"]], found["unplaced"]


def test_a_module_that_the_exporter_folded_is_in_the_stage_that_reads_its_constant(tmp_path):
    names = ["model.embed.weight", "model.layers.0.up.weight", "places.weight", "late.bias", "model.scale", "idle.w"]
    folded = {
        "w0": ["arange", "places.weight"],
        "w20": ["late.bias"],
        "w1": ["model.layers.0.up.weight", "model.scale"],
    }
    modules, unplaced = modules_of(with_parameters(saved(tmp_path / "m.onnx"), names, folded))
    first, last = ([f"model.layers.{i}" for i in numbers] for numbers in (range(4), range(4, 8)))
    assert modules == [["model.embed", "places", *first], [*last[:3], "late", "model.layers.7", "head"]]
    assert unplaced == {
        "model": "beside modules of the stages it has weights of its own",
        "idle": "nothing in the file reads its weights",
    }


def test_a_module_that_the_reader_folds_is_in_the_stage_that_reads_its_constant(tmp_path):
    path = with_parameters(gathered(saved(tmp_path / "m.onnx")), ["model.embed.weight", "model.places.weight"])
    modules, unplaced = modules_of(path)
    assert modules[0][:3] == ["model.embed", "model.places", "model.layers.0"]
    assert not unplaced


def test_a_module_that_several_stages_run_is_in_none(tmp_path):
    path = with_parameters(saved(tmp_path / "m.onnx", (*DECODER[:-1], "model.embed")), ["model.embed.weight"])
    model = onnx.load(path)
    model.graph.initializer.extend(
        [numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), "model.embed.weight")]
    )
    for node in model.graph.node:
        node.input[:] = ["model.embed.weight" if name in ("w0", "w25") else name for name in node.input]
    onnx.save(model, path)
    modules, unplaced = modules_of(path)
    assert not any("model.embed" in names for names in modules)
    assert unplaced == {"model.embed": "several stages run it"}


def test_the_command_line_says_which_modules_are_in_no_stage(tmp_path):
    model = with_parameters(saved(tmp_path / "m.onnx"), ["model.embed.weight", "idle.weight"])
    done = shardmark("plan", model, *CLUSTER, "--export", "torch", "--output", tmp_path / "plan")
    assert done.returncode == 0
    assert "no stage has module idle: nothing in the file reads its weights" in done.stderr
