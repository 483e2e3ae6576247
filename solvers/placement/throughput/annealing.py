"""Annealing of placements for throughput: rounds of annealing runs that begin with the best placements."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import product

import numpy as np

from shardmark.solvers.placement.kernels.loads import LoadAnnealer, LoadCooling
from shardmark.solvers.placement.throughput.best_placements import Search
from shardmark.solvers.registry import Run

#: The annealing runs of a round: one energy balances all devices, the other improves the worst one. Temperatures are in
#: units of the mean work of an item. Along an order, devices are balanced only if that outweighs transfers: the smaller
#: the excess, the less a transfer raises its square, while differences between devices count the same.
WORST = LoadCooling(moves=0, hot=1.0, cold=0.01, margin=0.01, squared=False)
COOLINGS = (LoadCooling(moves=0, hot=4.0, cold=0.04, margin=0.35, squared=True), WORST)
ORDERED_COOLINGS = (LoadCooling(moves=0, hot=0.2, cold=0.002, margin=0.05, squared=True), WORST)
#: Moves per item for the full first temperature.
MELTING_MOVES = 2000
#: Least share of the first temperature, for few moves.
COLDEST = 0.1
#: Moves of an annealing run of the first round.
FIRST = 100_000
#: Moves between two checks of the clock.
SLICE = 50_000
#: Least moves per item between two checks of the clock: setting up a kernel call takes as long as one per item.
SLICE_SHARE = 3
#: A space is searched while the cost of its best placement is at most this multiple of the best cost.
NEAR = 1.1
#: First rounds, in which all spaces are searched.
FIRST_ROUNDS = 3


def anneal(search: Search, run: Run, most: float = math.inf, *, proves: bool = True) -> None:
    """Improve the best placements in rounds of annealing runs, each twice as long, up to ``most`` moves.

    If it ``proves``, the proof runs at the same time on one core; if there is only one, after each round for as long.
    """
    coolings = COOLINGS if search.instance.contiguity == "free" else ORDERED_COOLINGS
    moves, rounds = int(min(FIRST, most)), 0
    with search.proof(aside=run.cores > 1) if proves else nullcontext() as proof:
        while 0 < moves <= most and not search.over():
            began = time.monotonic()
            highest = sys.float_info.max if rounds < FIRST_ROUNDS else NEAR * search.cost
            kinds = list(product(coolings, [number for number, cost in enumerate(search.costs) if cost <= highest]))
            kinds *= math.ceil(run.cores / len(kinds))
            seeds = run.rng.integers(2**63, size=len(kinds)).tolist()
            runs = [_AnnealingRun(search, seed, *kind, moves) for seed, kind in zip(seeds, kinds, strict=True)]
            with ThreadPoolExecutor(run.cores - (proof.threads if proof else 0)) as pool:
                annealers = list(pool.map(_AnnealingRun.run_down, runs))
            for annealing, annealer in zip(runs, annealers, strict=True):
                search.offer(annealing.number, annealer.best, annealer.cost)
            if proof:
                proof.advance(time.monotonic() - began)
            moves, rounds = _next(moves, time.monotonic() - began, search.left()), rounds + 1


def _next(moves: int, took: float, left: float) -> int:
    """Moves of the next round: twice as many, or all that the remaining time allows if these are few more."""
    return 2 * moves if left > 4.0 * took else int(0.9 * moves * left / max(took, 1e-9))


class _AnnealingRun:
    """An annealing run in a space, from hot to cold, that begins with the best placement there."""

    def __init__(self, search: Search, seed: int, kind: LoadCooling, number: int, moves: int) -> None:
        self.space, self.number = search.spaces[number], number
        self.annealer = LoadAnnealer(self.space.devices, self.space.rules, search.items[number], seed)
        self.kind, self.moves, self.search = kind, moves, search

    def run_down(self) -> LoadAnnealer:
        """Run in slices, as long as there is time."""
        slices = max(1, math.ceil(self.moves / max(SLICE, SLICE_SHARE * len(self.space.first))))
        for hot, cold in self._temperatures(slices):
            self.annealer.anneal(dataclasses.replace(self.kind, moves=self.moves // slices, hot=hot, cold=cold))
            if not self.search.left() or self.search.is_optimal(self.annealer.cost):
                break
        return self.annealer

    def _temperatures(self, slices: int) -> list[tuple[float, float]]:
        """The first and the last temperature of each slice; few moves begin colder."""
        heat = min(1.0, max(COLDEST, self.moves / (MELTING_MOVES * len(self.space.first))))
        falling = self.space.grain * np.geomspace(heat * self.kind.hot, self.kind.cold, slices + 1)
        return list(zip(falling[:-1].tolist(), falling[1:].tolist(), strict=True))
