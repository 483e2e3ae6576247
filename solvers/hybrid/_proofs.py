"""Proofs of bounds by the states of a dynamic program over down-sets, if a checker can find all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.solvers._ideals import IdealEnumerator
from shardmark.solvers.hybrid._kernels import StageProblem
from shardmark.solvers.registry import Proof, Run

#: Most down-sets: a check takes about a millisecond for each.
MOST = 1000


def simple_proof() -> dict[str, str]:
    """The proof of `Instance.simple_bound`."""
    return {"kind": "formula", "name": "simple"}


def bound_by_states(instance: Instance, run: Run, stop: Index) -> Callable[[float], None]:
    """Return a function that reports a bound, with a proof if one is asked for and there are few down-sets.

    The proof takes the least synchronisation of any configuration of a degree, so it may be weaker if they differ.
    """
    checkable = run.certify and _additive(instance)
    if checkable:
        core = IdealEnumerator(StageProblem(instance, strict=False).graph, stop)
        checkable = core.count(MOST, MOST * instance.nodes)[0] <= MOST and not stop[0]

    def report(value: float) -> None:
        proof: Proof = lambda: {"kind": "states", "target": value}  # noqa: E731
        run.bound(value, proof if checkable else None)

    return report


def _additive(instance: Instance) -> bool:
    """True if configurations of one node and degree only differ in time and memory, but not in what they move."""
    apart = np.flatnonzero((np.diff(instance.node) == 0) & (np.diff(instance.degree) == 0))
    if instance.objective == "step" and not _same(instance.parameters, apart):
        return False
    sync, start = instance.sync, instance.sync_start.tolist()
    return all(np.array_equal(sync[start[c] : start[c + 1]], sync[start[c + 1] : start[c + 2]]) for c in apart.tolist())


def _same(column: Floats, at: Ints) -> bool:
    return bool((column[at] == column[at + 1]).all())
