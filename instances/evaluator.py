"""Lets an instance compute the cost and violations of a solution with the referee's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from shardmark.instances.errors import InputError


class Evaluator:
    """An instance that evaluates solutions: their cost and the rules that they break, as the referee does after a run.

    Solutions have the forms that ``run.report`` takes. Each call computes everything from the definitions, so
    it is for checking results and too slow for the inner loop of a search. Instances from `shardmark.load` and from the
    referee can evaluate solutions; those from `instances.load` cannot.
    """

    #: Returns the verdict on a solution; set by whoever hands instances out, as nothing here imports the referee.
    verdict: ClassVar[Callable[[Any, Any], Any] | None] = None

    def cost(self, solution: Any) -> int | float:
        """Return the cost, also of a solution that breaks a rule: an exact int for `intraop`, else a float.

        InputError if the solution is too malformed to have a cost.
        """
        verdict = self._judge(solution)
        if verdict.cost is None:
            raise InputError("cost()", "", verdict.violations[0])
        return verdict.cost

    def violations(self, solution: Any) -> tuple[str, ...]:
        """Return a sentence for each broken rule, with place and amount; empty if the solution is feasible."""
        return self._judge(solution).violations

    def _judge(self, solution: Any) -> Any:
        if Evaluator.verdict is None:
            raise RuntimeError("no verifier is loaded: read the instance with shardmark.load")
        return Evaluator.verdict(self, solution)
