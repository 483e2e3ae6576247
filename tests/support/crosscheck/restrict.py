"""Restrictions of instances, whose bounds are false for the whole instance if they are tight."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np

from shardmark.instances import InputError, hybrid, intraop, pipeline, placement, scheduling
from shardmark.instances.graph import Graph


def dearer(instance: intraop.Instance, rng: random.Random) -> intraop.Instance | None:
    """The cheapest strategy of some nodes costs as much as the next one."""
    cost, changed = instance.node_cost.copy(), 0
    for v in rng.sample(range(instance.nodes), instance.nodes):
        own = slice(instance.strategy_start[v], instance.strategy_start[v + 1])
        values = np.sort(cost[own])
        if changed < 3 and len(values) > 1 and values[0] < values[1]:
            cost[own] = np.maximum(cost[own], values[1])
            changed += 1
    return replace(instance, node_cost=cost) if changed else None


def merged(instance: pipeline.Instance, rng: random.Random) -> pipeline.Instance | None:
    """Merge the ends of an edge, or drop a stage; ends of edges whose second way would be a cycle are left."""
    if instance.stages > 1 and rng.random() < 0.3:
        return replace(instance, stages=min(instance.stages, instance.nodes) - 1)
    pairs = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    for u, v in rng.sample(pairs, len(pairs)):
        new = [w - (w > v) if w != v else u - (u > v) for w in range(instance.nodes)]
        kept = sorted({(new[a], new[b]) for a, b in pairs if new[a] != new[b]})
        with suppress(InputError):  # a cycle
            graph = Graph(instance.nodes - 1, np.array([a for a, _ in kept]), np.array([b for _, b in kept]))
            columns = ("work", "output_size", "param_size")
            sums = {name: np.bincount(new, getattr(instance, name)) for name in columns}
            names = instance.node_names[: instance.nodes - 1]
            return replace(instance, graph=graph, node_names=names, **sums)
    return None


def fewer(instance: placement.Instance, rng: random.Random) -> placement.Instance | None:
    """There is an accelerator or a CPU less; for latency, no accelerator supports the longest node."""
    if instance.objective == "latency" and instance.cpus:
        time = np.where(instance.supported, instance.accelerator_time, -1.0)
        return replace(instance, supported=instance.supported & (np.arange(instance.nodes) != np.argmax(time)))
    if instance.accelerators > 1 and (instance.cpus < 1 or rng.random() < 0.8):
        return replace(instance, accelerators=instance.accelerators - 1)
    return replace(instance, cpus=instance.cpus - 1) if instance.cpus else None


def slower(instance: scheduling.Instance, rng: random.Random) -> scheduling.Instance | None:
    """The fastest device is for no vertex that may use another."""
    fastest = int(np.argmax(instance.speed))
    others = np.array([d for d in range(instance.devices) if d != fastest])
    sets = [devices[devices != fastest] if len(devices) > 1 else devices for devices in instance.choices]
    if not len(others):
        return None
    choice = np.where(instance.choice < 0, len(sets), instance.choice)
    return replace(instance, choices=(*sets, others), choice=choice)


def scarcer(instance: hybrid.Instance, rng: random.Random) -> hybrid.Instance | None:
    """There are fewer devices, or the fastest configurations take a tenth longer."""
    if instance.devices > 1 and rng.random() < 0.7:
        return replace(instance, devices=int(instance.devices * rng.uniform(0.5, 0.99)))
    return replace(instance, time=instance.time * 1.1) if instance.time.any() else None
