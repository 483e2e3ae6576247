"""Plans of Piper's program and ours, with proofs: Figures 1 to 3 of Tarnawski et al. 2021."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.published import piper_figures as published
from shardmark.instances import catalog, hybrid
from shardmark.instances.catalog import Entry
from shardmark.instances.files.jsonfile import read_json
from shardmark.leaderboard.report import Axis, Line, Plot, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame, entries_of
from shardmark.leaderboard.reproductions._frame import percent_above, ratio
from shardmark.leaderboard.reproductions.hybrid._lengthened import lengthened

DEFAULTS = Settings(
    seed=0,
    instances=("piper",),
    solvers=(
        "dp",
        "piper",
        "equal-stages",
        "same-degrees",
        "no-data-parallelism",
        "no-tensor-parallelism",
        "no-recomputation",
    ),
    timeout=60.0,
)
#: The exact method, by which others are divided.
EXACT = "dp"
#: Beginning of its reason to decline if no plan exists.
NONE = "no stages fit"
#: Layers of the longer models of Figure 3, made from BERT-32 on its largest instance there.
LAYERS = (48, 64, 96)
LONGEST = "bert-32-2048-8gib-1920"

Row = dict[str, Any]


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every solver on every instance whose file is at hand, and the exact one on longer models."""
    cells = []
    for entry in entries_of(settings.instances, "hybrid"):
        if (path := catalog.at_hand(entry)) is not None:
            problem = Problem.of(entry, path)
            cells += [_cell(settings, problem, name, entry.id) for name in settings.solvers]
            if entry.id == LONGEST and EXACT in settings.solvers:
                cells += [_cell(settings, _longer(path, entry, n, folder), EXACT, n) for n in LAYERS]
    return cells


def _cell(settings: Settings, problem: Problem, method: str, about: Any) -> Cell:
    return Cell(problem, "solver", method, settings.timeout, settings.seed, about)


def _longer(path: Path, entry: Entry, layers: int, folder: Path) -> Problem:
    document = {**lengthened(read_json(path), layers), "name": f"bert-{layers}"}
    instance = hybrid.parse(document, str(path), **entry.options)
    return Problem(instance.name, _frame.written(instance, folder), "hybrid")


@dataclass(frozen=True)
class Case:
    """An instance with what the program answers and our runs, by method."""

    entry: Entry
    runs: Mapping[str, Run]

    @property
    def program(self) -> Mapping[str, Any]:
        """The program's row; empty if it has none."""
        known: Mapping[str, Any] = published()["program"].get(self.entry.id, {})
        return known

    def printed(self, key: str) -> float | None:
        """A value of the program; None if there is none, or no plan."""
        text = self.program.get(key, "-1")
        return None if text == "-1" else float(text)

    def cost(self, method: str) -> float | None:
        """Our verified cost."""
        return self.runs[method].cost if method in self.runs else None

    def option(self, name: str) -> float:
        """A number that the instance was given."""
        return float(self.entry.options.get(name, 0))


def report(settings: Settings, runs: list[Run]) -> Report:
    """Times per microbatch of the program and ours with gaps, the worth of each dimension, and running times."""
    entries = entries_of(settings.instances, "hybrid")
    by_entry = _frame.grouped((run.cell.about, run.cell.method, run) for run in runs)
    every = [Case(entry, by_entry.get(entry.id, {})) for entry in entries]
    missing = [entry.id for entry in entries if catalog.at_hand(entry) is None]
    first = [case for case in every if case.option("batch") == 1920]
    second = [case for case in every if case.program and case.option("memory") == 8 * 2**30]
    others = [case for case in every if not case.program]
    longer = [(n, by_entry[n][EXACT]) for n in LAYERS if n in by_entry]
    return _frame.report(
        settings,
        [
            *_plans("BERT-32 at three memories, and Figure 1", first, settings),
            *_plans("BERT-32 at 8 GiB with three batches, and Figure 2", second, settings),
            *_times(every, longer),
            *_plans("Other models", others, settings),
        ],
        name="hybrid",
        title="How good are the plans of Piper?",
        about="Time per microbatch of plans for training BERT-32 on up to 2,048 devices: those of the public program, "
        "the published algorithm here, and an exact one that proves its plans optimal.",
        sample=_frame.sample([case.entry.id for case in every if case.runs], entries),
        limits=f"{settings.timeout:g} s for each solver",
        made=published()["made"],
        notes=[
            *_frame.notes(missing, entries, published()["made"], [r for r in runs if not _declined(r)], "piper"),
            "The program's table has no row for GNMT, and the file of ResNet-50 is not in the catalog. Figure 4 "
            "compares predictions with measurements on hardware, which cannot be repeated here.",
        ],
        sources=published()["papers"],
    )


def _plans(title: str, cases: Sequence[Case], settings: Settings) -> list[Section]:
    """What the program and our methods find, and what each restriction costs."""
    if not cases:
        return []
    ours = Table(
        "Milliseconds per microbatch",
        [_row(case) for case in cases],
        digits=4,
        note="Gap: cost of dp / its bound − 1. Program / dp: 1 if the program's plan is optimal. A dash: no plan.",
    )
    others = [name for name in settings.solvers if name not in (EXACT, "piper")]
    worth = Table(
        "Time of restricted plans / time of dp",
        [{**_about(case), **{name: ratio(case.cost(name), case.cost(EXACT)) for name in others}} for case in cases],
        digits=3,
        note="Equal stages and same degrees are what frameworks do; the others leave out one dimension.",
    )
    return [Section(title, _told(cases), [ours, worth], _pictures(cases, settings))]


def _about(case: Case) -> Row:
    return {
        "instance": case.entry.id,
        "devices": int(case.option("devices")),
        "GiB": round(case.option("memory") / 2**30, 2),
        "batch": int(case.option("batch")) or None,
    }


def _row(case: Case) -> Row:
    exact = case.runs.get(EXACT)
    program, equal = case.printed("tps"), case.printed("equal")
    return {
        **_about(case),
        "program": _ms(program),
        "piper": _ms(case.cost("piper")),
        "dp": _ms(case.cost(EXACT)),
        "gap, %": None if exact is None else percent_above(exact.cost, exact.bound),
        "program / dp": ratio(program, case.cost(EXACT)),
        "program, equal stages": _ms(equal),
        "equal-stages": _ms(case.cost("equal-stages")),
    }


def _declined(run: Run) -> bool:
    """True if a method found no plan within its rules: an answer, not a fault."""
    return run.status == "declined"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _told(cases: Sequence[Case]) -> list[str]:
    """How many plans are proven optimal, and how far the program is from them."""
    ran = [case for case in cases if EXACT in case.runs]
    proven = [case for case in ran if percent_above(case.cost(EXACT), case.runs[EXACT].bound) == 0]
    ratios = [value for case in ran if (value := ratio(case.printed("tps"), case.cost(EXACT))) is not None]
    none = [case for case in ran if _declined(case.runs[EXACT]) and case.runs[EXACT].reason.startswith(NONE)]
    words = [f"dp proves its plan optimal on {len(proven)} of {len(ran)} instances."] if ran else []
    if none:
        words.append(f"It proves that no plan fits on {', '.join(case.entry.id for case in none)}.")
    if ratios:
        words.append(f"The program's plans take {min(ratios):.4f} to {max(ratios):.4f} times as long.")
    return words


def _pictures(cases: Sequence[Case], settings: Settings) -> list[Plot]:
    """The throughput of restricted plans relative to the exact one, by devices, for every memory and batch."""
    pictures = []
    for memory, batch in dict.fromkeys((case.option("memory"), case.option("batch")) for case in cases):
        some = [case for case in cases if (case.option("memory"), case.option("batch")) == (memory, batch)]
        lines = []
        for colour, name in enumerate((n for n in settings.solvers if n not in (EXACT, "piper")), 1):
            points = [
                (case.option("devices"), value)
                for case in some
                if (value := ratio(case.cost(EXACT), case.cost(name))) is not None
            ]
            lines += [Line(name, points, colour)] if len(points) > 1 else []
        if lines:
            pictures.append(
                Plot(
                    f"{memory / 2**30:g} GiB, {batch:,.0f} microbatches",
                    "Throughput / throughput of dp.",
                    Axis("devices", logarithmic=True, at=sorted({case.option("devices") for case in some})),
                    Axis("relative throughput", span=(0.0, 1.05)),
                    lines,
                )
            )
    return pictures


def _times(cases: Sequence[Case], longer: Sequence[tuple[int, Run]]) -> list[Section]:
    """CPU seconds of the program and of our exact method, and of longer models."""
    rows = [
        {
            **_about(case),
            "program": case.program["cpu_s"],
            "dp": run.cpu_s,
            "MiB": run.peak_mib,
            "program / dp": ratio(case.program["cpu_s"], run.cpu_s),
            "s to proof": run.bound_s,
        }
        for case in cases
        if case.program and (run := case.runs.get(EXACT)) is not None
    ]
    tables = []
    if rows:
        note = "CPU seconds of the whole process; for dp these are mostly Python's start and the file. "
        note += "S to proof: wall time of dp until its last bound, from the file in memory."
        tables.append(Table("CPU seconds, and Figure 3", rows, digits=2, note=note))
    if longer:
        found = [
            {
                "layers": layers,
                "CPU seconds": run.cpu_s,
                "MiB": run.peak_mib,
                "ms per microbatch": _ms(run.cost),
                "gap, %": percent_above(run.cost, run.bound),
            }
            for layers, run in longer
        ]
        note = f"BERT with copies of its middle layer, otherwise as {LONGEST}."
        tables.append(Table("Longer models", found, digits=3, note=note))
    return [Section("Running times, and Figure 3", [], tables)] if tables else []
