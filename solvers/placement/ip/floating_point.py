"""An integer program of placement in floating-point numbers that engines cope with, and what their bounds are worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from instances.rounding import safely
from solvers.placement.ideals.dynamic_program import rounding
from solvers.placement.ip.program import LoadProgram

#: The cost of the placement known becomes about this, and the memory: far from the absolute tolerances of engines.
SCALE = 2.0**10
#: No scale is greater, so that what is scaled by it is finite.
LARGEST = 2.0**1000
#: SCIP and HiGHS accept reduced costs that are off by this much, of columns that range from 0 to 1.
DUAL_TOLERANCE = 1e-7
#: What every bound gives way besides: cuts, propagation and pruning work with relative tolerances up to 1e-6.
RELATIVE_TOLERANCE = 1e-6


class FloatProgram:
    """A program whose times are scaled; ``whole``, ``top`` and ``cost`` are of its columns, which are at least 0."""

    def __init__(self, program: LoadProgram) -> None:
        self._program = program
        self.scale = min(SCALE / 2.0 ** math.frexp(program.upper)[1], LARGEST)
        self.whole = program.whole
        self.top = [2 * SCALE if column in program.loads else 1.0 for column in range(len(program.whole))]
        self.cost = [float(column in program.loads) for column in range(len(program.whole))]

    def rows(self) -> Iterator[tuple[list[int], Sequence[float], float, float]]:
        """Columns, their factors, and the least and the most that the sum can be."""
        program = self._program
        for columns, factors, least, most in program.rows:
            yield columns, [float(factor) for factor in factors], float(least), float(most)
        for columns, times, load in program.busy:
            scaled = [min(time * self.scale, 4 * SCALE) for time in times]
            yield [*columns, load], [*scaled, -1.0], -sum(scaled) - 2 * SCALE, 0.0
        instance = program.items.instance
        room = SCALE * (1 + 2 * rounding(instance))  # what fits in truth fits the rounded sums
        for columns, sizes in program.rooms:
            if columns:  # so the capacity is not 0
                yield columns, [min(size / instance.capacity, 4.0) * SCALE for size in sizes], 0.0, room

    def bound(self, dual: float) -> float:
        """Turn an engine's bound into a safe one, less the tolerances of its arithmetic."""
        owed = DUAL_TOLERANCE * (len(self.whole) + 1)
        instance = self._program.items.instance
        least = min((dual - owed) * (1 - RELATIVE_TOLERANCE) / self.scale, self._program.upper)
        return safely(least, instance.nodes + instance.edges)
