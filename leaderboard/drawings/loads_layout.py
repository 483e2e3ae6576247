"""Loads of the stages or devices of a split, in the order of the data flow, and the tensors between them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import Any

from shardmark.harness import verify
from shardmark.harness.verify import Transfer
from shardmark.leaderboard.drawings.layers import layers, positions
from shardmark.leaderboard.report import Load, Loads, Tensors
from shardmark.leaderboard.text import count, short

AXIS = "load: time per sample, in the unit of the instance"


def drawing(
    instance: Any,
    solution: Any,
    *,
    bound: float | None = None,
    axis: str = AXIS,
    title: str = "",
    caption: str = "",
    order: Sequence[str] = (),
) -> Loads | None:
    """Return the loads of a solution; None if it is malformed, or its parts have no loads.

    ``order`` has the names of all parts in the order of the rows, by default that of the data flow.
    """
    parts = verify.parts(instance, solution)
    if parts is None or not parts.loads:
        return None
    edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    position = positions(layers(instance.nodes, edges), parts.of, len(parts.names))
    rows = [list(parts.names).index(name) for name in order] or in_order(position, parts.transfers)
    place = {part: row for row, part in enumerate(rows)}
    nodes = Counter(parts.of)
    filled = parts.filled or [None] * len(parts.names)
    return Loads(
        rows=[Load(parts.names[i], parts.loads[i], parts.times[i], nodes[i], filled[i]) for i in rows],
        tensors=[_tensors(transfer, place, parts.names) for transfer in parts.transfers],
        axis=axis,
        cost=None if parts.passes else max(parts.loads, default=None),
        bound=None if parts.passes else bound,
        passes=parts.passes,
        title=title,
        caption=caption,
    )


def _tensors(transfer: Transfer, place: dict[int, int], names: Sequence[str]) -> Tensors:
    ends = f"{names[transfer.source]} to {names[transfer.target]}"
    words = f"{ends}: {count(transfer.tensors, 'tensor')}, time {short(float(f'{transfer.time:.6g}'))}"
    return Tensors(place[transfer.source], place[transfer.target], transfer.tensors, transfer.time, words)


def in_order(position: Sequence[float], transfers: Sequence[Transfer]) -> list[int]:
    """The parts in a topological order, among free ones the one with the least position in the graph first.

    On a cycle, as of the forward and backward pass of training, the part with the least position comes first.
    """
    after: list[list[int]] = [[] for _ in position]
    waiting = [0] * len(position)
    for transfer in transfers:
        after[transfer.source].append(transfer.target)
        waiting[transfer.target] += 1
    free = [(place, part) for part, place in enumerate(position) if not waiting[part]]
    heapq.heapify(free)
    left = dict.fromkeys(sorted(range(len(position)), key=lambda part: (position[part], part)))
    order = []
    while left:
        part = heapq.heappop(free)[1] if free else next(iter(left))
        if part not in left:
            continue
        del left[part]
        order.append(part)
        for other in after[part]:
            waiting[other] -= 1
            if not waiting[other] and other in left:
                heapq.heappush(free, (position[other], other))
    return order
