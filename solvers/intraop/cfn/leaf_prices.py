"""Memory in a leaf of the tree: its own prices, values that cannot fit, and splits by memory use.

If a few variables hold most of the memory, the duality gap is large: at the best price, an assignment that exceeds the
limit and one that leaves much of it unused cost the same. Splitting by levels of memory use separates them, and each
part has a better price. All numbers are integers, so bounds at any prices are exact (`lagrangian`); prices whose sums
would need more than 64 bits are rejected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop._kernels import FORBIDDEN
from shardmark.solvers.intraop.cfn.lagrangian import FINE
from shardmark.solvers.intraop.cfn.multipliers import StepMultiplier

#: Most parts of a split by memory use.
LEVELS = 8
#: A variable is split by memory use if the payments of its values differ by this fraction of the gap to the top.
DIFFERENCE = 0.05


class State(NamedTuple):
    """Costs of values, messages and bound, as in `Trws`, and the memory rows with their prices.

    Leaves share states, so arrays are copied before they change.
    """

    cost: Ints
    sent: Ints
    bound: int
    priced: tuple[tuple[StepMultiplier, int], ...]


class Split(NamedTuple):
    """A variable and the groups into which its values are split, by memory use or one by one."""

    variable: int
    groups: list[Ints]
    by_memory: bool


def repriced(state: State, prices: list[int], start: Ints) -> State:
    """The state at other prices of its rows, each at least 0; only the costs are copied.

    If the bound at the new prices would be below -`FINE`, the state keeps its prices. Variable i has the rows from
    ``start[i]`` on.

    At any prices, a fitting assignment costs at least its Lagrangian value. Costs are capped, and each price changes by
    so little that costs of values change by at most 2^56. As they may fall below 0, the bound is valid only after the
    costs are normalised, with which every call of `Trws.sweep` begins.
    """
    cost, bound, priced = state.cost.copy(), state.bound, []
    for (row, before), price in zip(state.priced, prices, strict=True):
        most = FINE // (len(prices) * max(1, row.room, int(row.usage.max(initial=0))))
        change = max(-before, min(price - before, most), -most)
        kept = cost[row.at]
        cost[row.at] = np.where(kept < FORBIDDEN, np.minimum(kept + change * row.usage, 2 * FINE), FORBIDDEN)
        bound -= change * row.room
        priced.append((row, before + change))
    least = np.minimum.reduceat(cost, start[:-1])
    if bound + float(least[least < FORBIDDEN].sum(dtype=np.float64)) < -FINE:
        return state._replace(cost=state.cost.copy())
    return state._replace(cost=cost, bound=bound, priced=tuple(priced))


def forbid_unfitting(state: State, variable: Ints, top: int) -> State:
    """Forbid, in place, values that exceed the room of a row even if all other variables use their least.

    ``variable``, shape (rows,), is the variable of each value. The bound is ``top`` if nothing fits.
    """
    for row, _ in state.priced:
        if not len(row.at):
            continue
        of = variable[row.at]
        first = np.flatnonzero(np.diff(of, prepend=-1))
        usage = np.where(state.cost[row.at] < FORBIDDEN, np.minimum(row.usage, row.room + 1), row.room + 1)
        least = np.minimum.reduceat(usage, first)
        left = row.room - int(least.sum())
        if left < 0:
            return state._replace(bound=top)
        above = usage - np.repeat(least, np.diff(first, append=len(of)))
        state.cost[row.at[above > left]] = FORBIDDEN
    return state


def excesses(state: State, taken: Ints) -> list[int]:
    """Memory above the room in every row (negative: free), for the values ``taken`` by an assignment."""
    result = []
    for row, _ in state.priced:
        at = np.searchsorted(row.at, taken)
        at = np.minimum(at, len(row.at) - 1)
        result.append(int(row.usage[at[row.at[at] == taken]].sum()) - row.room if len(row.at) else -row.room)
    return result


def polyak(state: State, taken: Ints, above: float) -> list[int]:
    """Prices after a Polyak step, sized to raise the Lagrangian value of an assignment by ``above``."""
    excess = excesses(state, taken)
    free = [miss > 0 or price > 0 for miss, (_, price) in zip(excess, state.priced, strict=True)]
    norm = sum(float(miss) ** 2 for miss, move in zip(excess, free, strict=True) if move)
    return [
        max(0, price + int(above * miss / norm)) if norm and move else price
        for miss, move, (_, price) in zip(excess, free, state.priced, strict=True)
    ]


def memory_splits(state: State, start: Ints, top: int, most: int) -> list[Split]:
    """Split up to ``most`` variables, those whose allowed values differ most in memory payment."""
    best: dict[int, tuple[int, Split]] = {}
    for row, price in state.priced:
        at = np.flatnonzero(state.cost[row.at] < FORBIDDEN)
        if not price or not len(at):
            continue
        rows, usage = row.at[at], row.usage[at]
        variable = np.searchsorted(start, rows, side="right") - 1
        first = np.flatnonzero(np.diff(variable, prepend=-1))
        span = np.maximum.reduceat(usage, first) - np.minimum.reduceat(usage, first)
        for k in np.argsort(-span, kind="stable")[:most].tolist():
            pays, own = int(span[k]) * price, slice(first[k], [*first[1:], len(rows)][k])
            if pays > DIFFERENCE * (top - state.bound) and pays > best.get(int(variable[first[k]]), (0,))[0]:
                v = int(variable[first[k]])
                best[v] = pays, Split(v, _levels(rows[own], usage[own]), True)
    ranked = sorted(best.values(), key=lambda entry: (-entry[0], entry[1].variable))
    return [split for _, split in ranked[:most]]


def _levels(rows: Ints, usage: Ints) -> list[Ints]:
    """Group values by memory use, ascending, into at most `LEVELS` groups."""
    level = np.unique(usage, return_inverse=True)[1]
    groups = min(LEVELS, int(level.max()) + 1)
    part = level * groups // (int(level.max()) + 1)
    return [rows[part == group] for group in range(groups)]
