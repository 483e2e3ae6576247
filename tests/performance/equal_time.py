"""annealing against brkga-10000 in the wall time that the latter takes, on REGAL-style graphs of 50 to 200 nodes.

``python tests/performance/equal_time.py [GRAPHS] [CORES]`` prints, for each way to draw node costs and each number of
blocks, the geometric mean of cost / cost and how often it is less than, equal to and greater than 1. Time counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shardmark.harness.verify import verify
from shardmark.instances.generate import families
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.annealing import annealing
from shardmark.solvers.pipeline.brkga import brkga
from shardmark.solvers.registry import LocalRun

FAMILIES = ("erdos-renyi", "barabasi-albert", "watts-strogatz", "block-model")


def graph(number: int, stages: int, costs_from: str) -> Instance:
    """One of the sample: families take turns, the number is the seed of everything."""
    nodes = int(np.random.Generator(np.random.PCG64(number)).integers(50, 201))
    drawn: Instance = families()[FAMILIES[number % 4]].build(number, nodes=nodes, stages=stages, costs_from=costs_from)
    return drawn


def outcome(solve: Callable[..., Any], instance: Instance, cores: int, seconds: float, **params: int) -> Any:
    """Cost of the last solution, and the seconds taken."""
    run = LocalRun(seed=0, cores=cores, timeout=seconds)
    began = time.perf_counter()
    solve(instance, run, **params)
    return verify(instance, run.solutions[-1]).cost, time.perf_counter() - began


def main(graphs: int = 20, cores: int = 2) -> None:
    """Print the comparison."""
    for costs_from in ("all", "own"):
        for stages in (2, 4, 8, 16, 32, 64):
            rows = []
            for number in range(graphs):
                instance = graph(number, stages, costs_from)
                theirs, limit = outcome(brkga, instance, cores, 1000.0, population=100, generations=100)
                ours, taken = outcome(annealing, instance, cores, limit)
                rows.append((ours / theirs, taken / limit))
            ratio, share = np.array(rows).T
            mean, better, worse = np.exp(np.log(ratio).mean()), (ratio < 1 - 1e-9).sum(), (ratio > 1 + 1e-9).sum()
            print(
                f"costs from {costs_from}, k={stages:2d}: geometric mean {mean:.4f}, better {better}, "
                f"as good {graphs - better - worse}, worse {worse}, most {ratio.max():.4f}, time {share.mean():.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
