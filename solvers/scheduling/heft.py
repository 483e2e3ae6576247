"""HEFT, the baseline, with devices that colocation, restrictions and memory allow."""

from __future__ import annotations

import numpy as np

from instances.columns import Ints
from instances.scheduling import Instance
from solvers.scheduling._heft import earliest_finish
from solvers.scheduling._local import partitioner


@partitioner("heft", "Mayer et al. 2017, Section 5.1; Topcuoglu et al. 2002")
def heft(instance: Instance, rng: np.random.Generator) -> Ints:
    """Assign vertices by upward rank where each finishes earliest; colocated ones follow the first of their group."""
    return earliest_finish(instance)
