"""Simulated annealing of the memory excess of a schedule, until a schedule fits."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Index
from shardmark.solvers.scheduling._kernels import Execution, Simulator
from shardmark.solvers.scheduling._memory_kernels import ordered_moves
from shardmark.solvers.scheduling.schedules.annealing import SLICE, Best, next_moves

#: First temperature for one move per vertex. It grows with the root of the moves per vertex, and each run multiplies it
#: by a random factor from the range. Unit: a device needs twice its memory for the mean time of a vertex.
HOT = 0.05
HOTTER = (0.5, 2.0)

#: Last temperature, in the same unit.
COLD = 0.001

#: Seconds of the first run; each further run is twice as long.
SPAN = 1.0


def fit_memory(best: Best, device: Index, sequence: Index, seconds: float) -> None:
    """Anneal from devices and a sequence, shape (n,) each, in ever longer runs on all cores, until a schedule fits."""
    end, span, run = time.monotonic() + seconds, SPAN, best.run
    with ThreadPoolExecutor(run.cores) as pool:
        while not best.fits and (left := end - time.monotonic()) > 0:
            cool = partial(_cool, best.simulator, device, sequence, span if 2 * span < left else left, Event())
            for found in pool.map(cool, run.rng.integers(2**62, size=run.cores).tolist()):
                best.take(*found)
            span *= 2


def _cool(
    simulator: Simulator, device: Index, sequence: Index, seconds: float, done: Event, seed: int
) -> tuple[Ints, Execution]:
    """Anneal once, until nothing exceeds the memory in some thread; return the last devices and their simulation."""
    begun, rng, moves, made, took = time.monotonic(), np.random.default_rng(seed), 1, 0, 0.0
    search = Simulator.memory_moves if simulator.instance.links == "share" else ordered_moves
    factor = HOT * float(np.exp(rng.uniform(*np.log(HOTTER)))) / math.sqrt(max(1, len(device)))
    while not done.is_set() and (passed := time.monotonic() - begun) + took < seconds:
        hot = factor * math.sqrt(max(1.0, made * seconds / max(passed, 1e-9)))
        temperature = hot * (COLD / hot) ** (passed / seconds)
        slice_seed = int(rng.integers(2**62))
        excess, device, sequence = search(simulator, device, sequence, slice_seed, moves, temperature)
        if not excess:
            done.set()
        made += moves
        took = time.monotonic() - begun - passed
        moves = next_moves(moves, took, SLICE)
    return device.astype(np.int64), simulator.in_sequence(device, sequence)
