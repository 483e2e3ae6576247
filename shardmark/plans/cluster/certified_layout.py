"""A layout of a run on a cluster, verified, with its figures: everything that text and files of it tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmark.harness.results import claims
from shardmark.instances.hybrid import Instance
from shardmark.instances.models.model import Model
from shardmark.plans.cluster.blocks import Block
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.practice import Practice
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.stages import Stage
from shardmark.plans.solving import words


@dataclass(frozen=True)
class Unproven:
    """A sharding that some blocks may have, which is not proven to be the fastest in the time for it.

    ``blocks``  names of the blocks, which are equal
    ``degree``  devices
    ``lean``    True for the sharding chosen with the update of parameters in mind
    ``gap``     by how much it is above the fastest at most, of the time; None without a bound
    """

    blocks: tuple[str, ...]
    degree: int
    lean: bool
    gap: float | None


@dataclass(frozen=True)
class CertifiedLayout:
    """A verified layout of a run, with a proven bound.

    ``source``       path of the model's file
    ``model``, ``blocks``  its forward pass, and what stages consist of
    ``costs``        of every block, in the same order
    ``run``          what was asked
    ``backward``     time of the backward pass on one device, of that of the forward pass; 0.0 for serving
    ``rule``         why the backward pass is completed by a rule; None if it is the training step's own
    ``instance``, ``solution``  of track ``hybrid``; node i is block i
    ``cost_s``       seconds per step of the run; for serving per microbatch of the slowest stage, or of one sample
                     through all stages, as `Run.objective` says
    ``bound_s``      proven for any layout of these blocks and shardings; ``bound_from`` is its method
    ``unproven``     the shardings among them that may not be the fastest
    ``splits``       of every block, the dimensions of its parameters that the devices of a replica split, by name
    ``stages``       in the order of the pipeline
    ``practices``    what people do today, on the same costs
    ``utilisation``  arithmetic of the model per second, of the devices' peak
    ``request``      the arguments of `request.plan_run` that lay the run out again, and the SHA-256 of the model's file
    """

    source: Path
    model: Model = field(repr=False)
    blocks: Sequence[Block] = field(repr=False)
    costs: Sequence[Sequence[Costs]] = field(repr=False)
    run: Run
    backward: float
    rule: str | None
    instance: Instance = field(repr=False)
    solution: Mapping[str, Any] = field(repr=False)
    cost_s: float
    bound_s: float
    bound_from: str
    unproven: Sequence[Unproven]
    splits: Sequence[Mapping[str, Sequence[bool]]] = field(repr=False)
    stages: Sequence[Stage] = field(repr=False)
    practices: Sequence[Practice] = field(repr=False)
    utilisation: float
    request: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def gap(self) -> float | None:
        """cost / bound - 1; 0.0 if the layout is proven optimal."""
        return claims.gap(self.cost_s, self.bound_s)

    @property
    def gap_text(self) -> str:
        """The proven gap in words."""
        layouts = "layout of these blocks and shardings"
        text = words(self.gap).replace("split there is", layouts)
        text = f"{text}: no {layouts} is faster" if self.gap == 0 else text
        some = f", of those whose numbers of replicas divide {self.run.rounds:,}" if self.run.left_out else ""
        return f"{text}{some}"

    @property
    def samples_per_s(self) -> float:
        """Samples per second."""
        if self.run.objective == "latency":
            return self.run.microbatch / max(stage.microbatch_s for stage in self.stages)
        return (self.run.batch if self.run.training else self.run.microbatch) / self.cost_s

    @property
    def used(self) -> int:
        """Devices that hold a stage."""
        return sum(stage.replicas * stage.tensor for stage in self.stages)
