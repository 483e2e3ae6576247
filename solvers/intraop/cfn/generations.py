"""Evolutionary search: variants of an assignment are improved by large neighbourhoods and recombined optimally.

Memory prices follow the load; each generation also repairs its result to fit the limit.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop._kernels import BlockLimits
from shardmark.solvers.intraop.cfn.neighbourhoods import LargeNeighbourhood
from shardmark.solvers.intraop.network.ragged import argmin
from shardmark.solvers.intraop.network.reduced_problem import Problem, worst_steps
from shardmark.solvers.intraop.network.reduction import reduce
from shardmark.solvers.intraop.search.assignment import Search, conditional_costs

#: Block limits, one of which is drawn per round.
LIMITS = (
    BlockLimits(300, 1e4, 4e6),
    BlockLimits(1000, 1e4, 1e7),
    BlockLimits(1000, 1e5, 3e7),
    BlockLimits(3000, 1e5, 3e7),
    BlockLimits(6000, 1e5, 5e7),
)
#: Work of a round in cells: some hundredths of a second.
WORK = 3e7
#: Block limits of a recombination: with few values per variable, blocks can have many variables.
RECOMBINATION_LIMITS = BlockLimits(6000, 1e6, 5e7)
#: Most rounds of a recombination.
RECOMBINATION_ROUNDS = 4
#: Variants per generation.
VARIANTS = 4
#: Most rounds of a variant under noisy costs, then under true costs.
NOISY, CLEAN = 4, 12
#: Range of the noise, as a multiple of the regret.
NOISE = (0.3, 10.0)
#: Range of regrets, which are clamped to it, as multiples of the average cost of a variable.
REGRET_RANGE = (0.3, 1000.0)
#: Variants of the best assignment that fits.
FITTING = 3
#: Most rounds per variant of the first generation, whose variants all start from the same assignment.
FIRST = 40
#: Successive multiples of the prices under which a fitting assignment is improved.
LADDER = (1.0, 0.5, 0.2, 0.0)
#: Most rounds per multiple.
AT_ONE = 8
#: Improvement ends once two rounds gain less than this fraction of the cost.
ENOUGH = 1e-5
#: Largest relative rise of a price per generation above the limit, and largest fall below it.
UP, DOWN = 0.1, 0.03
#: Distance of the load from the limit, as a fraction of the limit, at which a price changes by its maximum.
BAND = 0.02
#: First price of a step, as a fraction of the highest price or, without any, of the price at which all memory together
#: costs as much as the assignment.
FIRST_PRICE = 0.03
#: Most steps that get a price per generation.
MORE_PRICES = 3
#: Generations without progress after which the search returns to the best solution.
STALE = 8
#: Relative decrease of the cost that counts as progress.
PROGRESS = 1e-4
#: Range of factors on the first prices when the search returns to the best solution.
SPREAD = (0.9, 1.1)
#: Range of factors on the prices under which fitting assignments are improved.
AROUND = (0.3, 1.5)
#: Seconds for repairing an assignment.
REPAIR = 5.0


class GenerationalSearch:
    """Searches one problem on all cores; deterministic for a seed and a number of cores unless time or `halt` ends it.

    ``offer``  receives every candidate for the best assignment; returns True if it is better than all before
    ``best``   the best assignment that fits, None if none is known
    """

    def __init__(self, blocks: LargeNeighbourhood, *, seed: int, cores: int, offer: Callable[[Ints], bool]) -> None:
        self.blocks, self.problem, self.offer, self.cores = blocks, blocks.problem, offer, cores
        self.best: Ints | None = None
        self._seeds = np.random.SeedSequence(seed)
        self._random = self._fresh()
        self._value, self._price = np.zeros(0, dtype=np.int64), np.zeros(0)
        self._first_price, self._generations, self._stale, self._until = self._price, 0, 0, 0.0
        self._whole, self._mark = 1.0, math.inf

    def _fresh(self) -> np.random.Generator:
        return np.random.default_rng(self._seeds.spawn(1)[0])

    def begin(self, value: Ints, price: Floats) -> None:
        """Start from an assignment, shape (v,), and prices per byte in every span."""
        self._value, self._price, self._first_price = value, price, price
        self._whole = self.problem.model.cost(value) / max(1, self.problem.timeline.limit)

    def run(self, until: float, enough: Callable[[], bool]) -> None:
        """Search until a time, or until ``enough`` returns True."""
        self._until = until
        with ThreadPoolExecutor(self.cores) as pool:
            while time.monotonic() < until and not enough():
                self._generation(pool)

    def halt(self) -> None:
        """End the present generation early; it keeps what it has found so far."""
        self._until = -math.inf

    def _generation(self, pool: ThreadPoolExecutor) -> None:
        """Mutate, recombine, repair, recombine the fitting results, adjust prices."""
        of_row = self.blocks.price(self._price)
        regrets = self._regrets(self._value, of_row)
        count = VARIANTS if self._generations else self.cores  # the first ones differ little
        variants = pool.map(partial(self._mutate, of_row, regrets), [self._fresh() for _ in range(count)])
        fit = [] if self.best is None else [self.best]
        self._value = self._recombine([self._value, *variants, *fit], self._price, fits=False)
        load = self.blocks.load(self._value)
        starts = [(self._value, self._fresh()), *((value, self._fresh()) for value in FITTING * fit)]
        improved = pool.map(lambda start: self._repair_and_improve(*start), starts)
        fitting = [value for value in improved if value is not None]
        for value in fitting:
            self._note(value)
        if self.best is not None and len(fitting) > 1:
            self._note(self._recombine([self.best, *fitting], self._price, fits=True))
        self._price = self._adjust_prices(self._price, load)
        self._generations += 1
        if self.best is not None:
            self._go_back_if_stale(self.best)

    def _go_back_if_stale(self, best: Ints) -> None:
        """Return to the best solution, near the first prices, after generations with little progress."""
        cost = self.problem.model.cost(best)
        if cost < self._mark:
            self._mark, self._stale = (1 - PROGRESS) * cost, 0
        else:
            self._stale += 1
        if self._stale >= STALE:
            self._value, self._stale = best, 0
            self._price = self._first_price * self._random.uniform(*SPREAD)

    def _mutate(self, of_row: Floats, regrets: Floats, random: np.random.Generator) -> Ints:
        """Improve the assignment under noisy costs, then under true costs."""
        if not self._generations:
            return self._improve(self.blocks, self._value, of_row, FIRST, random, fits=False)
        noise = _noise(regrets, random)
        value = self._improve(self.blocks, self._value, of_row + noise, NOISY, random, fits=False)
        return self._improve(self.blocks, value, of_row, CLEAN, random, fits=False)

    def _regrets(self, value: Ints, of_row: Floats) -> Floats:
        """Regret of each value's variable, shape (rows,): extra cost of its next best value, other variables fixed."""
        model = self.problem.model
        present, start = model.start[:-1] + value, model.start[:-1]
        cost = conditional_costs(self.problem.footprint.clipped, value) + of_row
        now = cost[present]
        cost[present] = np.inf
        least, most = np.array(REGRET_RANGE) * max(1, model.cost(value)) / max(1, model.variables)
        return np.repeat(least + np.clip(np.minimum.reduceat(cost, start) - now, 0, most), model.sizes)

    def _improve(
        self,
        blocks: LargeNeighbourhood,
        value: Ints,
        of_row: Floats,
        rounds: int,
        random: np.random.Generator,
        *,
        fits: bool,
    ) -> Ints:
        """Improve by up to ``rounds`` rounds of blocks, fewer if they gain little or time is up."""
        before = np.inf
        for _ in range(rounds):
            if time.monotonic() > self._until:
                break
            limits = LIMITS[random.integers(len(LIMITS))]
            value, _, gain = blocks.improve(value, of_row, limits, WORK, random, fits=fits)
            if before + gain < ENOUGH * abs(blocks.problem.model.cost(value)):
                break
            before = gain
        return value

    def _recombine(self, values: list[Ints], price: Floats, *, fits: bool) -> Ints:
        """Near-optimal combination of assignments: each variable takes its value from one of them."""
        model = self.problem.model
        of_row = self.blocks.price(price)
        least = min(values, key=model.cost if fits else lambda value: self._priced(value, of_row))
        held = np.zeros(len(model.unary), dtype=bool)
        held[model.start[:-1] + np.stack(values)] = True
        few = reduce(dataclasses.replace(model, unary=np.where(held, model.unary, model.forbidden)))
        if few is None or time.monotonic() > self._until:
            return least
        part = Problem(self.problem.instance, self.problem.timeline, few)
        blocks, value = LargeNeighbourhood(part), few.project(part.instance, model.lift(part.instance, least))
        if value is None:  # it has forbidden entries
            value = argmin(few.unary, few.start)
        of_few = blocks.price(blocks.span_prices(self.blocks.step_prices(price)))
        best = value
        for multiple in LADDER if fits else (1.0,):
            for _ in range(RECOMBINATION_ROUNDS):
                value, _, gain = blocks.improve(
                    value, multiple * of_few, RECOMBINATION_LIMITS, WORK, self._random, fits=fits
                )
                if not gain or time.monotonic() > self._until:
                    break
            best = min(best, value, key=few.cost) if fits else value
        together = model.project(part.instance, few.lift(part.instance, best))
        return least if together is None else together

    def _priced(self, value: Ints, of_row: Floats) -> float:
        return self.problem.model.cost(value) + float(of_row[self.problem.model.start[:-1] + value].sum())

    def _repair_and_improve(self, value: Ints, random: np.random.Generator) -> Ints | None:
        """Repair an assignment and improve it under falling prices; None if the repair fails."""
        search = Search(self.problem.footprint, value)
        if not search.repair(min(self._until, time.monotonic() + REPAIR)):
            return None
        best, price = search.value, self._price * random.uniform(*AROUND)
        if value is self.best:
            of_row = self.blocks.price(price)
            noise = _noise(self._regrets(value, of_row), random)
            value = self._improve(self.blocks, value, of_row + noise, NOISY, random, fits=True)
        else:
            value = search.value
        for multiple in LADDER:
            value = self._improve(self.blocks, value, self.blocks.price(multiple * price), AT_ONE, random, fits=True)
            best = min(best, value, key=self.problem.model.cost)
        return best

    def _note(self, value: Ints) -> None:
        if self.offer(value):
            self.best = value

    def _adjust_prices(self, price: Floats, load: Ints) -> Floats:
        """Prices after a generation: raised in overloaded spans, lowered in spans with free memory."""
        above = (load - self.blocks.room) / max(1, self.problem.timeline.limit)
        change = np.clip(above / BAND, -1.0, 1.0)
        price = price * (1 + np.where(change > 0, UP, DOWN) * change)
        first = FIRST_PRICE * (price.max(initial=0.0) or self._whole)
        for span in worst_steps(above, MORE_PRICES):
            price[span] = max(price[span], first)
        return price


def _noise(regrets: Floats, random: np.random.Generator) -> Floats:
    """Random costs of values, shape (rows,), exponential with a random multiple of the regrets as mean."""
    return random.exponential(np.exp(random.uniform(*np.log(NOISE))) * regrets)
