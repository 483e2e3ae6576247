"""The mixed-integer programs of Archer et al. 2024, Section 3, solved by SCIP and turned into bounds.

The paper's programs ignore the overflow of Equation (2). It is never negative, so a lower bound without it is also one
with it. A program may count the overflow that is certain: see `Program._add_overflow`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Index
from shardmark.instances.pipeline import Instance
from shardmark.solvers import _scip
from shardmark.solvers.native import Floats
from shardmark.solvers.pipeline._set_kernels import unpacked
from shardmark.solvers.pipeline.programs.incumbent import Bounds
from shardmark.solvers.pipeline.programs.stage_search import descendants
from shardmark.solvers.pipeline.search.orders import TOLERANCE, Search
from shardmark.solvers.registry import Run

#: The best known cost is scaled to about this in the program, far from SCIP's absolute tolerances of 1e-9 to 1e-6.
SCALE = 1024.0

#: SCIP accepts reduced costs that are off by this much; every variable but the objective's has a range of 1.
DUAL_TOLERANCE = 1e-7

#: Share by which every bound is lowered: cuts, propagation and pruning have relative tolerances up to 1e-6.
RELATIVE_TOLERANCE = 1e-6

#: Most rows for the execution order; without them, only what is in memory in every order counts.
MOST_ORDER_ROWS = 10_000

#: Largest memory with an overflow in the program, in units of the size that can be sent within the best known cost:
#: with more memory, rounding errors would be as large as the overflow.
MOST_MEMORY = 1e6

#: MiB that SCIP takes per row of the program, including all that it derives from the row (measured: 2 to 5 kB).
ROW_MIB = 0.005


#: Held while a slicing is offered: programs of several threads share a search.
OFFERING = Lock()


@dataclass(frozen=True)
class Shape:
    """One of the paper's programs.

    ``stages``      number of stages in the program
    ``costed``      the stages whose cost bounds the objective, numbered from 0
    ``stage``       shape (n,): a partition into these stages, in topological order, if one is known
    ``cost``        the greatest cost of a costed stage of that partition; greater ones are excluded
    ``earliest``, ``latest``  shape (n,): the stages that a node can be in, in a partition that costs less
    ``least_work``  least work of each stage of ``busy`` (Inequality 14)
    ``merged``      shape (len(costed),): number of stages that each costed stage stands for; the mean cost of these
                    bounds the objective
    ``dag``         True: the quotient graph must have no cycle (Inequality 8)
    ``cut_io``      True: tensors that enter or leave a stage cost their transfer time
    ``overflow``    True: parameters and tensors beyond the memory cost their transfer time
    """

    stages: int
    costed: range
    stage: Index | None
    cost: float
    earliest: Index
    latest: Index
    least_work: float = 0.0
    busy: range = range(0)
    merged: tuple[int, ...] = ()
    dag: bool = True
    cut_io: bool = True
    overflow: bool = False


class Program:
    """Figure 3 with x eliminated in favour of y, over the stages of a `Shape`.

    The cut constraints are used in a form that implies (9) and (10) and has the same integer points: with
    d_b = y_ub - y_vb for an edge (u, v), which is 1 if stage b ends between u and v and else 0,
    c_ub >= d_(b-1) - d_b (v in b, u not) and c_ub >= d_b - d_(b-1) (u in b, v not).
    """

    def __init__(self, instance: Instance, shape: Shape) -> None:
        from pyscipopt import quicksum

        self.instance = instance
        self.shape = shape
        # A power of two changes no mantissa.
        self.scale = 2.0 ** min(1000, round(math.log2(SCALE) - math.log2(shape.cost)))
        self.model, self._sum = _scip.model(), quicksum
        self._sent = instance.output_size / instance.bandwidth
        self._most = shape.cost * (1 + RELATIVE_TOLERANCE)
        least = instance.work_bound() * (1 - RELATIVE_TOLERANCE)
        self.bottleneck = self.model.addVar(lb=least * self.scale, ub=self._most * self.scale, obj=1.0)
        self.y: list[list[Any]] = []
        self.cut: dict[int, dict[int, Any]] = {b: {} for b in shape.costed}
        self.over: dict[int, Any] = {}
        self.before: dict[tuple[int, int], Any] = {}

    def rows(self) -> int:
        """Approximate number of constraints: three per edge and per stage end that can lie between its nodes."""
        earliest, latest, graph = self.shape.earliest, self.shape.latest, self.instance.graph
        ends = np.maximum(0, latest[graph.head] - earliest[graph.tail])
        memory = self._memory_rows() if self.shape.overflow else 0
        return 3 * int(ends.sum()) + int((latest - earliest).sum()) + 2 * len(self.shape.costed) + memory

    def build(self, run: Run) -> bool:
        """Add everything, and the known partition as a solution; False if that takes half of the remaining time."""
        enough = 0.5 * run.remaining()
        for add, *what in self._parts():
            if run.remaining() <= enough:
                return False
            add(*what)
        return True

    def _parts(self) -> Iterator[tuple[Any, ...]]:
        yield from ((self._add_node, v) for v in range(self.instance.nodes))
        tail, head = self.instance.graph.tail.tolist(), self.instance.graph.head.tolist()
        yield from ((self._add_edge, u, v) for u, v in zip(tail, head, strict=True))
        if self.shape.overflow and self._ordered:
            yield from ((self._add_order, v) for v in range(self.instance.nodes))
        yield from ((self._add_overflow, b) for b in self.shape.costed if self.shape.overflow)
        yield from ((self._add_cost, b) for b in self.shape.costed)
        yield (self._add_solution,)

    def _require(self, difference: Any) -> None:
        """Require that ``difference`` is not negative, unless it is a constant: the ranges of stages ensure those."""
        if not isinstance(difference, float):
            self.model.addCons(difference >= 0)

    def _add_node(self, v: int) -> None:
        """y[v][b] is 1 if v is in one of the first b stages, b = 0 .. stages."""
        first, last = int(self.shape.earliest[v]), int(self.shape.latest[v])
        free = [self.model.addVar(vtype="B") for _ in range(first + 1, last + 1)]
        self.y.append([0.0] * (first + 1) + free + [1.0] * (self.shape.stages - last))
        for before, after in pairwise(free):
            self._require(after - before)

    def _add_edge(self, u: int, v: int) -> None:
        crossing = [before - after for before, after in zip(self.y[u], self.y[v], strict=True)]
        for difference in crossing if self.shape.dag else ():
            self._require(difference)
        if self.instance.output_size[u] == 0 or not self.shape.cut_io:
            return
        for b in self.shape.costed:
            begins, ends = crossing[b], crossing[b + 1]
            for difference in (begins - ends, ends - begins):
                if not isinstance(difference, float) or difference > 0:
                    self.model.addCons(self._cut(u, b) >= difference)

    def _cut(self, u: int, b: int) -> Any:
        """cut[b][u] is 1 if the tensor of u enters or leaves stage b; it is fixed to 0 if that alone costs too much."""
        if u not in self.cut[b]:
            self.cut[b][u] = self.model.addVar(ub=float(self._may_cut(u, b)))
        return self.cut[b][u]

    def _may_cut(self, u: int, b: int) -> bool:
        """True if stage b can send the tensor of u within the cost that the bottleneck variable allows it."""
        return bool(self._sent[u] <= self._merged(b) * self._most)

    def _merged(self, b: int) -> float:
        """Number of stages that stage b stands for."""
        return float(self.shape.merged[b - self.shape.costed.start]) if self.shape.merged else 1.0

    def _memory_rows(self) -> int:
        nodes, edges = self.instance.nodes, len(self.instance.graph.tail)
        order = 2 * nodes * edges if self._ordered else 0
        return len(self.shape.costed) * (order + nodes + edges + 3) + (nodes**3 // 3 if self._ordered else 0)

    @cached_property
    def _ordered(self) -> bool:
        """True if the execution order is part of the program, which makes the overflow exact."""
        nodes, edges = self.instance.nodes, len(self.instance.graph.tail)
        return len(self.shape.costed) * 2 * nodes * edges + nodes**3 // 3 <= MOST_ORDER_ROWS

    def _add_order(self, v: int) -> None:
        """before[u, v] is 1 if u runs before v: one order of all nodes, consistent with the graph and the stages."""
        for u in range(v):
            known = [float(self._below[u, v])] if self._below[u, v] or self._below[v, u] else []
            self.before[u, v] = known[0] if known else self.model.addVar(vtype="B")
            self.before[v, u] = 1.0 - self.before[u, v]
        for w, u in combinations(range(v), 2):
            around = self.before[u, v] + self.before[v, w] + self.before[w, u]
            for circle in (around, 3.0 - around):
                self._require(2.0 - circle)

    def _inside(self, v: int, b: int) -> Any:
        """1 if v is in stage b."""
        return self.y[v][b + 1] - self.y[v][b]

    def _add_overflow(self, b: int) -> None:
        """Count the memory that a stage's parameters and simultaneously live tensors need beyond the limit.

        At the beginning of a stage all entering tensors are in memory, at its end all leaving ones. While a node runs,
        the tensors in memory depend on the execution order; without one in the program, only those that the node reads
        and writes count.
        """
        assert self.instance.memory is not None
        bandwidth, most_over = self.instance.bandwidth, self._most * self.scale
        memory = self.instance.memory / bandwidth * self.scale
        limit = 2.0 * (self.instance.memory / bandwidth + self._most)  # no stage holds more, counted or not
        size, param = (
            np.minimum(need, limit) * self.scale for need in (self._sent, self.instance.param_size / bandwidth)
        )
        most_peak = min(float(size.sum()), memory + most_over)
        over, peak = self.model.addVar(ub=1.0), self.model.addVar(ub=1.0)
        self.over[b] = most_over * over
        params = self._sum(float(need) * self._inside(v, b) for v, need in enumerate(param))
        self.model.addCons(most_over * over >= params + most_peak * peak - memory)
        for v in range(self.instance.nodes):
            held = [float(size[u]) * there for u, there in self._at_once(v, b) if size[u] > 0]
            if held:
                self.model.addCons(most_peak * peak >= self._sum(held))
        for sign in (1, -1):
            self.model.addCons(most_peak * peak >= self._sum(float(size[u]) * c for u, c in self._crossing(b, sign)))

    def _crossing(self, b: int, sign: int) -> Iterator[tuple[int, Any]]:
        """Tensors that can enter stage b (sign 1) or leave it (-1), each with its indicator variable."""
        for u in range(self.instance.nodes):
            readers = self.instance.graph.successors(u).tolist()
            yield u, self._at_least([sign * (self._inside(w, b) - self._inside(u, b)) for w in readers])

    def _at_once(self, v: int, b: int) -> Iterator[tuple[int, Any]]:
        """Tensors that can be in memory while v runs in stage b, each with its indicator."""
        own = {v, *self.instance.graph.predecessors(v).tolist()}
        yield from ((u, self._inside(v, b)) for u in own)
        for u in set(range(self.instance.nodes)) - own if self._ordered else ():
            yield (
                u,
                self._at_least(
                    [value for w in self.instance.graph.successors(u) for value in self._kept(u, v, int(w), b)]
                ),
            )

    def _kept(self, u: int, v: int, w: int, b: int) -> Iterator[Any]:
        """Values of at most 1; one is 1 if v runs in stage b while the tensor of u is kept for w.

        A tensor produced in the stage is kept for readers outside and for readers that run later; a tensor that enters
        is kept until its last reader in the stage has run.
        """
        first, reads = self._inside(u, b), self._inside(w, b)
        earlier, later = self.before[u, v], self.before[v, w]
        yield self._inside(v, b) + first - reads + earlier - 2.0
        yield self._inside(v, b) + first + earlier + later - 3.0
        yield self._inside(v, b) + reads - first + later - 2.0
        yield self._inside(v, b) + reads + earlier + later - 3.0

    @cached_property
    def _below(self) -> NDArray[np.bool_]:
        """Descendants as flags, shape (n, n): element (u, v) is True if v descends from u."""
        return unpacked(descendants(self.instance.graph, forwards=True), self.instance.nodes)

    def _at_least(self, values: list[Any]) -> Any:
        """A variable in [0, 1] that is at least each of the values; a constant if all of them are."""
        if all(isinstance(value, float) for value in values):
            return max([0.0, *values])
        greatest = self.model.addVar(ub=1.0)
        for value in values:
            if not isinstance(value, float) or value > 0:
                self.model.addCons(greatest >= value)
        return greatest

    def _add_cost(self, b: int) -> None:
        work = self.instance.work * self.scale
        done = self._sum(float(w) * (row[b + 1] - row[b]) for w, row in zip(work, self.y, strict=True))
        sent = {u: float(self._sent[u]) * self.scale for u in self.cut[b] if self._may_cut(u, b)}
        moved = self._sum(cost * self.cut[b][u] for u, cost in sent.items())
        self.model.addCons(self._merged(b) * self.bottleneck >= done + moved + self.over.get(b, 0.0))
        if b in self.shape.busy and self.shape.least_work > 0:
            self.model.addCons(done >= self.shape.least_work * self.scale)

    def _add_solution(self) -> None:
        stage = self.shape.stage
        if stage is None or self.shape.overflow:  # its cost still limits the program
            return
        known = self.model.createSol()
        self.model.setSolVal(known, self.bottleneck, self.shape.cost * self.scale)
        for v, row in enumerate(self.y):
            for b, variable in enumerate(row):
                if not isinstance(variable, float):
                    self.model.setSolVal(known, variable, float(stage[v] < b))
        for b, cut in self.cut.items():
            for u, variable in cut.items():
                inside = stage[self.instance.graph.successors(u)] == b
                self.model.setSolVal(known, variable, float((~inside).any() if stage[u] == b else inside.any()))
        self.model.addSol(known)

    def priority(self, solution: Any) -> Floats:
        """Node priorities whose Kahn order visits the stages of SCIP's solution one after another."""
        value = self.model.getSolVal
        return np.array([sum(y if isinstance(y, float) else value(solution, y) for y in row) for row in self.y])

    def lower_bound(self) -> float:
        """SCIP's lower bound so far, lowered by the possible errors of its floating-point arithmetic.

        SCIP's search is trusted, not checked. The program excludes partitions that cost more than the known one, so no
        bound exceeds its cost; if the program is infeasible (its limit leaves more room than the tolerances), that cost
        is the bound. If the program contains the known partition and SCIP calls it infeasible, SCIP is wrong, and minus
        infinity is returned.
        """
        if self.model.getStatus() == "infeasible":
            return self.shape.cost * (1 - RELATIVE_TOLERANCE) if self.shape.stage is None else -math.inf
        owed = DUAL_TOLERANCE * (self.model.getNVars(transformed=False) + 1)
        dual = _scip.proved(self.model) - owed
        return min(dual, self.shape.cost * self.scale) * (1 - RELATIVE_TOLERANCE) / self.scale


def prove(
    instance: Instance,
    shape: Shape,
    search: Search,
    bounds: Bounds,
    run: Run,
    share: float = 1.0,
    at_once: int = 1,
) -> None:
    """Solve a program in a ``share`` of the remaining time; offer every bound, and the slicing of every solution.

    ``at_once`` threads may do so at the same time, each with its own program: SCIP releases the interpreter lock.
    """
    if shape.cost * (1 - TOLERANCE) <= bounds.best:
        return
    began = share * run.remaining()
    spare = run.remaining() - began
    program = Program(instance, shape)
    if program.rows() * ROW_MIB > run.memory / at_once:
        print(f"{program.rows()} constraints do not fit into {run.memory:.0f} MiB: not solved", file=sys.stderr)
    elif not program.build(run):
        print(f"{program.rows()} constraints take too long to build: not solved", file=sys.stderr)
    else:
        model = program.model
        left = run.remaining() - spare
        freeing = 0.02 * began + 0.2 * (began - left)  # time to free the program
        model.setParam("limits/time", max(0.0, left - freeing))
        model.setParam("limits/memory", 0.5 * run.memory / at_once)

        def offer() -> None:
            with OFFERING:  # the slicing that the best solution leads to
                search.offer(program.priority(model.getBestSol()))

        _scip.listen(model, offer, lambda: bounds.offer(program.lower_bound(), step=1e-4))
        model.optimizeNogil()
        bounds.offer(program.lower_bound())
