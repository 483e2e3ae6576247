"""Setting CP-SAT up in one way, without what its version 9.15 gets wrong."""

from __future__ import annotations

from typing import Any


def set_up(parameters: Any, cores: int, seed: int, seconds: float) -> None:
    """Give a ``SatParameters`` what a run has.

    Detecting inclusions while a model is simplified can make version 9.15 prove what is false (or-tools issue 5293): it
    is given no work to do.
    """
    parameters.num_workers = cores
    parameters.random_seed = seed % 2**31
    parameters.max_time_in_seconds = max(0.0, seconds)
    parameters.presolve_inclusion_work_limit = 0
