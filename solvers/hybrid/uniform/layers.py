"""The layers of a network: its repeated nodes, in a topological order, and what comes before and after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shardmark.solvers.hybrid.uniform.runs import Runs


def layers_of(runs: Runs) -> list[int]:
    """Positions in the order of the layers: the nodes of the most frequent name, or all if fewer than half have it."""
    work = runs.instance
    names = [work.node_names[v] for v in runs.order.tolist()]
    name, count = Counter(names).most_common(1)[0]
    return [at for at, other in enumerate(names) if other == name or 2 * count < len(names)]


def cuts(runs: Runs, layers: Sequence[int], counts: Sequence[int], *, own: bool) -> list[int] | None:
    """Cut the order into stages of so many layers each.

    Other nodes are in the stage of the last layer before them, or of the first layer. With ``own``, those before the
    first layer and after the last have stages of their own; None if there are none.
    """
    firsts = [layers[sum(counts[:i])] for i in range(1, len(counts))]
    whole = [0, *firsts, runs.instance.nodes]
    if not own:
        return whole
    before, after = layers[0], layers[-1] + 1
    return [0, before, *firsts, after, whole[-1]] if before > 0 and after < whole[-1] else None
