"""Drawings of schedules: the runs of each device over time, and the critical chain of vertices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from shardmark.harness import verify
from shardmark.harness.verify import Times
from shardmark.leaderboard.report import Device, Link, Schedule


def drawing(
    instance: Any,
    solution: Any,
    *,
    bound: float | None = None,
    until: float | None = None,
    title: str = "",
    caption: str = "",
) -> Schedule | None:
    """Lay out the schedule of a solution, the fastest devices first; None if it breaks a rule.

    The caption also says how the critical chain spends its time.
    """
    times = verify.times(instance, solution)
    if times is None:
        return None
    used = sorted(set(times.device), key=lambda d: (-float(instance.speed[d]), d))
    place = {d: i for i, d in enumerate(used)}
    chain = critical_chain(instance, times)
    return Schedule(
        nodes=instance.node_names,
        device=[place[d] for d in times.device],
        start=times.start,
        finish=times.finish,
        devices=_devices(instance, times, used),
        chain=chain,
        bound=bound,
        until=until,
        title=title,
        caption=" ".join(filter(None, (caption, _description(times, chain)))),
    )


def _devices(instance: Any, times: Times, used: Sequence[int]) -> list[Device]:
    """The devices in use, with their speeds and the shares of time in which they are busy."""
    spent = np.array(times.finish) - np.array(times.start)
    busy = np.bincount(np.array(times.device, dtype=np.int64), spent, instance.devices)
    whole = max(times.finish, default=0.0) or 1.0
    return [
        Device(
            _name(instance, d), f"busy {100 * busy[d] / whole:.0f} % of the time", speed=f"speed {instance.speed[d]:g}"
        )
        for d in used
    ]


def _name(instance: Any, device: int) -> str:
    """The name of a device; a mere number gets the word "device" before it."""
    name: str = instance.device_names[device]
    return f"device {name}" if name.isdecimal() else name


def critical_chain(instance: Any, times: Times) -> list[Link]:
    """The chain of vertices that determines the makespan, each with the cause of its start, in the order of time.

    It goes back from the vertex that ends last to the one that each vertex waited for: its latest input, if it started
    when that arrived, or else the vertex before it on its device.
    """
    if not times.start:
        return []
    before, latest = _before(times), _latest(instance, times)
    v: int | None = max(range(len(times.finish)), key=times.finish.__getitem__)
    chain = []
    while v is not None:
        link, v = _cause(instance, times, v, before[v], latest[v])
        chain.append(link)
    return chain[::-1]


def _cause(instance: Any, times: Times, v: int, before: int, latest: int) -> tuple[Link, int | None]:
    """Return the cause of a vertex's start, and the vertex that it waited for."""
    if latest >= 0 and times.arrival[latest] == times.start[v]:
        u = int(instance.graph.tail[latest])
        return Link(v, "input" if times.device[u] == times.device[v] else "transfer"), u
    if before >= 0 and times.finish[before] == times.start[v]:
        return Link(v, "device"), before
    return Link(v, "start"), None


def _before(times: Times) -> list[int]:
    """The vertex that ran just before each vertex on its device, -1 for none."""
    last: dict[int, int] = {}
    before = [-1] * len(times.start)
    for v in times.begun:
        before[v] = last.get(times.device[v], -1)
        last[times.device[v]] = v
    return before


def _latest(instance: Any, times: Times) -> list[int]:
    """The edge whose tensor arrives last at each vertex, among ties the one produced last; -1 for none."""
    latest = [-1] * len(times.start)
    ready: list[tuple[float, float]] = [(-1.0, -1.0)] * len(times.start)
    tail, head = instance.graph.tail.tolist(), instance.graph.head.tolist()
    for e, (u, v) in enumerate(zip(tail, head, strict=True)):
        now = times.arrival[e], times.finish[u]
        if now > ready[v]:
            ready[v], latest[v] = now, e
    return latest


def _description(times: Times, chain: Sequence[Link]) -> str:
    """Describe how long the critical chain computes, transfers and waits."""
    if not chain:
        return ""
    computing = sum(times.finish[link.vertex] - times.start[link.vertex] for link in chain)
    words = f"Its critical chain has {_count(len(chain), 'vertex', 'vertices')}"
    words += f", which run{'s' if len(chain) == 1 else ''} for {computing:,.6g}"
    counts = {cause: sum(link.cause == cause for link in chain) for cause in ("device", "transfer")}
    if moved := counts["transfer"]:
        moving = sum(times.start[b.vertex] - times.finish[a.vertex] for a, b in pairwise(chain))
        transfers = _count(moved, "transfer", "transfers")
        words += f", and {transfers} between devices, which take{'s' if moved == 1 else ''} {moving:,.6g}"
    waits = _count(counts["device"], "of them waits", "of them wait")
    return words + (f"; {waits} for a device, not for an input." if counts["device"] else ".")


def _count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"
