"""HEFT, the baseline, with devices that colocation, restrictions and memory allow."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Ints
from instances.scheduling import Instance
from solvers.scheduling.heuristics.heft import earliest_finish
from solvers.scheduling.heuristics.local import partitioner


@partitioner("heft", "Mayer et al. 2017, Section 5.1; Topcuoglu et al. 2002")
def heft(instance: Instance, rng: np.random.Generator) -> Ints:
    """Assign vertices by upward rank where each finishes earliest; colocated ones follow the first of their group.

    The others of a group get their time on the device when it is their turn, as Section 5.1 says; until then it is not
    kept free for them. As in the original a vertex may fill a gap before others that are planned already, and ranks
    take means over devices and links; see ``upward_rank``.
    """
    return earliest_finish(instance)
