"""Setting CP-SAT up in one way, without what its version 9.15 gets wrong."""

from __future__ import annotations

from typing import Any

#: CP-SAT's main strategies; fewer workers run only some of them unless they take turns.
STRATEGIES = 8


def set_up(parameters: Any, cores: int, seed: int, seconds: float, *, turns: bool = False) -> None:
    """Give a ``SatParameters`` what a run has; with ``turns`` few workers run all strategies.

    Detecting inclusions while a model is simplified can make version 9.15 prove what is false (or-tools issue 5293): it
    is given no work to do.
    """
    parameters.num_workers = cores
    parameters.random_seed = seed % 2**31
    parameters.max_time_in_seconds = max(0.0, seconds)
    parameters.interleave_search = turns and cores < STRATEGIES
    parameters.presolve_inclusion_work_limit = 0
