"""Drawings of placements for latency: when the subgraphs of each device run, and the critical chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmark.harness import verify
from shardmark.harness.verify import Subgraphs
from shardmark.leaderboard.report import Device, Link, Schedule

CPUS = "CPUs"
WORDS = (
    "Each bar of an accelerator is a subgraph, from the first input transfer to the last output transfer. The CPUs "
    "share one row, in which bars overlap if nodes run at the same time."
)


def drawing(
    instance: Any, solution: Any, *, bound: float | None = None, title: str = "", caption: str = ""
) -> Schedule | None:
    """Lay out the schedule of one sample, the CPUs last; None for throughput, or if there is no schedule."""
    found = verify.subgraphs(instance, solution)
    if found is None:
        return None
    used = sorted(set(found.devices), key=lambda name: (name == CPUS, len(name), name))
    number = {name: i for i, name in enumerate(used)}
    members: list[list[int]] = [[] for _ in found.names]
    for v, subgraph in enumerate(found.of):
        members[subgraph].append(v)
    names = [
        f"{name}: {len(nodes):,} nodes" if device != CPUS else instance.node_names[nodes[0]]
        for name, device, nodes in zip(found.names, found.devices, members, strict=True)
    ]
    return Schedule(
        nodes=names,
        device=[number[name] for name in found.devices],
        start=found.start,
        finish=found.finish,
        devices=[Device(name, cpu=name == CPUS) for name in used],
        chain=critical_chain(found),
        bound=bound,
        title=title,
        caption=" ".join(filter(None, (caption, WORDS))),
        what=("subgraph", "subgraphs"),
        end="latency",
    )


def critical_chain(found: Subgraphs) -> Sequence[Link]:
    """The subgraphs that determine the latency, each starting when the one before it finishes, in the order of time."""
    if not found.names:
        return []
    awaited: dict[int, int] = {}  # the subgraph that finishes last of those that each one waits for
    for before, after in found.waits:
        if after not in awaited or found.finish[before] > found.finish[awaited[after]]:
            awaited[after] = before
    place: int | None = max(range(len(found.names)), key=found.finish.__getitem__)
    chain = []
    while place is not None:
        earlier = awaited.get(place)
        chain.append(Link(place, _cause(found, earlier, place)))
        place = earlier
    return chain[::-1]


def _cause(found: Subgraphs, before: int | None, after: int) -> str:
    if before is None:
        return "start"
    if found.devices[before] != found.devices[after]:
        return "transfer"
    return "input" if found.devices[after] == CPUS else "device"
