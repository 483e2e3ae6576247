"""Proofs of bounds by the states of a dynamic program over ideals, if a checker can find all of them."""

from __future__ import annotations

import numpy as np

from shardmark.instances.graph import Graph
from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import IdealEnumerator
from shardmark.solvers.placement.ideals.one_pass import one_pass
from shardmark.solvers.placement.throughput.moves import spaces
from shardmark.solvers.registry import Proof, Run

#: Most ideals of units; a check takes about 10 s then.
MOST = 10_000
#: Most ideals of nodes for latency: a check takes about ten milliseconds for each.
MOST_NODES = 2000


def states_proof(instance: Instance, run: Run, bound: float) -> Proof | None:
    """The proof of the bound of a dynamic program for acyclic splits, if one is asked for and known.

    If there are too many ideals, the proof uses those of one pass, without small side branches.
    """
    if not run.certify or instance.allreduce is not None:
        return None
    if all(_ideals(space.rules.order, MOST) <= MOST for space in spaces(instance) if space.rules.order is not None):
        return lambda: {"kind": "states", "target": bound}
    passes = one_pass(instance, bound, np.zeros(1, dtype=np.int32))
    return next((one.proof(bound) for one in passes if one.refutes(bound)), None)


def schedules_proof(instance: Instance, run: Run, bound: float) -> Proof | None:
    """The proof of a bound on the latency by chains of ideals, if one is asked for and there are few ideals of nodes.

    It holds for any number of sets per accelerator unless contiguity is "contiguous", then for one in inference.
    """
    few = run.certify and _ideals(instance.graph, MOST_NODES) <= MOST_NODES
    return (lambda: {"kind": "states", "target": bound}) if few else None


def _ideals(order: Graph, most: int) -> int:
    """The number of ideals of a graph, or one above ``most``."""
    number = np.argsort(order.topological_order).astype(np.int32)
    sorted_graph = Graph(order.nodes, number[order.tail], number[order.head])
    return IdealEnumerator(sorted_graph, np.zeros(1, dtype=np.int32)).count(most, most * order.nodes)[0]
