"""The page of the site that shows how well stages keep the times of their plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shardmark.leaderboard.report import Report, Section, Table
from shardmark.plans.runs.stage_runs import StageRuns


def slowest_stages(runs: Mapping[str, StageRuns]) -> list[dict[str, Any]]:
    """One row per plan, by the name of its model: the stage with the longest planned time, and its measured time."""
    found = []
    for model, verified in runs.items():
        slowest = max(verified.stages, key=lambda run: run.predicted_us)
        found.append(
            {
                "model": model,
                "stages": len(verified.stages),
                "slowest stage": slowest.stage,
                "planned ms": slowest.predicted_us / 1e3,
                "measured ms": slowest.measured_us / 1e3,
                "difference %": 100 * (slowest.predicted_us / slowest.measured_us - 1),
                "same outputs": "yes" if verified.equal else "no",
            }
        )
    return found


def report(runs: Mapping[str, StageRuns], costs: Iterable[str]) -> Report:
    """The page of the site that shows how well stages keep the times of their plans."""
    words = "Difference: planned / measured - 1. Each stage runs alone, on one core, with one thread."
    return Report(
        name="stage-runs",
        title="Planned and measured times of stages",
        about="The slowest stage of each plan, run on this machine, and its outputs compared with the whole model's.",
        facts={"Costs of the plans": ", ".join(sorted(set(costs)))},
        sections=[Section("Plans", tables=[Table("The slowest stage", slowest_stages(runs), digits=2, note=words)])],
    )
