"""Proofs of bounds by the states of a dynamic program over ideals, if a checker can find all of them."""

from __future__ import annotations

import numpy as np

from shardmark.instances.graph import Graph
from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import IdealEnumerator
from shardmark.solvers.placement.throughput.moves import spaces
from shardmark.solvers.registry import Proof, Run

#: Most ideals: a check takes about ten milliseconds for each.
MOST = 2000


def states_proof(instance: Instance, run: Run, bound: float) -> Proof | None:
    """The proof of the bound of a dynamic program, if one is asked for and there are few ideals of units."""
    if not run.certify or instance.allreduce is not None:
        return None
    counts = [_ideals(space.rules.order) for space in spaces(instance) if space.rules.order is not None]
    return None if max(counts) > MOST else lambda: {"kind": "states", "target": bound}


def schedules_proof(instance: Instance, run: Run, bound: float) -> Proof | None:
    """The proof of a bound on the latency by chains of ideals, if one is asked for and there are few ideals of nodes.

    It holds for any number of sets per accelerator unless contiguity is "contiguous", then for one in inference.
    """
    few = run.certify and _ideals(instance.graph) <= MOST
    return (lambda: {"kind": "states", "target": bound}) if few else None


def _ideals(order: Graph) -> int:
    """The number of ideals of a graph, or one above `MOST`."""
    number = np.argsort(order.topological_order).astype(np.int32)
    sorted_graph = Graph(order.nodes, number[order.tail], number[order.head])
    return IdealEnumerator(sorted_graph, np.zeros(1, dtype=np.int32)).count(MOST, MOST * order.nodes)[0]
