"""A step of a layout under 1F1B, or a run that serves: what every stage does when."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shardmark.harness import verify
from shardmark.leaderboard import report
from shardmark.leaderboard.drawings.plan_layout import Pass, simulate
from shardmark.leaderboard.report import Lane, Timeline
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.stages import Stage
from shardmark.plans.cluster.views.text import in_ms

#: Passes that are simulated at most; a second for every 200,000.
MOST_PASSES = 300_000
#: Time drawn on either side of what is left out, at most, in microbatches of the slowest stage.
MOST_DRAWN = 70
#: And at least, beyond the pipeline's filling or draining.
STEADY = 3
#: Microbatches of the slowest stage that can be told apart in one drawing.
READABLE = 80
#: Nothing is left out if that would be less than the rest of this share.
WHOLE = 0.7
#: Smallest relative difference of two times that is told.
TELLING = 5e-4
#: Of drawings, by what is best.
TITLES = {
    "step": "A step under 1F1B",
    "throughput": "Microbatches in a row",
    "latency": "The way through all stages",
}


@dataclass(frozen=True)
class Simulation:
    """A batch as it runs, in seconds.

    ``passes``     of ``simulated`` microbatches
    ``skipped_s``  for all others, which run in the steady state between the first and the last simulated ones
    ``reduced``    start and end of the sum of gradients, by stage
    """

    passes: Sequence[Pass]
    simulated: int
    skipped_s: float
    reduced: Sequence[tuple[float, float]]

    @property
    def end_s(self) -> float:
        """End of the step."""
        return max(end for _, end in self.reduced)


def simulated(layout: CertifiedLayout) -> Simulation:
    """Run a batch, every pass as soon as its input is there, every stage in the order of 1F1B.

    Of long batches as many microbatches as `MOST_PASSES` allows are run, and the others added at the rate of the
    slowest stage.
    """
    found = _as_verified(layout.stages, training=layout.run.training)
    turn = math.lcm(*found.data)
    batch = layout.run.microbatches
    count = min(batch, max(MOST_PASSES // (2 * len(found.data)) // turn, 1) * turn)
    passes = simulate(found, count, [stage.forward_s for stage in layout.stages])
    skipped = (batch - count) * max(time / d for time, d in zip(found.microbatch, found.data, strict=True))
    last = [0.0] * len(found.data)
    for one in passes:
        last[one.device[0]] = max(last[one.device[0]], one.finish + skipped)
    return Simulation(passes, count, skipped, [(end, end + sync) for end, sync in zip(last, found.sync, strict=True)])


def _as_verified(stages: Sequence[Stage], *, training: bool) -> verify.Stages:
    """The stages as the verifier returns them; those that serve have a forward pass alone."""
    rows = [
        (
            *(stage.replicas, stage.tensor, stage.in_flight),
            *(stage.microbatch_s if training else stage.forward_s, stage.sync_s, stage.held),
        )
        for stage in stages
    ]
    return verify.Stages(*(list(column) for column in zip(*rows, strict=True)))


def timeline(layout: CertifiedLayout, run: Simulation) -> Timeline:
    """The first replica of every stage, in milliseconds."""
    windows = _windows(layout, run)
    shares = idle_shares(layout, run)
    first: list[list[Pass]] = [[] for _ in layout.stages]
    for one in run.passes:
        if one.device[1] == 0:
            first[one.device[0]].append(one)
    lanes = [
        Lane(
            f"stage {number}, {stage.replicas:,} × {stage.tensor}",
            f"{100 * shares[number]:.0f} % idle",
            [_scaled(one) for one in _shown(layout, run, number, first[number], windows)],
        )
        for number, stage in enumerate(layout.stages)
    ]
    skipped = windows[-1][0] - windows[0][1]
    return Timeline(
        lanes,
        [(1e3 * begin, 1e3 * end) for begin, end in windows],
        "time in ms",
        _marks(layout, run),
        f"{in_ms(skipped)} not drawn" if len(windows) > 1 else "",
        TITLES[layout.run.objective],
        _caption(layout, run),
    )


def idle_shares(layout: CertifiedLayout, run: Simulation) -> list[float]:
    """Share of the step in which the replicas of each stage neither compute nor communicate."""
    batch = layout.run.microbatches
    busy = (batch / stage.replicas * stage.microbatch_s + stage.sync_s for stage in layout.stages)
    return [max(1 - time / run.end_s, 0.0) for time in busy]


def _windows(layout: CertifiedLayout, run: Simulation) -> list[tuple[float, float]]:
    """The whole step, or its begin and its end if microbatches could not be told apart."""
    slowest = max(stage.microbatch_s for stage in layout.stages)
    first = next(one for one in run.passes if one.device[0] == 0 and one.back)
    last = next(one for one in reversed(run.passes) if one.device[0] == 0 and not one.back)
    most = min(MOST_DRAWN * slowest, (run.end_s - run.skipped_s) / 2)
    begin, end = (min(time + STEADY * slowest, most) for time in (first.finish, run.end_s - run.skipped_s - last.start))
    until = max(run.end_s, layout.cost_s if layout.run.training else 0.0)
    if not run.skipped_s and (run.end_s < READABLE * slowest or begin + end > WHOLE * run.end_s):
        return [(0.0, until)]
    return [(0.0, begin), (run.end_s - end, until)]


def _shown(
    layout: CertifiedLayout,
    run: Simulation,
    number: int,
    passes: Sequence[Pass],
    windows: Sequence[tuple[float, float]],
) -> Iterator[report.Pass]:
    """Those ``passes`` of a stage that are in the windows; late ones are of the batch's last microbatches."""
    stage, more = layout.stages[number], layout.run.microbatches - run.simulated
    for one in passes:
        if one.start < windows[0][1]:
            yield from _parts(one, stage, 0.0, 0)
        elif one.finish + run.skipped_s > windows[-1][0]:
            yield from _parts(one, stage, run.skipped_s, more)
    begin, end = run.reduced[number]
    if end > begin:
        yield report.Pass("sync", begin, end)


def _parts(one: Pass, stage: Stage, later: float, more: int) -> Iterator[report.Pass]:
    """A pass ``later`` in time, of a microbatch with a number that is greater by ``more``."""
    start, finish, microbatch = one.start + later, one.finish + later, one.microbatch + more
    middle = min(start + stage.recomputation_s, finish) if one.back else start
    parts = ("recomputation", start, middle), ("backward" if one.back else "forward", middle, finish)
    yield from (report.Pass(kind, begin, end, microbatch) for kind, begin, end in parts if end > begin)


def _scaled(one: report.Pass) -> report.Pass:
    return replace(one, start=1e3 * one.start, finish=1e3 * one.finish)


def _marks(layout: CertifiedLayout, run: Simulation) -> list[tuple[float, str, str]]:
    if not layout.run.training:
        return [(1e3 * run.end_s, f"end {in_ms(run.end_s)}", "base")]
    updated = (1e3 * run.end_s, f"weights are updated: {in_ms(run.end_s)}", "base")
    if same(run.end_s, layout.cost_s):
        return [updated]
    return sorted([updated, (1e3 * layout.cost_s, f"plan: {in_ms(layout.cost_s)}", "limit")], reverse=True)


def same(end_s: float, planned_s: float) -> bool:
    """True for times that cannot be told apart in a drawing."""
    return abs(end_s / planned_s - 1) < TELLING


def _caption(layout: CertifiedLayout, run: Simulation) -> str:
    words = ["Each row is the first replica of a stage; a pass starts as soon as its input is there."]
    if layout.run.objective == "latency":
        words.append(f"A pass begins with what enters the stage. The result is there after {in_ms(run.end_s)}.")
        return " ".join(words)
    if not layout.run.training:
        finished = [one.finish for one in run.passes if one.device[0] == len(layout.stages) - 1 and not one.back]
        words.append(f"The first microbatch leaves after {in_ms(min(finished))}.")
        slowest = max(stage.microbatch_s / stage.replicas for stage in layout.stages)
        words.append(f"In the steady state one leaves every {in_ms(slowest)}.")
        return " ".join(words)
    words.append("Transfers between stages are part of the passes.")
    if any(stage.recomputed for stage in layout.stages):
        words.append("Activations are computed again just before the backward pass.")
    if run.skipped_s:
        words.append(
            f"{run.simulated:,} microbatches are simulated, the others added at the rate of the slowest stage."
        )
    words.append(_comparison(layout, run))
    return " ".join(words)


def _comparison(layout: CertifiedLayout, run: Simulation) -> str:
    """How the simulation differs from the time of the plan, which is a formula."""
    if same(run.end_s, layout.cost_s):
        return f"The step ends as the plan's formula says, after {in_ms(layout.cost_s)}."
    percent = abs(run.end_s / layout.cost_s - 1) * 100
    direction = "before" if run.end_s < layout.cost_s else "after"
    return (
        f"This step ends {percent:.1f} % {direction} the {in_ms(layout.cost_s)} of the plan. Those are a formula: the "
        "time to fill and drain, the slowest stage, and the longest sum of gradients. It neglects that late stages sum "
        "gradients while others still compute, that unequal replicas wait for each other, and how passes of unequal "
        "length interleave."
    )
