"""The core's kernels for convex sets of nodes: the cheapest, lists of cheap ones, and compatible ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph, Index
from shardmark.solvers.native import Longs, Words, array_in, array_out, check, ffi, lib, shaped

#: Elements of the array that the threads of one search share.
SHARED: int = 2 * lib.SHARD_TRUNK


@dataclass(frozen=True)
class CheapestSet:
    """Result of a search for the cheapest convex set, in the units of its `SetCosts`.

    ``cost``    of the set found; the limit if none was found
    ``proved``  no set that satisfies the request costs less than this or the limit
    ``member``  shape (n,), bool: the set found
    ``cuts``    minimum cuts computed
    """

    cost: int
    proved: int
    member: NDArray[np.bool_]
    cuts: int


@dataclass(frozen=True)
class SetList:
    """Convex sets of sufficient weight that cost less than a limit, in the units of their `SetCosts`.

    ``member``  shape (sets, n), bool
    ``cost``    shape (sets,), int64
    ``proved``  no other such set costs less than this; the limit if the list is complete
    """

    member: NDArray[np.bool_]
    cost: Longs
    proved: int


@dataclass(frozen=True, eq=False)
class ProofTree:
    """A tree that proves a bound on the cost of convex sets, its nodes in preorder.

    ``branch``         shape (nodes,), int32: a node of the graph, in the set in the first subtree and outside in the
                       second; -1 in a leaf
    ``price``          shape (nodes,), int64: of a unit of weight; -1 if the numbers of the node above suffice
    ``moved, closed``  shape (nodes, m), int64: per edge, by its tail, if there is a price; closed is None for closure 0
    ``proved``         what the tree proves
    """

    branch: Index
    price: Longs
    moved: Longs
    closed: Longs | None
    proved: int


class SetCosts:
    """Costs of convex sets of nodes, as integers of at most `scale` times Equation (3).

    ``work``, ``size``  shape (n,), int64: of each node and of sending its tensor, together at most 2^50
    ``below, above``    shape (n, words), uint64: bit w of row v is 1 if w descends from v (``below``), or v from w
                        (``above``)
    ``pair``            shape (n, n), int64: a lower bound on the cost of a stage with both nodes
    ``closure``         1: only sets that hold all ancestors of their nodes, as a first stage does; -1: all
                        descendants, as a last stage does; 0: every convex set
    """

    def __init__(
        self,
        graph: Graph,
        work: Longs,
        size: Longs,
        below: Words,
        above: Words,
        pair: Longs | None = None,
        closure: int = 0,
    ) -> None:
        if min(work.min(initial=0), size.min(initial=0)) < 0 or int(work.sum()) + int(size.sum()) > 2**50:
            raise ValueError("expected work and sizes of at most 2^50 together, none negative")
        self.nodes, self.edges, self.closure = graph.nodes, graph.edges, closure
        words = (self.nodes, (self.nodes + 63) // 64)
        nodes = [shaped(column, (self.nodes,)) for column in (work, size)]
        reach = [shaped(column, words) for column in (below, above)]
        columns: list[NDArray[Any]] = [*graph.out_csr, *graph.in_csr, *nodes, *reach]
        self._columns = [array_in(column) for column in columns]
        self._columns += [ffi.NULL if pair is None else array_in(shaped(pair, (self.nodes, self.nodes)))]
        self._costs = ffi.new("struct shard_set_costs *", (self.nodes, *self._columns, closure))

    def cheapest_set(
        self,
        weight: Longs,
        need: int,
        limit: int,
        *,
        cuts: int,
        fixed: NDArray[np.int8] | None = None,
        any_set: bool = False,
        seconds: float = math.inf,
        shared: Index | None = None,
        stop: Index | None = None,
    ) -> CheapestSet:
        """The cheapest convex set of weight ``need`` or more, or any such set, that costs less than ``limit``.

        ``weight`` has shape (n,), int64, none negative, at most 2^50 in all; ``fixed`` has shape (n,): 1 for nodes of
        the set, -1 for nodes outside it, 0 for undecided ones. At most ``cuts`` minimum cuts are computed, within
        ``seconds``.

        Threads that search for the same sets divide the work if they share one ``shared``, shape (SHARED,), initially
        zero, and one ``stop``, shape (1,), which ends them all. Together they prove that no such set costs less than
        the least of their ``proved``.
        """
        member = np.zeros(self.nodes, dtype=np.int8)
        spent, cost, proved = ffi.new("int64_t *", cuts), ffi.new("int64_t *"), ffi.new("int64_t *")
        given = (*self._demand(weight, need), self._fixed(fixed), limit, any_set, seconds, *_threads(shared, stop))
        check(lib.shard_cheapest_set(self._costs, *given, spent, cost, proved, array_out(member)))
        return CheapestSet(cost[0], proved[0], member.astype(bool), spent[0])

    def list_sets(
        self,
        weight: Longs,
        need: int,
        limit: int,
        *,
        most: int,
        fixed: NDArray[np.int8] | None = None,
        seconds: float = math.inf,
        shared: Index | None = None,
        stop: Index | None = None,
    ) -> SetList:
        """All convex sets of weight ``need`` or more that cost less than ``limit``, or ``most`` of them.

        The other arguments are those of `cheapest_set`. If threads share the work, at least one of them lists each
        set.
        """
        count, proved = ffi.new("int64_t *", most), ffi.new("int64_t *")
        cost, rows = np.empty(most, dtype=np.int64), np.empty((most, (self.nodes + 63) // 64), dtype=np.uint64)
        given = (*self._demand(weight, need), self._fixed(fixed), limit, seconds, *_threads(shared, stop))
        check(lib.shard_list_sets(self._costs, *given, count, array_out(cost), array_out(rows), proved))
        return SetList(unpacked(rows[: count[0]], self.nodes), cost[: count[0]], proved[0])

    def prove_sets(
        self, weight: Longs, need: int, limit: int, *, most: int, fixed: NDArray[np.int8], seconds: float = math.inf
    ) -> ProofTree:
        """A tree of at most ``most`` nodes, at least 8, about the convex sets of weight ``need`` or more.

        It proves the cost of the cheapest one, or ``limit``, if neither it nor the time ends early.
        """
        count, proved = ffi.new("int64_t *", most), ffi.new("int64_t *")
        branch, price = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int64)
        moved = np.empty((most, self.edges), dtype=np.int64)
        closed = np.empty_like(moved) if self.closure else None
        given = (*self._demand(weight, need), self._fixed(fixed), limit, seconds, count)
        numbers = [array_out(branch), array_out(price), array_out(moved)]
        check(
            lib.shard_prove_sets(
                self._costs, *given, *numbers, ffi.NULL if closed is None else array_out(closed), proved
            )
        )
        end = count[0]
        return ProofTree(branch[:end], price[:end], moved[:end], None if closed is None else closed[:end], proved[0])

    def anneal_set(
        self, weight: Longs, need: int, limit: int, begin: NDArray[np.bool_], *, moves: int, hot: float, seed: int
    ) -> CheapestSet:
        """Anneal for a convex set of weight ``need`` or more that costs less than ``limit``; proves nothing.

        ``begin``, shape (n,), is the first convex set, of any cost and weight.
        """
        member, cost = begin.astype(np.int8), ffi.new("int64_t *")
        given = (*self._demand(weight, need), limit, moves, hot, seed)
        check(lib.shard_anneal_set(self._costs, *given, array_out(shaped(member, (self.nodes,))), cost))
        return CheapestSet(cost[0], 0, member.astype(bool), 0)

    def _demand(self, weight: Longs, need: int) -> tuple[Any, int]:
        if weight.min(initial=0) < 0 or int(weight.sum()) > 2**50 or need < 1:
            raise ValueError("expected weights of at most 2^50 together, none negative, and a need of at least 1")
        return array_in(shaped(weight, (self.nodes,))), need

    def _fixed(self, fixed: NDArray[np.int8] | None) -> Any:
        return array_in(np.zeros(self.nodes, dtype=np.int8) if fixed is None else shaped(fixed, (self.nodes,)))


def _threads(shared: Index | None, stop: Index | None) -> tuple[Any, Any]:
    """Pointers to what threads share; for a thread that searches alone, NULL and a stop flag of its own."""
    common = ffi.NULL if shared is None else array_out(shaped(shared, (SHARED,)))
    return common, array_out(np.zeros(1, dtype=np.int32) if stop is None else shaped(stop, (1,)))


def weigh_sets(member: Words, weight: Longs) -> Longs:
    """Weight of each set of nodes, shape (sets,), int64.

    ``member`` has shape (sets, words), bit v of row i is 1 if node v is in set i; ``weight`` has shape (n,), int64.
    """
    weighs = np.empty(len(member), dtype=np.int64)
    lib.shard_weigh_sets(len(weight), len(member), array_in(member), array_in(weight), array_out(weighs))
    return weighs


def compatible_sets(
    member: Words, loss: Longs, heaviest: int, weight: Longs, below: Words, slack: int, seconds: float = math.inf
) -> NDArray[np.bool_]:
    """Mask, shape (sets,), of the sets that can be in a partition whose stages together lose at most ``slack``.

    ``member`` and ``weight`` are as in `weigh_sets`. ``loss``, shape (sets,), ascending, is ``heaviest`` minus the
    weight of each set. ``below``, shape (n, words), uint64: bit w of row v is 1 if w is v or comes after it. Sets not
    tested within ``seconds`` stay in the mask.
    """
    keep = np.ones(len(member), dtype=np.int8)
    given = (array_in(member), array_in(loss), heaviest, array_in(weight), array_in(below), slack, seconds)
    check(lib.shard_compatible_sets(len(weight), len(member), *given, array_out(keep)))
    return keep.astype(bool)


def packed(member: NDArray[np.bool_]) -> Words:
    """Flags, shape (sets, n), as bits, shape (sets, words): bit v of row i is 1 if node v is in set i."""
    sets, nodes = member.shape
    rows = np.zeros((sets, 8 * ((nodes + 63) // 64)), dtype=np.uint8)
    bits = np.packbits(member, axis=1, bitorder="little")
    rows[:, : bits.shape[1]] = bits
    return rows.view(np.uint64)


def unpacked(member: Words, nodes: int) -> NDArray[np.bool_]:
    """Bits, shape (sets, words), as flags, shape (sets, nodes)."""
    bits = np.unpackbits(np.ascontiguousarray(member).view(np.uint8), axis=1, bitorder="little", count=nodes)
    return bits.astype(bool)
