"""The cheapest stage that can contain each node; the greatest of these costs is a lower bound."""

from __future__ import annotations

import numpy as np

from shardmark.solvers.pipeline._set_kernels import CheapestSet
from shardmark.solvers.pipeline.programs.incumbent import Bounds
from shardmark.solvers.pipeline.programs.stage_search import StageSearch

#: Most minimum cuts for a node in the first round; each further round allows ten times as many.
CUTS = 100


def anchor(stage_search: StageSearch, limit: int, bounds: Bounds, rounds: int = 9) -> tuple[int, int]:
    """Raise the bounds by the cheapest stage around each node, up to ``limit``.

    Returns the bound in the units of the limit, and its node. Nodes whose search was cut short are searched again, in
    at most ``rounds`` rounds.
    """
    proved = np.zeros(stage_search.nodes, dtype=np.int64)
    unsettled = np.ones(stage_search.nodes, dtype=bool)
    for cuts in (CUTS * 10**power for power in range(rounds)):

        def hold(v: int, cuts: int = cuts) -> CheapestSet | None:
            return None if stage_search.over() or proved.max() >= limit else stage_search.holding(v, limit, cuts)

        nodes = np.flatnonzero(unsettled).tolist()
        for v, found in zip(nodes, stage_search.pool.map(hold, nodes), strict=True):
            if found is not None:
                proved[v] = max(proved[v], found.proved)
                unsettled[v] = found.proved < found.cost
                bounds.offer(stage_search.bound(int(proved.max())))
        if stage_search.over() or proved.max() >= limit or not unsettled.any():
            break
    return int(proved.max()), int(proved.argmax())
