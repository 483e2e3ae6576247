"""A split of a model over devices, verified, with its figures: everything that pages and files of a plan tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmark.harness.results import claims
from shardmark.harness.results.grades import CHECKED, CLAIMED
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import Costs
from shardmark.plans.parts import Part
from shardmark.plans.solving import words
from shardmark.plans.targets import Layout, Target
from shardmark.plans.whole import Price

_PASSES = "both passes of a layer together"


@dataclass(frozen=True)
class CertifiedSplit:
    """A verified split of a model over devices, with a proven bound.

    ``source``, ``sha256``  path of the model's file, and the SHA-256 of its content
    ``model``        the operators that were split, fused if ``fuse`` was set
    ``groups``       for every operator of ``model``, the names of the file's operators that it consists of
    ``target``       the devices
    ``costs``        time of every operator in seconds, with its source
    ``instance``     of the track ``target.track``
    ``solution``     of the instance, plain JSON
    ``cost``         verified, in microseconds
    ``lower_bound``  proven for the cost of any split, in microseconds; ``bound_from`` is its method
    ``layout``       the solution as stages, devices or sharding strategies
    ``better``       cost in microseconds of a better split than the given one, if one was found; else None
    ``price``        if modules are kept whole: which, and what that costs; else None
    ``passes``       True if every operator of a training step's forward pass and those of its gradients share a part
    ``grade``        how far the bound was checked: "checked" by its certificate, "agreed" or "claimed"
    ``options``      arguments of `plan` that are needed to repeat it
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
    price: Price | None = None
    passes: bool = False
    grade: str = CLAIMED

    @property
    def parts(self) -> Sequence[Part]:
        """The stages or devices with operators, in the order of data flow; on a mesh, one part for all."""
        return self.layout.parts

    @property
    def gap(self) -> float | None:
        """cost / lower_bound - 1; 0.0 if the split is proven optimal, None if the bound is 0."""
        return claims.gap(self.cost, self.lower_bound)

    @property
    def gap_text(self) -> str:
        """The proven gap in words; they say so if the proof was checked."""
        which = f": no split{self._which} has a lower {self.target.what}" if self.gap == 0 else self._which
        return words(self.gap) + which + "; proven and checked" * (self.grade == CHECKED)

    @property
    def about_loads(self) -> str:
        """What the loads and the bound in a drawing mean."""
        return self.target.about_loads.format(which=self._which)

    @property
    def price_text(self) -> str:
        """What keeping modules whole costs, in words; "" if none are."""
        if self.price is None:
            return ""
        among = f" with {_PASSES}" * self.passes
        return f"{len(self.price.modules)} kept whole: {self.price.in_words(self.cost, among)}"

    @property
    def _which(self) -> str:
        """The splits that the bound is about, if these are not all."""
        kept = ["these modules whole"] * (self.price is not None) + [_PASSES] * self.passes
        return f" with {' and '.join(kept)}" if kept else ""

    @property
    def single_device_us(self) -> float:
        """Microseconds per run on one of the devices, if that held the whole model."""
        return float(1e6 * self.costs.seconds.sum())

    @property
    def speedup(self) -> float:
        """Throughput relative to one device that holds the whole model."""
        return self.single_device_us / self.cost if self.cost else 1.0

    @property
    def assignment(self) -> dict[str, int]:
        """For every operator of the file, the index in ``parts`` of the part that runs it."""
        pairs = zip(self.groups, self.layout.part_of, strict=True)
        return {name: part for names, part in pairs for name in names}

    @property
    def operators(self) -> list[int]:
        """For every part, the number of the file's operators that it runs."""
        numbers = Counter(self.assignment.values())
        return [numbers[part] for part in range(len(self.parts))]
