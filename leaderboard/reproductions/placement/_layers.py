"""Layer graphs of placement instances: the nodes of each layer share a device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Index, strong_components
from shardmark.instances.placement import Instance

Ends = tuple[Ints | Index, Ints | Index]


def by_layers(instance: Instance) -> Instance:
    """Return the workload with the nodes of each layer, and of classes they belong to, in one colour class.

    It has fewer placements, each at the same cost as in ``instance``. Nodes without a layer are unchanged (Tarnawski et
    al. 2020, Appendix E.3).
    """
    joined = _joined(instance.unit, instance.layer)[instance.unit].astype(np.int64)
    alone = np.bincount(joined)[joined] == 1
    return replace(instance, colour=np.where(alone, -1, joined))


def _joined(item: Ints | Index, layer: Ints) -> Index:
    """Shape (items,): a common number for items with nodes of one layer; ``item`` maps nodes to items."""
    items = int(item.max(initial=-1)) + 1
    nodes = np.flatnonzero(layer >= 0)
    ends = item[nodes], items + layer[nodes]
    both = np.concatenate(ends), np.concatenate(ends[::-1])
    return strong_components(items + int(layer.max(initial=-1)) + 1, *both)[:items]


def without_cyclic_layers(instance: Instance) -> Instance:
    """Return the workload without the layers of colour classes that put layers on cycles with each other.

    Layers on a cycle could only be placed together. A class whose nodes are used early and late, such as weights shared
    by two layers, ties all layers between to its own. Greedily, the class whose removal separates most layers loses its
    layer, until no cycle is left. Classes on a cycle with each other count as one. The time is one pass over the edges
    per class on a cycle and per removal.
    """
    ends = _forward_edges(instance)
    units = int(instance.unit.max(initial=-1)) + 1
    item = strong_components(units, *(instance.unit[column] for column in ends))[instance.unit]
    layer = instance.layer.copy()
    while len(tied := _tied(item, layer, ends)):
        layer[item == max(tied.tolist(), key=lambda one: _apart(item, np.where(item == one, -1, layer), ends))] = -1
    return replace(instance, layer=layer)


def _forward_edges(instance: Instance) -> Ends:
    tail, head = instance.graph.tail, instance.graph.head
    forward = ~instance.backward[tail] & ~instance.backward[head]
    return tail[forward], head[forward]


def _components(item: Index, layer: Ints, ends: Ends) -> tuple[Index, Index]:
    """Shape (items,): the number after joining layers, and its strongly connected component."""
    joined = _joined(item, layer)
    component = strong_components(int(joined.max(initial=-1)) + 1, *(joined[item[column]] for column in ends))
    return joined, component[joined]


def _tied(item: Index, layer: Ints, ends: Ends) -> Index:
    """Items with a layer that are on a cycle with items of another layer."""
    joined, component = _components(item, layer, ends)
    items = np.unique(item[layer >= 0])
    pairs = np.unique(np.column_stack([component[items], joined[items]]), axis=0)
    shared = np.bincount(pairs[:, 0], minlength=len(component)) > 1
    return items[shared[component[items]]]


def _apart(item: Index, layer: Ints, ends: Ends) -> int:
    """Number of components."""
    return int(_components(item, layer, ends)[1].max()) + 1
