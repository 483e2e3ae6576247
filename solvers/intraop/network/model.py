"""The instance as a network of cost functions in 64-bit integers.

Edges become tables of pairs, at most one per pair of nodes, and wide tables of three nodes or more, which hold only the
costs that pairs cannot express (`network.projection`). Entries that no good solution uses get the same cost,
``forbidden``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop._kernels import contract_tables
from shardmark.solvers.intraop.network.projection import Wide, to_pairs
from shardmark.solvers.intraop.network.ragged import offsets, spread, within
from shardmark.solvers.intraop.network.record import Record

Mask = NDArray[np.bool_]

#: Costs from here on mean "impossible" in the contest's files, which write 10^18.
IMPOSSIBLE = 10**17
#: Marks the cost of an entry that no relevant assignment has.
USELESS = -1
#: Exceeds every sum of allowed costs; toulbar2 takes costs up to about 5 * 10^17.
LARGEST_TOTAL = 2**57


@dataclass(frozen=True, eq=False)
class Model:
    """Variables with domains, a cost for every value, and cost tables; all arrays int64.

    ``start``               shape (v + 1,): the values of variable i are the rows ``start[i]:start[i + 1]``
    ``unary``               shape (rows,): cost of every value
    ``tail``, ``head``      shape (p,): pair j joins two variables, ``tail[j] < head[j]``; each pair occurs once
    ``cell_start, cell``    costs of the pairs, row-major, the head's value running fastest
    ``wide``                cost tables of three distinct variables or more
    ``forbidden``           cost of every forbidden entry; all other entries together cost less
    ``shift``               costs are those of the instance divided by 2**shift, rounded down
    ``member_start, member``  value r stands for the strategies ``member[member_start[r]:member_start[r + 1]]`` of
                            the instance, one per node of its variable, in the same order for all values
    ``record``              notes reductions for a certificate, if one is asked for
    """

    start: Ints
    unary: Ints
    tail: Ints
    head: Ints
    cell_start: Ints
    cell: Ints
    wide: tuple[Wide, ...]
    forbidden: int
    shift: int
    member_start: Ints
    member: Ints
    record: Record | None = None

    @property
    def variables(self) -> int:
        """Number of variables."""
        return len(self.start) - 1

    @property
    def sizes(self) -> Ints:
        """Domain size of every variable, shape (v,)."""
        return np.diff(self.start)

    def lift(self, instance: Instance, value: Ints) -> Ints:
        """Strategy of every node of the instance, shape (n,), for a value of every variable, shape (v,)."""
        row = self.start[:-1] + value
        first = self.member_start[row]
        chosen = self.member[spread(first, self.member_start[row + 1] - first)]
        node = np.searchsorted(instance.strategy_start, chosen, side="right") - 1
        strategy = np.empty(instance.nodes, dtype=np.int64)
        strategy[node] = chosen - instance.strategy_start[node]
        return strategy

    def project(self, instance: Instance, strategy: Ints) -> Ints | None:
        """Inverse of `lift`; None if the model does not contain these strategies."""
        chosen = np.zeros(len(instance.node_cost), dtype=bool)
        chosen[instance.strategy_start[:-1] + strategy] = True
        row = np.flatnonzero(np.logical_and.reduceat(chosen[self.member], self.member_start[:-1]))
        held = np.diff(np.searchsorted(row, self.start)) == 1
        return row - self.start[:-1] if held.all() else None

    def clipped(self) -> Model:
        """The model with costs capped such that the entries of any value sum to less than 2^62.

        Searches keep such sums; the uncapped model evaluates their results.
        """
        scopes = [self.tail, self.head, *(np.array(scope) for scope, _ in self.wide)]
        most = 2**62 // (2 + int(np.bincount(np.concatenate(scopes), minlength=1).max()))
        if self.forbidden <= most:
            return self
        return dataclasses.replace(
            self,
            unary=np.minimum(self.unary, most),
            cell=np.minimum(self.cell, most),
            wide=tuple(Wide(scope, np.minimum(cost, most)) for scope, cost in self.wide),
            forbidden=most,
        )

    def fold(self, of_strategy: NDArray) -> NDArray:
        """Sum a quantity per strategy of the instance over the strategies of each value, shape (rows,)."""
        if not len(self.unary):
            return of_strategy[:0]
        return np.add.reduceat(of_strategy[self.member], self.member_start[:-1])

    def cost(self, value: Ints) -> int:
        """Cost of an assignment, shape (v,), in costs of the model."""
        total = sum(self.unary[self.start[:-1] + value].tolist())
        cell = self.cell_start[:-1] + value[self.tail] * self.sizes[self.head] + value[self.head]
        total += sum(self.cell[cell].tolist())
        return total + sum(int(cost[tuple(value[list(scope)])]) for scope, cost in self.wide)


def exact_cost(instance: Instance, strategy: Ints) -> int:
    """Equation (1) for strategies of shape (n,), in exact integers."""
    total = sum(instance.node_cost[instance.strategy_start[:-1] + strategy].tolist())
    if not instance.edges:
        return total
    place = np.zeros(instance.edges, dtype=np.int64)
    arity = np.diff(instance.scope_start)
    for at in range(int(arity.max())):
        edge = np.flatnonzero(arity > at)
        node = instance.scope[instance.scope_start[edge] + at]
        place[edge] = place[edge] * instance.strategies[node] + strategy[node]
    return total + sum(instance.table[instance.table_start[:-1] + place].tolist())


@dataclass(frozen=True, eq=False)
class Contraction:
    """Map from the variables of a contracted network to those of the original one.

    ``sizes``               shape (new variables,): domain sizes
    ``root``                shape (old variables,): the new variable that decides the old one
    ``value_start, value``  the value that old variable i takes for every value of its root
    """

    sizes: Ints
    root: Ints
    value_start: Ints
    value: Ints

    @classmethod
    def identity(cls, sizes: Ints) -> Contraction:
        """Each variable is its own root."""
        return cls(sizes, np.arange(len(sizes)), offsets(sizes), within(sizes))


class _Costs(NamedTuple):
    """Costs of all nodes and edges; `USELESS` for entries that no relevant assignment has."""

    node: Ints
    node_start: Ints
    table: Ints
    table_start: Ints

    @property
    def parts(self) -> tuple[tuple[Ints, Ints], ...]:
        """Both columns with the starts of their menus or tables; empty columns are omitted."""
        both = (self.node, self.node_start), (self.table, self.table_start)
        return tuple((costs, start) for costs, start in both if len(costs))

    def largest_total(self, below: int) -> int:
        """Sum over nodes and edges of the greatest cost below a number."""
        greatest = (np.maximum.reduceat(np.where(part < below, part, 0), start[:-1]) for part, start in self.parts)
        return sum(sum(part.tolist()) for part in greatest)

    def within(self, room: int) -> _Costs:
        """Mark costs that exceed the least of their node or edge by more than ``room`` as `USELESS`."""
        room = min(room, 2**63 - 1)

        def kept(costs: Ints, start: Ints) -> Ints:
            if not len(costs):
                return costs
            least = np.minimum.reduceat(costs, start[:-1])
            return np.where(costs - np.repeat(least, np.diff(start)) <= room, costs, USELESS)

        return self._replace(node=kept(self.node, self.node_start), table=kept(self.table, self.table_start))


def build(
    instance: Instance,
    excluded: Mask,
    *,
    tolerant: bool = False,
    known: int | None = None,
    record: Record | None = None,
) -> Model:
    """Build the model with one variable per node, in the order of the nodes.

    It forbids the strategies of the mask ``excluded``, shape (strategies,), and entries from `IMPOSSIBLE` on if all
    other entries together cost less than one of them. A ``tolerant`` model allows the latter; if they are all equal,
    each costs slightly more than all other entries together.

    If a fitting assignment of cost ``known`` exists, entries that exceed that cost even with all other costs at their
    least are forbidden too.
    """
    costs = _Costs(instance.node_cost, instance.strategy_start, instance.table, instance.table_start)
    apart = costs.largest_total(IMPOSSIBLE) < IMPOSSIBLE
    forbidden, shift, threshold, instead = _scale(instance, costs, apart, tolerant)
    if known is not None:
        costs = costs.within(known - instance.cheapest_parts())
        forbidden, shift, threshold, instead = _scale(instance, costs, apart, tolerant)

    def scaled(some: Ints) -> Ints:
        result = some >> shift
        result[some >= threshold] = instead
        result[some == USELESS] = forbidden
        return result

    unary = scaled(costs.node)
    unary[excluded] = forbidden
    cells = np.diff(instance.table_start)
    pair = np.flatnonzero(np.diff(instance.scope_start) == 2)
    only_pairs = len(pair) == instance.edges
    raw = Model(
        start=instance.strategy_start,
        unary=unary,
        tail=instance.scope[instance.scope_start[pair]],
        head=instance.scope[instance.scope_start[pair] + 1],
        cell_start=offsets(cells[pair]),
        cell=scaled(costs.table if only_pairs else costs.table[spread(instance.table_start[pair], cells[pair])]),
        wide=tuple(Wide(scope, scaled(cost)) for scope, cost in _other_edges(instance, costs.table)),
        forbidden=forbidden,
        shift=shift,
        member_start=np.arange(len(unary) + 1),
        member=np.arange(len(unary)),
        record=record,
    )
    return contract(raw, Contraction.identity(instance.strategies))


def _scale(instance: Instance, costs: _Costs, apart: bool, tolerant: bool) -> tuple[int, int, int, int]:
    """Return ``(forbidden, shift, threshold, instead)``: entries from the threshold on become ``instead``.

    ``apart``  True if all entries below `IMPOSSIBLE` together cost less than `IMPOSSIBLE`
    """
    ordinary = costs.largest_total(IMPOSSIBLE)
    arity = np.diff(instance.scope_start)
    entries = np.repeat(np.where(arity > 2, arity, 1), arity)  # a wide table, and its pairs
    terms = 2 + int(np.bincount(instance.scope, entries, minlength=1).max())  # most forbidden entries of one value
    if apart and not tolerant:
        shift = max(0, ((ordinary + 1) * terms).bit_length() - 62)
        return (ordinary >> shift) + 1, shift, IMPOSSIBLE, (ordinary >> shift) + 1
    if apart and _impossible_alike(costs):
        threshold, total = IMPOSSIBLE, (ordinary + 1) * (1 + instance.nodes + instance.edges)
    else:
        threshold, total = 2**63, costs.largest_total(2**63)
    shift = max(0, total.bit_length() - LARGEST_TOTAL.bit_length() + 1)
    if min(costs.node.min(initial=0), costs.table.min(initial=0)) == USELESS:
        shift = max(shift, ((total + 1) * terms).bit_length() - 62)
    return (total >> shift) + 1, shift, threshold, (ordinary + 1) >> shift


def _impossible_alike(costs: _Costs) -> bool:
    """True if all entries from `IMPOSSIBLE` on are equal."""
    large = np.concatenate([part[part >= IMPOSSIBLE] for part in (costs.node, costs.table)])
    return not len(large) or bool(large.min() == large.max())


def _other_edges(instance: Instance, costs: Ints) -> Iterator[Wide]:
    """Yield the edges of one node, or of three or more, with one axis per element of the scope."""
    for edge in np.flatnonzero(np.diff(instance.scope_start) != 2).tolist():
        scope = instance.scope[instance.scope_start[edge] : instance.scope_start[edge + 1]]
        table = costs[instance.table_start[edge] : instance.table_start[edge + 1]]
        yield Wide(tuple(scope.tolist()), table.reshape(instance.strategies[scope]))


class _Sums:
    """Sums of costs per position of an array; one forbidden term makes the sum forbidden."""

    def __init__(self, length: int, forbidden: int) -> None:
        self._total = np.zeros(length, dtype=np.int64)
        self._hit = np.zeros(length, dtype=bool)
        self._forbidden = forbidden

    def add(self, position: Ints, cost: Ints) -> None:
        """Add ``cost[i]`` at ``position[i]``; positions may recur."""
        out = cost >= self._forbidden
        self._hit[position[out]] = True
        np.add.at(self._total, position, np.where(out, 0, cost))

    def result(self) -> Ints:
        """The sums; no more can be added."""
        self._total[self._hit] = self._forbidden
        return self._total


def contract(model: Model, how: Contraction) -> Model:
    """The same costs over fewer variables or values; see `Contraction`."""
    start = offsets(how.sizes)
    unary = _Sums(int(start[-1]), model.forbidden)
    count = how.sizes[how.root]
    row, old_row = spread(start[how.root], count), np.repeat(model.start[:-1], count) + how.value
    unary.add(row, model.unary[old_row])
    wide, narrow = _contract_wide(model, how)
    tail, head, cell_start, cell = _contract_pairs(model, how, unary, narrow)
    order = np.argsort(row, kind="stable")
    first = model.member_start[old_row[order]]
    members = model.member_start[old_row[order] + 1] - first
    per_row = np.zeros(int(start[-1]), dtype=np.int64)
    np.add.at(per_row, row[order], members)
    return Model(
        start=start,
        unary=unary.result(),
        tail=tail,
        head=head,
        cell_start=cell_start,
        cell=cell,
        wide=tuple(wide),
        forbidden=model.forbidden,
        shift=model.shift,
        member_start=offsets(per_row),
        member=model.member[spread(first, members)],
        record=model.record,
    )


def _contract_wide(model: Model, how: Contraction) -> tuple[list[Wide], list[Wide]]:
    """Split contracted wide tables into those of three or more distinct new variables of size above 1, and the others.

    Costs of the former that pairs can express go to the latter.
    """
    wide: list[Wide] = []
    narrow: list[Wide] = []
    for old_scope, cost in model.wide:
        roots = how.root[list(old_scope)].tolist()
        scope = sorted({root for root in roots if how.sizes[root] > 1} or {roots[0]})
        axes = []
        for variable, root in zip(old_scope, roots, strict=True):
            value = how.value[how.value_start[variable] : how.value_start[variable + 1]]
            axes.append(value.reshape([len(value) if other == root else 1 for other in scope]))
        table = Wide(tuple(scope), np.ascontiguousarray(cost[tuple(axes)]))
        if len(scope) < 3:
            narrow.append(table)
            continue
        pairs, rest = to_pairs(table, model.forbidden)
        narrow += pairs
        wide += [] if rest is None else [rest]
    return wide, narrow


def _contract_pairs(model: Model, how: Contraction, unary: _Sums, narrow: list[Wide]) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the new pairs ``(tail, head, cell_start, cell)``; add costs of a single new variable to ``unary``."""
    sizes, start = how.sizes, offsets(how.sizes)
    extra = [table for table in narrow if len(table.scope) == 2]
    ends = np.sort(how.root[np.stack([model.tail, model.head])], axis=0)
    extra_ends = np.array([table.scope for table in extra], dtype=np.int64).reshape(-1, 2).T
    joins = np.concatenate([(ends[0] != ends[1]) & (sizes[ends] > 1).all(axis=0), np.ones(len(extra), dtype=bool)])
    low, high = np.concatenate([ends, extra_ends], axis=1)[:, joins]
    kept, place = np.unique(low * len(sizes) + high, return_inverse=True)
    tail, head = np.divmod(kept, max(1, len(sizes)))
    cell_start = offsets(sizes[tail] * sizes[head])
    target = np.full(len(joins), -1)
    target[joins] = cell_start[place]
    cell, row = contract_tables(
        (model.start, model.tail, model.head, model.cell_start, model.cell),
        (start, how.root, how.value_start, how.value),
        target[: len(ends[0])],
        int(cell_start[-1]),
        model.forbidden,
    )
    unary.add(np.arange(len(row)), row)
    for scope, cost in narrow:
        if len(scope) == 1:
            unary.add(start[scope[0]] + np.arange(cost.size), cost.ravel())
    if extra:
        cells = _Sums(len(cell), model.forbidden)
        cells.add(np.arange(len(cell)), cell)
        for (_, cost), first in zip(extra, target[len(ends[0]) :].tolist(), strict=True):
            cells.add(first + np.arange(cost.size), cost.ravel())
        cell = cells.result()
    return tail, head, cell_start, cell
