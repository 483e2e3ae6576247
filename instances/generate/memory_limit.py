"""Memory limits for ``intraop`` that can be met and that bind."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from instances.intraop import Instance


def with_limit(instance: Instance, fast: Sequence[int], frugal: Sequence[int], tightness: float) -> Instance:
    """The instance with a limit ``tightness`` of the way from what one assignment needs to what another does.

    ``fast`` chooses for cost, ``frugal`` for memory, a strategy a node; ``frugal`` stays feasible always.
    """

    def peak(assignment: Sequence[int]) -> int:
        rows = instance.strategy_start[:-1] + np.array(assignment, dtype=np.int64)
        return instance.peak(instance.usage[rows])

    least = peak(frugal)
    return dataclasses.replace(instance, usage_limit=least + max(0, round((1 - tightness) * (peak(fast) - least))))
