"""The exact mixed-integer program as a lower bound."""

from __future__ import annotations

import numpy as np

from shardmark.instances.graph import Index
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Floats
from shardmark.solvers.pipeline.programs.certificates.claims import (
    ALL_SOLUTIONS,
    certify,
    even_shares,
    few_solutions,
    time_for_proof,
)
from shardmark.solvers.pipeline.programs.contraction import contracted
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Known, capped, search_first
from shardmark.solvers.pipeline.programs.mip import MOST_MEMORY, RELATIVE_TOLERANCE, Shape, prove
from shardmark.solvers.pipeline.trees.refutation import refuted
from shardmark.solvers.registry import Run, bound

#: Ancestors kept at a time, at most.
CHUNK = 1024

#: Share of the memory that flags of ancestors may take.
RANGE_MEMORY = 0.1

#: Bytes per pair of nodes: the product with the work turns the flags into floats.
PAIR_BYTES = 9

#: Share of the time that ranges of stages may take.
RANGE_SHARE = 0.1

#: Share of the time for a certificate, if one is asked for, and of that, for node weights.
PROVING, REFUTING = 0.2, 0.8

#: Nodes between two looks at the clock.
CLOCK = 256


@bound(track="pipeline", source="Archer et al. 2024, Section 3.1, Figure 3", deterministic=False)
def exact(instance: Instance, run: Run) -> None:
    """Solve the exact integer program, restricted to partitions better than the best slicing found.

    No stage of a better partition does more work than that slicing costs. So a node's stage is no earlier than the
    work of the node and its ancestors allows, and no later than that of its descendants allows. Nodes that some optimal
    partition keeps together are merged first (`shardmark.solvers.pipeline.programs.contraction`). The paper uses
    neither.

    If there is a memory limit, which the paper leaves out, the program counts the overflow: exactly on small graphs,
    with the execution order among its variables; else only the overflow of every order. First reports the bound of
    Lemma 3.3; also reports the partitions found on the way. SCIP's bounds are lowered by at least a millionth to allow
    for its tolerances (`shardmark.solvers.pipeline.programs.mip.Program.lower_bound`), but its floating-point search is
    not checked.
    """
    with time_for_proof(run, PROVING) as deadline:
        merged, inner, kept = contracted(capped(instance), run)
        bounds = Bounds(merged, inner)
        search, known = search_first(merged, inner, overflow=True)
        prove(merged, _shape(merged, known, inner), search, bounds, inner)
    if run.certify and few_solutions(instance):
        run.bound(bounds.best, lambda: ALL_SOLUTIONS)
    elif run.certify:
        inner.deadline = deadline - (1 - REFUTING) * run.remaining()
        claims = [claim.spread(kept, instance.nodes) for claim in refuted(merged, inner, search, known, bounds.best)]
        claims.append(even_shares(instance, instance.work, bounds.best))
        certify(run, instance, claims, deadline - 0.02 * run.remaining())


def _shape(instance: Instance, known: Known, run: Run) -> Shape:
    last, cost = len(known.slicing.cut) - 2, known.slicing.cost
    seconds = RANGE_SHARE / 2 * run.remaining()
    return Shape(
        stages=last + 1,
        costed=range(last + 1),
        stage=known.stage,
        cost=cost,
        earliest=(earliest := _stages_before(instance, cost, run, seconds, forwards=True)),
        latest=np.maximum(earliest, last - _stages_before(instance, cost, run, seconds, forwards=False)),
        overflow=instance.memory is not None and instance.memory <= MOST_MEMORY * cost * instance.bandwidth,
    )


def _stages_before(instance: Instance, cost: float, run: Run, seconds: float, *, forwards: bool) -> Index:
    """Number of stages of at most ``cost`` that must end before each node's own (or begin after it), shape (n,)."""
    most = max(cost, instance.work_bound())  # less can be the cost only by rounding
    if most < np.finfo(np.float64).tiny:
        return np.zeros(instance.nodes, dtype=np.int32)
    work = _work_before(instance, run, seconds, forwards=forwards) / most
    return (np.ceil(work * (1 - RELATIVE_TOLERANCE)).clip(1) - 1).astype(np.int32)


def _work_before(instance: Instance, run: Run, seconds: float, *, forwards: bool) -> Floats:
    """Work of each node and its ancestors (descendants, unless ``forwards``), shape (n,).

    Counts the ancestors chunk by chunk; those not reached within the seconds are left out.
    """
    enough = run.remaining() - seconds
    n, graph = instance.nodes, instance.graph
    order = graph.topological_order if forwards else graph.topological_order[::-1]
    start, before = graph.in_csr if forwards else graph.out_csr
    total = np.zeros(n)
    chunk = max(1, int(min(CHUNK, RANGE_MEMORY * run.memory * 2**20 / (PAIR_BYTES * n + 1))))
    for first in range(0, n, chunk):
        if run.remaining() <= enough:
            break
        kept = np.arange(first, min(first + chunk, n))
        reached = np.zeros((n, len(kept)), dtype=bool)
        reached[kept, kept - first] = True
        for at, v in enumerate(order):
            if at % CLOCK == 0 and run.remaining() <= enough:
                break  # what is not reached yet is left out
            for u in before[start[v] : start[v + 1]]:
                reached[v] |= reached[u]
        total += reached @ instance.work[kept]
    return total
