"""Kernels of the hybrid track: chains of stages within a limit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.solvers._ideals import Ideals
from shardmark.solvers.hybrid._numbering import Numbering
from shardmark.solvers.hybrid._stages import Chain
from shardmark.solvers.native import array_in, array_out, check, ffi, lib, shaped


@dataclass(frozen=True)
class Suffixes(Ideals):
    """The suffixes of the order of a problem: a chain of ideals; see ``suffixes.h``.

    ``border``  shape (n + 1,), int8: 0 if no stage may begin or end before the last i nodes
    """

    border: NDArray[np.int8]

    @classmethod
    def of(cls, border: NDArray[np.bool_]) -> Suffixes:
        """The suffixes of n nodes, of which those in ``border``, shape (n + 1,), may be the last stages."""
        every = np.arange(len(border) - 1)
        start = np.concatenate([[0, 0], every + 1]).astype(np.int64)
        return cls(start, every.astype(np.int32), every.astype(np.int32), border.astype(np.int8))


class Undecided(Exception):
    """Some choice of configurations was too hard; ``chain`` is what was found all the same, None if nothing."""

    def __init__(self, chain: Chain | None) -> None:
        super().__init__()
        self.chain = chain


class StageProblem:
    """An instance for the kernels, with its nodes numbered from the end of the pipeline; see ``problem.h``.

    Bytes are rounded by a part in 2^69 of the memory: down, so that no stage that fits is missed, or up if ``strict``.
    ``order`` is a topological order of the instance, shape (n,), by default its own.
    """

    def __init__(self, instance: Instance, *, strict: bool, order: Index | None = None) -> None:
        self.instance = instance
        numbering = Numbering.along(instance.graph, order)
        self._order, self._number, self.graph = numbering.node, numbering.number, numbering.graph
        self._kept = self._usable()
        degrees = np.unique(instance.degree[instance.most_replicas > 0])
        self._degrees = degrees.astype(np.int64)
        columns: list[Any] = [
            *(len(degrees), self._degrees, len(instance.replicas), np.ascontiguousarray(instance.replicas)),
            *(instance.devices, instance.batch, instance.machine or 0),
            *(instance.capacity, instance.bandwidth, instance.inside or instance.bandwidth, strict),
            self._order.astype(np.int32),
            self._menus(),
            *(instance.time[self._kept], instance.parameters[self._kept], instance.stashed[self._kept]),
            *(instance.fixed[self._kept], instance.shared[self._kept], instance.gathered[self._kept]),
            *self._ends(),
            *self._moved(),
        ]
        self._columns = [array_in(c) if isinstance(c, np.ndarray) else c for c in columns]
        self._edges = [array_in(column) for column in (*self.graph.out_csr, *self.graph.in_csr)]
        dag = ffi.new("struct shard_dag *", (instance.nodes, *self._edges))
        self.struct = ffi.new("struct shard_hybrid *", (dag[0], *self._columns))

    def _usable(self) -> Ints:
        """The configurations that some stage may have, by the numbers of nodes, then by degree.

        They fit a device alone, exactly, with all its replicas and one microbatch in flight.
        """
        instance = self.instance
        near = (instance.most_replicas > 0) & (instance.least_memory > instance.capacity * (1 - 1e-9))
        over = [c for c in np.flatnonzero(near).tolist() if self._need(c) > Fraction(instance.capacity)]
        kept = np.setdiff1d(np.flatnonzero(instance.most_replicas > 0), over)
        return kept[np.lexsort((instance.degree[kept], self._number[instance.node[kept]]))]

    def _need(self, c: int) -> Fraction:
        shared = Fraction(self.instance.shared[c]) / int(self.instance.most_replicas[c])
        return Fraction(self.instance.stashed[c]) + Fraction(self.instance.fixed[c]) + shared

    def _menus(self) -> Ints:
        node, degree = self._number[self.instance.node[self._kept]], self.instance.degree[self._kept]
        at = node.astype(np.int64) * len(self._degrees) + np.searchsorted(self._degrees, degree)
        return _starts(np.bincount(at, minlength=self.instance.nodes * len(self._degrees)))

    def _ends(self) -> tuple[Ints, Index, Ints]:
        """The columns ``end_start``, ``neighbour`` and ``other_end``."""
        instance = self.instance
        start, edge = instance.incident
        owner = np.repeat(np.arange(instance.nodes), np.diff(start))
        head, tail = instance.graph.head[edge], instance.graph.tail[edge]
        neighbour = np.where(head == owner, tail, head)
        of = np.concatenate([np.arange(start[v], start[v + 1]) for v in self._order.tolist()] or [edge])
        place = np.empty(len(edge), dtype=np.int64)
        place[of] = np.arange(len(edge))
        by_edge = np.argsort(edge, kind="stable").reshape(-1, 2)
        other = np.empty(len(edge), dtype=np.int64)
        other[by_edge] = by_edge[:, ::-1]
        starts = _starts(np.diff(start)[self._order])
        return starts, self._number[neighbour[of]], place[other[of]]

    def _moved(self) -> tuple[Ints, Floats]:
        """The columns ``moved_start`` and ``moved``."""
        instance = self.instance
        start, edge = instance.incident
        ends = np.diff(start)[instance.node]
        rows = (
            np.repeat(start[instance.node], ends)
            + np.arange(len(instance.sync))
            - np.repeat(instance.sync_start[:-1], ends)
        )
        with np.errstate(over="ignore"):
            moved = np.minimum(instance.communicated[edge[rows]] + instance.sync, np.finfo(np.float64).max)
        return instance.sync_start[self._kept], moved

    def chain(self, ideals: Ideals, limit: float, stop: Index, *, greedy: bool = False) -> Chain | None:
        """Stages whose times per sample are at most ``limit``; None if there are none, or if stopped.

        Raises Undecided if there may be some.
        """
        return self._found(lib.shard_hybrid_chain, ideals, (limit, greedy), stop)

    def shortest_step(self, ideals: Ideals, limit: float, repeated: tuple[float, float], stop: Index) -> Chain | None:
        """The stages of the shortest batch if that takes at most ``limit``; None if not, or if stopped.

        Their longest repeated time is at most ``repeated[1]``; less than ``repeated[0]`` counts as much. Raises
        Undecided if there may be a shorter one.
        """
        return self._found(lib.shard_hybrid_step, ideals, (limit, *repeated), stop)

    def _found(self, kernel: Any, ideals: Ideals, given: tuple[Any, ...], stop: Index) -> Chain | None:
        n = self.instance.nodes
        stage, degree, replicas = (np.empty(n, dtype=np.int32) for _ in range(3))
        configuration, stages = np.empty(n, dtype=np.int64), ffi.new("int32_t *")
        border = array_in(ideals.border) if isinstance(ideals, Suffixes) else ffi.NULL
        links = len(ideals), array_in(ideals.start), array_in(ideals.node), array_in(ideals.less), border
        found = stages, *(array_out(column) for column in (stage, configuration, degree, replicas))
        status = kernel(self.struct, *links, *given, array_in(shaped(stop, (1,))), *found)
        chain = None
        if stages[0] > 0:
            chain = Chain(
                self.instance,
                stage[self._number],
                self._kept[configuration[self._number]],
                self._degrees[degree[: stages[0]]],
                self.instance.replicas[replicas[: stages[0]]],
            )
        if status == lib.SHARD_UNDECIDED:
            raise Undecided(chain)
        check(status)
        return chain


def _starts(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
