"""Placement by layers: nodes of a layer are put together, as they are in graphs whose nodes are layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from instances.files.columns import Ints
from instances.graph import Index, strong_components
from instances.placement import Instance

Ends = tuple[Ints | Index, Ints | Index]


def by_layers(instance: Instance) -> Instance:
    """The same workload with the nodes of each layer in one colour class, and those that shared a class with them.

    What a placement of it costs is what the same placement of ``instance`` costs; there are fewer of them. Nodes
    without a layer stay as they are (Tarnawski et al. 2020, Appendix E.3).
    """
    joined = _joined(instance.unit, instance.layer)[instance.unit].astype(np.int64)
    alone = np.bincount(joined)[joined] == 1
    return replace(instance, colour=np.where(alone, -1, joined))


def _joined(item: Ints | Index, layer: Ints) -> Index:
    """Shape (items,): the same number for items, of which ``item`` has that of each node, with nodes of one layer."""
    items = int(item.max(initial=-1)) + 1
    nodes = np.flatnonzero(layer >= 0)
    ends = item[nodes], items + layer[nodes]
    both = np.concatenate(ends), np.concatenate(ends[::-1])
    return strong_components(items + int(layer.max(initial=-1)) + 1, *both)[:items]


def untangled(instance: Instance) -> Instance:
    """The same workload without the layers of colour classes that put layers on cycles with each other.

    Such layers could only be placed together. A class whose nodes are needed early and late, as weights that two
    layers share, ties all between to its layer. One after another the class without which most layers can be placed
    apart has its layer taken away, until there is none. Classes on a cycle with each other, layers or not, count as
    one. The time is that of passes over the edges, one for each class on a cycle and each that is taken out.
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
    """Shape (items,): what layers join, and the number of its component along the edges."""
    joined = _joined(item, layer)
    component = strong_components(int(joined.max(initial=-1)) + 1, *(joined[item[column]] for column in ends))
    return joined, component[joined]


def _tied(item: Index, layer: Ints, ends: Ends) -> Index:
    """The items with a layer that are on a cycle with items of another one."""
    joined, component = _components(item, layer, ends)
    items = np.unique(item[layer >= 0])
    pairs = np.unique(np.column_stack([component[items], joined[items]]), axis=0)
    shared = np.bincount(pairs[:, 0], minlength=len(component)) > 1
    return items[shared[component[items]]]


def _apart(item: Index, layer: Ints, ends: Ends) -> int:
    """How many components there are."""
    return int(_components(item, layer, ends)[1].max()) + 1
