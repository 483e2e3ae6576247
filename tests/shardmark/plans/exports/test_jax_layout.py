"""The specs of a layout by stage: a pipeline of JAX programs with them gives the loss and gradients of the step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from effort import Deferred
from referee import refused

import shardmark as sm
from shardmark.plans.exports.jax_layout import FORMAT

training_steps = Deferred("training_steps")
pytestmark = [pytest.mark.gate, pytest.mark.usefixtures("stablehlo_in_process")]
ROOT = Path(__file__).parents[4]
SIZES = {"layers": 2, "width": 64, "heads": 4, "sequence": 32, "vocabulary": 256, "batch": 2}
DEVICE = """source = "made up"
peak = { bfloat16 = 100e9, float32 = 10e9 }
bandwidth = 1e9
memory = 6e5
launch = 1e-6
link_bandwidth = 100e9
link_latency = 1e-7
network_bandwidth = 10e9
"""

#: Runs the stages of a layout on devices of their own, and the whole step's loss on one.
PROGRAM = """
import json
import sys
from functools import partial

import jax
import numpy as np
import training_steps as steps

from shardmark.plans.partition_specs import in_shardings

document = json.load(open(sys.argv[1]))
params, batch, whole = steps.transformer(**json.loads(sys.argv[2]))
rng = np.random.default_rng(1)
params = jax.tree.map(lambda leaf: np.abs(rng.normal(0.1, 0.1, leaf.shape)).astype(leaf.dtype), params)
batch = {name: rng.integers(0, 256, (4, *leaf.shape[1:]), dtype="int32") for name, leaf in batch.items()}


def layer(x, p):
    x = x + steps.attention(p, steps.normalise(x, p["norm1"]))
    return x + jax.nn.gelu(steps.normalise(x, p["norm2"]) @ p["up"]) @ p["down"]


def stage(numbers, first, last, params, batch, x):
    if first:
        x = params["embed"][batch["tokens"]]
    for number in numbers:
        x = layer(x, params["layers"][number])
    return steps.cross_entropy(x @ params["unembed"], batch["labels"]) if last else x


devices, programs, begun = jax.devices(), [], 0
for number, part in enumerate(document["stages"]):
    sizes = part["mesh"]["sizes"]
    count = int(np.prod(sizes))
    mesh = jax.sharding.Mesh(np.reshape(devices[begun : begun + count], sizes), part["mesh"]["axes"])
    begun += count
    numbers = [int(name.removeprefix("layer")) for name in part["layers"] if name.startswith("layer")]
    run = partial(stage, numbers, number == 0, number == len(document["stages"]) - 1)

    def step(params, batch):
        return params  # only the names of the arguments are read

    shardings = in_shardings(part, step, (params, batch), mesh)
    between = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    programs.append((jax.jit(run, in_shardings=(*shardings, between)), shardings, between))
assert begun <= len(devices) == 8


def pipeline(params, batch):
    x = np.zeros((4, 1), dtype="float32")
    for run, shardings, between in programs:
        x = run(*jax.device_put((params, batch), shardings), jax.device_put(x, between))
    return x


found = jax.value_and_grad(pipeline)(params, batch)
expected = jax.jit(jax.value_and_grad(whole))(params, batch)
for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
    np.testing.assert_allclose(a, jax.device_get(b), rtol=1e-3, atol=1e-5)
split = [leaf for _, shardings, _ in programs for leaf in jax.tree.leaves(shardings[0]) if "tensor" in leaf.spec]
assert split
print("equal")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stablehlo_in_process):
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("jax")
    (folder / "step.mlir").write_bytes(training_steps.lowered("transformer", "sgd", **SIZES))
    (folder / "loops.mlir").write_bytes(training_steps.lowered("transformer", "sgd", scan=1, **SIZES))
    (folder / "device.toml").write_text(DEVICE)
    return folder


@pytest.fixture(scope="module")
def document(folder):
    """The specs of a layout whose memory forces several stages of several devices."""
    found = sm.plan(
        folder / "step.mlir",
        cluster=(2, 4),
        batch=16,
        train="sgd",
        max_tensor=2,
        device=folder / "device.toml",
        timeout=20,
    )
    found.save(folder / "plan", export="specs")
    return json.loads((folder / "plan" / "specs.json").read_text())


def test_every_parameter_is_in_the_stage_of_its_layer(document):
    assert document["format"] == FORMAT
    stages = document["stages"]
    assert len(stages) > 1
    layers = [name for stage in stages for name in stage["layers"]]
    assert [name for name in layers if name.startswith("layer")] == [f"layer{i}" for i in range(SIZES["layers"])]
    for stage in stages:
        held = {int(name.removeprefix("layer")) for name in stage["layers"] if name.startswith("layer")}
        found = {int(name.split("[")[2].rstrip("]")) for name in stage["inputs"] if name.startswith("params['layers']")}
        assert found == held
        assert stage["mesh"]["axes"] == ["data", "tensor"]
    assert "params['embed']" in stages[0]["inputs"]
    assert stages[0]["inputs"]["batch['tokens']"] == [["data"], None]
    assert "params['unembed']" in stages[-1]["inputs"]
    assert stages[-1]["inputs"]["batch['labels']"] == [["data"], None]


def test_stages_with_the_specs_give_the_loss_and_gradients_of_the_step(folder, document):
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
        "--xla_cpu_use_fusion_emitters=false",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "examples")]),
    }
    command = [sys.executable, "-c", PROGRAM, str(folder / "plan" / "specs.json"), json.dumps(SIZES)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "equal\n", ran.stderr


@pytest.mark.parametrize(
    ("model", "export", "words"),
    [
        ("loops.mlir", "specs", "expected a program without loops and branches to export specs"),
        ("step.mlir", "stages", "expected torch or specs for a layout on a cluster, found 'stages'"),
        ("step.mlir", "torch", "expected an ONNX model with PyTorch modules"),
    ],
)
def test_what_has_no_specs_is_refused(folder, tmp_path, model, export, words):
    options = ("--cluster", "2x4", "--batch", 16, "--output", tmp_path / "plan", "--export", export)
    assert words in refused("plan", folder / model, *options)
