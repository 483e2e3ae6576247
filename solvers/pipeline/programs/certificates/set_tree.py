"""Trees over the sets of nodes that can be a stage, grown by the core; the certificate has the flows of its cuts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.solvers.pipeline._set_kernels import ProofTree
from shardmark.solvers.pipeline.programs.certificates.integer_network import IntegerNetwork

#: Most nodes of a tree, and most bytes for their numbers.
MOST_NODES, MOST_BYTES = 1 << 12, 1 << 23


def grown(
    network: IntegerNetwork,
    closure: int,
    weight: list[int],
    need: int,
    cutoff: int,
    fixed: NDArray[np.int8],
    until: float,
) -> tuple[int, list[dict[str, Any]]]:
    """A bound, at most the cut-off, on the cost of the sets of a place that weigh its need; and its tree in preorder.

    ``fixed``, shape (n,), is 1 for nodes that all sets of the place contain, and -1 for those that none does.
    """
    fixed = fixed.copy()
    fixed[network.merged] = -1
    most = max(8, min(MOST_NODES, MOST_BYTES // (16 * len(network.edges) + 16)))
    tree = network.costs(closure).prove_sets(
        np.array(weight, dtype=np.int64),
        need,
        cutoff,
        most=most,
        fixed=fixed,
        seconds=max(0.0, until - time.monotonic()),
    )
    return tree.proved, list(_told(tree))


def _told(tree: ProofTree) -> Iterator[dict[str, Any]]:
    """Yield what a certificate says of every node."""
    for at, (branch, price) in enumerate(zip(tree.branch.tolist(), tree.price.tolist(), strict=True)):
        told: dict[str, Any] = {}
        if price >= 0:
            told |= {"price": price, "moved": tree.moved[at].tolist()}
            if tree.closed is not None:
                told["closed"] = tree.closed[at].tolist()
        if branch >= 0:
            told["branch"] = branch
        yield told
