"""A layout in words: a row per stage, and facts about the run."""

from __future__ import annotations

from typing import Any

from shardmark.leaderboard.text import count
from shardmark.plans.cluster.certified_layout import CertifiedLayout, Unproven
from shardmark.plans.cluster.practice import Practice
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.stages import Stage
from shardmark.plans.solving import words

GIB = 2**30
#: Name of the fact with the customary layouts.
TODAY = "people do today"


def rows(layout: CertifiedLayout) -> list[dict[str, Any]]:
    """One row per stage, in the order of the pipeline."""
    return [
        {
            "stage": number,
            "blocks": len(stage.blocks),
            "replicas x devices": f"{stage.replicas} x {stage.tensor}",
            "recomputed": len(stage.recomputed),
            "microbatch ms": 1e3 * stage.microbatch_s,
            "gradients ms": 1e3 * stage.sync_s,
            "memory GiB": stage.memory / GIB,
            "% of limit": 100 * stage.memory / layout.run.device.memory,
            "modules": _ends(stage),
        }
        for number, stage in enumerate(layout.stages)
    ]


def _ends(stage: Stage) -> str:
    first, last = stage.blocks[0], stage.blocks[-1]
    return first if first == last else f"{first.split(' ... ')[0]} ... {last.split(' ... ')[-1]}"


def unit(layout: CertifiedLayout) -> str:
    """What the layout's time is for."""
    run = layout.run
    sample = "sample" if run.microbatch == 1 else count(run.microbatch, "sample")
    return {"step": "step", "throughput": "microbatch", "latency": sample}[run.objective]


def facts(layout: CertifiedLayout) -> dict[str, str | list[str]]:
    """Facts about the run and its layout, by name."""
    run = layout.run
    idle = run.machines * run.devices - layout.used
    kept = "none" if run.shard == "none" else f"{run.shard} and what stands before it"
    return {
        "model": layout.source.name,
        "cluster": f"{count(run.machines, 'machine')} of {run.devices} x {run.device.name}"
        + (f", {count(idle, 'device')} of them idle" if idle else ""),
        "run": _batch(run) + (f"; {run.train}; divided over replicas: {kept}" if run.training else "; serving"),
        **_backward(layout),
        f"time per {unit(layout)}": f"{1e3 * layout.cost_s:,.6g} ms, {layout.gap_text}",
        "lower bound": f"{1e3 * layout.bound_s:,.6g} ms ({layout.bound_from})",
        "block shardings": [_unproven(one) for one in layout.unproven] or "all proven optimal",
        "samples per second": f"{layout.samples_per_s:,.4g}",
        "utilisation": f"{100 * layout.utilisation:.1f} % of the peak rate, by the roofline",
        TODAY: [f"{practice.name} ({practice.layout}): {compared(layout, practice)}" for practice in layout.practices],
    }


def _batch(run: Run) -> str:
    if run.objective == "latency":
        return count(run.microbatch, "sample") + " at a time"
    return f"batch {run.batch:,} in {run.microbatches:,} microbatches of {run.microbatch}"


def _backward(layout: CertifiedLayout) -> dict[str, str]:
    """Where the time of the backward pass comes from."""
    if not layout.run.training:
        return {}
    takes = f"{layout.backward:.3g} times as long as the forward pass on one device"
    return {"backward pass": f"the step's own, {takes}" if layout.rule is None else f"{takes} by rule: {layout.rule}"}


def _unproven(one: Unproven) -> str:
    """A sharding that is not proven to be the fastest, with the blocks that it is for."""
    more = f" and {count(len(one.blocks) - 1, 'equal block')}" if len(one.blocks) > 1 else ""
    purpose = " with updates" if one.lean else ""
    return f"{one.blocks[0]}{more} on {one.degree} devices{purpose}: {words(one.gap).replace('split there is', 'one')}"


def in_lines(layout: CertifiedLayout) -> dict[str, str]:
    """The facts, a line each."""
    return {key: value if isinstance(value, str) else "; ".join(value) for key, value in facts(layout).items()}


def in_ms(seconds: float) -> str:
    """A time in milliseconds, with four digits or those before the point."""
    value = 1e3 * seconds
    return f"{value:,.0f} ms" if value >= 1e3 else f"{value:.4g} ms"


def in_gib(size: float) -> str:
    """A size in GiB, with three digits or those before the point."""
    value = size / GIB
    return f"{value:,.0f} GiB" if value >= 1e3 else f"{value:.3g} GiB"


def compared(layout: CertifiedLayout, practice: Practice) -> str:
    """How much longer a customary layout takes, or how much memory it lacks."""
    if practice.cost is None:
        return f"does not fit, {in_gib(practice.lacking)} per device too few"
    return f"{practice.cost / layout.cost_s:.2f} times as long"


def text(layout: CertifiedLayout) -> str:
    """The facts and the stages, one line each."""
    about = {key: [value] if isinstance(value, str) else value for key, value in facts(layout).items()}
    stages = (", ".join(f"{key} {short(value)}" for key, value in row.items()) for row in rows(layout))
    return "\n".join([*(f"{key}: {line}" for key, lines in about.items() for line in lines), *stages])


def short(value: object) -> str:
    """A value of `rows` as text."""
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
