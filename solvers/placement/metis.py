"""METIS, a graph partitioner, as an alternative to Scotch."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.throughput.partitions import Weighted, place_parts
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="placement", source="Karypis & Kumar 1998", proves_bounds=False)
def metis(instance: Instance, run: Run) -> None:
    """Partition by METIS: balanced work, few transfers, memory ignored.

    Requires contiguity free, as parts need not be contiguous. For latency, parts are cut into contiguous subgraphs.
    CPUs get the blocks that no accelerator can hold. Declined if the package pymetis is not installed.
    """
    place_parts(instance, run, "METIS", lambda graph, parts: _partition(graph, parts, run.seed))


def _partition(graph: Weighted, parts: int, seed: int) -> Ints:
    try:
        import pymetis
    except ImportError:
        raise Declined("the package pymetis is not installed: install pymetis, or the extra partition") from None
    options = pymetis.Options(seed=seed % 2**31)
    edges = pymetis.CSRAdjacency(graph.start, graph.other)
    found = pymetis.part_graph(parts, edges, vweights=graph.work, eweights=graph.weight, options=options)
    return np.array(found.vertex_part, dtype=np.int64)
