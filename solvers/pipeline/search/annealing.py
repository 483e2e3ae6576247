"""Simulated annealing of partitions, two chains at a time, from the best slicing of a search."""

from __future__ import annotations

import math
import sys
import time
from concurrent.futures import wait
from dataclasses import replace

import numpy as np

from shardmark.solvers.pipeline._kernels import Annealing
from shardmark.solvers.pipeline.search.layered_orders import layered_orders
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import Run

#: Random orders sliced at the beginning, after the first.
SEEDS = 15

#: Share of the remaining time after which no further random order is sliced.
BEGINNING = 0.3

#: The chains of the first round. Neither energy is best for both few and many stages: the squared excess balances all
#: stages, the plain excess over a close target works on the worst. Tuned on REGAL-style graphs.
CHAINS = (
    Annealing(moves=100_000, seed=0, hot=0.02, cold=0.0008, margin=0.35, squared=True),
    Annealing(moves=100_000, seed=0, hot=0.02, cold=0.0005, margin=0.01, squared=False),
)

#: Moves per node from which a round begins at the full temperature. With fewer, it begins proportionally colder, as
#: there would be too few moves to cool down again.
MELTING = 2000

#: Greatest ratio of the last temperature of a chain to its first.
COOLED = 0.2

#: Factors on the first temperature after a round with an improvement, and without.
WARMER, COLDER = 4.0, 0.25

#: Moves per node of the first round, at least.
FEWEST = 10


def anneal(search: Search, run: Run, most: float = math.inf) -> None:
    """Improve the best slicing of a search by chains of at most ``most`` moves, until the search is over."""
    enough = (1.0 - BEGINNING) * search.remaining()
    search.decode(run.rng.random((1, search.instance.nodes)), np.inf)
    orders = layered_orders(search.instance)
    while not search.over() and (order := next(orders, None)) is not None:
        search.offer_order(order)
    drawn = 0
    while drawn < SEEDS and not search.over() and search.remaining() > enough:
        rows = min(search.rows, SEEDS - drawn)
        search.decode(run.rng.random((rows, search.instance.nodes)), search.target)
        drawn += rows
    needed = len(CHAINS) * search.core.anneal_mib
    if needed > 0.5 * run.memory:
        print(f"{needed:.0f} MiB for two chains do not fit into {run.memory:.0f} MiB: orders only", file=sys.stderr)
        return
    moves = int(min(max(CHAINS[0].moves, FEWEST * search.instance.nodes), most))
    share = 1.0
    while 0 < moves <= most and not search.over():
        began, known = time.monotonic(), search.cost
        _round(search, run, moves, share)
        share = min(1.0, WARMER * share) if search.cost < known else COLDER * share
        moves = _next(moves, time.monotonic() - began, search.remaining())


def _round(search: Search, run: Run, moves: int, share: float) -> None:
    """Run both chains from the best slicing, colder by ``share`` if moves are few; offer the better result."""
    seeds = run.rng.integers(2**63, size=len(CHAINS)).tolist()
    enough = search.instance.work_bound()
    plans = [
        replace(_cooler(chain, moves, search.instance.nodes, share), seed=seed, enough=enough)
        for chain, seed in zip(CHAINS, seeds, strict=True)
    ]
    stop = np.zeros(1, dtype=np.int32)
    chains = [search.pool.submit(search.core.anneal, search.order, search.cut, plan, stop) for plan in plans]
    wait(chains, timeout=search.remaining())
    stop[0] = 1
    search.offer_slicing(*min((chain.result() for chain in chains), key=lambda result: result[1].cost))


def _cooler(chain: Annealing, moves: int, nodes: int, share: float) -> Annealing:
    """The chain with ``moves`` moves, beginning colder by ``share`` if these are too few to cool down."""
    full = MELTING * max(1, nodes)
    hot = chain.hot if moves >= full else chain.hot * share * moves / full
    return replace(chain, moves=moves, hot=hot, cold=min(chain.cold, COOLED * hot))


def _next(moves: int, took: float, left: float) -> int:
    """Moves of the next round: twice as many, or all that fit into the remaining time if these are few more."""
    return 2 * moves if left > 4.0 * took else int(0.9 * moves * left / max(took, 1e-9))
