"""Memory weights for Algorithm 1 of the contest winner's paper: first on a logarithmic scale, then in brackets.

A round has several rising vectors of weights; the outcomes of their networks determine those of the next round. The
paper gives the direction in which weights move; all step sizes and factors here are those of the winner's program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.solvers.intraop.network.model import Mask

#: Largest relative random change of the first weights.
NOISE = 0.125
#: Factor on the upper end of a node's bracket if all weights of a round overload its time steps.
RAISE = 1.35
#: Divisors of the lower end if no weights of the round do, and if none ever did.
LOWER, LOWER_UNTRIED = 1.5, 1000.0
#: Growth of the exponent of these factors per consecutive round.
PER_ROUND_ABOVE, PER_ROUND_BELOW = 1.0, 1.25
#: Rate at which this growth decays over the rounds.
WEAR = 0.175
#: Largest factors.
MOST_RAISE, MOST_LOWER = 100.0, 1000.0
#: Factor and divisor for a single weight of all nodes.
RAISE_GLOBAL, LOWER_GLOBAL = 2.0, 1000.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of minimising the network under some weights.

    ``cost``  exact cost of its solution, Equation (1)
    ``over``  shape (n,): memory exceeds the limit in one of the node's time steps, Equation (2)
    """

    cost: int
    over: Mask

    @property
    def feasible(self) -> bool:
        """True if memory suffices at every time step."""
        return not self.over.any()


class Weights(ABC):
    """The weights of a round: ``level``, shape (levels, n), rising; those of ``free`` nodes, shape (n,), are 0."""

    def __init__(self, free: Mask, levels: int, rng: np.random.Generator) -> None:
        powers = 10.0 ** (np.arange(levels) - levels // 2)
        noise = rng.uniform(1 - NOISE, 1 + NOISE, (levels, len(free)))
        self.level: Floats = np.where(free, 0.0, powers[:, None] * noise)
        self._share = np.arange(1, levels + 1)[:, None] / levels
        self._begun = False

    def update(self, outcomes: Sequence[Outcome | None]) -> None:
        """Lines 3 to 8, for the outcome of each level, None for failures.

        Until some level has led to a feasible solution, line 1: continue the logarithmic scale.
        """
        tried = [(level, outcome) for level, outcome in zip(self.level, outcomes, strict=True) if outcome is not None]
        self._begun |= any(outcome.feasible for _, outcome in tried)
        if not tried:
            return
        if not self._begun:
            self.level = self.level * 10.0 ** len(self.level)
            return
        low, high = self._bracket(tried)
        self.level = low + self._share * (high - low)

    @abstractmethod
    def _bracket(self, tried: Sequence[tuple[Floats, Outcome]]) -> tuple[Floats, Floats]:
        """Return the brackets, shape (n,) each, of the next weights of each node."""


class NodeWeights(Weights):
    """Equation (7): a weight w_v per node, bracketed by the memory in the node's own time steps."""

    def __init__(self, free: Mask, levels: int, rng: np.random.Generator) -> None:
        super().__init__(free, levels, rng)
        self._low, self._high = np.zeros(len(free)), self.level[-1]
        self._ever_over = np.zeros(len(free), dtype=bool)
        self._above, self._below = (np.zeros(len(free), dtype=np.int64) for _ in range(2))
        self._rounds = 0

    def _bracket(self, tried: Sequence[tuple[Floats, Outcome]]) -> tuple[Floats, Floats]:
        fits, over = self._section(tried)
        self._ever_over |= over
        self._above = np.where(fits, np.where(over, self._above, 0), self._above + 1)
        self._below = np.where(over, np.where(fits, self._below, 0), self._below + 1)
        wear = np.exp(-WEAR * self._rounds)
        self._rounds += 1
        raised = np.minimum(RAISE ** (1 + (PER_ROUND_ABOVE * self._above - 1) * wear), MOST_RAISE)
        lowered = np.minimum(LOWER ** (1 + (PER_ROUND_BELOW * self._below - 1) * wear), MOST_LOWER)
        raised[self._above == 1] = RAISE
        lowered[self._below == 1] = np.where(self._ever_over, LOWER, LOWER_UNTRIED)[self._below == 1]
        self._high = np.where(fits, self._high, self._high * raised)
        self._low = np.where(over, self._low, self._low / lowered)
        return self._low, self._high

    def _section(self, tried: Sequence[tuple[Floats, Outcome]]) -> tuple[Mask, Mask]:
        """Narrow the brackets; return masks of nodes whose highest weight suffices, and with an insufficient weight.

        The upper end is the weight of the cheapest solution that fits in the node's steps and lies above all
        insufficient weights; the lower end is the greatest insufficient weight below all sufficient ones.
        """
        place = {cost: i for i, cost in enumerate(sorted({outcome.cost for _, outcome in tried}))}
        fits, last_over, any_over = (np.zeros(self.level.shape[1], dtype=bool) for _ in range(3))
        best = np.full(len(fits), len(place))
        for weight, outcome in tried:
            over, rank = outcome.over, place[outcome.cost]
            self._low = np.where(over & ~fits, weight, self._low)
            better = ~over & (~fits | last_over | (rank < best))
            self._high, best = np.where(better, weight, self._high), np.where(better, rank, best)
            fits, last_over, any_over = fits | ~over, over, any_over | over
        return fits & ~last_over, any_over


class GlobalWeight(Weights):
    """One weight for all nodes, bracketed by whether memory suffices everywhere: the paper's baseline."""

    def _bracket(self, tried: Sequence[tuple[Floats, Outcome]]) -> tuple[Floats, Floats]:
        heights = [float(weight.max(initial=0.0)) for weight, _ in tried]
        low, high = heights[0], heights[-1]
        fits = any_over = False
        for height, (_, outcome) in zip(heights, tried, strict=True):
            if outcome.feasible:
                high, fits = (high if fits else height), True
            elif fits:
                high, fits, any_over = heights[-1], False, True
            else:
                low, any_over = height, True
        low, high = low if any_over else low / LOWER_GLOBAL, high if fits else high * RAISE_GLOBAL
        weighed = self.level[-1] > 0
        return np.where(weighed, low, 0.0), np.where(weighed, high, 0.0)
