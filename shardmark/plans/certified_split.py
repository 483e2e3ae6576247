"""A split of a model over devices, verified, with its figures: everything that pages and files of a plan tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.results import claims
from instances.models.model import Model
from instances.models.roofline import Costs
from shardmark.plans.parts import Part
from shardmark.plans.solving import words
from shardmark.plans.targets import Layout, Target


@dataclass(frozen=True)
class CertifiedSplit:
    """A split of a model over devices, verified, and how far from the best split it can be.

    ``source``, ``sha256``  path of the model's file, and the SHA-256 of its content
    ``model``        the operators that were split, after `fuse` if that was asked for
    ``groups``       for every operator of ``model``, the names of the operators of the file that it stands for
    ``target``       the devices
    ``costs``        seconds of every operator, and where they come from
    ``instance``     of the track ``target.track``
    ``solution``     of the instance, plain JSON
    ``cost``         verified, in microseconds
    ``lower_bound``  proven for the cost of any split, in microseconds; ``bound_from`` is its method
    ``layout``       the solution as stages, devices or sharding strategies
    ``better``       of a split that was given: the cost of a better one that was found, in microseconds; else None
    ``options``      arguments of `plan` that matter to whoever repeats it
    """

    source: Path
    sha256: str
    model: Model = field(repr=False)
    groups: Sequence[Sequence[str]] = field(repr=False)
    target: Target
    costs: Costs = field(repr=False)
    instance: Any = field(repr=False)
    solution: Any = field(repr=False)
    cost: float
    lower_bound: float
    bound_from: str
    layout: Layout = field(repr=False)
    options: Mapping[str, Any]
    better: float | None = None

    @property
    def parts(self) -> Sequence[Part]:
        """The stages or devices that hold operators, in the order of the data's flow; on a mesh, one part for all."""
        return self.layout.parts

    @property
    def gap(self) -> float | None:
        """cost / lower_bound - 1; 0.0 if the split is proven optimal, None if the bound is 0."""
        return claims.gap(self.cost, self.lower_bound)

    @property
    def gap_text(self) -> str:
        """The proven gap in words."""
        return words(self.gap) + (f": no split has a lower {self.target.what}" if self.gap == 0 else "")

    @property
    def single_device_us(self) -> float:
        """Microseconds per run on one of the devices, as if it held the whole model."""
        return float(1e6 * self.costs.seconds.sum())

    @property
    def speedup(self) -> float:
        """Throughput against one device that held the whole model."""
        return self.single_device_us / self.cost if self.cost else 1.0

    @property
    def assignment(self) -> dict[str, int]:
        """For every operator of the file, the place in ``parts`` of the one that runs it."""
        pairs = zip(self.groups, self.layout.part_of, strict=True)
        return {name: part for names, part in pairs for name in names}
