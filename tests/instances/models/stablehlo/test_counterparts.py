"""Operators of a backward pass belong to the layer whose gradients they compute, whether or not scopes name it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from effort import Deferred

from shardmark.instances.models.stablehlo.module import parse
from shardmark.instances.models.stablehlo_file import model_of

jax = Deferred("jax")
jnp = Deferred("jax.numpy")
LAYERS, BATCH, WORDS, WIDTH, HEADS = 3, 2, 8, 16, 2
SHAPES = {"scale": (WIDTH,), "qkv": (WIDTH, 48), "out": (WIDTH, WIDTH), "up": (WIDTH, 32), "down": (32, WIDTH)}


def attention(x, weights, mask):
    normal = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weights["scale"]
    query, key, value = jnp.split((normal @ weights["qkv"]).reshape(BATCH, WORDS, HEADS, -1), 3, -1)
    scores = jnp.where(mask, jnp.einsum("bshd,bthd->bhst", query, key), -1e9)
    mixed = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), value)
    return x + mixed.reshape(x.shape) @ weights["out"]


def perceptron(x, weights, mask):
    return x + jax.nn.gelu((x * mask[0, 0, 0]) @ weights["up"]) @ weights["down"]


def layer(x, weights, mask):
    return perceptron(attention(x, weights, mask), weights, mask[..., :1])


def of_own_weights(x, weights, mask, apply):
    """Every layer has weights of its own, and all have one mask."""
    for number in range(LAYERS):
        x = apply(number, x, weights[number], mask)
    return x


def of_shared_weights(x, weights, mask, apply):
    """All layers have the same weights."""
    for number in range(LAYERS):
        x = apply(number, x, weights[0], mask)
    return x


def two_towers(x, weights, mask, apply):
    """Two chains whose layers take turns."""
    first, second = x, x[::-1]
    for number in range(LAYERS):
        first = apply(2 * number, first, weights[number], mask)
        second = apply(2 * number + 1, second, weights[LAYERS + number], mask)
    return first * second


def with_skips(x, weights, mask, apply):
    """Layers behind the middle read the results of those ahead of it too."""
    kept = [x]
    for number in range(LAYERS):
        kept.append(apply(number, kept[-1], weights[number], mask))
    for number in range(LAYERS):
        x = apply(LAYERS + number, x + kept.pop(), weights[LAYERS + number], mask)
    return x


NETWORKS = [of_own_weights, of_shared_weights, two_towers, with_skips]


def model_of_step(network, *, named, again):
    """A training step, whose layers are in scopes if ``named``, and are rematerialised if ``again``."""
    single = jax.checkpoint(layer) if again else layer

    def apply(number, x, weights, mask):
        with jax.named_scope(f"layer{number}") if named else nullcontext():
            return single(x, weights, mask)

    def loss(weights, x, mask):
        return jnp.mean(network(x, weights, mask, apply) ** 2)

    def step(weights, x, mask):
        return jax.tree.map(lambda old, new: old - 0.1 * new, weights, jax.grad(loss)(weights, x, mask))

    of_layer = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in SHAPES.items()}
    x, mask = jax.ShapeDtypeStruct((BATCH, WORDS, WIDTH), "float32"), jax.ShapeDtypeStruct((1, 1, WORDS, WORDS), "bool")
    lowered = jax.jit(step, keep_unused=True).lower([of_layer] * 2 * LAYERS, x, mask)
    return model_of(parse(lowered.as_text(debug_info=True).encode(), "step"), "step")


@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("again", [False, True], ids=["kept", "rematerialised"])
@pytest.mark.parametrize(
    "network", [of_own_weights, of_shared_weights, two_towers, with_skips], ids=lambda f: f.__name__
)
def test_layers_without_scopes_are_told_apart(network, again):
    pytest.importorskip("jax")
    plain = model_of_step(network, named=False, again=again).operators
    named = model_of_step(network, named=True, again=again).operators
    assert [operator.kind for operator in plain] == [operator.kind for operator in named]
    known, wrong = 0, []
    for one, other in zip(plain, named, strict=True):
        if other.backward and other.layer >= 0:
            known += 1
            if one.forward is None or named[one.forward].layer != other.layer:
                wrong.append((other.name, one.forward and named[one.forward].name))
    assert known > 20 * LAYERS
    # What enters a rematerialised layer reads the gradient and weights, and the same weights fit every layer.
    assert len(wrong) <= (LAYERS if again and network is of_shared_weights else 0), wrong
