"""The page of a layout: its time beside that of customary ones, a step, memory, and the blocks of every stage."""

from __future__ import annotations

from typing import Any

from shardmark.leaderboard import plan_page
from shardmark.leaderboard.report import Report, Section, Table
from shardmark.leaderboard.text import count
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.problem import AGAIN
from shardmark.plans.cluster.stages import Stage
from shardmark.plans.cluster.views.pictures import block_seconds, blocks, comparison, crossings, memory
from shardmark.plans.cluster.views.text import TODAY, in_lines, ranges, unit, unit_of
from shardmark.plans.cluster.views.timeline import Simulation, idle_shares, simulated, timeline


def page(layout: CertifiedLayout) -> str:
    """``plan.html``, a page that needs no other file."""
    return plan_page.render(report(layout))


def report(layout: CertifiedLayout) -> Report:
    """The page as tables and pictures."""
    run, step = layout.run, simulated(layout)
    return Report(
        name="plan",
        title=f"{layout.source.name} on {count(run.machines, 'machine')} of {run.devices} × {run.device.name}",
        about=f"Time per {unit(layout)} {1e3 * layout.cost_s:,.6g} ms, {layout.gap_text}. "
        f"{layout.samples_per_s:,.4g} samples per second, at {100 * layout.utilisation:.1f} % of the peak rate.",
        facts={key: value for key, value in in_lines(layout).items() if key != TODAY},
        sections=[
            Section("What people do today", pictures=[comparison(layout)]),
            Section("Stages over time", pictures=[timeline(layout, step)], tables=[_times(layout, step)]),
            Section("Memory", pictures=[memory(layout)], tables=[_sizes(layout)]),
            Section("Graph by stage", pictures=[blocks(layout)], tables=[_modules(layout), *_crossing(layout)]),
        ],
    )


def _times(layout: CertifiedLayout, step: Simulation) -> Table:
    rows = [
        {
            "stage": number,
            "replicas": stage.replicas,
            "devices of each": stage.tensor,
            **({"machines": ranges(stage.machines)} if layout.run.machines > 1 else {}),
            "forward ms": 1e3 * stage.forward_s,
            **(_of_training(stage) if layout.run.training else {}),
            "idle %": 100 * idle,
        }
        for number, (stage, idle) in enumerate(zip(layout.stages, idle_shares(layout, step), strict=True))
    ]
    note = "Passes of one microbatch on a replica, with their transfers."
    return Table("Time of passes", rows, 3, note, coarse=["idle %"])


def _of_training(stage: Stage) -> dict[str, float]:
    return {
        "recomputation ms": 1e3 * stage.recomputation_s,
        "backward ms": 1e3 * stage.backward_s,
        "gradients ms": 1e3 * stage.sync_s,
    }


def _sizes(layout: CertifiedLayout) -> Table:
    limit, stages = layout.run.device.memory, layout.stages
    name, size = unit_of(layout)
    kinds = [kind for kind in stages[0].held if any(stage.held[kind] for stage in stages)]
    rows: list[dict[str, Any]] = [
        {
            "stage": number,
            **{f"{kind} {name}": stage.held[kind] / size for kind in kinds},
            f"sum {name}": stage.memory / size,
            f"free {name}": (limit - stage.memory) / size,
        }
        for number, stage in enumerate(stages)
    ]
    working = " Working memory is for the block that runs, such as for activations that it computes again."
    note = f"A device has {limit / size:,.4g} {name}.{working if 'working' in kinds else ''}"
    return Table("Bytes by what they are", rows, 2, note)


def _modules(layout: CertifiedLayout) -> Table:
    solution, times = layout.solution, block_seconds(layout)
    rows = [
        {
            "stage": solution["stage"][v],
            "block": layout.blocks[v].name,
            "ms on a replica": 1e3 * times[v],
            **({"activations": _activations(solution["configuration"][v])} if layout.run.training else {}),
        }
        for v in sorted(range(len(layout.blocks)), key=lambda v: solution["stage"][v])
    ]
    return Table("Blocks in order", rows, 3, "Computation of a microbatch, without transfers.")


def _activations(configuration: str) -> str:
    return "computed again" if configuration.startswith(AGAIN) else "kept"


def _crossing(layout: CertifiedLayout) -> list[Table]:
    """What stages send per microbatch, if there are several."""
    rows = [
        {"from stage": source, "to stage": target, "MiB": size / 2**20}
        for (source, target), size in crossings(layout).items()
    ]
    back = " Gradients of the same size come back." if layout.run.training else ""
    return [Table("Bytes between stages", rows, 2, f"Per microbatch.{back}")] if rows else []
