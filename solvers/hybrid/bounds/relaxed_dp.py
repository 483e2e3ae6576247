"""Lower bound: the dynamic program over down-sets, with positions in the place of down-sets."""

from __future__ import annotations

import math

from shardmark.instances.hybrid import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.hybrid._proofs import bound_by_states, simple_proof
from shardmark.solvers.hybrid.positions.limits import refute
from shardmark.solvers.registry import Run, bound


@bound(track="hybrid", source="ours: the state-space relaxation of Christofides et al. 1981 on the paper's program")
def relaxed_dp(instance: Instance, run: Run) -> None:
    """Refute limits by a dynamic program over prices of down-sets; any number of down-sets."""
    run.bound(instance.simple_bound(), simple_proof)
    with deadline(run) as stop:
        refute(instance, math.inf, stop, bound_by_states(instance, run, stop))
