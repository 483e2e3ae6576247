"""The exact mixed-integer program as a lower bound."""

from __future__ import annotations

import numpy as np

from instances.graph import Index
from instances.pipeline import Instance
from solvers.pipeline._mip import RELATIVE_TOLERANCE, Bounds, Known, Shape, prove, search_first
from solvers.pipeline._search import Floats
from solvers.registry import Run, bound

#: Ancestors that are kept at a time, a byte for each pair of nodes.
CHUNK = 1024


@bound(
    track="pipeline",
    source="Archer et al. 2024, Section 3.1, Figure 3",
    variants={"exact": {}, "exact-highs": {"engine": "highs"}},
    deterministic=False,
)
def exact(instance: Instance, run: Run, *, engine: str = "scip") -> None:
    """Bound the cost by the exact program, narrowed to what can be better than the best slicing found.

    A node's block comes no earlier than the work of the node and its ancestors allows when no block may do more than
    that slicing costs, and no later than its descendants allow; the paper does without these windows.

    With a memory limit, which the paper leaves out, the program counts the overflow: with the execution order among its
    variables on small graphs, else as far as it is certain in every order. Reports the bound of Lemma 3.3 first, and
    the partitions that it meets; HiGHS reports at its end only. What is proved is lowered by a millionth and more for
    the tolerances of the engine, see `solvers.pipeline._mip.Program.lower_bound`.
    """
    bounds = Bounds(instance, run)
    search, known = search_first(instance, run, overflow=True)
    prove(instance, _shape(instance, known, run), search, bounds, run, engine=engine)


def _shape(instance: Instance, known: Known, run: Run) -> Shape:
    last = len(known.slicing.cut) - 2
    earliest = _blocks_before(instance, known.slicing.cost, run, forwards=True)
    latest = last - _blocks_before(instance, known.slicing.cost, run, forwards=False)
    return Shape(
        blocks=last + 1,
        costed=range(last + 1),
        block=known.block,
        cost=known.slicing.cost,
        earliest=earliest,
        latest=np.maximum(earliest, latest),
        overflow=instance.memory is not None,
    )


def _blocks_before(instance: Instance, cost: float, run: Run, *, forwards: bool) -> Index:
    """How many blocks of at most ``cost`` must end before each node's own (or begin after it), shape (n,)."""
    work = _work_before(instance, run, forwards=forwards) / max(cost, np.finfo(np.float64).tiny)
    return (np.ceil(work * (1 - RELATIVE_TOLERANCE)).clip(1) - 1).astype(np.int32)


def _work_before(instance: Instance, run: Run, *, forwards: bool) -> Floats:
    """Work of each node and its ancestors (descendants, unless ``forwards``), shape (n,).

    Goes through the ancestors by chunks, and leaves out those for which a tenth of the time does not suffice.
    """
    enough = 0.9 * run.remaining()
    n, graph = instance.nodes, instance.graph
    order = graph.topological_order if forwards else graph.topological_order[::-1]
    start, before = graph.in_csr if forwards else graph.out_csr
    total = np.zeros(n)
    for first in range(0, n, CHUNK):
        if run.remaining() < enough:
            break
        chunk = np.arange(first, min(first + CHUNK, n))
        reached = np.zeros((n, len(chunk)), dtype=bool)
        reached[chunk, chunk - first] = True
        for v in order:
            for u in before[start[v] : start[v + 1]]:
                reached[v] |= reached[u]
        total += reached @ instance.work[chunk]
    return total
