"""Independent menus for ``intraop``: no edges, only a trade-off between cost and memory in each node's interval.

This is a multiple-choice knapsack over time, as contest instances become if infinite entries are eliminated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from shardmark.instances import intraop
from shardmark.instances.generate.portable_random import Draws


def menus(draws: Draws, *, nodes: int, largest_menu: int, longest: int, tightness: float) -> intraop.Instance:
    """Nodes without edges that start one after another and trade cost for memory.

    A node takes up to ``longest`` time steps and has up to ``largest_menu`` strategies, each with more cost and less
    memory than the one before.
    """
    lengths = draws.integers(1, longest + 1, nodes)
    sizes = draws.integers(1, largest_menu + 1, nodes).tolist()
    costs, usages = [], []
    for size in sizes:
        scale = 10 ** int(draws.integers(2, 6, 1)[0])
        costs.append(np.cumsum(draws.integers(1, scale, size)).tolist())
        usages.append(np.cumsum(draws.integers(1, 10**6, size))[::-1].tolist())
    begins = range(nodes)
    problem = {
        "name": "menus",
        "nodes": {
            "intervals": [[begin, begin + length] for begin, length in zip(begins, lengths.tolist(), strict=True)],
            "costs": costs,
            "usages": usages,
        },
        "edges": {"nodes": [], "costs": []},
        "usage_limit": 0,
    }
    instance = intraop.parse({"problem": problem}, "generate")
    return with_limit(instance, [0] * nodes, [size - 1 for size in sizes], tightness)


def with_limit(
    instance: intraop.Instance, fast: Sequence[int], frugal: Sequence[int], tightness: float
) -> intraop.Instance:
    """The instance with a memory limit: ``tightness`` 0 is the need of ``fast``, 1 that of ``frugal``.

    ``fast`` has the strategy of least cost per node, ``frugal`` of least memory; ``frugal`` always stays feasible.
    """

    def peak(assignment: Sequence[int]) -> int:
        rows = instance.strategy_start[:-1] + np.array(assignment, dtype=np.int64)
        return instance.peak(instance.usage[rows])

    least = peak(frugal)
    return dataclasses.replace(instance, usage_limit=least + max(0, round((1 - tightness) * (peak(fast) - least))))
