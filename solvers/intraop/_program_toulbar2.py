"""Minimisations of toulbar2 in children: it keeps its options in globals, and a minimisation uses its network up."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from instances.columns import Ints
from solvers.intraop._network import Minimum, Status
from solvers.intraop._workers import GRACE, Workers


def in_child(job: Callable[[], Minimum], until: float) -> Minimum | None:
    """Run a minimisation that is asked to stop at a time; None if it does not answer soon after."""

    def packed() -> Ints:
        found = job()
        value = np.zeros(0, dtype=np.int64) if found.value is None else found.value
        return np.concatenate([[found.status], np.array([found.bound]), value])

    with Workers() as workers:
        workers.launch(None, packed, until - time.monotonic())
        answers = workers.collect(until + GRACE)
    if not answers or answers[0][1] is None:
        return None
    status, bound, *value = answers[0][1].tolist()
    return Minimum(Status(status), np.array(value, dtype=np.int64) if value else None, bound)
