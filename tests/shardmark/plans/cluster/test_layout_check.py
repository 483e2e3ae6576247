"""`plan verify` of a layout makes everything again from the model: no lie passes, and bad files are one sentence."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from referee import answer, refused, shardmark

import shardmark as sm
from shardmark.instances import InputError
from shardmark.plans.cluster import request
from shardmark.plans.runs import layout_check
from shardmark.plans.runs.layout_check import check_layout

WIDTH = 256
DEVICE = """source = "made up"
peak = { float32 = 1e12 }
bandwidth = 1e11
memory = 3e6
launch = 0
link_bandwidth = 1e9
link_latency = 0
"""


def saved(path):
    """Products one after another, each in a numbered module of PyTorch."""
    nodes, weights = [], []
    for layer in range(4):
        node = helper.make_node("MatMul", [f"t{layer}", f"w{layer}"], [f"t{layer + 1}"], name=f"node{layer}")
        scopes = ["", f"layers.{layer}", "op"]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(scopes))
        nodes.append(node)
        weights.append(numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), f"w{layer}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, WIDTH]) for name in ("t0", "t4")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)), path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "device.toml").write_text(DEVICE)
    return saved(folder / "m.onnx")


def laid_out(model, **given):
    usual = {"cluster": (1, 2), "batch": 8, "max_tensor": 1, "device": model.with_name("device.toml"), "timeout": 10}
    return sm.plan(model, **usual | given)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("layouts") / "layout"
    found = laid_out(model)
    assert len(found.stages) == 2, "as a device has too little memory for all"
    found.save(folder, export="torch")
    return folder


@pytest.fixture(scope="module")
def remembered():
    """`plan_run` that lays out once what is asked in equal words."""
    known = {}

    def plan_run(model, *, progress, **asked):
        key = repr((model, sorted(asked.items(), key=str)))
        if key not in known:
            known[key] = request.plan_run(model, progress=progress, **asked)
        return known[key]

    return plan_run


@pytest.fixture
def folder(written, tmp_path, monkeypatch, remembered):
    monkeypatch.setattr(layout_check, "plan_run", remembered)
    return shutil.copytree(written, tmp_path / "layout")


def refusal_of(folder):
    """The sentence with which a folder is refused; None if it is compared."""
    try:
        check_layout(folder)
    except InputError as refusal:
        return str(refusal)
    return None


def edited(folder, edit, name="plan.json"):
    content = json.loads((folder / name).read_text())
    edit(content)
    (folder / name).write_text(json.dumps(content))


def test_a_layout_as_it_was_written_is_made_again(written):
    result = shardmark("plan", "verify", written)
    assert result.returncode == 0, result.stderr
    assert "all files are equal to those made again" in result.stdout
    assert "whose figures are those of plan.json, of made up" in result.stdout
    assert answer("plan", "verify", written) == {"violations": [], "different": []}


def test_a_layout_that_serves_is_made_again(model, tmp_path):
    for objective in ("throughput", "latency"):
        given = {"batch": None} if objective == "latency" else {}
        found = laid_out(model, train="none", objective=objective, device="h100", **given)
        found.save(tmp_path / objective)
        checked = check_layout(tmp_path / objective)
        assert checked.equal, checked.differences
        assert checked.layout.cost_s == pytest.approx(found.cost_s)
        assert checked.layout.run.objective == objective


LIES = {
    "cost_s": lambda plan: plan.update(cost_s=plan["cost_s"] * 0.999),
    "lower_bound_s": lambda plan: plan.update(lower_bound_s=plan["lower_bound_s"] * 1.001),
    "lower_bound_s far above": lambda plan: plan.update(lower_bound_s=10**4000),
    "lower_bound_s text": lambda plan: plan.update(lower_bound_s="1"),
    "lower_bound_s infinite": lambda plan: plan.update(lower_bound_s=float("1e300") * 10),
    "bound_from": lambda plan: plan.update(bound_from=["dp"]),
    "bound_from another": lambda plan: plan.update(bound_from="revelation"),
    "gap": lambda plan: plan.update(gap=0.5),
    "gap_text": lambda plan: plan.update(gap_text="proven optimal, I swear"),
    "samples_per_s": lambda plan: plan.update(samples_per_s=10 * plan["samples_per_s"]),
    "utilisation": lambda plan: plan.update(utilisation=1.0),
    "objective": lambda plan: plan.update(objective="latency"),
    "track": lambda plan: plan.update(track="intraop"),
    "stages[1].replicas": lambda plan: plan["stages"][1].update(replicas=2),
    "stages[0].tensor": lambda plan: plan["stages"][0].update(tensor=True),
    "stages[0].microbatch_s": lambda plan: plan["stages"][0].update(microbatch_s=0.0),
    "stages[0].sync_s": lambda plan: plan["stages"][0].update(sync_s=-1),
    "stages[1].memory": lambda plan: plan["stages"][1].update(memory=1.0),
    "stages[1].held.working": lambda plan: plan["stages"][1]["held"].update(working=1e12),
    "stages[0].in_flight": lambda plan: plan["stages"][0].update(in_flight=10**400),
    "stages[0].blocks": lambda plan: plan["stages"][0]["blocks"].append("layers.9"),
    "stages": lambda plan: plan["stages"].append(plan["stages"][0]),
    "stages missing": lambda plan: plan.pop("stages"),
    "stages[0].sync_s missing": lambda plan: plan["stages"][0].pop("sync_s"),
    "more": lambda plan: plan.update(more=[[[{}]]]),
    "practices[0].cost_s": lambda plan: plan["practices"][0].update(cost_s=1e9),
    "solution.stage[0]": lambda plan: plan["solution"]["stage"].__setitem__(0, 1),
    "unproven_shardings": lambda plan: plan["unproven_shardings"].append({}),
    "backward_pass.forward_passes": lambda plan: plan["backward_pass"].update(forward_passes=1.0),
}


@pytest.mark.parametrize("place", LIES)
def test_no_lie_in_the_plan_passes(folder, place):
    edited(folder, LIES[place])
    found = check_layout(folder)
    assert not found.equal
    assert not found.violations
    named = f"plan.json: {place.partition(' ')[0]}"
    beside = ("gap", "gap_text") if place.startswith(("lower_bound_s", "bound_from")) else ()
    different = [one.what for one in found.differences]
    assert named in different
    assert {*different} <= {named, "plan.json: lower_bound_s", *(f"plan.json: {name}" for name in beside)}
    json.dumps([(one.planned, one.verified) for one in found.differences], allow_nan=False)


def test_a_weaker_bound_is_no_lie(folder):
    edited(folder, lambda plan: plan.update(lower_bound_s=plan["cost_s"] / 2, gap=1.0, bound_from="simple"))
    assert [one.what for one in check_layout(folder).differences] == ["plan.json: gap_text"]


@pytest.mark.parametrize(
    ("name", "edit", "what"),
    [
        ("instance.json", lambda x: x.update(maxMemoryPerDevice=1e12), "instance.json: maxMemoryPerDevice"),
        (
            "instance.json",
            lambda x: x["nodes"][0]["TMPCs"]["1"][0].update(timePerSample=0.0),
            "instance.json: nodes[0].TMPCs.1[0].timePerSample",
        ),
        (
            "layout.torch.json",
            lambda x: x["stages"][1]["modules"].append("layers.0"),
            "layout.torch.json: stages[1].modules",
        ),
        ("layout.torch.json", lambda x: x["stages"][0]["modules"].pop(), "layout.torch.json: stages[0].modules"),
        ("layout.torch.json", lambda x: x["split_points"].clear(), "layout.torch.json: split_points"),
        ("layout.torch.json", lambda x: x.update(microbatches=1), "layout.torch.json: microbatches"),
        (
            "layout.torch.json",
            lambda x: x["stages"][0].update(data_parallel=4),
            "layout.torch.json: stages[0].data_parallel",
        ),
    ],
)
def test_no_lie_in_another_file_passes(folder, name, edit, what):
    edited(folder, edit, name)
    assert [one.what for one in check_layout(folder).differences] == [what]


def solved(folder, stages, replicas, configuration="kept"):
    solution = {"stage": stages, "configuration": [configuration] * 4, "data_parallel": replicas}
    (folder / "solution.json").write_text(json.dumps(solution | {"tensor_parallel": [1] * len(replicas)}))


@pytest.mark.parametrize(
    ("stages", "replicas", "words"),
    [([0] * 4, [1], "bytes"), ([0, 0, 1, 1], [4, 1], "found 5"), ([0, 0, 1, 1], [3, 1], "3"), ([0], [1], "stage")],
)
def test_a_solution_that_breaks_a_rule_is_refused(folder, stages, replicas, words):
    solved(folder, stages, replicas)
    refusal = refusal_of(folder)
    assert "solution.json: expected one of this model that keeps all rules, found" in refusal
    assert words in refusal


def test_another_solution_has_other_figures(folder):
    solved(folder, [0, 0, 1, 1], [1, 1], "recomputed")
    found = [one.what for one in check_layout(folder).differences]
    places = {"cost_s", "solution.configuration[1]", "stages[0].recomputed", "stages[0].recomputation_s", "gap"}
    assert {f"plan.json: {place}" for place in places} <= {*found}
    assert "layout.torch.json: stages[0].recomputed" in found


def test_memory_for_a_block_while_it_runs_is_asked_for(folder, monkeypatch):
    real = layout_check.plan_run

    def fuller(*given, **asked):
        found = real(*given, **asked)
        stages = [replace(stage, held={**stage.held, "working": 1e12}) for stage in found.stages]
        return replace(found, stages=stages)

    monkeypatch.setattr(layout_check, "plan_run", fuller)
    found = check_layout(folder)
    assert not found.equal
    assert found.violations[0].startswith("stage 0: expected at most 3,000,000 bytes per device, found 1,0")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda plan: plan.pop("request"), "expected the path of the model and a request"),
        (lambda plan: plan.update(request=[]), "expected the path of the model and a request"),
        (lambda plan: plan.update(model=7), "expected the path of the model and a request"),
        (lambda plan: plan.update(model="gone.onnx"), "expected a file, found nothing of that name"),
        (lambda plan: plan.update(model="a\0b"), "expected a path"),
        (lambda plan: plan.update(model="\ud800"), "expected a path"),
        (lambda plan: plan.update(model="/dev/zero"), "expected a regular file"),
        (lambda plan: plan["request"].update(sha256="0" * 64), "found another SHA-256"),
        (lambda plan: plan["request"].pop("train"), "request: expected a key 'train'"),
        (lambda plan: plan["request"].update(more=1), "expected only the keys"),
        (
            lambda plan: plan["request"].update(cluster="1x2"),
            "request.cluster: expected a list of two numbers, found '1x2'",
        ),
        (lambda plan: plan["request"].update(cluster=[[], {}]), "request.cluster: expected machines and the devices"),
        (lambda plan: plan["request"].update(cluster=[10**9, 8]), "request.cluster: expected machines and the devices"),
        (lambda plan: plan["request"].update(batch=-8), "request.batch: expected"),
        (lambda plan: plan["request"].update(batch=[[8]]), "request.batch: expected a whole number, found a list of 1"),
        (lambda plan: plan["request"].update(batch=True), "request.batch: expected a whole number, found true"),
        (lambda plan: plan["request"].update(batch=7), "request.batch: expected a multiple of the 2 samples"),
        (lambda plan: plan["request"].update(batch=10**4000), "request.batch: expected at most"),
        (lambda plan: plan["request"].update(train={}), "request.train: expected one of"),
        (lambda plan: plan["request"].update(shard=["none"]), "request.shard: expected one of"),
        (lambda plan: plan["request"].update(max_tensor=None), "request.max_tensor: expected"),
        (lambda plan: plan["request"].update(dims={"x": 1.5}), "request.dims: expected numbers by names"),
        (lambda plan: plan["request"].update(branches={"x": 1}), "request.branches: expected choices by names"),
        (
            lambda plan: plan["request"].update(timeout=0),
            "request.timeout: expected a positive number of seconds, found 0",
        ),
        (lambda plan: plan["request"].update(device="h100"), "request.device: expected an object, found 'h100'"),
        (lambda plan: plan["request"]["device"].pop("memory"), "request.device: expected a key 'memory'"),
        (lambda plan: plan["request"]["device"].update(memory=-1), "request.device.memory: expected a positive number"),
        (lambda plan: plan["request"]["device"].update(name=[]), "request.device.name: expected a name"),
    ],
)
def test_a_request_that_cannot_be_asked_is_one_sentence(folder, edit, words):
    edited(folder, edit)
    refusal = refusal_of(folder)
    assert words in refusal
    assert "\n" not in refusal


def test_a_model_that_has_moved_may_be_in_the_folder(folder, model):
    edited(folder, lambda plan: plan.update(model=f"gone/{model.name}"))
    assert "expected a file, found nothing of that name" in refusal_of(folder)
    shutil.copy(model, folder)
    assert check_layout(folder).equal


def test_another_model_of_that_name_is_refused(folder, model, tmp_path):
    other = shutil.copy(model, tmp_path / "m.onnx")
    with open(other, "ab") as stream:
        stream.write(b"\x10\x07")
    edited(folder, lambda plan: plan.update(model=str(other)))
    with pytest.raises(InputError, match=r"expected the model that .* was made of, found another SHA-256"):
        check_layout(folder)


def test_other_devices_than_those_asked_for_are_told(folder):
    """Figures of devices are part of what was asked: with others, all costs are others."""
    edited(folder, lambda plan: plan["request"]["device"].update(bandwidth=1e12))
    assert "plan.json: cost_s" in [one.what for one in check_layout(folder).differences]


@pytest.mark.parametrize("name", ["plan.json", "instance.json", "solution.json", "layout.torch.json"])
@pytest.mark.parametrize(
    "content", ["", "{", "[" * 10_000 + "]" * 10_000, '{"a": NaN}', '{"a": 1, "a": 2}', "\ud800", "[]", "7", "null"]
)
def test_a_file_that_is_no_such_json_is_one_sentence(folder, name, content):
    (folder / name).write_bytes(content.encode(errors="surrogatepass"))
    refusal = refusal_of(folder)
    if refusal is None:  # JSON that is compared
        assert not check_layout(folder).equal
    else:
        assert name in refusal
        assert "\n" not in refusal


def test_bad_files_are_told_by_the_command(written, tmp_path):
    folder = shutil.copytree(written, tmp_path / "layout")
    (folder / "solution.json").write_text("[" * 10_000)
    assert "solution.json: line" in refused("plan", "verify", folder)
    (folder / "solution.json").unlink()
    assert "solution.json: expected a file" in refused("plan", "verify", folder)
    (folder / "plan.json").write_text('{"format": "shardmark/layout/1"')
    assert "expected JSON" in refused("plan", "verify", folder)


def test_differences_are_told_by_the_command(written, tmp_path):
    folder = shutil.copytree(written, tmp_path / "layout")
    edited(folder, lambda plan: plan.update(cost_s=plan["cost_s"] / 2, utilisation=0.9))
    result = shardmark("plan", "verify", folder)
    assert result.returncode == 1
    assert "DIFFERENT from what is found again" in result.stdout
    assert "plan.json: cost_s" in result.stdout
    assert "plan.json: utilisation" in result.stdout


def test_several_folders_are_those_of_plans(written):
    assert "found a layout, which `plan verify` takes alone" in refused("plan", "verify", written, written)
