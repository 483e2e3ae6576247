"""Pruning by memory: values that do not fit even if all other variables use their least memory."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.network.dominance import memory_by_span, spans
from shardmark.solvers.intraop.network.memory import Footprint, peaks
from shardmark.solvers.intraop.network.model import Mask
from shardmark.solvers.intraop.network.ragged import interval_sums, offsets, within
from shardmark.solvers.intraop.network.record import Record


def values_that_fit(footprint: Footprint, room: Ints, record: Record | None = None) -> Mask | None:
    """Mask, shape (rows,), of values that fit in every step if all other variables use their least; None if empty.

    ``room``, shape (steps,), is the memory available to the nodes of the footprint. For a merged variable, the least
    memory is that of its most frugal value; its nodes may reach their own minima under different values. The
    record notes the other values, each with a step in which it does not fit.
    """
    variable, begin, end, _ = spans(footprint, np.flatnonzero(footprint.end > footprint.begin))
    usage = memory_by_span(footprint, np.ones(len(room), dtype=bool))[1]
    width = np.bincount(variable, minlength=footprint.model.variables)
    of_row = np.repeat(width, footprint.model.sizes)
    span = np.repeat(np.repeat(offsets(width)[:-1], footprint.model.sizes), of_row) + within(of_row)
    least = np.full(len(variable), np.iinfo(np.int64).max)
    np.minimum.at(least, span, usage)
    left = room - interval_sums(least, begin, end, len(room))
    if (left < 0).any():
        if record is not None:
            rows = np.arange(footprint.model.sizes[0])  # all values of any variable
            record.unfit(rows, np.full(len(rows), np.argmin(left)))
        return None
    most = least - peaks(-left, begin, end)
    fits = np.ones(len(of_row), dtype=bool)
    over = np.flatnonzero((usage > most[span]) & (begin < end)[span])
    rows = np.repeat(np.arange(len(of_row)), of_row)[over]
    fits[rows] = False
    if record is not None and len(rows):
        rows, first = np.unique(rows, return_index=True)
        steps = [begin[at] + np.argmin(left[begin[at] : end[at]]) for at in span[over[first]]]
        record.unfit(rows, np.array(steps))
    return fits
