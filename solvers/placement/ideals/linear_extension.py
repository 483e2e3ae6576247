"""A linear extension cut into fewer pieces at cheap tensors; each piece stays on one device."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph, csr
from shardmark.solvers.placement.ideals.contraction import Contracted
from shardmark.solvers.placement.kernels.loads import Nets


def in_pieces(items: Contracted, count: int) -> Contracted:
    """About ``count`` pieces of similar work and size, each an item of a path.

    The linear extension is divided into stretches with equal shares of both, and in each stretch a piece ends after the
    item with the cheapest crossing tensors. Supported and unsupported items are never in the same piece.
    """
    piece = _pieces(items, count)
    pieces = int(piece[-1]) + 1
    time, cpu_time, size = (
        np.bincount(piece, column, pieces).astype(np.float64)
        for column in (items.accelerator_time, items.cpu_time, items.size)
    )
    path = np.arange(pieces, dtype=np.int32)
    nets, kept = _nets(items.nets, piece, pieces)
    return Contracted(
        item=piece[items.item].astype(np.int32),
        graph=Graph(pieces, path[:-1], path[1:]),
        accelerator_time=time,
        cpu_time=cpu_time,
        size=size,
        nets=nets,
        maker=piece[items.maker[kept]].astype(np.int32),
    )


def _pieces(items: Contracted, count: int) -> Ints:
    """Shape (m,): the piece of each item."""
    m, supported = items.graph.nodes, np.isfinite(items.accelerator_time)
    stretch = np.floor(_share(items) * count).astype(np.int64)
    last = np.lexsort((_crossing(items)[: m - 1], stretch[: m - 1]))
    first_of = np.unique(stretch[last], return_index=True)[1]
    ends = supported[1:] != supported[:-1]
    ends[last[first_of]] = True
    return np.concatenate([[0], np.cumsum(ends)])


def _share(items: Contracted) -> Floats:
    """Shape (m,): share of the total work and size up to the middle of each item."""
    time = np.where(np.isfinite(items.accelerator_time), items.accelerator_time, 0.0)
    weight = np.full(items.graph.nodes, 1.0 / items.graph.nodes)
    for column in (time, items.cpu_time, items.size):
        weight += column / max(float(column.sum()), np.finfo(np.float64).tiny)
    return (np.cumsum(weight) - weight / 2) / float(weight.sum())


def _pins(nets: Nets) -> Ints:
    """Shape (pins,): the item of each of ``nets.of``."""
    return np.repeat(np.arange(len(nets.start) - 1), np.diff(nets.start))


def _crossing(items: Contracted) -> Floats:
    """Shape (m,): cost of the nets with both an item up to this one and a later one."""
    m, nets = items.graph.nodes, items.nets
    first, last = np.full(len(nets.cost), m), np.zeros(len(nets.cost), dtype=np.int64)
    np.minimum.at(first, nets.of, _pins(nets))
    np.maximum.at(last, nets.of, _pins(nets))
    return np.cumsum(np.bincount(first, nets.cost, m + 1) - np.bincount(last, nets.cost, m + 1))[:m]


def _nets(nets: Nets, piece: Ints, pieces: int) -> tuple[Nets, Ints]:
    """Return the nets of pieces, and the indices of the items' nets that are not within a piece."""
    pins = np.unique(nets.of.astype(np.int64) * pieces + piece[_pins(nets)])
    members = np.bincount(pins // pieces, minlength=len(nets.cost))
    kept = np.flatnonzero(members > 1)
    number = np.cumsum(members > 1) - 1
    pins = pins[(members > 1)[pins // pieces]]
    of = number[pins // pieces].astype(np.int32)
    return Nets(*csr(pieces, pins % pieces, of), nets.cost[kept], members[kept].astype(np.int32)), kept
