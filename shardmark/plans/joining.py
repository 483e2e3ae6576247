"""The operators that a plan places: those of the file, fused chains, and units of both passes of a training step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardmark.instances.models.fuse import fuse
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import Costs
from shardmark.plans.joined_passes import is_training_step, join_passes


@dataclass(frozen=True)
class Joined:
    """A model whose operators are groups of those of a file.

    ``model``   the operators that a plan places
    ``chains``  operators as devices run them, one after another: those of the file, or fused chains of them
    ``links``   for every chain, the indices of the file's operators in it
    ``units``   for every operator of ``model``, the indices of the chains in it
    """

    model: Model
    chains: Model
    links: Sequence[Sequence[int]]
    units: Sequence[Sequence[int]]

    @classmethod
    def of(cls, model: Model, *, fused: bool, passes: bool) -> Joined:
        """Fuse chains of cheap operators if ``fused``; join the two passes of a training step if ``passes``."""
        chains, links = fuse(model) if fused else (model, _alone(model))
        joined, units = join_passes(chains) if passes and is_training_step(chains) else (chains, _alone(chains))
        return cls(joined, chains, links, units)

    @property
    def passes(self) -> bool:
        """True if the passes of a training step are joined."""
        return len(self.units) < len(self.chains.operators)

    @property
    def groups(self) -> list[list[int]]:
        """For every operator of ``model``, the indices of the file's operators in it."""
        return [[index for chain in unit for index in self.links[chain]] for unit in self.units]

    def sums(self, costs: Costs) -> Costs:
        """Costs of the operators of ``model``, given those of the chains."""
        seconds = [costs.seconds[list(unit)].sum() for unit in self.units]
        return Costs(np.array(seconds, dtype=float), costs.origin)


def _alone(model: Model) -> list[list[int]]:
    return [[index] for index in range(len(model.operators))]
