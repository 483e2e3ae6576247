"""Pictures of a layout: its time beside that of customary ones, memory of a device, and the blocks of every stage."""

from __future__ import annotations

from shardmark.harness import verify
from shardmark.leaderboard.charts import COLOURS
from shardmark.leaderboard.report import Load, Loads, Share, Shares, Tensors
from shardmark.leaderboard.text import si
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.problem import AGAIN
from shardmark.plans.cluster.views.text import GIB, compared, in_ms, unit


def comparison(layout: CertifiedLayout) -> Shares:
    """Bars for the layout and for each customary one."""
    times = [("this layout", layout.cost_s, in_ms(layout.cost_s), "block s1")]
    for one in layout.practices:
        shown = compared(layout, one)
        shown = shown if one.cost is None else f"{in_ms(one.cost)}, {shown}"
        times.append((f"{one.name} ({one.layout})", one.cost or 0.0, shown, "block s0"))
    rows = [Share(name, 0.0, 1e3 * time, shown, f"{name}: {shown}", style) for name, time, shown, style in times]
    caption = "In brackets: stages x replicas x devices of a replica. The dashed line is the proven lower bound."
    bound = [(1e3 * layout.bound_s, f"lower bound {in_ms(layout.bound_s)}", "limit")]
    return Shares(rows, f"ms per {unit(layout)}", bound, f"Time per {unit(layout)}", caption, above=True)


def memory(layout: CertifiedLayout) -> Loads:
    """Memory of a device of every stage by what it holds, against that of the device."""
    limit = layout.run.device.memory
    rows = [
        Load(
            f"stage {number}",
            stage.memory / GIB,
            [{kind: size / GIB for kind, size in stage.held.items()}],
            len(stage.blocks),
        )
        for number, stage in enumerate(layout.stages)
    ]
    divided = layout.run.shard != "none"
    return Loads(
        rows,
        [],
        "GiB on a device",
        limit=limit / GIB,
        cells={
            "in flight": [f"{stage.in_flight:,}" for stage in layout.stages],
            "% of limit": [f"{100 * stage.memory / limit:.1f}" for stage in layout.stages],
        },
        title="Memory of a device",
        caption="In flight: microbatches whose activations a replica keeps at the same time."
        + (" Of what replicas divide, the device's share counts." if divided else ""),
    )


def blocks(layout: CertifiedLayout) -> Loads:
    """The blocks of every stage in order, as wide as they take long, and what crosses between stages."""
    parts = verify.parts(layout.instance, layout.solution)
    assert parts is not None
    times, crossing = block_seconds(layout), crossings(layout)
    rows = []
    for number, stage in enumerate(layout.stages):
        mine = [v for v, i in enumerate(layout.solution["stage"]) if i == number]
        work = [
            (
                layout.blocks[v].name,
                1e3 * times[v] / stage.replicas,
                f"block s{number % COLOURS + 1}{' again' if _again(layout, v) else ''}",
            )
            for v in mine
        ]
        computing = 1e3 * parts.times[number][0]["work"]
        load = 1e3 * (stage.forward_s if layout.run.objective == "latency" else parts.loads[number])
        of_stage = {"work": computing, "moved": load - computing}
        rows.append(Load(f"stage {number}", load, [of_stage], len(mine), work=work))
    sent = [sum(size for (source, _), size in crossing.items() if source == i) for i in range(len(rows))]
    tensors = [
        Tensors(source, target, 1, size, f"stage {source} to stage {target}: {si(size, 'B')} per microbatch")
        for (source, target), size in crossing.items()
    ]
    again = " Paler blocks compute their activations again." if any(s.recomputed for s in layout.stages) else ""
    return Loads(
        rows,
        tensors,
        "ms per microbatch: time on a replica / replicas",
        cells={
            "replicas × devices": [f"{stage.replicas:,} × {stage.tensor}" for stage in layout.stages],
            "blocks": [f"{len(stage.blocks):,}" for stage in layout.stages],
            "MiB sent": [f"{size / 2**20:,.4g}" if size else "–" for size in sent],
        },
        title="Blocks by stage",
        caption="Data flows downwards; arcs are what crosses between stages, the thicker the more bytes. "
        f"{_rows(layout)}{again}",
    )


def _rows(layout: CertifiedLayout) -> str:
    """What the lengths of the rows tell."""
    if layout.run.objective == "latency":
        return f"The rows add up to the time per {unit(layout)}."
    return "The longest row limits the rate."


def block_seconds(layout: CertifiedLayout) -> list[float]:
    """Seconds that every block computes per microbatch, on a replica of its stage."""
    work, solution = layout.instance, layout.solution
    found = []
    for v, (stage, name) in enumerate(zip(solution["stage"], solution["configuration"], strict=True)):
        degree = solution["tensor_parallel"][stage]
        menu = range(work.start[v], work.start[v + 1])
        chosen = (c for c in menu if work.degree[c] == degree and work.kinds[work.kind[c]] == name)
        found.append(float(work.time[next(chosen)]))
    return found


def crossings(layout: CertifiedLayout) -> dict[tuple[int, int], int]:
    """Bytes of a microbatch that go from one stage to another in the forward pass, each tensor once."""
    stage = layout.solution["stage"]
    tensors = layout.model.tensors
    made_in = {
        access.tensor: stage[v]
        for v, block in enumerate(layout.blocks)
        for index in block.operators
        for access in layout.model.operators[index].writes
    }
    moved = {(made_in[t], stage[v], t) for v, block in enumerate(layout.blocks) for t in block.tensors}
    found: dict[tuple[int, int], int] = {}
    for source, target, tensor in sorted(moved):
        if source != target:
            found[source, target] = found.get((source, target), 0) + tensors[tensor].bytes
    return found


def _again(layout: CertifiedLayout, block: int) -> bool:
    return str(layout.solution["configuration"][block]).startswith(AGAIN)
