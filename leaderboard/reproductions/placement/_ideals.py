"""Number of ideals of a placement graph as the paper counts them: Table 1, after the preprocessing of Appendix E."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardmark.instances.graph import strong_components
from shardmark.instances.placement import Instance

#: Counting stops beyond this.
MAX_IDEALS = 100_000
#: The paper's program treats smaller processing times as zero.
NO_TIME = 1e-6

Pairs = set[tuple[int, int]]


def count_ideals(instance: Instance, most: int = MAX_IDEALS) -> int | None:
    """The number of sets of colour classes closed under predecessors, including the empty one; None above ``most``.

    Forward edges order the classes, reversed edges those of backward nodes only; classes on a cycle are merged. As in
    the published program (without a word in the paper), a class without processing time that has a single edge is
    merged into its neighbour: placements that separate them are not searched there.
    """
    item, pairs = _merged(instance, *_ordered(instance))
    number = {name: i for i, name in enumerate(sorted(set(item)))}
    before = [0] * len(number)
    for u, v in pairs:
        before[number[v]] |= 1 << number[u]
    return _count(before, most)


def _ordered(instance: Instance) -> tuple[list[int], Pairs]:
    """The component of each unit, and the edges between components."""
    unit, backward = instance.unit, instance.backward
    tail, head = instance.graph.tail, instance.graph.head
    orphaned = np.ones(int(unit.max(initial=-1)) + 1, dtype=bool)
    orphaned[unit[~backward]] = False
    forward = ~backward[tail] & ~backward[head]
    mirrored = backward[tail] & (orphaned[unit[tail]] | orphaned[unit[head]])
    before = np.concatenate([unit[tail[forward]], unit[head[mirrored]]])
    after = np.concatenate([unit[head[forward]], unit[tail[mirrored]]])
    component = strong_components(len(orphaned), before, after)
    pairs = set(zip(component[before].tolist(), component[after].tolist(), strict=True))
    return component.tolist(), {(u, v) for u, v in pairs if u != v}


def _merged(instance: Instance, component: list[int], pairs: Pairs) -> tuple[list[int], Pairs]:
    """Repeatedly merge a component without processing time that has one edge into its neighbour."""
    of_node = np.array(component, dtype=np.int64)[instance.unit]
    times = np.bincount(of_node, instance.cpu_time + instance.accelerator_time)
    crossing = instance.backward[instance.graph.tail] != instance.backward[instance.graph.head]
    tied = {int(c) for ends in (instance.graph.tail, instance.graph.head) for c in of_node[ends[crossing]]}
    into = list(range(len(times)))
    waiting = [c for c, time in enumerate(times) if time < NO_TIME and c not in tied]
    while True:
        alone = ((c, [pair for pair in pairs if c in pair]) for c in waiting if into[c] == c)
        c, edge = next(((c, edges[0]) for c, edges in alone if len(edges) == 1), (-1, (-1, -1)))
        if c < 0:
            break
        into[c] = sum(edge) - c
        pairs = pairs - {edge}
    return [_last(into, c) for c in component], pairs


def _last(into: list[int], c: int) -> int:
    while into[c] != c:
        c = into[c]
    return c


def _count(before: Iterable[int], most: int) -> int | None:
    """The number of bit sets that contain, with each bit, all bits before it."""
    known, waiting = {0}, [0]
    needed = list(enumerate(before))
    while waiting:
        ideal = waiting.pop()
        for i, need in needed:
            larger = ideal | 1 << i
            if larger != ideal and need & ideal == need and larger not in known:
                known.add(larger)
                waiting.append(larger)
        if len(known) > most:
            return None
    return len(known)
