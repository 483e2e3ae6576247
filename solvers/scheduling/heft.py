"""HEFT, the baseline, on the devices that colocation, restrictions and memory allow."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.heft import earliest_finish
from shardmark.solvers.scheduling.heuristics.local import partitioner


@partitioner("heft", "Mayer et al. 2017, Section 5.1; Topcuoglu et al. 2002")
def heft(instance: Instance, rng: np.random.Generator) -> Ints:
    """Assign vertices by upward rank to the device that finishes first; groups follow their first vertex.

    As in Section 5.1, the other vertices of a colocation group get their time on the device in their turn; it is not
    reserved for them before. As in the original, a vertex may fill a gap before vertices that are already planned, and
    ranks use means over devices and links; see ``upward_rank``.
    """
    return earliest_finish(instance)
