"""Tiny instances of ``pipeline`` and ``intraop`` that can be solved by hand, and a trap with a known optimum."""

from __future__ import annotations

from typing import Any

from shardmark.instances import intraop, pipeline
from shardmark.instances.generate.portable_random import Draws


def chain(draws: Draws) -> pipeline.Instance:
    """Five operators in a row, two stages: in the best split one computes 4 + 3 + 2 and sends for 2; it costs 11."""
    return _pipeline([4, 3, 2, 3, 4], [1, 6, 2, 6, 0], [[0, 1], [1, 2], [2, 3], [3, 4]], stages=2)


def overflow(draws: Draws) -> pipeline.Instance:
    """Two chains that meet; stages pay for parameters and tensors beyond a memory of 12.

    The optimum has one stage per chain, with the last node in either of them: its work is 3, it receives a tensor of 1,
    and it exceeds the memory by 2, with parameters of 2 and tensors of 10 + 1 + 1 at the end of the chain: 6 in total.
    """
    edges = [[0, 1], [2, 3], [1, 4], [3, 4]]
    return _pipeline([1] * 5, [10, 1, 10, 1, 0], edges, stages=2, params=[1, 1, 1, 1, 0], memory=12)


def slicing_trap(draws: Draws, *, stages: int, loose: int) -> pipeline.Instance:
    """Pairs of a heavy and a light node give a bottleneck of 1; slicing a bad order is no better than one stage.

    Lemma B.2 with epsilon 1/4: node 0 sends the last node a tensor too large to cut, and the order of the node
    numbers has all other nodes between the two. ``loose=1``, Remark B.3: no edge and epsilon 1 / (k + 1), and the same
    order costs 2 k / (k + 1).
    """
    epsilon = 1 / (stages + 1) if loose else 0.25
    work = [1 - epsilon] * stages + [epsilon] * stages
    output = [0.0 if loose else 10.0 * stages] + [0.0] * (2 * stages - 1)
    return _pipeline(work, output, [] if loose else [[0, 2 * stages - 1]], stages=stages)


def diamond(draws: Draws) -> intraop.Instance:
    """Node 0 feeds nodes 1 and 2, which feed node 3. Node 2's cheapest strategy exceeds memory by 5; optimum 137."""
    return _intraop(
        [[0, 40], [10, 40], [20, 70], [60, 90]],
        [[5], [20, 30], [8, 16, 12], [40]],
        [[10], [25, 25], [15, 20, 15], [30]],
        [[0, 1], [0, 2], [1, 3], [2, 3]],
        [[3, 4], [50, 1, 40], [9, 2], [6, 7, 8]],
        50,
    )


def triangle(draws: Draws) -> intraop.Instance:
    """Three nodes joined by one edge; memory does not let all of them choose strategy 0. The optimum is 6.

    Without the limit, 0, 0, 0 would cost 3. The nodes' own costs are 1 for strategy 0 and 2 for strategy 1.
    """
    table = [0, 2, 2, 3, 2, 3, 3, 1]
    return _intraop([[0, 3], [1, 4], [2, 5]], [[1, 2]] * 3, [[4, 3]] * 3, [[0, 1, 2]], [table], 11)


def _pipeline(
    work: list[Any],
    output: list[Any],
    edges: list[list[int]],
    *,
    stages: int,
    params: list[Any] | None = None,
    memory: float | None = None,
) -> pipeline.Instance:
    nodes = {"work": work, "output_size": output, "param_size": params or [0] * len(work)}
    document = {"format": pipeline.FORMAT, "stages": stages, "memory": memory, "nodes": nodes, "edges": edges}
    return pipeline.parse(document, "generate")


def _intraop(
    intervals: list[list[int]],
    costs: list[list[int]],
    usages: list[list[int]],
    scopes: list[list[int]],
    tables: list[list[int]],
    limit: int,
) -> intraop.Instance:
    nodes = {"intervals": intervals, "costs": costs, "usages": usages}
    edges = {"nodes": scopes, "costs": tables}
    return intraop.parse({"problem": {"nodes": nodes, "edges": edges, "usage_limit": limit}}, "generate")
