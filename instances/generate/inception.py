"""Inception-v3 by layers for ``placement``: modules of four branches, with many ideals.

Times are in milliseconds and sizes in bytes, for accelerators of 10 TFLOP/s with 500 GB/s to their memory, each linked
to the host at 12 GB/s, and CPUs a tenth as fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.graph import Graph
from shardmark.instances.placement import Instance

BYTES = 4  # per number
FLOPS, MEMORY_BANDWIDTH, LINK_BANDWIDTH = 10e12 / 1e3, 500e9 / 1e3, 12e9 / 1e3  # per millisecond
SLOWER = 10.0  # factor on times on CPUs

#: A convolution: output channels, height and width of its kernel, and the effect on the image's size.
Convolution = tuple[int, int, int, int]
CROPPED, SAME, HALVED = 0, 1, 2


@dataclass(frozen=True)
class _Tensor:
    layer: int
    channels: int
    pixels: int  # height and width


@dataclass
class _Network:
    """A graph under construction: the computation, output and weights of each layer."""

    batch: int
    names: list[str] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    output: list[float] = field(default_factory=list)  # bytes
    weights: list[float] = field(default_factory=list)  # bytes

    def add(
        self, name: str, inputs: list[_Tensor], channels: int, pixels: int, each: int = 1, weights: int = 0
    ) -> _Tensor:
        """Add a layer with ``each`` operations per output number."""
        layer, numbers = len(self.names), self.batch * channels * pixels * pixels
        self.names.append(f"{name}-{layer}")
        self.edges += [(tensor.layer, layer) for tensor in inputs]
        self.flops.append(float(each * numbers))
        self.output.append(float(BYTES * numbers))
        self.weights.append(float(BYTES * weights))
        return _Tensor(layer, channels, pixels)

    def convolution(self, read: _Tensor, made: Convolution) -> _Tensor:
        """Add a convolution, its normalisation and its activation as three layers."""
        channels, height, width, image = made
        pixels = {SAME: read.pixels, CROPPED: read.pixels - height + 1, HALVED: _half(read.pixels, height)}[image]
        kernel = read.channels * height * width
        out = self.add("conv", [read], channels, pixels, 2 * kernel, channels * kernel)
        out = self.add("norm", [out], channels, pixels, 4, 2 * channels)
        return self.add("relu", [out], channels, pixels)

    def branch(self, read: _Tensor, steps: list[Convolution]) -> _Tensor:
        """Add consecutive convolutions."""
        for step in steps:
            read = self.convolution(read, step)
        return read

    def pool(self, read: _Tensor, image: int) -> _Tensor:
        """Add a pooling of nine neighbours."""
        return self.add("pool", [read], read.channels, _half(read.pixels, 3) if image == HALVED else read.pixels, 9)

    def join(self, parts: list[_Tensor]) -> _Tensor:
        """Add a concatenation of channels."""
        return self.add("cat", parts, sum(part.channels for part in parts), parts[0].pixels)

    def forked(self, read: _Tensor, channels: int) -> _Tensor:
        """Add two convolutions of the same tensor, with a row and a column as kernels."""
        return self.join(
            [self.convolution(read, (channels, 1, 3, SAME)), self.convolution(read, (channels, 3, 1, SAME))]
        )


def _half(pixels: int, kernel: int) -> int:
    return (pixels - kernel) // 2 + 1


def _stem(network: _Network) -> _Tensor:
    image = network.add("input", [], 3, 299, 0)
    tensor = network.branch(image, [(32, 3, 3, HALVED), (32, 3, 3, CROPPED), (64, 3, 3, SAME)])
    tensor = network.branch(network.pool(tensor, HALVED), [(80, 1, 1, SAME), (192, 3, 3, CROPPED)])
    return network.pool(tensor, HALVED)


def _squares(network: _Network, read: _Tensor, pooled: int) -> _Tensor:
    """A module with kernels of 1, 3 and 5."""
    branches = (
        [(64, 1, 1, SAME)],
        [(48, 1, 1, SAME), (64, 5, 5, SAME)],
        [(64, 1, 1, SAME), (96, 3, 3, SAME), (96, 3, 3, SAME)],
    )
    last = network.branch(network.pool(read, SAME), [(pooled, 1, 1, SAME)])
    return network.join([*(network.branch(read, steps) for steps in branches), last])


def _lines(network: _Network, read: _Tensor, inner: int) -> _Tensor:
    """A module with kernels of 1 x 7 and 7 x 1."""
    down, across = (inner, 7, 1, SAME), (inner, 1, 7, SAME)
    branches = (
        [(192, 1, 1, SAME)],
        [(inner, 1, 1, SAME), across, (192, 7, 1, SAME)],
        [(inner, 1, 1, SAME), down, across, down, (192, 1, 7, SAME)],
    )
    last = network.branch(network.pool(read, SAME), [(192, 1, 1, SAME)])
    return network.join([*(network.branch(read, steps) for steps in branches), last])


def _halved(network: _Network, read: _Tensor, branches: list[list[Convolution]]) -> _Tensor:
    """A module that halves the image."""
    return network.join([*(network.branch(read, steps) for steps in branches), network.pool(read, HALVED)])


def _forks(network: _Network, read: _Tensor) -> _Tensor:
    """A module with two branches that fork at their ends."""
    first = network.branch(read, [(320, 1, 1, SAME)])
    second = network.forked(network.branch(read, [(384, 1, 1, SAME)]), 384)
    third = network.forked(network.branch(read, [(448, 1, 1, SAME), (384, 3, 3, SAME)]), 384)
    return network.join([first, second, third, network.branch(network.pool(read, SAME), [(192, 1, 1, SAME)])])


def _network(batch: int) -> _Network:
    network = _Network(batch)
    tensor = _stem(network)
    for pooled in (32, 64, 64):
        tensor = _squares(network, tensor, pooled)
    tensor = _halved(network, tensor, [[(384, 3, 3, HALVED)], [(64, 1, 1, SAME), (96, 3, 3, SAME), (96, 3, 3, HALVED)]])
    for inner in (128, 160, 160, 192):
        tensor = _lines(network, tensor, inner)
    long = [(192, 1, 1, SAME), (192, 1, 7, SAME), (192, 7, 1, SAME), (192, 3, 3, HALVED)]
    tensor = _halved(network, tensor, [[(192, 1, 1, SAME), (320, 3, 3, HALVED)], long])
    for _ in range(2):
        tensor = _forks(network, tensor)
    mean = network.add("mean", [tensor], tensor.channels, 1, tensor.pixels**2)
    kept = network.add("dropout", [mean], mean.channels, 1)
    network.add("classify", [kept], 1000, 1, 2 * kept.channels, 1000 * kept.channels)
    return network


def inception(
    draws: Draws, *, batch: int, training: int, accelerators: int, cpus: int, room: float, jitter: float
) -> Instance:
    """Inception-v3 (Szegedy et al., CVPR 2016), three layers per convolution; in training, layers keep their outputs.

    In training every layer has a backward layer on the same device. As in the paper's graphs by layers, the edges of
    the backward pass run like those of the forward pass.
    """
    network = _network(batch)
    count, passes = len(network.names), 2 if training else 1
    edges = np.array(network.edges, dtype=np.int64)
    flops, output, weights = (np.array(column) for column in (network.flops, network.output, network.weights))
    read = np.bincount(edges[:, 1], weights=output[edges[:, 0]], minlength=count)
    time = np.maximum(flops / FLOPS, (read + output + weights) / MEMORY_BANDWIDTH) * draws.factors_around_one(
        jitter, count
    )
    time = np.concatenate([time, 2 * time])[: count * passes].round(4)
    size = np.concatenate([weights + (output if training else 0.0), weights])[: count * passes]
    transfer = np.tile((output / LINK_BANDWIDTH).round(4), passes)
    transfer[np.setdiff1d(np.arange(count * passes), (edges[:, :1] + count * np.arange(passes)).ravel())] = 0.0
    ends = np.concatenate([edges + count * i for i in range(passes)])
    pair = np.tile(np.arange(count), passes)
    return Instance(
        name="inception",
        graph=Graph(count * passes, ends[:, 0], ends[:, 1]),
        ids=np.arange(count * passes),
        node_names=tuple((network.names + [f"{name}-backward" for name in network.names])[: count * passes]),
        cpu_time=(time * SLOWER).round(3),
        accelerator_time=time,
        size=size,
        transfer=transfer,
        supported=np.ones(count * passes, dtype=bool),
        backward=np.arange(count * passes) >= count,
        colour=pair if training else np.full(count, -1),
        layer=pair,
        artificial=np.zeros(len(ends), dtype=bool),
        accelerators=accelerators,
        cpus=cpus,
        memory=float(size.sum()) * room / accelerators,
    )
