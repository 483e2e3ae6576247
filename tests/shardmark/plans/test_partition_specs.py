"""Partition specs of a mesh plan: a JSON document by name, and a step in JAX that runs with it on 32 devices."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from effort import Deferred
from read_models import read_stablehlo

from shardmark.instances.models.as_intraop import as_intraop
from shardmark.instances.models.devices import device
from shardmark.plans.partition_specs import FORMAT, in_shardings, partition_specs

jax, jnp = Deferred("jax"), Deferred("jax.numpy")
ROOT = Path(__file__).parents[3]
STEP = ROOT / "tests" / "data" / "stablehlo" / "transformer.mlir.gz"

#: Runs a training step with the specs of a document, and without.
PROGRAM = """
import json
import sys

import jax
import numpy as np
import training_steps

from shardmark.plans.partition_specs import in_shardings

document = json.load(open(sys.argv[1]))
step, shapes = training_steps.step_of("transformer", layers=2)
rng = np.random.default_rng(1)


def draw(leaf):
    if leaf.dtype == "int32":
        return rng.integers(0, 256, leaf.shape, dtype="int32")
    return np.abs(rng.normal(0.1, 0.1, leaf.shape)).astype(leaf.dtype)


arguments = jax.tree.map(draw, shapes)
mesh = jax.sharding.Mesh(np.reshape(jax.devices(), document["mesh"]["sizes"]), document["mesh"]["axes"])
shardings = in_shardings(document, step, arguments, mesh)
assert len(jax.devices()) == 32
assert any(any(leaf.spec) for leaf in jax.tree.leaves(shardings))
placed = jax.device_put(arguments, shardings)
found = jax.jit(step, in_shardings=shardings)(*placed)
expected = jax.jit(step)(*arguments)
assert len(found[1]["embed"].sharding.device_set) == 32
for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
    np.testing.assert_allclose(a, jax.device_get(b), rtol=1e-3, atol=1e-5)
print("equal")
"""


@pytest.fixture(scope="module")
def sharding():
    """The training step on a mesh of 4 x 8 devices whose memory is 1.5 times what it needs at the least."""
    model = read_stablehlo(STEP)
    least = as_intraop(model, device("h100"), "4x8", memory=math.inf).instance.summary()["least_peak_usage"]
    return as_intraop(model, device("h100"), "4x8", memory=1.5 * least)


def split_most(sharding):
    """A solution: every group takes the strategy of least memory."""
    choices = [int(node.usages.argmin()) for node in sharding.nodes[: len(sharding.groups)]]
    return sharding.solution(choices)


def test_every_input_and_operator_has_a_spec(sharding):
    document = partition_specs(sharding, split_most(sharding))
    assert json.loads(json.dumps(document)) == document
    assert document["format"] == FORMAT
    assert document["mesh"] == {"axes": ["x", "y"], "sizes": [4, 8]}
    model = sharding.model
    assert set(document["operators"]) == {operator.name for operator in model.operators}
    parts = {"x": 4, "y": 8}
    specs = dict(document["inputs"])
    for operator in model.operators:
        found = document["operators"][operator.name]
        assert all(loop is None or loop in operator.loops for loop in found["loops"].values())
        specs.update(zip((model.tensors[a.tensor].name for a in operator.writes), found["results"], strict=True))
    assert set(specs) == {tensor.name for tensor in model.tensors}
    for tensor in model.tensors:
        assert len(specs[tensor.name]) == len(tensor.shape)
        for size, axes in zip(tensor.shape, specs[tensor.name], strict=True):
            assert size % math.prod(parts[axis] for axis in axes or ()) == 0
        used = [axis for axes in specs[tensor.name] for axis in axes or ()]
        assert len(used) == len(set(used))
    assert sum(any(spec) for spec in document["inputs"].values()) > len(document["inputs"]) / 2


def test_axes_have_the_names_that_are_given(sharding):
    document = partition_specs(sharding, split_most(sharding), ("data", "model"))
    assert document["mesh"]["axes"] == ["data", "model"]
    with pytest.raises(ValueError, match="expected 2 different names of axes, found a, a"):
        partition_specs(sharding, split_most(sharding), ("a", "a"))


def test_specs_of_another_step_are_refused():
    mesh = jax.sharding.Mesh(np.reshape(jax.devices()[:1], 1), ("x",))
    document = {"inputs": {"w": [["x"], None], "other": [None]}}

    def step(w, unused):
        return w

    with pytest.raises(ValueError, match="expected a step with an argument other"):
        in_shardings(document, step, (jnp.ones((2, 2)), jnp.ones(3)), mesh)
    del document["inputs"]["other"]
    first, second = in_shardings(document, step, (jnp.ones((2, 2)), jnp.ones(3)), mesh)
    assert (first.spec, second.spec) == (jax.sharding.PartitionSpec("x", None), jax.sharding.PartitionSpec(None))


@pytest.mark.gate
def test_a_step_with_the_specs_gives_what_it_gives_without(sharding, tmp_path):
    """The plan is solved by the method that commands use; half of the parameters do not fit without a split."""
    from shardmark import solve

    result = solve(sharding.instance, solver="cfn-native", timeout=3)
    assert result.gap is not None
    assert result.gap < 0.05
    path = tmp_path / "specs.json"
    path.write_text(json.dumps(partition_specs(sharding, result.solution)))
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=32 --xla_backend_optimization_level=0 "
        "--xla_cpu_use_fusion_emitters=false",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "examples")]),
    }
    command = [sys.executable, "-c", PROGRAM, str(path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "equal\n", ran.stderr
