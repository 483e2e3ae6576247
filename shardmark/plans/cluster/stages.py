"""The stages of a layout: the time of their passes, and their memory by what it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardmark.harness import verify
from shardmark.harness.verify.hybrid import latencies
from shardmark.instances.hybrid import Instance
from shardmark.plans.cluster.blocks import Block
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.machines.memory import working_bytes
from shardmark.plans.cluster.machines.placing import Place, placed
from shardmark.plans.cluster.problem import AGAIN, names
from shardmark.plans.cluster.run import KINDS, Run

#: Share of what replicas move for every microbatch in its forward pass, by what they divide: gradients are scattered,
#: weights gathered for both passes as well.
FORWARD = {"weights": 1 / 3}


@dataclass(frozen=True)
class Stage:
    """A stage of a layout, per device where it is about bytes.

    ``blocks``      names, in order; ``recomputed`` those whose activations are computed again
    ``replicas``, ``tensor``  replicas, and devices of each
    ``in_flight``   microbatches whose activations a replica keeps at the same time
    ``microbatch_s``  seconds of a microbatch on a replica
    ``forward_s``, ``recomputation_s``  those of them in the forward pass, and for computing activations again; for
                    latency, ``forward_s`` has what enters the stage, as long as at the slower end, and not what leaves
    ``sync_s``      seconds in which replicas exchange gradients, once per step
    ``held``        bytes by what they are: `run.KINDS`, "activations" in flight, and "working", for one block while it
                    runs
    ``places``      machine and devices of every replica
    """

    blocks: tuple[str, ...]
    recomputed: tuple[str, ...]
    replicas: int
    tensor: int
    in_flight: int
    microbatch_s: float
    forward_s: float
    recomputation_s: float
    sync_s: float
    held: Mapping[str, float]
    places: tuple[Place, ...]

    @property
    def machines(self) -> list[int]:
        """The machines that replicas are in, ascending."""
        return sorted({place.machine for place in self.places})

    @property
    def backward_s(self) -> float:
        """Seconds of the backward pass of a microbatch, without recomputation."""
        return max(self.microbatch_s - self.forward_s - self.recomputation_s, 0.0)

    @property
    def memory(self) -> float:
        """Bytes per device."""
        return sum(self.held.values())


def stages_of(
    instance: Instance, solution: Mapping[str, Any], blocks: Sequence[Block], costs: Sequence[Sequence[Costs]], run: Run
) -> list[Stage]:
    """The stages of a solution of `problem`, with the verifier's times and memory."""
    found, parts, working = (
        verify.stages(instance, solution),
        verify.parts(instance, solution),
        working_bytes(solution, costs),
    )
    assert found is not None
    assert parts is not None
    samples = latencies(instance, solution)
    assert samples is not None
    chosen = chosen_costs(solution, costs)
    places = placed(found.data, found.tensor, run.machines, run.devices)
    rows = []
    for i, replicas in enumerate(found.data):
        mine = [v for v, stage in enumerate(solution["stage"]) if stage == i]
        again = [v for v in mine if solution["configuration"][v].startswith(AGAIN)]
        forward = samples[i] if run.objective == "latency" else found.microbatch[i]
        if run.training:
            (times,) = parts.times[i]
            moved = replicas * (times["in"] + times["out"])
            gathered = found.microbatch[i] - replicas * times["work"] - moved
            forward = sum(chosen[v].forward_s for v in mine) + moved / 2 + gathered * FORWARD.get(run.shard, 0.0)
        rows.append(
            Stage(
                tuple(blocks[v].name for v in mine),
                tuple(blocks[v].name for v in again),
                replicas,
                found.tensor[i],
                found.in_flight[i],
                found.microbatch[i],
                forward,
                sum(chosen[v].forward_s + chosen[v].enter_s for v in again),
                found.sync[i],
                {
                    **_state([chosen[v] for v in mine], replicas, run),
                    "activations": found.held[i]["activations"],
                    "working": working[i],
                },
                places[i],
            )
        )
    return rows


def chosen_costs(solution: Mapping[str, Any], costs: Sequence[Sequence[Costs]]) -> list[Costs]:
    """The costs of every block as a solution runs it."""
    places = zip(costs, solution["stage"], solution["configuration"], strict=True)
    return [
        next(one for one in menu if one.degree == solution["tensor_parallel"][stage] and kind in names(one))
        for menu, stage, kind in places
    ]


def _state(chosen: Sequence[Costs], replicas: int, run: Run) -> dict[str, float]:
    """Bytes per device of the parameters' state, by kind."""
    total = (sum(sizes) for sizes in zip(*(one.state for one in chosen), strict=True))
    return {
        kind: size / (1 if number < run.own else replicas)
        for number, (kind, size) in enumerate(zip(KINDS, total, strict=True))
    }
