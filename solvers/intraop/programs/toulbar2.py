"""Minimisations by toulbar2 in child processes, as its options are global and a solve consumes its network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.programs.child_processes import GRACE, in_child
from shardmark.solvers.intraop.programs.toulbar2_network import Minimum, Network, Status

#: Successive minimisations: relative gain at which message passing ends, and share of the remaining time.
STAGES = ((0.01, 0.1), (0.001, 0.3), (0.00001, 1.0))


def minimum(job: Callable[[], Minimum], until: float, grace: float = GRACE) -> Minimum | None:
    """Run a minimisation until a time; None if it does not answer within ``grace`` more seconds."""

    def packed() -> Ints:
        found = job()
        value = np.zeros(0, dtype=np.int64) if found.value is None else found.value
        return np.concatenate([np.array([found.status, found.bound, found.value is not None]), value])

    answer = in_child(packed, until - time.monotonic(), until + grace)
    if answer is None:
        return None
    status, bound, solved = answer[:3].tolist()
    return Minimum(Status(status), answer[3:] if solved else None, bound)


def bounded(network: Network, penalty: Ints, remaining: Callable[[], float], grace: float = GRACE) -> Iterator[Minimum]:
    """Yield bounds on the least cost under penalties, shape (rows,), with ever more message passing.

    Ends early once the minimum is optimal, or once there is proved to be none.
    """
    for accuracy, share in STAGES:
        seconds = share * remaining()
        until = time.monotonic() + seconds
        job = partial(network.minimise, penalty, seconds, until, discrepancies=0, accuracy=accuracy)
        found = minimum(job, until, grace)
        if found is None:
            continue
        if found.status == Status.OPTIMAL and found.value is not None:
            found = found._replace(bound=network.cost(found.value, penalty))
        yield found
        if found.status in (Status.OPTIMAL, Status.IMPOSSIBLE):
            return
