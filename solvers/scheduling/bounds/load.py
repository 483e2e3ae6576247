"""Lower bound: work over speed, for all devices and for those that the most restricted vertices share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Run, bound
from shardmark.solvers.scheduling.schedules.formulas import certify, work_of
from shardmark.solvers.scheduling.schedules.heads_tails import proved

#: Scale of the integer capacities of the flow; only the cut counts, whose quotient is computed again exactly.
FINE = 2**40


@bound(
    track="scheduling", source="preemptive scheduling on uniform machines: Horvath et al. 1977; restrictions: a flow"
)
def load(instance: Instance, run: Run) -> None:
    """Balance divisible work over the devices that restrictions and colocation allow."""
    run.bound(instance.simple_bound())
    value, devices = max(heaviest_units(instance), restricted_sets(instance), key=lambda found: found[0])
    run.bound(proved(value, instance))
    certify(run, instance, [(value, work_of(devices))])


def heaviest_units(instance: Instance) -> tuple[float, Ints]:
    """Bound from the i units with most work on the i fastest devices, for all i, or one unit on those that it may use.

    No unit is divided. Returns the bound and the devices.
    """
    work = np.bincount(instance.unit, weights=instance.complexity, minlength=len(instance.unit_choice))
    speeds = np.sort(instance.speed)[::-1].cumsum()
    heaviest = np.sort(work)[::-1].cumsum()[: len(speeds)]
    best = [*(instance.speed[choice].max() for choice in instance.unit_choices), instance.speed.max()]
    alone = work / np.array(best)[instance.unit_choice]
    together = float((heaviest / speeds[: len(heaviest)]).max(initial=0.0)), np.arange(instance.devices)
    if float(alone.max(initial=0.0)) <= together[0]:
        return together
    choice = instance.unit_choice[alone.argmax()]
    return float(alone.max()), instance.unit_choices[choice] if choice >= 0 else together[1]


def restricted_sets(instance: Instance) -> tuple[float, Ints]:
    """The greatest quotient of the work confined to a set of devices and the total speed of the set; and that set.

    Dinkelbach's method: a set with a greater quotient is one whose work a flow to the devices cannot saturate.
    """
    choices = (*instance.unit_choices, np.arange(instance.devices))
    number = instance.unit_choice[instance.unit] % len(choices)  # -1, for any device, becomes the last
    work = np.bincount(number, instance.complexity, len(choices)).astype(np.float64)
    inside, found, best = np.ones(len(choices), dtype=bool), 0.0, choices[-1]
    while (total := float(work[inside].sum())) > 0:
        devices = np.unique(np.concatenate([choices[i] for i in np.flatnonzero(inside)]))
        quotient = total / float(instance.speed[devices].sum())
        if quotient <= found:
            break
        found, best = quotient, devices
        inside = _unsaturated(choices, work, instance.speed, quotient)
    return found, best


def _unsaturated(choices: tuple[Ints, ...], work: Floats, speed: Floats, time: float) -> NDArray[np.bool_]:
    """Mask of the restrictions whose joint devices lack most room for their work within ``time``: a minimum cut."""
    from ortools.graph.python import max_flow

    flow, total = max_flow.SimpleMaxFlow(), float(work.sum())
    with np.errstate(over="ignore"):  # no device has room for more than all work
        room = np.minimum(speed * time / total, 1.0) * FINE
    source, sink, first = len(choices) + len(room), len(choices) + len(room) + 1, len(choices)
    for i, devices in enumerate(choices):
        flow.add_arc_with_capacity(source, i, int(work[i] / total * FINE))
        for d in devices.tolist():
            flow.add_arc_with_capacity(i, first + d, FINE)
    for d, most in enumerate(room.tolist()):
        flow.add_arc_with_capacity(first + d, sink, int(most))
    flow.solve(source, sink)
    inside = np.zeros(len(choices), dtype=bool)
    inside[[node for node in flow.get_source_side_min_cut() if node < first]] = True
    return inside
