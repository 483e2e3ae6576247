"""Parts of bounds as methods of their own, which whole methods rarely reach or leave early; an exact program."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hybrid_program import Program

from shardmark.harness.verify import verify
from shardmark.instances import hybrid, intraop, pipeline, placement, scheduling
from shardmark.instances.files.columns import Ints
from shardmark.solvers.hybrid.dp import dp
from shardmark.solvers.intraop.cfn.branching import lower_bound
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.cfn.tree import Tree
from shardmark.solvers.intraop.greedy import greedy
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.bounds.windows import windows
from shardmark.solvers.pipeline.programs.stage_search import StageSearch
from shardmark.solvers.placement.bounds.anchored import anchored
from shardmark.solvers.placement.configuration.program import Limits, configuration_bounds
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.ip.start import begin
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import Declined, LocalRun, Proof, Run
from shardmark.solvers.scheduling.bounds.energetic import energetic
from shardmark.solvers.scheduling.schedules.memory_cuts import none_fits


def pretend(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Let bounds of ``pipeline`` believe that the best known partition costs so many times as much.

    None is proved above what a search knows, which is mostly the optimum.
    """
    below: Callable[[StageSearch, float], int] = StageSearch.units_below
    unpatched = getattr(below, "unpatched", below)

    def units_below(self: StageSearch, cost: float) -> int:
        found: int = unpatched(self, cost * factor)
        return found

    units_below.unpatched = unpatched  # type: ignore[attr-defined]
    monkeypatch.setattr(StageSearch, "units_below", units_below)


def leaves(instance: intraop.Instance, run: Run) -> None:
    """Bound by branch and bound on values, begun with messages that settled or did not."""
    problem, rng = Problem.of(instance, Timeline.of(instance)), random.Random(run.seed)
    if problem is None or not problem.model.variables:
        return
    dual = Dual(problem, problem.model.forbidden)
    if rng.random() < 0.5:
        dual.climb(time.monotonic() + run.remaining() / 2)
    tree = Tree(dual)
    tree.grow(run.deadline, lambda: dual.top, lambda: False)
    if tree.bound < problem.model.forbidden:
        run.bound(tree.bound << problem.model.shift)


def branches(instance: intraop.Instance, run: Run) -> None:
    """Bound by branch and bound on memory below a greedy cost, which may fall; CP-SAT solves parts of some sizes."""
    timeline, rng = Timeline.of(instance), random.Random(run.seed)
    problem = Problem.of(instance, timeline)
    if problem is None or not problem.model.variables or not timeline.exact:
        return
    model, lowers, first = problem.model, rng.random() < 0.5, LocalRun(timeout=run.remaining() / 4)
    top = model.forbidden
    with suppress(Declined):
        greedy(instance, first)
    for solution in first.solutions[-1:]:
        verdict = verify(instance, solution)
        if verdict.feasible:
            top = min(top, (int(verdict.cost) >> model.shift) + 1)

    def found(part: Problem, value: Ints) -> None:
        nonlocal top
        if lowers and (part.overload(value) <= 0).all():
            top = min(top, part.model.cost(value))
            run.report(part.model.lift(instance, value).tolist())

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("shardmark.solvers.intraop.cfn.branching.LARGEST", rng.choice([0, 0, 40, 4000]))
        bound = lower_bound(problem, {}, run.deadline, seed=run.seed, top=lambda: top, found=found)
    if bound < model.forbidden:
        run.bound(bound << model.shift)


def weighed(instance: pipeline.Instance, run: Run) -> None:
    """Bound in windows of work, and under weights of nodes, mostly beyond the cost that is known."""
    rng = random.Random(run.seed)
    windows(instance, _part(run, 0.5))
    with pytest.MonkeyPatch.context() as monkeypatch:
        pretend(monkeypatch, rng.choice([1.0, 1.02, 1.1, 1.5]))
        monkeypatch.setattr("shardmark.solvers.pipeline.bounds.reweighted.EARLY_FINEST", rng.choice([0.02, math.inf]))
        reweighted(instance, run)


def covered(instance: placement.Instance, run: Run) -> None:
    """Bound by the configuration program, up to more than any cost, and by work with shared tensors spread."""
    if instance.objective == "latency" or instance.allreduce is not None:
        raise Declined("covered is for throughput without replicas")
    forced, rng = with_forced_nodes(instance), random.Random(run.seed)
    anchored(instance, _part(run, 0.3))
    incumbent = Incumbent(forced, _part(run, 0.4, LocalRun()), reports=False)
    begin(incumbent, forced.contiguity)
    high = min(incumbent.best * rng.choice([1.0, 1.1, 2.0]), 1e300)
    limits = Limits(run.deadline, 256, np.zeros(1, dtype=np.int32))
    for bound, _ in configuration_bounds(forced, load_bound(forced), lambda: (high, []), limits):
        run.bound(bound)


def overfull(instance: scheduling.Instance, run: Run) -> None:
    """Bound by segments, long and short, and decline if cuts prove that nothing fits."""
    if none_fits(instance, run.remaining() / 2):
        raise Declined("no schedule fits the memory of the devices, as cuts show")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(
            "shardmark.solvers.scheduling.schedules.segments.MOST", random.Random(run.seed).choice([3, 5, 70])
        )
        energetic(instance, run)


def unaided(instance: hybrid.Instance, run: Run) -> None:
    """Prove by the kernels of `dp` alone, without the simple bound, and in ranges of another width."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(hybrid.Instance, "simple_bound", lambda instance: 0.0)
        width = random.Random(run.seed).choice([1.004, 1.3, 9.0])
        monkeypatch.setattr("shardmark.solvers.hybrid._batches.WIDTH", width)
        dp(instance, run)


def integer_program(instance: hybrid.Instance, run: Run) -> None:
    """Solve the integer program of the oracles, which shares no code with any solver."""
    try:
        program = Program(instance)
    except ValueError as error:
        raise Declined(str(error)) from None
    with suppress(TimeoutError):
        program.solve(run.remaining(), run.cores)
    if program.solution is not None:
        run.report(program.solution)
    if program.bound is None:
        raise Declined("no stages fit the devices and their memory")
    run.bound(program.bound)


class _Forwarded(LocalRun):
    """A run of part of another one's time, which hears all bounds."""

    def __init__(self, run: Run, seconds: float) -> None:
        super().__init__(seed=run.seed, cores=run.cores, memory=run.memory, timeout=seconds)
        self._run = run

    def bound(self, value: float, certificate: Proof | None = None) -> None:
        """Hand on a bound."""
        self._run.bound(value)


def _part(run: Run, share: float, into: Run | None = None) -> Run:
    """Return a run of a share of the time that is left; its bounds count for ``into``, by default for the run."""
    return _Forwarded(into or run, share * run.remaining())
