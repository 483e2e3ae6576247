"""Walks about the limit of memory: blocks under prices that follow the load, and from time to time only what fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from instances.columns import Floats, Ints
from solvers.intraop._blocks import Blocks
from solvers.intraop._problem import worst_steps
from solvers.intraop._search import Search
from solvers.native import Effort

#: Neighbourhoods, and the work of a round, in cells: some tenths of a second.
EFFORTS = (Effort(300, 1e4, 4e6), Effort(1000, 1e4, 1e7), Effort(3000, 1e5, 3e7), Effort(6000, 1e5, 5e7))
WORK = 3e7
#: How often another neighbourhood is tried than the one that gained most of late; what a newer gain weighs.
OTHER, NEWER = 0.3, 0.5
#: Rounds between two attempts to make what a walk has come to fit: at first, how they grow, and at most.
FIRST_ROUNDS, MORE, MOST_ROUNDS = 2, 1.5, 20
#: Prices of memory, as multiples, under which what fits is improved, one after the other; rounds at each, at most, and
#: the gain, as a fraction of the cost, by which it is done.
LADDER, AT_ONE, ENOUGH = (1.0, 0.5, 0.2, 0.0), 12, 1e-5
#: A price changes in a round by up to this fraction where the load is above the limit, and below it: fully where they
#: differ by this fraction of the limit. A step without a price gets this fraction of the highest.
UP, DOWN, BAND, FIRST_PRICE = 0.1, 0.02, 0.02, 0.03
#: Steps that get a price in a round, at most.
MORE_PRICES = 3
#: Times that a walk is made to fit without a better solution before it goes back to the best one, the range of what
#: prices are multiplied with then, and of those with which the best one is improved.
STALE, SPREAD, AROUND = 3, (0.9, 1.1), (0.3, 1.5)


class Step(NamedTuple):
    """What a walk wants next: an assignment improved under prices, shape (rows,), whether it has to fit meanwhile."""

    value: Ints
    price: Floats
    effort: Effort
    fits: bool


class Better(NamedTuple):
    """What it gets: the assignment, its load in every span, and by how much cost and price have become less."""

    value: Ints
    load: Ints
    gain: float


Walk = Generator[Step, Better, None]


class Walks:
    """Searches one problem on all cores; deterministic for a seed, a number of cores and a number of rounds.

    ``offer``  is given every assignment that may be the best, and says whether it is better than all before
    ``best``   the best one that fits, None if none is known
    """

    def __init__(self, blocks: Blocks, *, seed: int, cores: int, offer: Callable[[Ints], bool]) -> None:
        self.blocks, self.problem, self.offer = blocks, blocks.problem, offer
        self.random = [np.random.default_rng((seed, number)) for number in range(cores)]
        self.best: Ints | None = None
        self._walks: list[Walk] = []
        self._steps: list[Step] = []

    def begin(self, value: Ints, price: Floats) -> None:
        """Start all walks at an assignment and prices of a byte in every span."""
        self._walks = [self._walk(random, value, price) for random in self.random]
        self._steps = [next(walk) for walk in self._walks]

    def go_on(self, until: float, enough: Callable[[], bool]) -> None:
        """Walk until a time, or until it is enough."""
        with ThreadPoolExecutor(len(self.random)) as pool:
            while time.monotonic() < until and not enough():
                found = list(pool.map(self._improve, self._steps, self.random))
                self._steps = [walk.send(better) for walk, better in zip(self._walks, found, strict=True)]

    def _improve(self, step: Step, random: np.random.Generator) -> Better:
        return Better(*self.blocks.improve(step.value, step.price, step.effort, WORK, random, fits=step.fits))

    def _walk(self, random: np.random.Generator, value: Ints, price: Floats) -> Walk:
        """Go about the limit, try to make fit what that leads to, try what is near the best solution, and again."""
        first, free, fitting, rounds, stale = price, _Choice(random), _Choice(random), float(FIRST_ROUNDS), 0
        while True:
            for _ in range(round(rounds)):
                found = yield Step(value, self.blocks.price(price), free.effort, False)
                free.learn(found.gain)
                value, price = found.value, self._follow(price, found.load)
            better = yield from self._make_fit(value, price, fitting)
            rounds, stale = min(rounds * MORE, MOST_ROUNDS), 0 if better else stale + 1
            if stale >= STALE and self.best is not None:
                yield from self._make_fit(self.best, price * random.uniform(*AROUND), fitting)
                value, price, stale = self.best, first * random.uniform(*SPREAD), 0

    def _make_fit(self, value: Ints, price: Floats, choice: _Choice) -> Generator[Step, Better, bool]:
        """Make an assignment fit and improve it under lower and lower prices; whether that leads to a better one."""
        search = Search(self.problem.footprint, value)
        if not search.repair(time.monotonic() + 5.0):
            return False
        value, better = search.value, self._note(search.value)
        for multiple in LADDER:
            of_row = self.blocks.price(multiple * price)
            for _ in range(AT_ONE):
                found = yield Step(value, of_row, choice.effort, True)
                choice.learn(found.gain)
                value = found.value
                if found.gain < ENOUGH * self.problem.model.cost(value):
                    break
            better = self._note(value) or better
        return better

    def _note(self, value: Ints) -> bool:
        better = self.offer(value)
        if better:
            self.best = value
        return better

    def _follow(self, price: Floats, load: Ints) -> Floats:
        """Prices after a round: higher where there was too little room, lower where there was some left."""
        above = (load - self.blocks.room) / max(1, self.problem.timeline.limit)
        change = np.clip(above / BAND, -1.0, 1.0)
        price = price * (1 + np.where(change > 0, UP, DOWN) * change)
        for span in worst_steps(above, MORE_PRICES):
            price[span] = max(price[span], FIRST_PRICE * price.max(initial=0.0))
        return price


class _Choice:
    """Which neighbourhood comes next: mostly the one that gained most of late."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random, self._gain, self._last = random, [np.inf] * len(EFFORTS), 0

    @property
    def effort(self) -> Effort:
        """The next one."""
        best: Sequence[int] = np.flatnonzero(np.array(self._gain) == max(self._gain)).tolist()
        others = self._random.random() < OTHER
        self._last = int(self._random.integers(len(EFFORTS))) if others else best[0]
        return EFFORTS[self._last]

    def learn(self, gain: float) -> None:
        """Take note of what it gained."""
        before = self._gain[self._last]
        self._gain[self._last] = gain if before == np.inf else (1 - NEWER) * before + NEWER * gain
