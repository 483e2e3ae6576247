"""NAME: say in one line what the method is."""

from __future__ import annotations

import numpy as np

from shardmark import Run, solver
from shardmark.instances.scheduling import Instance


@solver(track="scheduling", source="where the method is described")
def name(instance: Instance, run: Run) -> None:
    """Say in one line what it does; tables show it."""
    device = np.zeros(instance.nodes, dtype=int)
    for unit, number in enumerate(instance.unit_choice.tolist()):  # vertices that must share a device
        devices = np.arange(instance.devices) if number < 0 else instance.unit_choices[number]
        fastest = devices[np.argmax(instance.speed[devices])]  # of those that all of them may use
        device[instance.unit == unit] = fastest
    priority = np.empty(instance.nodes)
    priority[instance.graph.topological_order] = np.arange(instance.nodes, 0, -1)
    solution = {"device": device, "priority": priority}  # or "order": a list of vertices for each device
    run.report(solution)  # report every better solution, as it is found, until run.remaining() is 0
