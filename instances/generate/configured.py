"""Networks for ``hybrid``: layers or operators in four tensor-parallel degrees, with and without recomputation.

Cost model, for devices of 100 TFLOP/s with 1 TB/s to their memory, linked at 25 GB/s, within a machine at 300 GB/s:

forward pass    roofline of the operators' arithmetic and traffic, divided by the degree t; operators with parameters
                then reduce their output over the t devices, which moves 2 (t - 1) / t of it within a machine
a microbatch    three forward passes, as the backward pass takes two; four with recomputation
activations     outputs of the operators divided by t; recomputation keeps the share ``kept`` of them
parameters      bfloat16, with gradients and Adam's state 16 bytes per number (Rajbhandari et al., SC 2020), over t
synchronised    the gradients in bfloat16
edges           the producer's output in bfloat16; a degree t gathers the part (t - 1) / t of it on either end
ZeRO            1: replicas share the 12 bytes of Adam's state; 3: they share all 16, and gather the weights twice and
                scatter the gradients once per microbatch, instead of a synchronisation after the batch
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardmark.instances import hybrid
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.generate.networks import architectures
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.graph import Graph, csr
from shardmark.instances.models.model import Model

FLOPS = 100e12  # per second
MEMORY_BANDWIDTH = 1e12  # bytes per second
LINK, INSIDE = 25e9, 300e9  # bytes per second, between and within machines
DEGREES = (1, 2, 4, 8)
KINDS = ("stored", "recomputed")
STATE = {0: (8, 0, 1, 0), 1: (2, 6, 1, 0), 3: (0, 8, 0, 3)}  # fixed, shared, synchronised, gathered per parameter byte


def trade(draws: Draws) -> hybrid.Instance:
    """Three layers on three devices that cannot store all activations: the optimum is 8, and 38 for a batch.

    Each layer takes 4 seconds and stores 8 bytes per microbatch, or takes 6 and stores 2; a device has 16 bytes. A
    tensor takes 2 seconds per end. For throughput, two replicas recompute layers 0 and 1 in (12 + 2) / 2 + 1 seconds
    per microbatch, and a third device stores layer 2 in 4 + 2. A batch is fastest on two replicas of one stage.
    """
    costs = {"stored": (4, 8), "recomputed": (6, 2)}
    nodes = [{"id": v, "TMPCs": {"1": [_entry(v, kind, *costs[kind]) for kind in KINDS]}} for v in range(3)]
    edges = [{"sourceId": v, "destId": v + 1, "communicationCost": 1} for v in range(2)]
    top = {"maxDevices": 3, "maxMemoryPerDevice": 16, "bandwidth": 1, "mbsInBatch": 4}
    return hybrid.parse({**top, "nodes": nodes, "edges": edges}, "generate")


def _entry(v: int, kind: str, time: int, stored: int) -> dict[str, Any]:
    sync = {"syncTimeFw": {str(u): 0 for u in range(v)[-1:]}, "syncTimeBw": {str(u): 0 for u in range(v + 1, 3)[:1]}}
    sizes = {"parameterSize": 1, "memoryUsageA": stored, "memoryUsageB": 1}
    return {"id": kind, "timePerSample": time, **sizes, **sync}


def transformer(draws: Draws, **options: Any) -> hybrid.Instance:
    """Transformer decoder: a chain of layers, or its operators."""
    return _instance(draws, architectures.transformer, **options)


def mixture_of_experts(draws: Draws, **options: Any) -> hybrid.Instance:
    """Transformer with parallel experts: most parameters in few layers, wide by operators."""
    return _instance(draws, architectures.mixture_of_experts, **options)


def encoder_decoder(draws: Draws, **options: Any) -> hybrid.Instance:
    """Unrolled LSTM encoder and decoder with attention: a grid of small operators."""
    return _instance(draws, architectures.sequence_to_sequence, **options)


@dataclass(frozen=True)
class Work:
    """What the nodes do in a forward pass: columns of shape (n,) in bytes, ``time`` in seconds; edges of shape (m,)."""

    names: tuple[str, ...]
    time: Floats
    reduced: Floats  # outputs of operators with parameters
    output: Floats
    parameters: Floats
    tail: Ints
    head: Ints
    moved: Floats


def _instance(
    draws: Draws,
    network: Callable[..., Model],
    *,
    operators: int,
    devices: int,
    microbatches: int,
    gib: float,
    kept: float,
    zero: int,
    machine: int,
    jitter: float,
    **shape: int,
) -> hybrid.Instance:
    """The configurations of a network's nodes: one per operator, or one per layer."""
    if zero not in STATE:
        raise InputError("generate", "zero", f"expected one of {', '.join(map(str, STATE))}, found {zero}")
    work = _work(network(**shape), by_layer=not operators)
    count, per_node = len(work.names), len(DEGREES) * len(KINDS)
    graph = Graph(count, work.tail, work.head, "generate")
    noise = draws.factors_around_one(jitter, count)
    fixed, shared, synchronised, gathered = STATE[zero]
    columns: dict[str, list[Floats]] = {}
    for t in DEGREES:
        forward = work.time / t + 2 * (t - 1) / t * work.reduced / INSIDE
        for passes, share in ((3, 1.0), (4, kept)):
            row = {
                "time": np.round(passes * forward * noise, 9),
                "parameters": np.round(synchronised * work.parameters / t),
                "stashed": np.round(share * work.output / t),
                "fixed": np.round(fixed * work.parameters / t),
                "shared": np.round(shared * work.parameters / t),
                "gathered": np.round(gathered * work.parameters / t),
            }
            for name, column in row.items():
                columns.setdefault(name, []).append(column)
    stacked: dict[str, Any] = {name: np.column_stack(found).reshape(-1) for name, found in columns.items()}
    degree = np.tile(np.repeat(DEGREES, len(KINDS)), count)
    sync_start, sync = _sync(graph, work.moved, degree, per_node)
    return hybrid.Instance(
        name="network",
        graph=graph,
        ids=np.arange(count),
        node_names=work.names,
        communicated=work.moved,
        start=np.arange(count + 1) * per_node,
        degree=degree,
        kind=np.tile(np.arange(len(KINDS)), count * len(DEGREES)),
        kinds=KINDS,
        **stacked,
        sync_start=sync_start,
        sync=sync,
        source="generate",
        devices=devices,
        memory=float(round(gib * 2**30)),
        batch=microbatches,
        bandwidth=LINK,
        machine=machine or None,
        inside=INSIDE if machine else None,
    )


def _work(model: Model, *, by_layer: bool) -> Work:
    """The work of each operator, or of each layer."""
    count = len(model.operators)
    every = range(count)
    output = np.array([float(model.bytes_written(v)) for v in every])
    users = [len(readers) for readers in model.readers()]
    params = np.array([float(sum(model.tensors[t].bytes // users[t] for t in model.parameters(v))) for v in every])
    tail, head = np.array(list(model.edges()), dtype=np.int64).reshape(-1, 2).T
    read = np.zeros(count)
    np.add.at(read, head, output[tail])
    flops = np.array([float(operator.flops) for operator in model.operators])
    time = np.maximum(flops / FLOPS, (read + output + params) / MEMORY_BANDWIDTH)
    names = tuple(operator.name for operator in model.operators)
    work = Work(names, time, np.where(params > 0, output, 0.0), output, params, tail, head, output[tail])
    return _layers(work, np.array([operator.layer for operator in model.operators])) if by_layer else work


def _layers(work: Work, layer: Ints) -> Work:
    """Sum the work of operators by layer; a tensor moves once to each layer that reads it."""
    known, of = np.unique(layer, return_inverse=True)

    def sums(column: Floats) -> Floats:
        return _sums(of, column, len(known))

    crossing = of[work.tail] != of[work.head]
    ends = np.column_stack([of[work.tail], of[work.head], work.tail])
    tensors = np.unique(ends[crossing], axis=0)
    pairs, which = np.unique(tensors[:, :2], axis=0, return_inverse=True)
    moved = _sums(which.reshape(-1), work.output[tensors[:, 2]], len(pairs))
    names = tuple(f"layer{number}" for number in known.tolist())
    time, reduced, output, parameters = map(sums, (work.time, work.reduced, work.output, work.parameters))
    return Work(names, time, reduced, output, parameters, pairs[:, 0], pairs[:, 1], moved)


def _sums(group: Ints, values: Floats, groups: int) -> Floats:
    return np.bincount(group, weights=values, minlength=groups).astype(np.float64)


def _sync(graph: Graph, moved: Floats, degree: Ints, per_node: int) -> tuple[Ints, Floats]:
    """What each configuration gathers beyond an edge's tensor: the fields ``sync_start`` and ``sync``."""
    edges = np.arange(graph.edges)
    into, out = csr(graph.nodes, graph.head, edges), csr(graph.nodes, graph.tail, edges)
    found, lengths = [], []
    for v in range(graph.nodes):
        sizes = moved[np.concatenate([column[start[v] : start[v + 1]] for start, column in (into, out)])]
        for t in degree[v * per_node : (v + 1) * per_node].tolist():
            found.append(np.round(sizes * (t - 1) / t))
            lengths.append(len(sizes))
    return np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(found)
