"""Shows a plan: one self-contained page, a picture, and a small table for notebooks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from shardmark.harness import verify
from shardmark.leaderboard import plan_page
from shardmark.leaderboard.drawings import loads_layout, pictures, schedule_layout
from shardmark.leaderboard.drawings.choices import choices_layout
from shardmark.leaderboard.report import Device, Loads, Picture, Report, Schedule, Section, Split, Table
from shardmark.leaderboard.text import count
from shardmark.notebook import in_notebook
from shardmark.plans.certified_split import CertifiedSplit
from shardmark.plans.modules import in_short

MOST_ROWS = 15  # of strategies
MANY = 8  # devices and repeated blocks of which a cluster is made
MOST_CUT = 8  # modules in the list of those that are cut


def rows(plan: CertifiedSplit) -> list[dict[str, Any]]:
    """One row per part: operators, load, its share of the greatest load, parameters, bytes that move, and modules."""
    most = max((part.load_us for part in plan.parts), default=0.0) or 1.0
    named = any(part.modules for part in plan.parts)
    return [
        {
            plan.target.kind: part.name,
            "operators": operators,
            "load µs": part.load_us,
            "% of busiest": 100 * part.load_us / most,
            "compute µs": part.compute_us,
            "parameters MiB": part.parameter_bytes / 2**20,
            "received MiB": part.received_bytes / 2**20,
            "sent MiB": part.sent_bytes / 2**20,
            **({"modules": in_short(part.modules)} if named else {}),
        }
        for part, operators in zip(plan.parts, plan.operators, strict=True)
    ]


def facts(plan: CertifiedSplit) -> dict[str, str]:
    """Facts about the plan, by name."""
    speedup = f"{plan.speedup:.2f}, relative to one device that holds the whole model"
    better = {} if plan.better is None else {"better split": f"{plan.better:,.6g} µs, found if no split is given"}
    return {
        "model": f"{plan.source.name}, {count(len(plan.assignment), 'operator')}",
        "devices": plan.target.devices + (f", {plan.layout.idle} of them idle" if plan.layout.idle else ""),
        "costs": f"{plan.costs.origin}; {plan.target.basis}",
        plan.target.what: f"{plan.cost:,.6g} µs, {plan.gap_text}",
        **better,
        "lower bound": f"{plan.lower_bound:,.6g} µs ({plan.bound_from}, {plan.grade})",
        **_of_modules(plan),
        "speed-up": speedup,
        **_on_clusters(plan),
    }


def _on_clusters(plan: CertifiedSplit) -> dict[str, str]:
    """The question that suits a training step, or a model of repeated blocks on many equal devices."""
    if plan.passes:
        return {"training run": "--cluster MxD --batch N chooses replicas, tensor parallelism and recomputation too"}
    repeated = {operator.layer for operator in plan.model.operators} - {-1}
    if plan.target.track == "pipeline" and len(plan.parts) + plan.layout.idle >= MANY and len(repeated) >= MANY:
        return {"many devices": "--cluster MxD --train none chooses replicas and tensor parallelism too"}
    return {}


def _of_modules(plan: CertifiedSplit) -> dict[str, str]:
    """Facts about modules that are whole or cut, if the file names any."""
    found = {}
    if plan.price is not None:
        found["whole modules"] = plan.price_text
    cut = dict.fromkeys(module for part in plan.parts for module in part.cut_modules)
    if cut and plan.layout.specs is None:
        listed = (
            f"{module} ({', '.join(part.name for part in plan.parts if module in part.cut_modules)})"
            for module in list(cut)[:MOST_CUT]
        )
        more = f" and {len(cut) - MOST_CUT} more" if len(cut) > MOST_CUT else ""
        found["cut modules"] = f"{', '.join(listed)}{more}"
    return found


def text(plan: CertifiedSplit) -> str:
    """The facts and the parts, one line each."""
    parts = [
        f"{part.name}: {count(len(part.operators), 'operator')}, load {part.load_us:,.6g} µs, "
        f"parameters {part.parameter_bytes / 2**20:,.1f} MiB{f', {in_short(part.modules)}' if part.modules else ''}"
        for part in plan.parts
        if plan.layout.specs is None
    ]
    return "\n".join([*(f"{key}: {value}" for key, value in facts(plan).items()), *parts])


def split(plan: CertifiedSplit) -> Split:
    """The model's graph, operators coloured by their part, or on a mesh by the axes that split them."""
    names = [operator.name for operator in plan.model.operators]
    if plan.layout.specs is None:
        devices = [Device(part.name, f"load {part.load_us:,.6g} µs") for part in plan.parts]
        of, caption = plan.layout.part_of, f"One colour per {plan.target.kind}."
    else:
        patterns = [_axes(plan, name) for name in names]
        known = sorted(set(patterns))
        devices, of = [Device(pattern) for pattern in known], [known.index(pattern) for pattern in patterns]
        caption = "Colours show which axes of the mesh split an operator."
    title = f"Operators by {'axes' if plan.layout.specs else plan.target.kind}"
    return Split(names, list(plan.model.edges()), of, devices, title, f"{caption} Data flows from left to right.")


def _axes(plan: CertifiedSplit, operator: str) -> str:
    """The axes of the mesh that split an operator, in words."""
    loops = (plan.layout.specs or {})["operators"][operator]["loops"]
    axes = [axis for axis, loop in loops.items() if loop is not None]
    return f"split over {' and '.join(axes)}" if axes else "on every device"


def strategies(plan: CertifiedSplit, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """For a mesh, one row per kind of operator and split of its loops, those with the most work first.

    Work is the time of the undivided operators on one device. A last row is the sum of all omitted rows.
    """
    specs = plan.layout.specs or {"mesh": {"axes": []}, "operators": {}}
    axes = specs["mesh"]["axes"]
    number, work = Counter[tuple[str, ...]](), defaultdict[tuple[str, ...], float](float)
    for operator, seconds in zip(plan.model.operators, plan.costs.seconds.tolist(), strict=True):
        loops = specs["operators"][operator.name]["loops"]
        key = (operator.kind, *(loops[axis] or "-" for axis in axes))
        number[key] += 1
        work[key] += 1e6 * seconds
    order = sorted(work, key=lambda key: -work[key])
    rest = order[most:]
    columns = ["operator", *(f"{axis} splits" for axis in axes)]
    found = [
        {**dict(zip(columns, key, strict=True)), "operators": number[key], "µs on one device": work[key]}
        for key in order[:most]
    ]
    if rest:
        others = {"operators": sum(number[key] for key in rest), "µs on one device": sum(work[key] for key in rest)}
        found.append({**dict.fromkeys(columns, "..."), **others})
    return found


def report(plan: CertifiedSplit) -> Report:
    """The page of a plan, as tables and pictures."""
    return Report(
        name="plan",
        title=f"{plan.source.name} over {plan.target.devices}",
        about=f"{plan.target.what.capitalize()} {plan.cost:,.6g} µs, {plan.gap_text}.",
        facts=facts(plan),
        sections=[_of_parts(plan) if plan.layout.specs is None else _of_strategies(plan), _of_graph(plan)],
    )


def _of_parts(plan: CertifiedSplit) -> Section:
    name = f"{plan.target.kind.capitalize()}s"
    return Section(
        name,
        tables=[Table(f"Figures per {plan.target.kind}", rows(plan), digits=2)],
        pictures=[_loads(plan) or _schedule(plan)],
    )


def _loads(plan: CertifiedSplit) -> Loads | None:
    """The loads of the parts in the plan's order, in microseconds; None for a schedule."""
    if not verify.has_parts(plan.target.track):
        return None
    solution, names = plan.solution, [part.name for part in plan.parts]
    if plan.target.kind == "stage":
        stage = dict(zip(solution, plan.layout.part_of, strict=False))  # nodes beyond the operators are helpers
        solution = [stage[number] for number in solution]
    caption = plan.about_loads
    words = {"title": "Loads", "axis": "µs per run of the model", "caption": caption}
    return loads_layout.drawing(plan.instance, solution, bound=plan.lower_bound, order=names, **words)


def _schedule(plan: CertifiedSplit) -> Schedule:
    """The schedule of one run."""
    drawn = schedule_layout.drawing(plan.instance, plan.solution, bound=plan.lower_bound, title="Schedule")
    if drawn is None:
        raise AssertionError("expected a schedule that was verified")
    return replace(drawn, axis="time in µs")


def _of_strategies(plan: CertifiedSplit) -> Section:
    words = (
        "Operators of one kind whose loops are split alike, those with the most work first. Loops d0, d1, ... run "
        "over dimensions of the result; in a product, b over the batch, m and n over rows and columns, k over the "
        "sum; in a convolution, n over the batch, g over groups of channels, o and i over their output and input "
        "channels. An axis with - splits none: its devices repeat the operator."
    )
    bound = plan.lower_bound / plan.target.unit_us
    found = choices_layout.drawings(plan.instance, plan.solution, bound=bound)
    drawn: list[Picture] = (
        [] if found is None else [replace(found.memory, unit="B"), replace(found.costs, axis="cost in ns")]
    )
    return Section(
        "Strategies", tables=[Table("Kinds of operators", strategies(plan), digits=2, note=words)], pictures=drawn
    )


def _of_graph(plan: CertifiedSplit) -> Section:
    return Section("Graph", pictures=[split(plan)])


def page(plan: CertifiedSplit) -> str:
    """``plan.html``, a page that needs no other file."""
    return plan_page.render(report(plan))


def picture(plan: CertifiedSplit) -> Markup:
    """The graph, every operator in the colour of its part."""
    return pictures.draw(split(plan))


def notebook(plan: CertifiedSplit) -> str:
    """The facts, the parts and the graph, for a notebook."""
    return str(in_notebook(facts(plan), picture(plan)))
