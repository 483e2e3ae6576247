"""The page of the project's own times and gaps, commit by commit, with the steps in them in words."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from shardmark.leaderboard import charts, text
from shardmark.leaderboard.build import HISTORY, INDEX, REGRESSIONS, File, has_docs, held, menu, publish, static
from shardmark.leaderboard.charts import Curve, Scale
from shardmark.leaderboard.pages.environment import environment
from shardmark.leaderboard.regressions.history import Commit, Series
from shardmark.leaderboard.regressions.steps import FLOOR, PENALTY, Step, regression, steps

TICKS = 4  # at most, of commits on an axis
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def write(history: Sequence[Series], output: Path) -> Path:
    """Write the page and its data into the site in ``output``, which may still be empty; return the page's path."""
    output = Path(output).resolve()
    with held(output):
        publish(output, _files(history, output), keep=True)
    return output / REGRESSIONS / INDEX


def _files(history: Sequence[Series], folder: Path) -> Iterator[File]:
    yield from static()
    yield HISTORY, table(history)
    leaderboard = (folder / INDEX).is_file()
    yield (
        f"{REGRESSIONS}/{INDEX}",
        render(history, leaderboard=leaderboard, menu=menu(folder), docs=has_docs(folder), regressions=True),
    )


def render(history: Sequence[Series], **around: Any) -> str:
    """Return the page; ``around`` has what the page's header needs."""
    commits = {point.commit.place: point.commit for one in history for point in one.points}
    commits = dict(sorted(commits.items()))
    worse = sorted(filter(None, map(regression, history)), key=lambda step: -step.ratio)
    changes = sorted((step for one in history for step in steps(one)), key=lambda step: -step.after.commit.place)
    benchmarks: dict[tuple[str, str], list[Series]] = {}
    for one in history:
        benchmarks.setdefault((one.group, one.name), []).append(one)
    return (
        environment()
        .get_template("regressions.html")
        .render(
            root="../",
            worse=[(step, sentence(step)) for step in worse],
            changes=[(step, label(step.series), *levels(step), change(step)) for step in changes],
            charts=[(*names, chart(found, list(commits.values()))) for names, found in benchmarks.items()],
            latest=[(one, label(one), shown(one, one.points[-1].value)) for one in history],
            commits=list(commits.values()),
            machines=sorted({one.machine for one in history}),
            least=f"{100 * math.expm1(PENALTY * FLOOR):.1f} %",
            **around,
        )
    )


def label(series: Series) -> str:
    """Return the name of a benchmark and its case."""
    return f"{series.name} ({series.case})" if series.case else series.name


def sentence(step: Step) -> str:
    """Return a regression in words, after the benchmark's name."""
    old, new = levels(step)
    passed = step.after.commit.place - step.before.commit.place
    where = f"since {step.after.commit.short}, {step.after.commit.date:%Y-%m-%d}"
    if passed == 2:
        where = f"{where}, or the commit before it, which was not measured"
    elif passed > 2:
        where = f"{where}, or one of the {passed - 1} commits before it that were not measured"
    return f"{change(step)} {where} ({old} before, {new} now)"


def change(step: Step) -> str:
    """Return the size of a step in words."""
    if not step.series.timed:
        return f"{text.percent(abs(step.ratio - 1))} {'costlier' if step.worse else 'cheaper'}"
    if step.worse:
        return f"{text.percent(step.ratio - 1)} slower"
    return f"{text.percent(1 - step.ratio)} less time"


def levels(step: Step) -> tuple[str, str]:
    """Return the levels before and after a step, with their unit."""
    return shown(step.series, step.old), shown(step.series, step.new)


def shown(series: Series, value: float) -> str:
    """Return a value of a series with its unit."""
    if not series.timed:
        return f"{value:.4f}"
    size, unit = next(((size, unit) for size, unit in UNITS if value >= size), UNITS[-1])
    return f"{value / size:.3g} {unit}"


def chart(found: Sequence[Series], commits: Sequence[Commit]) -> Markup:
    """Draw all cases of a benchmark over the commits, each as a multiple of its least value."""
    order = {commit.place: number for number, commit in enumerate(commits)}
    lines = []
    for number, one in enumerate(found):
        least = min(_size(one, point.value) for point in one.points)
        points = [(float(order[p.commit.place]), _size(one, p.value) / least if least > 0 else 1.0) for p in one.points]
        name = one.case or one.name
        style = f"s{number % charts.COLOURS + 1}"
        lines.append(Curve(name, points, points[-1][0], style, name, marks=True, shape="line"))
    highest = max(y for line in lines for _, y in line.points)
    every = math.ceil(len(commits) / TICKS)
    ticks = [(float(order[commit.place]), commit.short) for commit in commits[::-1][::every][::-1]]
    x = Scale(-0.5, len(commits) - 0.5, float, ticks)
    margin = max(0.06 * (highest - 1), 0.01)
    y = charts.linear(0.0 if found[0].timed else 1 - margin, max(highest + margin, 1.2 if found[0].timed else 1.01))
    axes = ("commit", "time / least time" if found[0].timed else "cost / least cost")
    return charts.figure(lines, x, y, axes, wide=charts.HALF)


def _size(series: Series, value: float) -> float:
    return value if series.timed else 1 + value


def table(history: Sequence[Series]) -> str:
    """Return all measurements as CSV."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["benchmark", "case", "machine", "unit", "commit", "date", "value", "relative_spread"])
    for one in history:
        for point in one.points:
            commit = point.commit
            rows.writerow(
                [
                    *(f"{one.group}.{one.name}", one.case, one.machine, one.unit, commit.hash),
                    *(commit.date.isoformat(), repr(point.value), f"{point.spread:.4f}"),
                ]
            )
    return out.getvalue()
