"""Best splits for throughput into devices that follow one another, over all ways to contract an instance."""

from __future__ import annotations

import math
from collections.abc import Iterator

from instances.graph import Index
from instances.placement import Instance
from solvers.placement.ideals.contraction import contractions
from solvers.placement.ideals.dynamic_program import IdealProgram, Placement, fits


class Splits:
    """The dynamic programs of an instance, one for each way to contract it; ``stop`` as in `IdealProgram`."""

    def __init__(self, instance: Instance, stop: Index) -> None:
        self._programs = [IdealProgram(instance, contracted, stop) for contracted in contractions(instance)]

    def cuts(self, memory: float) -> Iterator[Placement]:
        """Cuts of linear extensions into devices, within so many MiB, each better than the one before."""
        limit = math.inf
        for program in self._programs:
            for found in program.cuts(memory, limit):
                limit = found.cost
                yield found

    def best(self, memory: float) -> Placement | None:
        """The best split along ideals, within so many MiB; Declined if these are too many.

        None if nothing is known to fit, or if stopped before it is known to be the best one.
        """
        best = min(self.cuts(memory), key=lambda found: found.cost, default=None)
        for program in self._programs:
            ideals, limit = program.ideals(memory), best.cost if best else math.inf
            relaxed = program.relaxation.best(ideals, limit)
            if relaxed is not None:
                best = relaxed if fits(program.instance, relaxed.device) else program.best(ideals, limit) or best
        return None if any(program.stop[0] for program in self._programs) else best
