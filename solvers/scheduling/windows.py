"""Large neighbourhood search: windows of a schedule, one after another, arranged as well as CP-SAT can."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock

import numpy as np

from instances.files.columns import Floats, Ints
from instances.scheduling import Instance
from solvers._cpsat import answer, core, set_up
from solvers.registry import Declined, Run, solver
from solvers.scheduling.exact.model import Clock, Model
from solvers.scheduling.exact.window import WORTH, Cutter, Timing, Window, in_sequence
from solvers.scheduling.heuristics.local import orders
from solvers.scheduling.schedules.annealing import begin, improve
from solvers.scheduling.schedules.deadline import Deadline
from solvers.scheduling.schedules.memory import fits

#: Units that may move in a window at first.
FREE = 12.0

#: Units that may move in a window, at least and at most.
LEAST = 4.0
MOST = 60.0

#: Devices that each of them may go to.
CHOICES = 6

#: Vertices of a window per unit that may move; mostly the width that saved most per second lately.
WIDTHS = (2.5, 8.0)

#: Factor by which the past of a width fades with every window.
LATELY = 0.98

#: Share of windows of any width.
ANY = 0.1

#: Factors of the units that may move after a window that got no better: if that is proved, and if effort ran out.
MORE = 1.002
FEWER = 0.95

#: CP-SAT's deterministic time for a window.
EFFORT = 0.25

#: Units of time in a schedule.
STEPS = 2**32

#: Seconds of computing that importing CP-SAT takes.
LOADING = 0.1

#: At most one part in so many of the time goes into reporting schedules.
PARTS = 20


@solver(
    track="scheduling",
    source="ours: large neighbourhood search with CP-SAT",
    variants={"windows": {"first": 0.0}, "search-windows": {"first": 0.8}},
    deterministic=False,
)
def windows(instance: Instance, run: Run, *, first: float = 0.0) -> None:
    """Begin with HEFT, improved by moves for a share ``first`` of the time; then free what starts in a short span.

    CP-SAT's model of a span is exact if links are independent. On others its times are too short, and memory is not in
    it: every schedule is run, and kept if it is shorter and fits.
    """
    if not 0 <= first < 1:
        raise Declined(f"expected first of at least 0 and below 1, found {first:g}")
    improver = _Improver(instance, run, first)
    if instance.nodes and improver.remaining() > LOADING * improver.deadline.busy:
        core()  # before the first step, whose time counts
        with ThreadPoolExecutor(run.cores) as pool:
            for done in [pool.submit(improver.work, worker) for worker in range(run.cores)]:
                done.result()
    improver.report()


@dataclass(frozen=True)
class Answer:
    """Answer of CP-SAT for a window.

    ``proved``    no arrangement is better by what is worthwhile
    ``makespan``  of the whole schedule; infinite if nothing better was found
    ``device``    shape (w,): numbers of the devices of the window
    ``order``     shape (w,): numbers of the vertices of the window, as they start
    ``seconds``   that CP-SAT took
    """

    proved: bool
    makespan: float
    device: Ints
    order: Ints
    seconds: float


def arrange(window: Window, remaining: Callable[[], float], seed: int) -> Answer:
    """Arrange a window for a shorter makespan, if that can be done with little effort in the time remaining."""
    clock = Clock(Fraction(window.makespan) / STEPS, False, int(STEPS * (1 - WORTH)))
    model = Model(window.ends.instance, window.ends, clock)
    model.writer.row([(model.makespan, 1)], least=int(window.around / clock.unit))
    cp_sat = core()
    parameters = cp_sat.SatParameters()
    set_up(parameters, 1, seed, remaining())
    parameters.max_deterministic_time = EFFORT
    parameters.linearization_level = 0  # most windows are done before these would help
    parameters.cp_model_probing_level = 0
    parameters.symmetry_level = 0
    response = answer(model.writer.proto, parameters)
    if response.status in (cp_sat.OPTIMAL, cp_sat.FEASIBLE):
        found = float(response.objective_value * clock.unit)
        device, order = model.found(list(response.solution))
        return Answer(response.status == cp_sat.OPTIMAL, found, device, order, response.wall_time)
    nothing = np.zeros(0, dtype=np.int64)
    return Answer(response.status == cp_sat.INFEASIBLE, math.inf, nothing, nothing, response.wall_time)


@dataclass
class _Improver:
    """The best schedule, which threads improve together."""

    instance: Instance
    run: Run
    first: float
    free: Floats = field(default_factory=lambda: np.full(len(WIDTHS), FREE))
    saved: Floats = field(default_factory=lambda: np.zeros(len(WIDTHS)))
    spent: Floats = field(default_factory=lambda: np.full(len(WIDTHS), 1e-9))
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.deadline, self.timing = Deadline(self.run), Timing(self.instance)
        self.reported, self.cost_of_report, self.last, self.aside = math.inf, 0.0, -math.inf, 0.0
        begun = begin(self.timing.forward, self.run)
        if not math.isfinite(begun.makespan):
            raise Declined("neither HEFT nor the critical path gives a partition in which all tensors have a link")
        if self.first:
            improve(begun, self.first * self.deadline.remaining())
        self.best, self.fits = self.timing.schedule(begun.device, begun.execution), begun.fits
        if self.fits:
            self.reported = self.best.makespan

    def remaining(self) -> float:
        """Seconds until the search has to stop: what a step needs beside CP-SAT is kept back."""
        return self.deadline.remaining() - self.cost_of_report - self.aside

    def work(self, worker: int) -> None:
        """Improve windows, by one thread, until the time is over."""
        rng = np.random.default_rng([self.run.seed, worker])
        cutter = Cutter(self.instance, CHOICES, rng)
        least = self.instance.simple_bound() / (1 - WORTH)
        while self.remaining() > 0 and self.best.makespan > least:
            rate = self.saved / self.spent
            kind = int(rng.choice(len(WIDTHS) if rng.random() < ANY else np.flatnonzero(rate == rate.max())))
            begun = time.monotonic()
            saved, searched = self._step(cutter, kind)
            took = time.monotonic() - begun
            self.saved[kind] = LATELY * self.saved[kind] + saved
            self.spent[kind] = LATELY * self.spent[kind] + took
            self.aside = max(LATELY * self.aside, took - searched)

    def _step(self, cutter: Cutter, kind: int) -> tuple[float, float]:
        """Try to improve a window of a kind; by how much that was done, and the seconds that CP-SAT took."""
        free, rng = round(self.free[kind]), cutter.rng
        width = round(free * WIDTHS[kind])
        first = max(0, int(rng.integers(self.instance.nodes)) - width // 2)
        window = cutter.cut(self.best, first, first + width, free)
        if window is None:
            return 0.0, 0.0
        found = arrange(window, self.remaining, int(rng.integers(2**31)))
        if found.makespan < window.makespan:
            return self._offer(window, found), found.seconds
        factor = MORE if found.proved else FEWER
        self.free[kind] = min(MOST, max(LEAST, self.free[kind] * factor))
        return 0.0, found.seconds

    def _offer(self, window: Window, found: Answer) -> float:
        """Put a window back into what is the best schedule by now; keep it if it is better, by what is returned."""
        with self.lock:
            before = self.best.makespan
            devices, sequence = window.put_back(self.best, found.device, found.order)
            execution = in_sequence(self.timing.forward, devices, sequence)
            fitting = execution.makespan < before and fits(self.instance, devices, execution)
            if execution.makespan >= before or (self.fits and not fitting):
                return 0.0
            self.best, self.fits = self.timing.schedule(devices, execution), fitting
            if time.monotonic() > self.last + PARTS * self.cost_of_report:
                self.report()
            return before - execution.makespan

    def report(self) -> None:
        """Hand in the best schedule, if it fits and has not been handed in."""
        if not self.fits or self.best.makespan >= self.reported:
            return
        begun = time.monotonic()
        order = orders(self.best.device, self.best.execution, self.instance.devices)
        self.run.report({"device": self.best.device, "order": order}, self.best.makespan)
        self.reported, self.last = self.best.makespan, time.monotonic()
        self.cost_of_report = self.last - begun
