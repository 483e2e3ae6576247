"""A plan's specs load in JAX: a sharded training step gives what the unsharded one gives."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: Writes a training step as StableHLO, plans it for a mesh of 4 x 8, and runs it with these specs.
PROGRAM = """
import dataclasses
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from instances.models.as_intraop import as_intraop
from instances.models.devices import device
from instances.models.stablehlo_file import read_stablehlo
from shardmark import LocalRun
from solvers.intraop.cfn_native import cfn_native

BATCH, SEQUENCE, WIDTH, HEADS, HIDDEN, VOCABULARY = 8, 32, 64, 8, 256, 128
SHAPES = {
    "table": (VOCABULARY, WIDTH),
    "query": (WIDTH, HEADS, WIDTH // HEADS),
    "key": (WIDTH, HEADS, WIDTH // HEADS),
    "value": (WIDTH, HEADS, WIDTH // HEADS),
    "project": (HEADS, WIDTH // HEADS, WIDTH),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}


def loss(params, tokens):
    x = params["table"][tokens]
    query, key, value = (jnp.einsum("bsd,dhe->bshe", x, params[n]) for n in ("query", "key", "value"))
    weights = jax.nn.softmax(jnp.einsum("bshe,bkhe->bhsk", query, key))
    x = x + jnp.einsum("bshe,hed->bsd", jnp.einsum("bhsk,bkhe->bshe", weights, value), params["project"])
    x = x + jax.nn.gelu(x @ params["up"]) @ params["down"]
    scores = jax.nn.log_softmax(x @ params["table"].T)
    return -jnp.take_along_axis(scores, jnp.roll(tokens, -1, 1)[..., None], -1).mean()


def step(params, tokens):
    value, gradient = jax.value_and_grad(loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value


keys = dict(zip(SHAPES, jax.random.split(jax.random.key(0), len(SHAPES)), strict=True))
params = {name: 0.1 * jax.random.normal(keys[name], shape) for name, shape in SHAPES.items()}
tokens = jax.random.randint(jax.random.key(1), (BATCH, SEQUENCE), 0, VOCABULARY)
with open(sys.argv[1], "w") as file:
    file.write(jax.jit(step).lower(params, tokens).as_text(debug_info=True))
model = read_stablehlo(sys.argv[1])

# Links without latency, so that splitting even this small step pays, and memory for no replicas.
free = dataclasses.replace(device("h100"), link_latency=0.0, launch=0.0)
least = as_intraop(model, free, "4x8", memory=math.inf).instance.summary()["least_peak_usage"]
problem = as_intraop(model, free, "4x8", memory=1.5 * least)
run = LocalRun(seconds=20)
cfn_native(problem.instance, run)
specs = problem.specs(run.solutions[-1])

mesh = Mesh(np.array(jax.devices()).reshape(4, 8), ("x", "y"))
names = {name: f"params['{name}']" for name in SHAPES}


def sharding(name):
    return NamedSharding(mesh, PartitionSpec(*(tuple("xy"[axis] for axis in axes) for axes in specs[name])))


shardings = ({name: sharding(long) for name, long in names.items()}, sharding("tokens"))
expected = jax.tree.leaves(jax.jit(step)(params, tokens))
found = jax.tree.leaves(jax.jit(step, in_shardings=shardings)(*jax.device_put((params, tokens), shardings)))
assert len(found[0].sharding.device_set) == 32
assert any(any(axes) for name in names.values() for axes in specs[name])
for a, b in zip(expected, found, strict=True):
    np.testing.assert_allclose(a, jax.device_get(b), rtol=1e-4, atol=1e-6)
print("equal")
"""


@pytest.mark.gate
def test_a_sharded_step_gives_what_the_unsharded_one_gives(tmp_path):
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=32",
        "JAX_PLATFORMS": "cpu",
    }
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "step.mlir")]
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert result.stdout == "equal\n", result.stderr
