"""Search for the shortest batch by ranges of the longest repeated time of a stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.instances.rounding import SMALLEST_FLOAT, safely
from shardmark.solvers.hybrid._kernels import Undecided
from shardmark.solvers.hybrid._stages import Chain
from shardmark.solvers.hybrid._thresholds import CLAIM, STEP

#: Quotient of the ends of a range, and of the shortest batch known and the first range's end.
WIDTH, FIRST_END = 1.2, 64.0
#: Quotients of successive guesses of the longest repeated time, coarse and fine.
GUESSES = (1.25, 1.06)
#: Ranges overlap by this share, for rounding errors.
OVERLAP = 1e-12


@dataclass(eq=False)
class BatchSearch:
    """The batch time is the sum of the stages' times, the longest repeated time, and the longest synchronisation.

    The second is at most the shortest batch known, so ranges of it up to there cover all solutions. A range is refuted,
    or gives its shortest batch, by one pass of dynamic programming, which is fast if the range is narrow. Before,
    guesses of it, ranges without width, give short batches.

    ``find(limit, (least, most))``  the shortest batch of at most the limit in a range; None if none, or if stopped;
                                    Undecided, with a batch if one is known, if there may be a shorter one
    ``find_strict``  the same with bytes rounded up, for batches that exceed a device by a rounding error
    ``instance``  the kernel's claim is off by up to 8 * nodes * 2^-52 or 1e-12, relatively
    ``stop``    shape (1,), int32: ends the search once it is 1
    ``better``  called with each better chain
    ``best``    shortest batch known
    ``low``     shortest batch found with bytes rounded down
    ``decided`` no question was left open
    """

    find: Callable[[float, tuple[float, float]], Chain | None]
    find_strict: Callable[[float, tuple[float, float]], Chain | None]
    instance: Instance
    stop: Index
    better: Callable[[Chain], None]
    best: float
    low: float = math.inf
    decided: bool = True

    def run(self, guess: float) -> float | None:
        """Search all ranges, that of a guessed repeated time first; a lower bound, None if stopped or undecided."""
        for growth in GUESSES:
            guess = self._descend(guess, growth)
        for least, most in self._ranges(guess):
            if self.stop[0]:
                return None
            if least < self.best:
                self._try((least * (1 - OVERLAP), most))
        if self.stop[0] or not self.decided:
            return None
        # Below the normal range of float64, every term of a microbatch may be off by the least number.
        terms = 4 * (self.instance.edges + self.instance.nodes + 2)
        least = min(self.best, self.low) - self.instance.batch * terms * SMALLEST_FLOAT
        return safely(least * (1 - CLAIM - STEP), 8 * self.instance.nodes)

    def _descend(self, guess: float, growth: float) -> float:
        """Move the guess up and down by factors as long as batches get shorter; the best guess."""
        if guess > 0:
            self._try((guess, guess))
            for factor in (growth, 1 / growth):
                while not self.stop[0] and self._try((guess * factor, guess * factor)):
                    guess *= factor
        return guess

    def _ranges(self, guess: float) -> Iterator[tuple[float, float]]:
        """Ranges from 0 to the shortest batch, those near the guess first."""
        first = self.best / FIRST_END
        count = math.ceil(math.log(FIRST_END) / math.log(WIDTH))
        edges = [0.0, *(first * WIDTH ** np.arange(count)).tolist(), self.best]
        ranges = list(pairwise(edges))
        yield from sorted(ranges, key=lambda ends: abs(ends[0] + ends[1] - 2 * guess))

    def _try(self, repeated: tuple[float, float]) -> bool:
        """True if a shorter batch is found in a range."""
        limit = self.best * (1 - STEP)
        if limit <= 0:
            return False
        try:
            found = self.find(limit, repeated)
        except Undecided as undecided:
            found, self.decided = undecided.chain, False
        if found is not None:
            self.low = min(self.low, found.cost)
            if not found.fits:
                with suppress(Undecided):
                    found = self.find_strict(limit, repeated)
        if found is None or not found.fits or found.cost >= self.best:
            return False
        self.best = found.cost
        self.better(found)
        return True
