"""Splits of real models compared with what people do today: equal operators, parameters or FLOPs, and ssp4onnx.

The models are the nine that package ``onnx`` carries without weights. The splits of today cut the operators, in the
order of the file, into consecutive stages: with the least largest number of operators, bytes of parameters or FLOPs, or
where ssp4onnx cuts. All are priced alike.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shardmark.harness import verify
from shardmark.harness.campaign.problems import Problem
from shardmark.instances.models.as_pipeline import as_pipeline, with_helpers
from shardmark.instances.models.devices import device
from shardmark.instances.models.model import Model
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.instances.models.roofline import roofline
from shardmark.leaderboard.report import Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame, failures
from shardmark.leaderboard.reproductions.pipeline._shared import SAME, Row, geometric_mean

DEFAULTS = Settings(seed=0, stages=(2, 4, 8), timeout=5.0, bound_timeout=10.0)

#: Devices with fast links and with slow ones.
DEVICES = ("h100", "t4")
SEARCH, BOUND = "annealing", "reweighted"
FILE = Path(__file__).with_name("ssp4onnx.toml")
SSP4ONNX = "ssp4onnx"


@dataclass(frozen=True)
class Case:
    """A model on so many devices of a kind; ``today`` has the name and bottleneck, in microseconds, of other splits."""

    model: str
    device: str
    stages: int
    today: tuple[tuple[str, float], ...]


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """A search and a bound for every model, device and number of stages."""
    return [
        Cell(problem, kind, method, limit, settings.seed, case)
        for case, problem in _cases(settings, folder)
        for kind, method, limit in (
            ("solver", SEARCH, settings.timeout),
            ("bound", BOUND, settings.bound_timeout or 0.0),
        )
    ]


def _cases(settings: Settings, folder: Path) -> Iterator[tuple[Case, Problem]]:
    for path in light_models():
        model, name = read_onnx(path), path.stem.removeprefix("light_")
        for kind in DEVICES:
            costs = roofline(model, device(kind))
            for k in settings.stages:
                instance = as_pipeline(model, costs, device(kind), k)
                today = tuple(
                    (way, _bottleneck(instance, split)) for way, split in splits_of_today(model, name, k).items()
                )
                problem = Problem(f"{name}-{kind}-k{k}", _frame.written(instance, folder), "pipeline", {"stages": k})
                yield Case(name, kind, k, today), problem


def light_models() -> list[Path]:
    """The files of the nine models."""
    import onnx

    return sorted(Path(onnx.__file__).parent.glob("backend/test/data/light/light_*.onnx"))


def _bottleneck(instance: Any, split: Sequence[int]) -> float:
    cost = verify.verify(instance, with_helpers(instance, split).tolist()).cost
    if cost is None:
        raise AssertionError("expected consecutive operators to make a feasible split")
    return float(cost)


def splits_of_today(model: Model, name: str, stages: int) -> Mapping[str, list[int]]:
    """Stages of the operators by each way of today; ssp4onnx's only where it makes so many parts."""
    count = range(len(model.operators))
    found = {
        "equal operators": balanced([1 for _ in count], stages),
        "equal parameters": balanced([sum(model.tensors[t].bytes for t in model.parameters(v)) for v in count], stages),
        "equal FLOPs": balanced([model.operators[v].flops for v in count], stages),
    }
    split = _ssp4onnx().get(name, {}).get(str(stages))
    if split:
        found[SSP4ONNX] = [part for part, length in split["runs"] for _ in range(length)]
    return found


def balanced(weights: Sequence[int], parts: int) -> list[int]:
    """Cut a sequence into at most so many consecutive parts with the least largest weight; return each element's part.

    As in DeepSpeed's pipelines: bisection on that weight, and as many elements as fit for each part in turn.
    """
    low, high = max(weights, default=0), sum(weights)
    while low < high:
        middle = (low + high) // 2
        if _filled(weights, middle)[-1] < parts:
            high = middle
        else:
            low = middle + 1
    return _filled(weights, low)


def _filled(weights: Sequence[int], limit: int) -> list[int]:
    part, held, found = 0, 0, []
    for weight in weights:
        if held + weight > limit:
            part, held = part + 1, 0
        held += weight
        found.append(part)
    return found


@cache
def _ssp4onnx() -> Mapping[str, Any]:
    """Splits by model and number of parts."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def report(settings: Settings, runs: list[Run]) -> Report:
    """Our speed-up over each split of today: geometric means, the least and the greatest."""
    cases = _frame.grouped((run.cell.about, run.cell.method, run) for run in runs)
    found = {case: cost for case, of_case in cases.items() if (cost := _least(of_case.values())) is not None}
    worse = [
        f"Worse than {name} on {case.model} with {case.stages} stages on {case.device}: {us:.6g} against {cost:.6g} µs."
        for case, cost in found.items()
        for name, us in case.today
        if cost > us * (1 + SAME)
    ]
    missing = [f"No split of {case.model} with {case.stages} stages." for case in cases if case not in found]
    return _frame.report(
        settings,
        [_section(kind, settings, cases, found) for kind in DEVICES if any(case.device == kind for case in found)],
        sample=f"{len({case.model for case in cases})} models of package onnx, batch 1, operators priced by rooflines",
        limits=_frame.limits(settings, f"{settings.timeout:g} s for {SEARCH}", f"for {BOUND}"),
        made="",
        name="models",
        title="What is a good split worth?",
        about="The slowest stage of what people do today, as a multiple of ours: how much faster our pipeline is.",
        notes=[*failures(runs), *missing, *worse],
        sources=[
            ("ssp4onnx 1.0.4, splits by bytes of parameters", "https://github.com/PINTO0309/ssp4onnx"),
            ("DeepSpeed, partitions of pipelines", "https://www.deepspeed.ai/tutorials/pipeline/"),
        ],
    )


def _least(runs: Any) -> float | None:
    return min((run.cost for run in runs if run.cost is not None), default=None)


def _section(
    kind: str, settings: Settings, cases: Mapping[Case, Mapping[str, Run]], found: Mapping[Case, float]
) -> Section:
    here = {case: cost for case, cost in found.items() if case.device == kind}
    gaps = {case: _gap(cost, cases[case]) for case, cost in here.items()}
    names = list(dict.fromkeys(name for case in here for name, _ in case.today))
    proved = [gap for gap in gaps.values() if gap is not None]
    words = f"Our splits are at most {max(proved):.2f} % from the best there is." if len(proved) == len(gaps) else ""
    return Section(
        f"On {kind}",
        [words] if words else [],
        [
            Table(
                "Speed-up over the splits of today, geometric means",
                [_means(name, here, settings) for name in (*names, "the best of them")],
                digits=3,
                note="Least and greatest values are over all models and numbers of stages.",
            ),
            Table(
                "Model by model",
                [_row(case, cost, gaps[case], names) for case, cost in here.items()],
                digits=3,
                coarse=["bottleneck, µs"],
                note="Gap: an upper limit on how much better than ours a split can be.",
            ),
        ],
        [],
    )


def _gap(cost: float, runs: Mapping[str, Run]) -> float | None:
    """Proven distance from the optimum in percent."""
    bounds = [run.bound for run in runs.values() if run.bound is not None]
    return _frame.percent_above(cost, max(bounds, default=None))


def _speed_up(case: Case, cost: float, name: str) -> float | None:
    today = dict(case.today)
    other = today.get(name) if name in today else None
    if name == "the best of them":
        other = min(today.values())
    return None if other is None else other / cost


def _means(name: str, found: Mapping[Case, float], settings: Settings) -> Row:
    figures = {case: x for case, cost in found.items() if (x := _speed_up(case, cost, name)) is not None}
    of_stages = {
        f"k={k}": geometric_mean([x for case, x in figures.items() if case.stages == k]) for k in settings.stages
    }
    values = list(figures.values())
    return {
        "against": name,
        "splits": len(values),
        **of_stages,
        "all": geometric_mean(values),
        "least": min(values, default=None),
        "greatest": max(values, default=None),
    }


def _row(case: Case, cost: float, gap: float | None, names: Sequence[str]) -> Row:
    over = {name: _speed_up(case, cost, name) for name in names}
    return {"model": case.model, "k": case.stages, "bottleneck, µs": cost, "gap, %": gap, **over}
