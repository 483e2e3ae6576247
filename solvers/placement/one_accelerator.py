"""Everything on one accelerator: the reference for every split."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Table 2, single accelerator", proves_bounds=False)
def one_accelerator(instance: Instance, run: Run) -> None:
    """Place all nodes on the first accelerator; declines if one is unsupported or memory is exceeded."""
    if not instance.accelerators:
        raise Declined("there are no accelerators")
    if not instance.supported.all():
        raise Declined("accelerators do not support every node")
    if instance.size.sum() > instance.capacity:
        raise Declined("the graph does not fit the memory of one accelerator")
    together = [0] * instance.nodes
    run.report(together if instance.objective == "throughput" else {"device": together, "slot": together})
