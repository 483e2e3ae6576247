"""Well-known network architectures as models: forward pass, layer by layer, with realistic shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shardmark.instances.errors import InputError
from shardmark.instances.generate.networks.builder import Network
from shardmark.instances.models.model import Model


def _divides(divisor: int, whole: int, place: str) -> int:
    if whole % divisor:
        raise InputError("generate", place, f"expected a divisor of {whole}, found {divisor}")
    return whole // divisor


def transformer(
    *, layers: int, batch: int, sequence: int, width: int, heads: int, head_groups: int, vocabulary: int
) -> Model:
    """A decoder of pre-normalised transformer layers (Vaswani et al., NeurIPS 2017).

    ``head_groups``: number of separate operators for the heads of a layer.
    """

    def block(model: Network, stream: int, shape: Mapping[str, int]) -> int:
        return _feed_forward(model, _attention(model, stream, shape, heads, head_groups), shape)

    return _stacked(block, layers, {"batch": batch, "sequence": sequence, "model": width}, vocabulary)


def mixture_of_experts(
    *, layers: int, batch: int, sequence: int, width: int, heads: int, experts: int, expert_groups: int, vocabulary: int
) -> Model:
    """Transformer layers whose feed-forward part chooses 2 experts per token (GShard, ICLR 2021).

    ``expert_groups``: number of operators into which a layer's experts are grouped.
    """

    def block(model: Network, stream: int, shape: Mapping[str, int]) -> int:
        return _experts(model, _attention(model, stream, shape, heads, 1), shape, experts, expert_groups)

    return _stacked(block, layers, {"batch": batch, "sequence": sequence, "model": width}, vocabulary)


def _stacked(
    block: Callable[[Network, int, Mapping[str, int]], int], layers: int, shape: Mapping[str, int], vocabulary: int
) -> Model:
    """Consecutive blocks between the embedding of tokens and the distribution of the next token."""
    model = Network()
    stream = _embedding(model, shape, vocabulary)
    for layer in range(1, layers + 1):
        model.layer = layer
        stream = block(model, stream, shape)
    model.layer = layers + 1
    _logits(model, stream, shape, vocabulary)
    return model


def _embedding(model: Network, shape: Mapping[str, int], vocabulary: int) -> int:
    """A look-up in a table whose rows may be split over devices, which then sum their results."""
    tokens = shape["batch"] * shape["sequence"] * shape["model"]
    loops = {**shape, "vocabulary": vocabulary}
    return model.add(
        "embed", [], loops, "batch sequence model", flops=tokens, weight="vocabulary model", whole="sequence"
    )


def _logits(model: Network, stream: int, shape: Mapping[str, int], vocabulary: int) -> int:
    norm = _norm(model, "final-norm", stream, shape)
    loops = {**shape, "vocabulary": vocabulary}
    return model.add(
        "logits", [norm], loops, "batch sequence vocabulary", each=2, weight="model vocabulary", whole="sequence"
    )


def _norm(model: Network, role: str, stream: int, shape: Mapping[str, int]) -> int:
    """Normalisation over the model dimension, which must stay whole."""
    return model.add(role, [stream], shape, "batch sequence model", each=8, weight="model", whole="sequence model")


def _add(model: Network, role: str, branch: int, stream: int, shape: Mapping[str, int]) -> int:
    """A residual connection, fused with the end of its branch."""
    return model.add(role, [branch, stream], shape, "batch sequence model", whole="sequence", fused=True)


def _attention(model: Network, stream: int, shape: Mapping[str, int], heads: int, groups: int) -> int:
    """Multi-head self-attention with its residual connection."""
    m = shape["model"]
    head = _divides(heads, m, "heads")
    split = {**shape, "heads": _divides(groups, heads, "head_groups"), "head": head}
    norm = _norm(model, "norm1", stream, shape)
    contexts = [_head_group(model, norm, split, tag) for tag in _tags(groups)]
    project = model.add(
        "project",
        [model.read(context, "batch sequence heads head") for context in contexts],
        {"batch": shape["batch"], "sequence": shape["sequence"], "model": m, "heads": heads, "head": head},
        "batch sequence model",
        each=2,
        weight="heads head model",
        whole="sequence head",
    )
    return _add(model, "add1", project, stream, shape)


def _tags(groups: int) -> list[str]:
    """Suffixes of the names of operators that are computed in groups."""
    return [f"-{group}" for group in range(groups)] if groups > 1 else [""]


def _head_group(model: Network, norm: int, split: Mapping[str, int], tag: str) -> int:
    """Queries, keys and values of some heads, and their attention."""
    b, s, heads, head = (split[dim] for dim in ("batch", "sequence", "heads", "head"))
    query, key, value = (
        model.add(
            role + tag,
            [norm],
            split,
            "batch sequence heads head",
            each=2,
            weight="model heads head",
            whole="sequence head",
        )
        for role in ("query", "key", "value")
    )
    square = {"batch": b, "heads": heads, "query": s, "key": s}
    scores = model.add(
        f"scores{tag}",
        [model.read(query, "batch query heads head"), model.read(key, "batch key heads head")],
        {**square, "head": head},
        "batch heads query key",
        each=2,
        whole="query key head",
    )
    weights = model.add(
        f"softmax{tag}", [scores], square, "batch heads query key", each=5, whole="query key", fused=True
    )
    return model.add(
        f"context{tag}",
        [weights, model.read(value, "batch key heads head")],
        {**square, "head": head},
        "batch query heads head",
        each=2,
        whole="query key head",
    )


def _feed_forward(model: Network, stream: int, shape: Mapping[str, int]) -> int:
    """Two dense layers with four times the width in between, and a residual connection."""
    norm = _norm(model, "norm2", stream, shape)
    wide = {**shape, "hidden": 4 * shape["model"]}
    inner = {"batch": shape["batch"], "sequence": shape["sequence"], "hidden": wide["hidden"]}
    up = model.add("up", [norm], wide, "batch sequence hidden", each=2, weight="model hidden", whole="sequence")
    gelu = model.add("gelu", [up], inner, "batch sequence hidden", each=10, whole="sequence", fused=True)
    down = model.add("down", [gelu], wide, "batch sequence model", each=2, weight="hidden model", whole="sequence")
    return _add(model, "add2", down, stream, shape)


def _experts(model: Network, stream: int, shape: Mapping[str, int], experts: int, groups: int) -> int:
    """A router, and groups of experts that process the tokens sent to them (2 experts per token)."""
    b, s, m = shape["batch"], shape["sequence"], shape["model"]
    norm = _norm(model, "norm2", stream, shape)
    router = model.add(
        "router",
        [norm],
        {**shape, "experts": experts},
        "batch sequence experts",
        each=2,
        weight="model experts",
        whole="sequence model experts",
    )
    count, capacity = _divides(groups, experts, "expert_groups"), max(1, 2 * s // experts)
    tokens = {"batch": b, "experts": count, "capacity": capacity, "model": m}
    outputs = [_expert_group(model, norm, router, tokens, tag) for tag in _tags(groups)]
    combine = model.add(
        "combine",
        [*(model.read(output, "batch experts - model") for output in outputs), model.read(router, "batch - experts")],
        {**shape, "experts": experts},
        "batch sequence model",
        flops=4 * b * s * m,
        whole="sequence",
    )
    return _add(model, "add2", combine, stream, shape)


def _expert_group(model: Network, norm: int, router: int, tokens: Mapping[str, int], tag: str) -> int:
    """Some experts: their tokens, and two dense layers."""
    wide = {**tokens, "hidden": 4 * tokens["model"]}
    inner = {dim: wide[dim] for dim in ("batch", "experts", "capacity", "hidden")}
    dispatch = model.add(
        f"dispatch{tag}",
        [model.read(norm, "batch - model"), model.read(router, "batch - -")],
        tokens,
        "batch experts capacity model",
        whole="capacity",
    )
    up = model.add(
        f"expert-up{tag}",
        [dispatch],
        wide,
        "batch experts capacity hidden",
        each=2,
        weight="experts model hidden",
        whole="capacity",
    )
    gelu = model.add(
        f"expert-gelu{tag}", [up], inner, "batch experts capacity hidden", each=10, whole="capacity", fused=True
    )
    return model.add(
        f"expert-down{tag}",
        [gelu],
        wide,
        "batch experts capacity model",
        each=2,
        weight="experts hidden model",
        whole="capacity",
    )


def residual_network(*, batch: int, pixels: int, width: int, depth: int, classes: int) -> Model:
    """Bottleneck blocks in four groups of halving resolution (He et al., CVPR 2016).

    ``pixels``: height and width of the input; ``width``: channels after the first layer; ``depth``: 50, 101 or 152.
    """
    groups = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
    if depth not in groups:
        raise InputError("generate", "depth", f"expected one of {', '.join(map(str, groups))}, found {depth}")
    model = Network()
    image = {"batch": batch, "channel": 3, "pixel": pixels * pixels}
    stream = model.add("image", [], image, "batch channel pixel", flops=0, whole="channel pixel")
    area, channels = (pixels // 2) ** 2, width
    stream = _convolution(model, "stem", stream, batch, (3, channels), area, kernel=7)
    area = max(1, area // 4)
    stream = _pool(model, "pool", stream, batch, channels, area)
    for group, blocks in enumerate(groups[depth]):
        inner = width * 2**group
        for block in range(blocks):
            model.layer += 1
            if group and not block:
                area = max(1, area // 4)
            stream = _bottleneck(model, stream, batch, (channels, inner, 4 * inner), area)
            channels = 4 * inner
    model.layer += 1
    stream = _pool(model, "average", stream, batch, channels, 1)
    loops = {"batch": batch, "class": classes, "channel": channels}
    model.add("classify", [model.read(stream, "batch channel -")], loops, "batch class", each=2, weight="channel class")
    return model


def _convolution(
    model: Network,
    role: str,
    stream: int,
    batch: int,
    channels: tuple[int, int],
    area: int,
    *,
    kernel: int,
    activate: bool = True,
) -> int:
    """Convolution, batch normalisation and optional rectification; the last two are fused with the first."""
    source, channel = channels
    loops = {"batch": batch, "channel": channel, "pixel": area, "source": source}
    conv = model.add(
        role,
        [model.read(stream, "batch source -")],
        loops,
        "batch channel pixel",
        each=2 * kernel * kernel,
        weight=f"source channel {kernel * kernel}",
        whole="pixel",
    )
    point = {"batch": batch, "channel": channel, "pixel": area}
    for suffix in ("norm", "relu") if activate else ("norm",):
        conv = model.add(
            f"{role}-{suffix}",
            [conv],
            point,
            "batch channel pixel",
            each=2,
            weight="channel" if suffix == "norm" else None,
            whole="pixel",
            fused=True,
        )
    return conv


def _pool(model: Network, role: str, stream: int, batch: int, channel: int, area: int) -> int:
    loops = {"batch": batch, "channel": channel, "pixel": area}
    inputs = [model.read(stream, "batch channel -")]
    return model.add(role, inputs, loops, "batch channel pixel", each=9, whole="pixel")


def _bottleneck(model: Network, stream: int, batch: int, channels: tuple[int, int, int], area: int) -> int:
    outer, inner, last = channels
    branch = _convolution(model, "reduce", stream, batch, (outer, inner), area, kernel=1)
    branch = _convolution(model, "middle", branch, batch, (inner, inner), area, kernel=3)
    branch = _convolution(model, "expand", branch, batch, (inner, last), area, kernel=1, activate=False)
    if outer != last:
        stream = _convolution(model, "shortcut", stream, batch, (outer, last), area, kernel=1, activate=False)
    loops = {"batch": batch, "channel": last, "pixel": area}
    return model.add("add", [branch, stream], loops, "batch channel pixel", each=2, whole="pixel", fused=True)


def u_net(*, batch: int, pixels: int, width: int, levels: int) -> Model:
    """Halving resolutions and back up, with a long connection at each (Ronneberger et al., 2015)."""
    model = Network()
    image = {"batch": batch, "channel": 3, "pixel": pixels * pixels}
    stream = model.add("image", [], image, "batch channel pixel", flops=0, whole="channel pixel")
    channels, area, kept = 3, pixels * pixels, []
    for level in range(levels):
        model.layer += 1
        inner = width * 2**level
        stream = _convolution(model, "down-a", stream, batch, (channels, inner), area, kernel=3)
        stream = _convolution(model, "down-b", stream, batch, (inner, inner), area, kernel=3)
        kept.append((stream, inner, area))
        channels, area = inner, max(1, area // 4)
        stream = _pool(model, "down-pool", stream, batch, channels, area)
    model.layer += 1
    stream = _convolution(model, "bottom", stream, batch, (channels, 2 * channels), area, kernel=3)
    channels *= 2
    for skipped, inner, area in reversed(kept):
        model.layer += 1
        stream = _convolution(model, "up", stream, batch, (channels, inner), area, kernel=2, activate=False)
        loops = {"batch": batch, "channel": 2 * inner, "pixel": area}
        inputs = [model.read(skipped, "batch - pixel"), model.read(stream, "batch - pixel")]
        stream = model.add("concatenate", inputs, loops, "batch channel pixel", whole="channel pixel")
        stream = _convolution(model, "up-a", stream, batch, (2 * inner, inner), area, kernel=3)
        stream = _convolution(model, "up-b", stream, batch, (inner, inner), area, kernel=3)
        channels = inner
    model.layer += 1
    _convolution(model, "out", stream, batch, (channels, 3), area, kernel=1, activate=False)
    return model


def sequence_to_sequence(*, layers: int, steps: int, batch: int, width: int, vocabulary: int) -> Model:
    """Stacked LSTM encoder and decoder, unrolled, with attention (Luong et al., EMNLP 2015).

    Operators of one layer share their weights over all ``steps``.
    """
    model = Network()
    encoded = _recurrent(model, "encoder", layers, steps, batch, width, [None] * steps)
    memory = {"batch": batch, "time": steps, "model": width}
    stacked = model.add("stack", [model.read(top, "batch model") for top in encoded], memory, "batch time model")
    model.layer += 1
    decoded = _recurrent(model, "decoder", layers, steps, batch, width, [encoded[-1], *[None] * (steps - 1)])
    model.layer += 1
    for step, top in enumerate(decoded):
        _attend(model, step, top, stacked, memory, vocabulary)
    return model


def _recurrent(
    model: Network, role: str, layers: int, steps: int, batch: int, width: int, below: list[int | None]
) -> list[int]:
    """A stack of LSTM layers over ``below``, one operator per step or None for an embedded token; return its top."""
    for _ in range(layers):
        model.layer += 1
        above: list[int] = []
        state: int | None = None
        for step, source in enumerate(below):
            reads = [model.read(node, "batch model") for node in (source, state) if node is not None]
            gates = model.add(
                f"{role}-gates-{step}",
                reads,
                {"batch": batch, "gates": 4 * width, "model": width},
                "batch gates",
                each=2 * max(1, len(reads)),
                weight="model gates 2",
                shared=f"layer{model.layer}/{role}/weight",
            )
            cell = {"batch": batch, "model": width}
            held = [] if state is None else [state]
            state = model.add(
                f"{role}-cell-{step}", [model.read(gates, "batch -"), *held], cell, "batch model", each=20
            )
            above.append(state)
        below = list(above)
    return above


def _attend(model: Network, step: int, top: int, stacked: int, memory: Mapping[str, int], vocabulary: int) -> None:
    """Attention of one decoder step over the encoder's outputs, and the distribution of its token."""
    batch, width = memory["batch"], memory["model"]
    score = model.add(f"score-{step}", [top, stacked], memory, "batch time", each=2, whole="time")
    context = model.add(f"context-{step}", [score, stacked], memory, "batch model", each=2, whole="time")
    model.add(
        f"token-{step}",
        [context, top],
        {"batch": batch, "vocabulary": vocabulary, "model": width},
        "batch vocabulary",
        each=4,
        weight="model vocabulary 2",
        shared="token/weight",
    )
