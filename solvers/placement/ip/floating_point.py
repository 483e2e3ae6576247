"""An integer program of placement scaled for floating-point engines, and their bounds made safe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from shardmark.instances.rounding import safely
from shardmark.solvers.placement.ideals.dynamic_program import rounding
from shardmark.solvers.placement.ip.program import LoadProgram

#: Scaled memory, and approximate scaled cost of the best placement: far above the absolute tolerances of engines.
SCALE = 2.0**10
#: Greatest scale factor, so that scaled numbers are finite.
LARGEST = 2.0**1000
#: Error that SCIP accepts in reduced costs of columns from 0 to 1.
DUAL_TOLERANCE = 1e-7
#: Further relative loss of every bound: cuts, propagation and pruning have relative tolerances up to 1e-6.
RELATIVE_TOLERANCE = 1e-6


class FloatProgram:
    """A program with scaled times, and ``whole``, ``top`` and ``cost`` of each column, which is at least 0."""

    def __init__(self, program: LoadProgram) -> None:
        self._program = program
        self.scale = min(SCALE / 2.0 ** math.frexp(program.upper)[1], LARGEST)
        self.whole = program.whole
        self.top = [2 * SCALE if column in program.loads else 1.0 for column in range(len(program.whole))]
        self.cost = [float(column in program.loads) for column in range(len(program.whole))]

    def rows(self) -> Iterator[tuple[list[int], Sequence[float], float, float]]:
        """Yield for each row its columns, their factors, and the limits of the sum."""
        program = self._program
        for columns, factors, least, most in program.rows:
            yield columns, [float(factor) for factor in factors], float(least), float(most)
        for columns, times, load in program.busy:
            scaled = [min(time * self.scale, 4 * SCALE) for time in times]
            yield [*columns, load], [*scaled, -1.0], -sum(scaled) - 2 * SCALE, 0.0
        instance = program.items.instance
        room = SCALE * (1 + 2 * rounding(instance))  # rounded sums of sets that fit do not exceed this
        for columns, sizes in program.rooms:
            if columns:  # so the capacity is not 0
                yield columns, [min(size / instance.capacity, 4.0) * SCALE for size in sizes], 0.0, room

    def bound(self, dual: float) -> float:
        """Lower an engine's bound by its tolerances."""
        owed = DUAL_TOLERANCE * (len(self.whole) + 1)
        instance = self._program.items.instance
        least = min((dual - owed) * (1 - RELATIVE_TOLERANCE) / self.scale, self._program.upper)
        return safely(least, instance.nodes + instance.edges)
