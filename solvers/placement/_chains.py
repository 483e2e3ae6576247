"""Best splits for throughput into devices that follow one another, over all ways to contract an instance."""

from __future__ import annotations

import math
from collections.abc import Callable

from instances.graph import Index
from instances.placement import Instance
from solvers.native import Ideals
from solvers.placement._contracted import contractions
from solvers.placement._ideals import IdealProgram, Placement


class Chains:
    """The dynamic programs of an instance, one for each way to contract it; ``stop`` as in `IdealProgram`."""

    def __init__(self, instance: Instance, stop: Index) -> None:
        self._programs = [IdealProgram(instance, contracted, stop) for contracted in contractions(instance)]

    def best_cut(self, memory: float) -> Placement | None:
        """The best way to cut a linear extension into devices, within so many MiB; None if none fits, or if stopped."""
        return self._best(lambda program: program.prefixes(memory), None)

    def best(self, memory: float) -> Placement | None:
        """The best split along ideals, within so many MiB; Declined if these are too many.

        None if nothing fits, or if stopped before it is known to be the best one.
        """
        found = self._best(lambda program: program.ideals(memory), self.best_cut(memory))
        return None if any(program.stop[0] for program in self._programs) else found

    def _best(self, ideals: Callable[[IdealProgram], Ideals], best: Placement | None) -> Placement | None:
        for program in self._programs:
            best = program.best(ideals(program), best.cost if best else math.inf) or best
        return best
