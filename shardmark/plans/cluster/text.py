"""A layout in words: a row per stage, and facts about the run."""

from __future__ import annotations

from typing import Any

from shardmark.leaderboard.text import count
from shardmark.plans.cluster.certified_layout import CertifiedLayout, Stage, Unproven
from shardmark.plans.cluster.practice import Practice
from shardmark.plans.solving import words

GIB = 2**30


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


def facts(layout: CertifiedLayout) -> dict[str, str | list[str]]:
    """Facts about the run and its layout, by name."""
    run = layout.run
    idle = run.machines * run.devices - layout.used
    what = "time per step" if run.training else "time per microbatch"
    kept = "none" if run.shard == "none" else f"{run.shard} and what stands before it"
    return {
        "model": layout.source.name,
        "cluster": f"{count(run.machines, 'machine')} of {run.devices} x {run.device.name}"
        + (f", {count(idle, 'device')} of them idle" if idle else ""),
        "run": f"batch {run.batch:,} in {run.microbatches:,} microbatches of {run.microbatch}"
        + (f"; {run.train}; divided over replicas: {kept}" if run.training else "; serving"),
        what: f"{1e3 * layout.cost_s:,.6g} ms, {layout.gap_text}",
        "lower bound": f"{1e3 * layout.bound_s:,.6g} ms ({layout.bound_from})",
        "block shardings": [_unproven(one) for one in layout.unproven] or "all proven optimal",
        "samples per second": f"{layout.samples_per_s:,.4g}",
        "utilisation": f"{100 * layout.utilisation:.1f} % of the peak rate; a roofline, so an upper limit",
        "people do today": [_practice(layout, practice) for practice in layout.practices],
    }


def _unproven(one: Unproven) -> str:
    """A sharding that is not proven to be the fastest, with the blocks that it is for."""
    more = f" and {count(len(one.blocks) - 1, 'equal block')}" if len(one.blocks) > 1 else ""
    purpose = " with updates" if one.lean else ""
    return f"{one.blocks[0]}{more} on {one.degree} devices{purpose}: {words(one.gap).replace('split there is', 'one')}"


def _practice(layout: CertifiedLayout, practice: Practice) -> str:
    """How much longer a customary layout takes, or how much memory it lacks."""
    if practice.cost is None:
        result = f"does not fit, {practice.lacking / GIB:,.3g} GiB per device too few"
    else:
        result = f"{practice.cost / layout.cost_s:.2f} times as long"
    return f"{practice.name} ({practice.layout}): {result}"


def text(layout: CertifiedLayout) -> str:
    """The facts and the stages, one line each."""
    about = {key: [value] if isinstance(value, str) else value for key, value in facts(layout).items()}
    stages = (", ".join(f"{key} {_short(value)}" for key, value in row.items()) for row in rows(layout))
    return "\n".join([*(f"{key}: {line}" for key, lines in about.items() for line in lines), *stages])


def _short(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
