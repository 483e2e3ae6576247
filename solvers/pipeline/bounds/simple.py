"""The combinatorial lower bound of Lemma 3.3."""

from __future__ import annotations

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.programs.certificates.claims import EVEN_SHARES
from shardmark.solvers.registry import Run, bound


@bound(track="pipeline", source="Archer et al. 2024, Lemma 3.3")
def simple(instance: Instance, run: Run) -> None:
    """Take the larger of the heaviest node's work and an even share of all work."""
    run.bound(instance.work_bound(), lambda: EVEN_SHARES)
