"""The share of each pass in the time of a sharding whose model has operators of both."""

from __future__ import annotations

from shardmark.instances.models.as_intraop import Sharding
from shardmark.instances.models.devices import Device
from shardmark.instances.models.sharding.mesh import Splits
from shardmark.instances.models.sharding.splits import nest
from shardmark.instances.models.sharding.times import operator_times


def forward_seconds(sharding: Sharding, solution: list[int], device: Device) -> float:
    """Seconds of the forward pass: its operators, and the changes of layouts of what they read."""
    model, mesh, total = sharding.model, sharding.mesh, 0.0
    made = {
        tensor: (node, layouts[[solution[node]]])
        for node, group in enumerate(sharding.groups)
        for tensor, layouts in group.layouts.items()
    }
    for node, group in enumerate(sharding.groups):
        arrived = set[tuple[int, bytes]]()
        for index, splits in group.splits.items():
            loops, chosen = nest(model, model.operators[index]), splits[[solution[node]]]
            time = float(operator_times(model, index, loops, chosen, mesh, device, training=False)[0])
            for use in loops.reads:
                target: Splits = use.layouts(chosen)
                key = use.tensor, target.tobytes()
                home, source = made[use.tensor]
                if key not in arrived and not (home == node and (source == target).all()):
                    latency, transfer = mesh.reshard(source, target, model.tensors[use.tensor].bytes)
                    time += float(latency[0] + transfer[0])
                arrived.add(key)
            total += 0.0 if model.operators[index].backward else time
    return 1e-9 * total
