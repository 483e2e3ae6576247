"""Writes models of times for CP-SAT, by its indices of variables and intervals; ``~x`` is the negation of ``x``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from shardmark.solvers._cpsat import HIGHEST, LOWEST, add_row, core


class Writer:
    """A ``CpModelProto``; ``cumulative`` is True if it has such a constraint."""

    def __init__(self) -> None:
        self.proto = core().CpModelProto()
        self.cumulative = False
        self._constants: dict[int, int] = {}

    def variable(self, most: int, least: int = 0) -> int:
        """An integer variable from ``least`` to ``most``."""
        self.proto.variables.add().domain.extend((least, most))
        return len(self.proto.variables) - 1

    def constant(self, value: int) -> int:
        """A variable with a single value."""
        if value not in self._constants:
            self._constants[value] = self.variable(value, value)
        return self._constants[value]

    def row(
        self, terms: Iterable[tuple[int, int]], least: int = LOWEST, most: int = HIGHEST, when: Sequence[int] = ()
    ) -> None:
        """Limit a weighted sum of variables if all literals of ``when`` are true."""
        total: dict[int, int] = {}
        for x, factor in terms:
            total[x] = total.get(x, 0) + factor
        total = {x: factor for x, factor in total.items() if factor}
        constraint = add_row(self.proto, list(total), list(total.values()), least, most)
        if when:
            constraint.enforcement_literal.extend(when)

    def before(self, first: int, then: int, gap: int = 0, when: Sequence[int] = ()) -> None:
        """Require ``then`` >= ``first`` + ``gap`` if all literals of ``when`` are true."""
        self.row([(first, -1), (then, 1)], least=gap, when=when)

    def clause(self, literals: Iterable[int]) -> None:
        """At least one of the literals is true."""
        self.proto.constraints.add().bool_or.literals.extend(list(literals))

    def exactly_one(self, literals: Iterable[int]) -> None:
        """Exactly one of the literals is true."""
        self.proto.constraints.add().exactly_one.literals.extend(list(literals))

    def task(self, start: int, length: int, present: int) -> int:
        """An interval of fixed ``length``, if ``present``."""
        interval = self._interval([(start, "start"), (start, "end")], present)
        interval.size.offset = interval.end.offset = length
        return len(self.proto.constraints) - 1

    def span(self, start: int, end: int, present: int, most: int) -> int:
        """An interval between two variables, of at most ``most`` units, if ``present``."""
        self._interval([(start, "start"), (self.variable(most), "size"), (end, "end")], present)
        return len(self.proto.constraints) - 1

    def _interval(self, parts: list[tuple[int, str]], present: int) -> Any:
        constraint = self.proto.constraints.add()
        constraint.enforcement_literal.append(present)
        for x, name in parts:
            part = getattr(constraint.interval, name)
            part.vars.append(x)
            part.coeffs.append(1)
        return constraint.interval

    def no_overlap(self, intervals: Iterable[int]) -> None:
        """Require that intervals do not overlap."""
        self.proto.constraints.add().no_overlap.intervals.extend(list(intervals))

    def limit_demand(self, intervals: Iterable[int], demands: Iterable[int], capacity: int) -> None:
        """Require that the demands of simultaneous intervals never exceed a capacity."""
        self.cumulative = True
        cumulative = self.proto.constraints.add().cumulative
        cumulative.capacity.offset = capacity
        cumulative.intervals.extend(list(intervals))
        for demand in demands:
            cumulative.demands.add().offset = demand

    def minimise(self, x: int) -> None:
        """Minimise a variable."""
        self.proto.objective.vars.append(x)
        self.proto.objective.coeffs.append(1)
