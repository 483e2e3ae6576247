"""Drawings of solutions that split the nodes."""

from __future__ import annotations

from typing import Any

from shardmark.harness import verify
from shardmark.leaderboard.report import Device, Split


def drawing(instance: Any, solution: Any, *, title: str = "", caption: str = "") -> Split | None:
    """Return the split of an instance by a solution; None if the solution is malformed."""
    parts = verify.parts(instance, solution)
    if parts is None:
        return None
    loads = [f"load {load:.6g}" for load in parts.loads] or [""] * len(parts.names)
    devices = [Device(*of) for of in zip(parts.names, loads, parts.on_cpus, strict=True)]
    edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    return Split(instance.node_names, edges, parts.of, devices, title, caption)
