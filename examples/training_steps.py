"""Training steps of well-known networks in plain `jax.numpy`, lowered to StableHLO.

    python examples/training_steps.py transformer --output step.mlir layers=24 width=1024
    shardmark plan step.mlir --devices 4

Every network is a pair of functions: shapes of its parameters, and its loss. A step takes parameters, the state of the
optimiser and a batch, and returns the loss with new parameters and a new state. A name that ends in ``.bin`` gets the
portable artifact that `jax.export` writes, any other name gets text with locations.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # locations without folders

Tree = Any  # a nest of dictionaries and lists with arrays at its leaves


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    """An array that has a shape and a type, but no numbers."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean of -log p(label) over all but the last dimension."""
    chosen = jax.nn.one_hot(labels, logits.shape[-1]) * jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.sum(chosen, axis=-1))


def normalise(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Root-mean-square normalisation of the last dimension."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(p: Tree, x: jax.Array) -> jax.Array:
    """Causal self-attention; weights have a dimension for heads."""
    query, key, value = (jnp.einsum("bsm,mhd->bshd", x, p[name]) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    return jnp.einsum("bqhd,hdm->bqm", jnp.einsum("bhqk,bkhd->bqhd", weights, value), p["project"])


def attention_shapes(width: int, heads: int) -> Tree:
    weights = {name: shape(width, heads, width // heads) for name in ("query", "key", "value")}
    return {**weights, "project": shape(heads, width // heads, width), "norm1": shape(width), "norm2": shape(width)}


def transformer(
    *,
    layers: int = 2,
    batch: int = 8,
    sequence: int = 32,
    width: int = 64,
    heads: int = 4,
    vocabulary: int = 256,
    scan: int = 0,
    rematerialise: int = 0,
) -> tuple[Tree, Tree, Callable[[Tree, Tree], jax.Array]]:
    """A decoder of pre-normalised transformer layers (Vaswani et al., NeurIPS 2017).

    With ``scan=1`` one array holds a weight of all layers, and `jax.lax.scan` goes through them; with
    ``rematerialise=1`` the backward pass computes each layer again.
    """
    dense = {"up": shape(width, 4 * width), "down": shape(4 * width, width)}
    one = {**attention_shapes(width, heads), **dense}
    stacked = {name: shape(layers, *weight.shape) for name, weight in one.items()}
    params = {
        "embed": shape(vocabulary, width),
        "layers": stacked if scan else [one] * layers,
        "unembed": shape(width, vocabulary),
    }

    def layer(x: jax.Array, p: Tree) -> jax.Array:
        x = x + attention(p, normalise(x, p["norm1"]))
        return x + jax.nn.gelu(normalise(x, p["norm2"]) @ p["up"]) @ p["down"]

    def loss(params: Tree, batch: Tree) -> jax.Array:
        x = params["embed"][batch["tokens"]]
        apply = jax.checkpoint(layer) if rematerialise else layer
        if scan:
            x, _ = jax.lax.scan(lambda x, p: (apply(x, p), None), x, params["layers"])
        else:
            for number, p in enumerate(params["layers"]):
                with jax.named_scope(f"layer{number}"):
                    x = apply(x, p)
        return cross_entropy(x @ params["unembed"], batch["labels"])

    return params, tokens(batch, sequence), loss


def tokens(batch: int, sequence: int) -> Tree:
    return {name: shape(batch, sequence, dtype="int32") for name in ("tokens", "labels")}


def turned(x: jax.Array) -> jax.Array:
    """Rotary positions of (batch, token, head, channel) (Su et al., 2021)."""
    channels = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None, None] * 500_000.0 ** (-jnp.arange(channels) / channels)
    cosine, sine = jnp.cos(angle).astype(x.dtype), jnp.sin(angle).astype(x.dtype)
    first, second = x[..., :channels], x[..., channels:]
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def llama(
    *,
    layers: int = 2,
    batch: int = 8,
    sequence: int = 32,
    width: int = 64,
    heads: int = 4,
    groups: int = 2,
    hidden: int = 128,
    vocabulary: int = 256,
) -> tuple[Tree, Tree, Callable[[Tree, Tree], jax.Array]]:
    """A decoder with rotary positions, ``groups`` key and value heads, and gated layers (Llama 3, 2024)."""
    channels = width // heads
    one = {
        "query": shape(width, groups, heads // groups, channels),
        "key": shape(width, groups, channels),
        "value": shape(width, groups, channels),
        "project": shape(groups, heads // groups, channels, width),
        **{name: shape(width, hidden) for name in ("gate", "up")},
        "down": shape(hidden, width),
        **{name: shape(width) for name in ("norm1", "norm2")},
    }
    params = {"embed": shape(vocabulary, width), "layers": [one] * layers, "unembed": shape(width, vocabulary)}

    def grouped(p: Tree, x: jax.Array) -> jax.Array:
        query = jnp.einsum("bsm,mghd->bsghd", x, p["query"])
        query = turned(query.reshape(*x.shape[:2], heads, channels)).reshape(query.shape)
        key, value = turned(jnp.einsum("bsm,mgd->bsgd", x, p["key"])), jnp.einsum("bsm,mgd->bsgd", x, p["value"])
        scores = jnp.einsum("bqghd,bkgd->bghqk", query, key) / channels**0.5
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
        return jnp.einsum("bqghd,ghdm->bqm", jnp.einsum("bghqk,bkgd->bqghd", weights, value), p["project"])

    def loss(params: Tree, batch: Tree) -> jax.Array:
        x = params["embed"][batch["tokens"]]
        for number, p in enumerate(params["layers"]):
            with jax.named_scope(f"layer{number}"):
                x = x + grouped(p, normalise(x, p["norm1"]))
                y = normalise(x, p["norm2"])
                x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
        return cross_entropy(x @ params["unembed"], batch["labels"])

    return params, tokens(batch, sequence), loss


def mixture_of_experts(
    *,
    layers: int = 2,
    batch: int = 8,
    sequence: int = 32,
    width: int = 64,
    heads: int = 4,
    experts: int = 8,
    vocabulary: int = 256,
) -> tuple[Tree, Tree, Callable[[Tree, Tree], jax.Array]]:
    """Transformer layers whose feed-forward part is one expert per token, with room for twice the mean (Switch)."""
    dense = {
        "route": shape(width, experts),
        "up": shape(experts, width, 4 * width),
        "down": shape(experts, 4 * width, width),
    }
    room = max(1, 2 * sequence // experts)
    params = {
        "embed": shape(vocabulary, width),
        "layers": [{**attention_shapes(width, heads), **dense} for _ in range(layers)],
        "unembed": shape(width, vocabulary),
    }

    def route(p: Tree, x: jax.Array) -> jax.Array:
        gates = jax.nn.softmax(jnp.einsum("bsm,me->bse", x, p["route"]))
        chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts)
        place = jnp.cumsum(chosen, axis=1) * chosen - 1
        dispatch = jax.nn.one_hot(place.astype("int32"), room, dtype=x.dtype)  # batch, sequence, expert, place
        inside = jnp.einsum("bsec,bsm->ebcm", dispatch, x)
        hidden = jax.nn.gelu(jnp.einsum("ebcm,emf->ebcf", inside, p["up"]))
        outside = jnp.einsum("ebcf,efm->ebcm", hidden, p["down"])
        return jnp.einsum("bsec,bse,ebcm->bsm", dispatch, gates, outside)

    def loss(params: Tree, batch: Tree) -> jax.Array:
        x = params["embed"][batch["tokens"]]
        for number, p in enumerate(params["layers"]):
            with jax.named_scope(f"layer{number}"):
                x = x + attention(p, normalise(x, p["norm1"]))
                x = x + route(p, normalise(x, p["norm2"]))
        return cross_entropy(x @ params["unembed"], batch["labels"])

    return params, tokens(batch, sequence), loss


def convolve(x: jax.Array, w: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution of images, (batch, height, width, channels)."""
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_normalise(x: jax.Array, scale: jax.Array) -> jax.Array:
    mean = jnp.mean(x, axis=(0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(jnp.mean((x - mean) ** 2, axis=(0, 1, 2)) + 1e-5) * scale


def resnet(
    *, blocks: int = 2, stages: int = 3, batch: int = 8, size: int = 32, channels: int = 16, classes: int = 10
) -> tuple[Tree, Tree, Callable[[Tree, Tree], jax.Array]]:
    """A residual network of basic blocks (He et al., CVPR 2016); every stage halves the image."""
    params: Tree = {"stem": shape(3, 3, 3, channels), "blocks": [], "head": shape(channels << (stages - 1), classes)}
    strides, wide = [], channels
    for number in range(blocks * stages):
        stride = 2 if number and number % blocks == 0 else 1
        block = {"w1": shape(3, 3, wide, wide * stride), "n1": shape(wide * stride), "n2": shape(wide * stride)}
        block["w2"] = shape(3, 3, wide * stride, wide * stride)
        if stride > 1:
            block["skip"] = shape(1, 1, wide, wide * stride)
        params["blocks"].append(block)
        strides.append(stride)
        wide *= stride

    def loss(params: Tree, batch: Tree) -> jax.Array:
        x = convolve(batch["images"], params["stem"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        for number, (p, stride) in enumerate(zip(params["blocks"], strides, strict=True)):
            with jax.named_scope(f"block{number}"):
                y = jax.nn.relu(batch_normalise(convolve(x, p["w1"], stride), p["n1"]))
                y = batch_normalise(convolve(y, p["w2"]), p["n2"])
                x = jax.nn.relu(y + (convolve(x, p["skip"], stride) if "skip" in p else x))
        return cross_entropy(jnp.mean(x, axis=(1, 2)) @ params["head"], batch["labels"])

    return params, {"images": shape(batch, size, size, 3), "labels": shape(batch, dtype="int32")}, loss


def u_net(
    *, depth: int = 3, batch: int = 4, size: int = 32, channels: int = 16, classes: int = 2
) -> tuple[Tree, Tree, Callable[[Tree, Tree], jax.Array]]:
    """Down to small images and up again, with tensors that cross (Ronneberger et al., MICCAI 2015)."""
    widths = [channels << level for level in range(depth)]
    inward = [3, *widths[:-1]]
    params = {
        "down": [[shape(3, 3, a, b), shape(3, 3, b, b)] for a, b in zip(inward, widths, strict=True)],
        "up": [[shape(2, 2, 2 * b, b), shape(3, 3, 2 * b, b)] for b in widths[-2::-1]],
        "head": shape(1, 1, channels, classes),
    }

    def loss(params: Tree, batch: Tree) -> jax.Array:
        x, kept = batch["images"], []
        for number, weights in enumerate(params["down"]):
            with jax.named_scope(f"down{number}"):
                if number:
                    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
                for w in weights:
                    x = jax.nn.relu(convolve(x, w))
                kept.append(x)
        kept.pop()
        for number, (grow, w) in enumerate(params["up"]):
            with jax.named_scope(f"up{number}"):
                x = jax.lax.conv_transpose(x, grow, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
                x = jax.nn.relu(convolve(jnp.concatenate([kept.pop(), x], axis=-1), w))
        return cross_entropy(convolve(x, params["head"]), batch["labels"])

    return params, {"images": shape(batch, size, size, 3), "labels": shape(batch, size, size, dtype="int32")}, loss


def lstm(
    *, layers: int = 2, batch: int = 8, sequence: int = 8, width: int = 64, vocabulary: int = 256
) -> tuple[Tree, Tree, Callable[[Tree, Tree], jax.Array]]:
    """Layers of long short-term memory (Hochreiter and Schmidhuber, 1997), unrolled over time."""
    params = {
        "embed": shape(vocabulary, width),
        "layers": [
            {"in": shape(width, 4, width), "again": shape(width, 4, width), "bias": shape(4, width)}
            for _ in range(layers)
        ],
        "unembed": shape(width, vocabulary),
    }

    def loss(params: Tree, batch: Tree) -> jax.Array:
        steps = params["embed"][batch["tokens"]]
        x = [steps[:, time] for time in range(sequence)]
        for number, p in enumerate(params["layers"]):
            with jax.named_scope(f"layer{number}"):
                hidden = cell = jnp.zeros_like(x[0])
                for time in range(sequence):
                    gates = jnp.einsum("bm,mgn->bgn", x[time], p["in"]) + jnp.einsum("bm,mgn->bgn", hidden, p["again"])
                    gates = gates + p["bias"]
                    keep, write, read = (jax.nn.sigmoid(gates[:, gate]) for gate in range(3))
                    cell = keep * cell + write * jnp.tanh(gates[:, 3])
                    x[time] = hidden = read * jnp.tanh(cell)
        return cross_entropy(jnp.stack(x, axis=1) @ params["unembed"], batch["labels"])

    return params, tokens(batch, sequence), loss


NETWORKS: Mapping[str, Callable[..., tuple[Tree, Tree, Callable[[Tree, Tree], jax.Array]]]] = {
    "transformer": transformer,
    "mixture-of-experts": mixture_of_experts,
    "llama": llama,
    "resnet": resnet,
    "u-net": u_net,
    "lstm": lstm,
}


def adam(params: Tree, gradients: Tree, state: Tree) -> tuple[Tree, Tree]:
    """Adam (Kingma and Ba, ICLR 2015) with rate 0.001; the state has the count of steps and two moments."""
    count = state["count"] + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["second"], gradients)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    new = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return new, {"count": count, "first": first, "second": second}


def sgd(params: Tree, gradients: Tree, state: Tree) -> tuple[Tree, Tree]:
    """Gradient descent with rate 0.01."""
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), state


def step_of(
    network: str, optimiser: str = "adam", *, bits: int = 32, **sizes: int
) -> tuple[Callable[..., Any], tuple[Tree, ...]]:
    """``step(params, state, batch)``, which returns loss, parameters and state, and the shapes of its arguments.

    With 16 ``bits`` the parameters are in bfloat16, which networks of tokens can have. The optimiser "none" stands for
    ``loss(params, batch)`` alone.
    """
    params, batch, loss = NETWORKS[network](**sizes)
    if bits == 16:
        params = jax.tree.map(lambda weight: shape(*weight.shape, dtype="bfloat16"), params)
    if optimiser == "none":
        return lambda params, batch: loss(params, batch), (params, batch)
    update = {"adam": adam, "sgd": sgd}[optimiser]
    state = {"count": shape(), "first": params, "second": params} if optimiser == "adam" else {}

    def step(params: Tree, state: Tree, batch: Tree) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, batch)
        with jax.named_scope("update"):
            return value, *update(params, gradients, state)

    return step, (params, state, batch)


def lowered(network: str, optimiser: str = "adam", *, artifact: bool = False, **sizes: int) -> bytes:
    """The StableHLO of a training step: text with locations, or the portable artifact."""
    step, arguments = step_of(network, optimiser, **sizes)
    jitted = jax.jit(step, donate_argnums=() if optimiser == "none" else (0, 1))
    if artifact:
        return bytes(jax.export.export(jitted)(*arguments).mlir_module_serialized)
    return str(jitted.lower(*arguments).as_text(debug_info=True)).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the StableHLO of a network's training step, or of its loss.")
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("sizes", nargs="*", help="sizes of the network, such as layers=24")
    parser.add_argument("--optimiser", choices=("adam", "sgd", "none"), default="adam")
    parser.add_argument("--output", type=Path, required=True, help="FILE.mlir, FILE.bin, either with .gz")
    given = parser.parse_intermixed_args()
    sizes = {name: int(value) for name, value in (size.split("=") for size in given.sizes)}
    content = lowered(given.network, given.optimiser, artifact=".bin" in given.output.suffixes, **sizes)
    given.output.write_bytes(gzip.compress(content, mtime=0) if given.output.suffix == ".gz" else content)


if __name__ == "__main__":
    main()
