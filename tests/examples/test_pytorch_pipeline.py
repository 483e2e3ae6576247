"""The example runs layouts with PyTorch and computes what the whole model does, if torch is there: no extra has it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import shardmark as sm

torch = pytest.importorskip("torch", reason="needs torch to run a pipeline")
pytest.importorskip("onnxscript", reason="needs onnxscript to export the example's model")
#: PyTorch copies its own `LeafSpec`, which it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")

PROGRAM = Path(__file__).parents[2] / "examples" / "pytorch_pipeline.py"
#: One thread per process, and no network but the loopback device.
ALONE = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@pytest.fixture(scope="module")
def program():
    sys.path.insert(0, str(PROGRAM.parent))
    yield importlib.import_module(PROGRAM.stem)
    sys.path.remove(str(PROGRAM.parent))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    subprocess.run([sys.executable, PROGRAM, "export", path, "--samples", "2"], check=True, capture_output=True)
    return path


def planned(model, folder, devices):
    """The folder and content of a layout over this many devices, each a stage."""
    layout = sm.plan(model, cluster=(1, devices), max_tensor=1, batch=16, device="t4", timeout=20)
    layout.save(folder, export="torch")
    found = json.loads((folder / "layout.torch.json").read_text())
    assert len(found["stages"]) == devices
    return found


#: A model whose first and last stage have the same weights, and whose loss does not depend on all of them.
TIED = """from torch import nn
from pytorch_pipeline import Transformer, build as untied

class Tied(Transformer):
    def __init__(self):
        super().__init__()
        self.head.weight, self.idle = self.embed.weight, nn.Linear(256, 2)

    def forward(self, words):
        last = super().forward(words)
        return last, self.idle(self.norm.weight)

def build(samples):
    inputs = untied(samples)[1]
    return Tied().eval(), inputs
"""


def run(folder, layout, processes, *options):
    (folder / "layout.torch.json").write_text(json.dumps(layout))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), PROGRAM]
    command += ["run", folder / "layout.torch.json", *options]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | ALONE, check=False)


@pytest.mark.parametrize("schedule", ["1F1B", None])
def test_four_stages_compute_what_the_whole_model_does(model, tmp_path, schedule):
    layout = planned(model, tmp_path, 4)
    done = run(tmp_path, layout | {"schedule": schedule}, 4)
    assert done.returncode == 0, done.stderr
    *stages, verdict = done.stdout.splitlines()
    assert verdict.startswith("equal:")
    assert ["gradients" in line for line in stages] == [schedule is not None] * 4
    assert ["outputs" in line for line in stages] == [False, False, False, True]


@pytest.mark.parametrize(
    ("replicas", "degree", "tied"), [((2, 2), 1, False), ((1, 3), 1, True), ((1, 1), 2, False), ((1, 1), 2, True)]
)
def test_replicas_tensor_parallelism_and_recomputed_modules(model, tmp_path, replicas, degree, tied):
    layout = planned(model, tmp_path, 2)
    for stage, number in zip(layout["stages"], replicas, strict=True):
        recomputed = [name for name in stage["modules"] if "layers" in name]
        stage |= {"data_parallel": number, "tensor_parallel": degree, "recomputed": recomputed}
    (tmp_path / "tied.py").write_text(TIED)
    done = run(tmp_path, layout, 4, *(["--model", tmp_path / "tied.py"] if tied else []))
    assert done.returncode == 0, done.stderr
    *devices, verdict = done.stdout.splitlines()
    assert len(devices) == 4
    assert verdict.startswith("equal:")
    assert ["outputs" in line for line in devices] == [False] * replicas[0] * degree + [True] * replicas[1] * degree


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tensor_parallel": 2}, "expected equal tensor-parallel degrees, found 1 and 2; plan with --max-tensor 1"),
        ({"data_parallel": 2}, "expected 3 processes (torchrun --nproc-per-node 3), found 1"),
        ({}, "expected 2 processes (torchrun --nproc-per-node 2), found 1"),
    ],
)
def test_what_it_cannot_run_is_refused(model, tmp_path, change, message):
    layout = planned(model, tmp_path, 2)
    layout["stages"][0] |= change
    done = run(tmp_path, layout, 1)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"pytorch_pipeline: {message}" in done.stderr


def test_a_recomputed_module_runs_twice(program):
    model, inputs = program.build(2)
    pipe = program.traced(model, inputs, {"split_points": ["layers.4"]})
    stage = pipe.get_stage_module(0)
    program.recompute(stage.get_submodule("layers.1"))
    calls = dict.fromkeys(("layers.1.gate", "layers.2.gate"), 0)

    def counted(name):
        def hook(*_):
            calls[name] += 1

        stage.get_submodule(name).register_forward_hook(hook)

    for name in calls:
        counted(name)
    program.first(stage(*inputs)).sum().backward()
    assert calls == {"layers.1.gate": 2, "layers.2.gate": 1}


def test_stages_exchange_one_activation_and_no_angles(program):
    model, inputs = program.build(2)
    pipe = program.traced(model, inputs, {"split_points": ["layers.2", "layers.4", "layers.6"]})
    stages = [pipe.get_stage_module(number) for number in range(4)]
    assert [sum(node.op == "placeholder" for node in stage.graph.nodes) for stage in stages] == [1] * 4
    assert torch.equal(program.first(pipe(*inputs)), program.build(2)[0](*inputs))


def test_a_model_that_returns_more_than_tensors_is_refused(program):
    program.require_tensors((torch.zeros(1), [torch.zeros(1), None]))
    with pytest.raises(SystemExit, match="expected a model that returns tensors, found object; with use_cache=False"):
        program.require_tensors((torch.zeros(1), object()))
