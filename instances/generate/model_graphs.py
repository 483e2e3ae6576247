"""Model graphs for ``pipeline``: a network's operators with their running times, tensors and parameters.

Times are in microseconds and sizes in bytes, for an accelerator of 100 TFLOP/s with 1 TB/s to its memory, linked
to the others at 200 GB/s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.generate.networks import architectures
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.graph import Graph
from shardmark.instances.models.model import Model
from shardmark.instances.pipeline import Instance

FLOPS = 100e12 / 1e6  # per microsecond
MEMORY_BANDWIDTH = 1e12 / 1e6  # bytes per microsecond
LINK_BANDWIDTH = 200e9 / 1e6


def transformer(draws: Draws, **options: Any) -> Instance:
    """Transformer decoder: a chain of layers, wide if heads are separate operators."""
    return _instance(draws, architectures.transformer, **options)


def mixture_of_experts(draws: Draws, **options: Any) -> Instance:
    """Transformer with parallel experts: many parameters, wide."""
    return _instance(draws, architectures.mixture_of_experts, **options)


def residual_network(draws: Draws, **options: Any) -> Instance:
    """ResNet: large tensors early, large parameters late."""
    return _instance(draws, architectures.residual_network, **options)


def u_net(draws: Draws, **options: Any) -> Instance:
    """U-Net: long connections that cross every cut between their ends."""
    return _instance(draws, architectures.u_net, **options)


def sequence_to_sequence(draws: Draws, **options: Any) -> Instance:
    """Unrolled LSTM encoder and decoder with attention: a grid of small operators."""
    return _instance(draws, architectures.sequence_to_sequence, **options)


def _instance(
    draws: Draws, network: Callable[..., Model], *, stages: int, memory_share: float | None, jitter: float, **shape: int
) -> Instance:
    """The graph of a network; ``memory_share`` scales the fast memory of a stage, None makes it unlimited.

    At 1 it holds an equal part of all parameters plus the largest tensors of an operator.
    """
    model = network(**shape)
    count = len(model.operators)
    output = np.array([float(model.bytes_written(operator)) for operator in range(count)])
    params = _params(model)
    edges = np.array(list(model.edges()), dtype=np.int64).reshape(-1, 2)
    read = np.zeros(count)
    np.add.at(read, edges[:, 1], output[edges[:, 0]])
    moving = (read + output + params) / MEMORY_BANDWIDTH
    computing = np.array([operator.flops / FLOPS for operator in model.operators])
    time = np.maximum(computing, moving)  # the roofline: an operator is bound by arithmetic or by memory
    room = float(np.max(read + output, initial=0))
    return Instance(
        name="model graph",
        graph=Graph(count, edges[:, 0], edges[:, 1]),
        node_names=tuple(operator.name for operator in model.operators),
        work=np.round(time * draws.factors_around_one(jitter, count), 3),
        output_size=output,
        param_size=params,
        stages=stages,
        bandwidth=LINK_BANDWIDTH,
        memory=None if memory_share is None else float(round(memory_share * (params.sum() / stages + room))),
    )


def _params(model: Model) -> Floats:
    """Bytes of parameters of every operator; operators that share a parameter have equal parts of it."""
    users = [len(readers) for readers in model.readers()]
    read = (model.parameters(operator) for operator in range(len(model.operators)))
    return np.array([float(sum(round(model.tensors[t].bytes / users[t]) for t in tensors)) for tensors in read])
