"""The combinatorial lower bound of Lemma 3.3."""

from __future__ import annotations

from instances.pipeline import Instance
from solvers.registry import Run, bound


@bound(track="pipeline", source="Archer et al. 2024, Lemma 3.3")
def simple(instance: Instance, run: Run) -> None:
    """Some stage does at least the work of the heaviest node, and at least an even share of all work."""
    run.bound(instance.work_bound())
