"""Costs of three variables or more: over other variables, and in tables of pairs as far as these can express them."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.instances.files.columns import Ints

#: Most entries of all wide edges together, and of all pairs.
MOST_CELLS = 1 << 26


class Wide(NamedTuple):
    """Costs with an axis for each variable of ``scope``, and which entries are left."""

    scope: tuple[int, ...]
    cost: Any
    open: Any


def over(tables: list[Wide], root: Ints, of: Ints, local: Ints, sizes: Ints) -> list[Wide]:
    """Return costs over the variables that decide those of their scopes, each once, without those of one value.

    Variable v has ``sizes[root[v]]`` values ``local[of[v]:]``, one for each value of its root.
    """
    roots = [root[list(table.scope)].tolist() for table in tables]
    scopes = [sorted({each for each in some if sizes[each] > 1} or {some[0]}) for some in roots]
    if (entries := sum(math.prod(sizes[scope].tolist()) for scope in scopes)) > MOST_CELLS:
        raise Unproven(f"proof.steps.merged: expected at most {MOST_CELLS} entries of wide edges, found {entries}")
    result = []
    for table, some, scope in zip(tables, roots, scopes, strict=True):
        axes = []
        for variable, mine in zip(table.scope, some, strict=True):
            values = local[of[variable] : of[variable] + sizes[mine]]
            axes.append(values.reshape([len(values) if mine == each else 1 for each in scope]))
        result.append(Wide(tuple(scope), table.cost[tuple(axes)], table.open[tuple(axes)]))
    return result


def in_pairs(tables: list[Wide], clock: Clock) -> tuple[list[Wide], list[Wide]]:
    """Return what remains of costs of three variables or more, and all costs of one or two variables."""
    wide, narrow = list[Wide](), list[Wide]()
    for table in tables:
        if len(table.scope) < 3:
            narrow.append(table)
            continue
        _, pairs, rest = min(
            (_moved(table, center, clock) for center in reversed(range(len(table.scope)))), key=lambda of: of[0]
        )
        narrow += pairs
        wide += [] if rest is None else [rest]
    return wide, narrow


def _moved(table: Wide, center: int, clock: Clock) -> tuple[float, list[Wide], Wide | None]:
    """Move costs to the pairs of a table, those of one variable first; return the sum of what remains, pairs and rest.

    Each pair takes the least cost that remains under any values of the other variables.
    """
    much = int(table.cost.max()) + 1
    rest, known, pairs = np.where(table.open, table.cost, much), table.open, list[Wide]()
    for axes in sorted(combinations(range(rest.ndim), 2), key=lambda axes: center not in axes):
        clock.tick()
        others = tuple(set(range(rest.ndim)) - set(axes))
        least = rest.min(axis=others, keepdims=True)
        shut = ~table.open.any(axis=others, keepdims=True)
        if least.any():
            rest, known = np.where(table.open, rest - least, much), known | shut
            scope = table.scope[axes[0]], table.scope[axes[1]]
            pairs.append(Wide(scope, np.where(shut, 0, least).squeeze(others), ~shut.squeeze(others)))
    left = float(np.where(table.open, rest, 0).sum(dtype=np.float64))
    return (
        left,
        pairs,
        Wide(table.scope, np.where(table.open, rest, 0), table.open) if left or not known.all() else None,
    )
