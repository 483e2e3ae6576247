"""A layout in words: a row per stage, and facts about the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shardmark.leaderboard.text import count
from shardmark.plans.cluster.certified_layout import CertifiedLayout, Unproven
from shardmark.plans.cluster.practice import Practice
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.stages import Stage
from shardmark.plans.solving import words

GIB = 2**30
#: Units of memory, the largest first.
UNITS = (("GiB", GIB), ("MiB", 2**20), ("KiB", 2**10), ("bytes", 1))
#: Ranges of machines that are listed.
MOST_RANGES = 3
#: Name of the fact with the customary layouts.
TODAY = "people do today"


def rows(layout: CertifiedLayout) -> list[dict[str, Any]]:
    """One row per stage, in the order of the pipeline."""
    memory, size = unit_of(layout)
    return [
        {
            "stage": number,
            "blocks": len(stage.blocks),
            "replicas x devices": f"{stage.replicas} x {stage.tensor}",
            "recomputed": len(stage.recomputed),
            "microbatch ms": 1e3 * (stage.forward_s if layout.run.objective == "latency" else stage.microbatch_s),
            "gradients ms": 1e3 * stage.sync_s,
            f"memory {memory}": stage.memory / size,
            "% of limit": 100 * stage.memory / layout.run.device.memory,
            **({"machines": ranges(stage.machines)} if layout.run.machines > 1 else {}),
            "modules": _ends(stage),
        }
        for number, stage in enumerate(layout.stages)
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short.

    >>> ranges([0, 1, 2, 5]), ranges([0, 2, 4, 6, 8])
    ('0-2, 5', '0, 2, 4 and 2 more')
    """
    runs = list[list[int]]()
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:MOST_RANGES])
    rest = sum(map(len, runs[MOST_RANGES:]))
    return f"{shown} and {rest} more" if rest else shown


def unit_of(layout: CertifiedLayout) -> tuple[str, int]:
    """The unit for memory of the fullest stage, and its bytes."""
    return _unit(max(stage.memory for stage in layout.stages))


def _unit(size: float) -> tuple[str, int]:
    return next((one for one in UNITS if size >= one[1]), UNITS[-1])


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
        **_undivided(layout),
        **_apart(layout),
        **_backward(layout),
        f"time per {unit(layout)}": f"{1e3 * layout.cost_s:,.6g} ms, {layout.gap_text}",
        "lower bound": f"{1e3 * layout.bound_s:,.6g} ms ({layout.bound_from})",
        "block shardings": [_unproven(one) for one in layout.unproven] or "all proven optimal",
        "samples per second": f"{layout.samples_per_s:,.4g}",
        "utilisation": f"{100 * layout.utilisation:.1f} % of the peak rate, by the roofline",
        TODAY: [f"{practice.name} ({practice.layout}): {compared(layout, practice)}" for practice in layout.practices],
    }


def _batch(run: Run) -> str:
    if not run.training:
        return count(run.microbatch, "sample") + " at a time"
    return f"batch {run.batch:,} in {_microbatches(run.microbatches)} of {run.microbatch}"


def _microbatches(number: int) -> str:
    return "1 microbatch" if number == 1 else f"{number:,} microbatches"


def _undivided(layout: CertifiedLayout) -> dict[str, str]:
    """A hint if devices are idle and the microbatches divide among no stage's replicas."""
    run = layout.run
    devices = run.machines * run.devices
    idle = run.training and layout.used < devices
    if not idle or any(run.microbatches % replicas == 0 for replicas in range(2, devices + 1)):
        return {}
    more = -(-run.microbatches // devices) * devices * run.microbatch
    return {"hint": f"{_microbatches(run.microbatches)} cannot be divided among replicas; those of batch {more:,} can"}


def _apart(layout: CertifiedLayout) -> dict[str, list[str]]:
    """The stages whose replicas exchange weights or gradients over fewer links than are counted.

    That is where a stage that fits one machine finds no room in one, or where one of its machines has few replicas.
    """
    run, apart, few = layout.run, list[str](), list[str]()
    for number, stage in enumerate(layout.stages):
        counted = run.devices // stage.tensor
        held = Counter(place.machine for place in stage.places)
        machine, least = min(held.items(), key=lambda item: item[1])
        if len(held) == 1:
            continue
        if stage.replicas <= counted:
            apart.append(str(number))
        elif least < counted and least * run.network < run.device.link_bandwidth:
            links = f"{count(least, 'link')} to the network instead of {counted}"
            few.append(f"stage {number}: machine {machine} has {least} of its replicas, so {links}")
    if not run.training and not run.exchanged[1]:
        return {}
    stages = f"stage{'' if len(apart) == 1 else 's'} {', '.join(apart)}"
    over = [f"{stages}: replicas in several machines exchange weights or gradients over the network"] if apart else []
    return {"not counted": over + few} if over + few else {}


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


def in_bytes(size: float) -> str:
    """A size in the largest unit that it fills, with three digits or those before the point."""
    name, unit = _unit(size)
    value = size / unit
    return f"{value:,.0f} {name}" if value >= 1e3 else f"{value:.3g} {name}"


def compared(layout: CertifiedLayout, practice: Practice) -> str:
    """How much longer a customary layout takes, or how much memory it lacks."""
    if practice.cost is None:
        return f"does not fit, {in_bytes(practice.lacking)} per device too few"
    return f"{practice.cost / layout.cost_s:.2f} times as long"


def text(layout: CertifiedLayout) -> str:
    """The facts and the stages, one line each."""
    about = {key: [value] if isinstance(value, str) else value for key, value in facts(layout).items()}
    stages = (", ".join(f"{key} {short(value)}" for key, value in row.items()) for row in rows(layout))
    return "\n".join([*(f"{key}: {line}" for key, lines in about.items() for line in lines), *stages])


def short(value: object) -> str:
    """A value of `rows` as text."""
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
