"""Variables that others determine: merged into these, as a proof tells."""

from __future__ import annotations

import numpy as np

from shardmark.harness.verify.certificates import Unproven
from shardmark.harness.verify.certificates.intraop.network import Mask, Network, offsets, places
from shardmark.harness.verify.certificates.intraop.wide_costs import MOST_CELLS
from shardmark.instances.files.columns import Ints

#: Pointers are doubled at most so often.
MOST_DOUBLINGS = 64


def merge(network: Network, children: list[int], parents: list[int], kept: Mask) -> None:
    """Drop all rows but ``kept``, and merge children into their parents, which may be children themselves.

    No dropped row may be left, and every value of a parent that is left must leave its child one value.
    """
    network.propagate()
    if (network.alive & ~kept).any():
        raise Unproven("proof.steps.kept: expected all rows that are left")
    if len(set(children)) < len(children):
        raise Unproven("proof.steps.merged: expected each variable once")
    start, sizes = network.start, network.sizes
    root = np.arange(len(sizes))
    root[children] = parents
    taken = _determined(network, np.array(children, dtype=np.int64), root)
    for _ in range(MOST_DOUBLINGS):
        if (root[root] == root).all():
            break
        of, count = offsets(sizes[root]), _values(network, root[root])
        local = taken[places(of[root], count)] - np.repeat(start[root], count)
        taken, root = taken[np.repeat(of[:-1], count) + local], root[root]
    else:
        raise Unproven("proof.steps.merged: expected no circle")
    left = np.add.reduceat(kept, start[:-1], dtype=np.int64) if len(sizes) else sizes
    roots, new = np.unique(root, return_inverse=True)
    if not left[roots].all():
        raise Unproven("proof.steps.kept: expected a row of every variable")
    network.contract(new, taken[kept[places(start[root], sizes[root])]], left[roots])


def _values(network: Network, root: Ints) -> Ints:
    """Return the number of values of the root of each variable; Unproven if they are too many in all."""
    network.clock.tick()
    count = network.sizes[root]
    if count.sum() > MOST_CELLS:
        raise Unproven(f"proof.steps.merged: expected at most {MOST_CELLS} values of parents, found {count.sum()}")
    return count


def _determined(network: Network, children: Ints, parent: Ints) -> Ints:
    """Return the row of each variable for each value of its parent, which may be the variable itself."""
    start, sizes = network.start, network.sizes
    of = offsets(_values(network, parent))
    taken = np.repeat(start[:-1], sizes[parent])
    own = parent == np.arange(len(sizes))
    taken[places(of[:-1][own], sizes[own])] = places(start[:-1][own], sizes[own])
    alive = np.flatnonzero(network.alive)
    first = np.searchsorted(alive, start)
    single = children[np.diff(first)[children] == 1]
    taken[places(of[single], sizes[parent[single]])] = np.repeat(alive[first[single]], sizes[parent[single]])
    others = children[np.diff(first)[children] != 1]
    keys = network.tail * len(sizes) + network.head
    ends = np.sort([others, parent[others]], axis=0)
    wanted = ends[0] * len(sizes) + ends[1]
    pair = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
    if len(others) and (not len(keys) or (keys[pair] != wanted).any()):
        raise Unproven("proof.steps.merged: expected a pair of each variable and its parent")
    many = np.zeros(len(taken), dtype=bool)
    for some in network.blocks(np.arange(len(others)), np.diff(network.first)[pair]):
        cells, row, column = network.index(pair[some])
        entry = np.repeat(some, np.diff(network.first)[pair[some]])[network.open[cells]]
        row, column = row[network.open[cells]], column[network.open[cells]]
        downward = others[entry] == network.head[pair[entry]]
        mine, theirs = np.where(downward, column, row), np.where(downward, row, column)
        at = of[others[entry]] + theirs - start[parent[others[entry]]]
        many |= np.bincount(at, minlength=len(taken)) > 1
        taken[at] = mine
    if many.any():
        raise Unproven("proof.steps.merged: expected parents that determine their children")
    return taken
