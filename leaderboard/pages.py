"""The pages of the site: the content of each template."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from harness.results.claims import PROVEN, TOLERANCE
from harness.results.ranking import Tables
from harness.results.ranking.cases import KNOWN
from harness.results.ranking.methods import FEWEST_RESAMPLED, RESAMPLES
from leaderboard import charts, published_results, text
from leaderboard.charts import Bar, Curve, Rule
from leaderboard.drawings import schedule_svg, split_svg
from leaderboard.report import Schedule, Split
from leaderboard.text import exact, held, page_of, points, printable, seconds

TEMPLATES = Path(__file__).resolve().parent / "templates"
FEW_ROWS, MAX_ROWS = 8, 40  # at most, of a ranking chart on the overview and elsewhere
DECLINED = "declined"  # status of a run whose method does not take the instance
PROFILE_LIMIT = 99.0  # performance profiles end at 100 times the best cost

Row = dict[str, Any]


def environment() -> jinja2.Environment:
    """The template environment: all values are escaped, and undefined names are errors."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    plain = (text.percent, text.rough, text.fact, text.count, text.tail, text.heat, text.tone, text.meaning)
    shown: tuple[Callable[..., str], ...] = (exact, points, seconds, printable, text.times, text.shorten, *plain)
    made.filters.update({function.__name__: function for function in (*shown, text.sort_key)})
    made.filters["label"] = lambda key: key.replace("_", " ").capitalize()
    made.filters["sentence"] = lambda words: words[:1].upper() + words[1:]
    made.filters["load"] = json.loads
    made.globals.update(page_of=page_of, alike=alike, menu={}, asv=False, made_from="")
    return made


def grouped(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Group rows by the value of one column, or of several, in their order; unknown keys have no rows."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[itemgetter(*keys)(row)].append(row)
    return groups


def alike(runs: Iterable[Row]) -> list[list[Row]]:
    """Group runs by status and reason, in the order of each group's first run."""
    return list(grouped(runs, "status", "reason").values())


@dataclass(frozen=True)
class Division:
    """A division of a track, ranked together; the lists hold rows of the tables of the same names.

    ``name`` is empty in a track without modes. ``ranking`` has the solvers; ``methods`` has the bound methods and the
    solvers that report bounds.
    """

    track: str
    name: str
    ranking: Sequence[Row]
    methods: Sequence[Row]
    declined: Sequence[Row]
    instances: Sequence[Row]
    runs: Sequence[Row]
    published: Sequence[Row]
    colours: Mapping[str, str]

    @property
    def anchor(self) -> str:
        """The anchor of the division on the track's page."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())

    @property
    def end(self) -> str:
        """The suffix of anchors in the division's part of the page."""
        return f"-{self.anchor}" if self.name else ""

    @property
    def size(self) -> int:
        """The number of instances."""
        return len(self.instances)

    @property
    def proven(self) -> int:
        """The number of instances whose best known cost is proven optimal."""
        return sum(row["proven"] for row in self.instances)

    def refusals(self) -> list[Row]:
        """One row per method and reason for declining, with the numbers of instances and runs."""
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for run in self.runs:
            if run["status"] == DECLINED:
                groups[run["solver"], run["reason"]].append(run["checksum"])
        own = {"track": self.track, "division": self}
        return [
            own | {"solver": solver, "reason": reason, "instances": len(set(declined)), "runs": len(declined)}
            for (solver, reason), declined in sorted(groups.items())
        ]

    def places(self, method: str) -> list[Row]:
        """The row of a solver or bound method if it is ranked here; for a solver, not the row of its bounds."""
        return [row for row in (*self.ranking, *self.methods) if row["solver"] == method][:1]


@dataclass(frozen=True)
class Track:
    """Data that the pages of one track share: its divisions, and rows of the tables of the same names."""

    name: str
    about: str
    divisions: Sequence[Division]
    instances: Sequence[Row]
    runs: Sequence[Row]
    notes: Sequence[Row]
    contradictions: Sequence[Row]

    @property
    def named(self) -> bool:
        """True if the track has modes."""
        return any(division.name for division in self.divisions)

    @property
    def solvers(self) -> dict[str, Row]:
        """Facts about each solver, by its name."""
        return self._methods("solver")

    @property
    def methods(self) -> dict[str, Row]:
        """Facts about each bound method, by its name."""
        return self._methods("bound")

    def _methods(self, kind: str) -> dict[str, Row]:
        rows = (row for d in self.divisions for row in (*d.methods, *d.ranking, *d.declined) if row["kind"] == kind)
        return {row["solver"]: row for row in rows}

    @property
    def failed(self) -> list[Row]:
        """Runs that failed; a declined run is no failure."""
        return [run for run in self.runs if run["status"] not in ("ok", DECLINED)]

    @property
    def refused(self) -> int:
        """The number of declined runs."""
        return sum(run["status"] == DECLINED for run in self.runs)

    @property
    def size(self) -> int:
        """The number of instances."""
        return len(self.instances)

    @property
    def proven(self) -> int:
        """The number of instances whose best known cost is proven optimal."""
        return sum(division.proven for division in self.divisions)


class Site:
    """All pages of a set of tables.

    ``reproductions`` has the names and titles of those with pages in the site; ``asv`` is True if the site has pages of
    asv; ``pictures`` has a drawing of a solution, or the reason why there is none, by checksum of the instance.
    """

    def __init__(
        self,
        tables: Tables,
        reproductions: Mapping[str, str] | None = None,
        pictures: Mapping[str, Split | Schedule | str] | None = None,
        asv: bool = False,
    ) -> None:
        self.tables, self.pictures = tables, pictures or {}
        self.reproductions = reproductions or {}
        self.templates = environment()
        best_first = [-pl.col(column).fill_null(-1.0) for column in ("score", "bound_score")]
        self.runs = tables.runs.sort(
            "track", "instance", pl.col("cost").is_null(), *best_first, "solver", "seed"
        ).to_dicts()
        self.by_cell = {(r["track"], r["solver"], r["checksum"]): r for r in tables.results.iter_rows(named=True)}
        self.found, self.proved = tables.costs_over_time(), tables.bounds_over_time()
        self.tracks = list(self._tracks())
        self.templates.globals.update(
            tracks=self.tracks,
            menu={track.name: page_of("tracks", track.name) for track in self.tracks},
            asv=asv,
            made_from=_made_from(tables.runs),
            solver_count=sum(len(track.solvers) for track in self.tracks),
        )

    def _tracks(self) -> Iterator[Track]:
        tables = self.tables
        names = ("solvers", "bounds", "declined", "instances", "published", "notes", "contradictions")
        parts = {name: grouped(getattr(tables, name).iter_rows(named=True), "track") for name in names}
        parts["runs"] = grouped(self.runs, "track")
        for name, about in tables.tracks.items():
            own = {part: rows[name] for part, rows in parts.items()}
            of_all = (own[part] for part in ("instances", "runs", "notes", "contradictions"))
            yield Track(name, about, self._divisions(name, own), *of_all)

    def _divisions(self, track: str, rows: Mapping[str, Sequence[Row]]) -> list[Division]:
        names = self.tables.divisions[track]
        same = ("declined", "instances", "runs", "published")
        parts = {"ranking": "solvers", "methods": "bounds", **{part: part for part in same}}
        lists = {field: grouped(rows[part], "division") for field, part in parts.items()}
        return [
            Division(track, name, colours=colours, **{field: of[name] for field, of in lists.items()})
            for name, colours in zip(names, _colours([lists["ranking"][name] for name in names]), strict=True)
        ]

    def pages(self) -> Iterator[tuple[str, str]]:
        """Yield the path from the root of the site, and the content, of every page."""
        yield self._page("index.html", "index.html", **self._overview())
        yield self._page("reproduce/index.html", "reproductions.html", titles=self.reproductions, leaderboard=True)
        failed = [run for t in self.tracks for run in t.failed]
        refusals = [row for t in self.tracks for division in t.divisions for row in division.refusals()]
        yield self._page("failures.html", "failures.html", runs=failed, refusals=refusals)
        rules: Row = {"resamples": RESAMPLES, "fewest": FEWEST_RESAMPLED, "proven": PROVEN, "tolerance": TOLERANCE}
        yield self._page("scores.html", "scores.html", **rules, meanings=text.STATUS)
        for track in self.tracks:
            yield self._page(page_of("tracks", track.name), "track.html", **self._track(track))
            by_solver = grouped(track.runs, "solver")
            for name, method in (track.solvers | track.methods).items():
                path = page_of("solvers", track.name, name)
                yield self._page(path, "solver.html", **self._solver(track, method, by_solver[name]))
            for division in track.divisions:
                yield from self._instances(track, division)

    def _instances(self, track: Track, division: Division) -> Iterator[tuple[str, str]]:
        parts = (division.runs, track.notes, track.contradictions, division.published)
        runs, notes, wrong, elsewhere = (grouped(x, "instance") for x in parts)
        for instance in division.instances:
            name = instance["instance"]
            content = self._instance(division, instance, runs[name]) | {"track": track}
            remarks = {"notes": notes[name], "contradictions": wrong[name], "others": elsewhere[name]}
            yield self._page(page_of("instances", track.name, name), "instance.html", **content, **remarks)

    def _page(self, path: str, template: str, **content: Any) -> tuple[str, str]:
        root = "../" * path.count("/")
        return path, self.templates.get_template(template).render(root=root, path=path, **content)

    # ------------------------------------------------------------ overview

    def _overview(self) -> Row:
        return {
            "panels": [
                (track, [self._front(division, "", FEW_ROWS, charts.HALF) for division in track.divisions])
                for track in self.tracks
            ],
            "machines": self._machines(),
            "limits": self._limits(),
            "runs": len(self.runs),
        }

    def _machines(self) -> list[Row]:
        """A row per campaign and machine that runs of these tables come from."""
        hosts = self.tables.hosts.filter(pl.col("runs") > 0)
        campaigns = self.tables.campaigns.rename({"id": "campaign"}).drop("runs")
        runs = grouped(self.runs, "campaign", "host")
        joined = hosts.join(campaigns, on="campaign", maintain_order="left").iter_rows(named=True)
        return [
            row
            | {"took_s": _seconds_between(row["started"], row["ended"])}
            | {"ways": _ways(runs[row["campaign"], row["name"]])}
            for row in joined
        ]

    def _limits(self) -> dict[str, Row]:
        """Limits of the runs, by track."""
        of_track = self.tables.runs.group_by("track", maintain_order=True).agg(
            shortest=pl.col("timeout_s").min(),
            longest=pl.col("timeout_s").max(),
            cores=pl.col("cores").unique().sort(),
            memory_mib=pl.col("memory_mib").unique().sort(),
            seeds=pl.col("seed").n_unique(),
        )
        return {row["track"]: row for row in of_track.iter_rows(named=True)}

    def _front(self, division: Division, root: str, most: int, wide: int) -> Row:
        """The verdict and the chart at the top of a division."""
        return {
            "division": division,
            "verdict": self._verdict(division),
            "ranking_chart": self._ranking_chart(division, root, most, wide),
        }

    @staticmethod
    def _verdict(division: Division) -> Row | None:
        """The leaders, their margin, and the next solver; None if no solver scored."""
        ranking = division.ranking
        if not ranking or ranking[0]["score_sum"] == 0:
            return None
        leaders = [row for row in ranking if row["rank"] == 1]
        second = next(iter(ranking[len(leaders) :]), None)
        return {
            "leaders": [row["solver"] for row in leaders],
            "first": leaders[0],
            "second": second,
            "lead": leaders[0]["score_sum"] - second["score_sum"] if second else None,
        }

    @staticmethod
    def _ranking_chart(division: Division, root: str, most: int, wide: int) -> Markup:
        bars = [
            Bar(
                name=row["solver"],
                href=root + page_of("solvers", division.track, row["solver"]),
                value=row["score_sum"] / row["instances"],
                floor=row["certified_sum"] / row["instances"] if row["certified_instances"] else None,
                words=points(row["score_sum"], 2),
                title=f"{row['solver']}: {points(row['score_sum'], 2)} of {row['instances']} points, "
                f"{points(row['certified_sum'], 2)} of them certified",
                style=division.colours[row["solver"]],
            )
            for row in division.ranking[:most]
        ]
        axis = "mean score: best known cost / cost"
        return charts.responsive(lambda width: charts.ranking(bars, width, axis), wide)

    # ------------------------------------------------------------ pages of a track

    def _track(self, track: Track) -> Row:
        parts = [self._division(division) for division in track.divisions]
        return {"track": track, "parts_of_track": parts, "failures": _counts(track.failed)}

    def _division(self, division: Division) -> Row:
        cells = self.by_cell
        matrix = [
            (instance, [cells.get((division.track, s["solver"], instance["checksum"])) for s in division.ranking])
            for instance in division.instances
        ]
        of_each = grouped(division.published, "instance"), grouped(division.runs, "instance")
        beside = published_results.beside(division.instances, *of_each)
        return self._front(division, "../", MAX_ROWS, charts.WIDE) | {
            "profile": self._profile(division),
            "anytime": self._anytime(division),
            "matrix": matrix,
            "others": published_results.summary(division.published),
            "others_matrix": beside,
            "others_chart": published_results.chart(division, beside),
        }

    @staticmethod
    def _of(frame: pl.DataFrame, division: Division) -> pl.DataFrame:
        """The rows of a division."""
        return frame.filter((pl.col("track") == division.track) & (pl.col("division") == division.name))

    @staticmethod
    def _curves(division: Division, frame: pl.DataFrame, x: str, y: str, until: float, words: str) -> list[Curve]:
        """One curve per solver, in the order of the ranking."""
        rows = grouped(frame.iter_rows(named=True), "solver")
        return [
            Curve(
                title=words.format(solver=name),
                points=[(rows[name][0][x], 0.0), *((row[x], row[y]) for row in rows[name])],
                until=until,
                style=style,
                label=name if style != "s0" else "",
            )
            for name, style in division.colours.items()
            if name in rows
        ]

    def _profile(self, division: Division) -> Markup | None:
        frame = self._of(self.tables.profiles, division).with_columns(gap=pl.col("ratio") - 1)
        if frame.is_empty():
            return None
        far = min(max(float(frame["gap"].max() or 0) * 1.2, 0.01), PROFILE_LIMIT)  # type: ignore[arg-type]
        near = frame.filter(pl.col("gap") <= far)
        lines = self._curves(division, near, "gap", "share", far, "{solver}: share of instances within a cost")
        x = charts.gaps(0.0, far)
        return charts.figure(
            lines, x, _fractions(), ("cost above the best known", "share of instances"), wide=charts.HALF
        )

    def _anytime(self, division: Division) -> Markup | None:
        frame = self._of(self.tables.anytime, division)
        if frame.is_empty():
            return None
        times = _times(frame["time_s"].to_list(), max(run["timeout_s"] for run in division.runs))
        lines = self._curves(division, frame, "time_s", "score", times.high, "{solver}: mean score over time")
        return charts.figure(
            lines, times, _fractions(), ("time since the start", "mean score so far"), wide=charts.HALF
        )

    # ------------------------------------------------------------ pages of a solver and of an instance

    def _solver(self, track: Track, method: Row, runs: Sequence[Row]) -> Row:
        name = method["solver"]
        cells = [
            (d, i, self.by_cell.get((track.name, name, i["checksum"]))) for d in track.divisions for i in d.instances
        ]
        bars = [self._cell_bar(d, cell) for d, _, cell in cells if cell is not None and d.places(name)]
        few = 0 < len(bars) <= MAX_ROWS  # otherwise the table below suffices
        axis = "lower bound / best known cost" if method["kind"] == "bound" else "best known cost / cost"
        return {
            "track": track,
            "method": method,
            "places": [(division, row) for division in track.divisions for row in division.places(name)],
            "declined": [d for d in track.divisions if any(row["solver"] == name for row in d.declined)],
            "runs": sorted(runs, key=lambda run: (run["instance"], run["seed"])),
            "ways": _ways(runs),
            "chart": charts.responsive(lambda width: charts.ranking(bars, width, axis)) if few else None,
            "contradictions": [c for c in track.contradictions if c["solver"] == name],
            "absent": [instance["instance"] for _, instance, cell in cells if cell is None],
        }

    @staticmethod
    def _cell_bar(division: Division, cell: Row) -> Bar:
        bound = cell["kind"] == "bound"
        value, floor = (cell["bound_score"], None) if bound else (cell["score"], cell["certified"])
        return Bar(
            name=cell["instance"],
            href="../../" + page_of("instances", division.track, cell["instance"]),
            value=value,
            floor=floor,
            words=points(value),
            title=f"{cell['instance']}: {points(value)}" + (f", certified {points(floor)}" if floor else ""),
            style=division.colours.get(cell["solver"], "s0"),
        )

    def _instance(self, division: Division, instance: Row, runs: Sequence[Row]) -> Row:
        published = json.loads(instance["published"])
        drawn = self.pictures.get(instance["checksum"])
        picture, undrawn = (None, drawn) if isinstance(drawn, str) else (drawn, None)
        return {
            "undrawn": undrawn,
            "division": division,
            "picture": picture,
            "drawing": None if picture is None else solution(picture),
            "key": schedule_svg.KEY if isinstance(picture, Schedule) else split_svg.KEY,
            "instance": instance,
            "summary": {k: v for k, v in json.loads(instance["summary"]).items() if k not in ("track", "name")},
            "published": {k: v for k, v in published.items() if v not in (None, "")},
            "solvers": [run for run in runs if run["kind"] == "solver"],
            "bounds": sorted((run for run in runs if run["lower_bound"] is not None), key=_greatest_bound_first),
            "silent": [r for r in runs if r["kind"] == "bound" and r["lower_bound"] is None],
            "chart": self._convergence(division, instance, published, runs),
        }

    def _convergence(self, division: Division, instance: Row, published: Row, runs: Sequence[Row]) -> Markup | None:
        """Incumbents from above and trusted bounds from below over time, relative to the best cost if there is one."""
        best = instance["best_cost_float"]
        relative = best is not None and best > 0

        def place(value: float) -> float:
            return value / best - 1 if relative else value

        runs = sorted(runs, key=lambda run: run["kind"] == "bound")  # draws solvers on top
        trusted = [run for run in runs if run["bound_trusted"]]
        times = [t for run in runs for t, _ in (*self.found[run["id"]], *self.proved[run["id"]])]
        if not times:
            return None
        x = _times(times, max(run["timeout_s"] for run in runs))
        lines = _run_curves(division, runs, self.found, place, x.high, bounds=False)
        lines += _run_curves(division, trusted, self.proved, place, x.high, bounds=True)
        rules = [
            Rule(place(float(published[key])), words, f"{words}: {exact(str(published[key]))}")
            for key, holders, what in (("best_cost", "best_by", "best"), ("lower_bound", "bound_by", "bound"))
            if published.get(key) is not None
            for words in [f"{'known' if KNOWN in instance[holders] else 'published'} {what}"]
        ]
        y = _heights(lines, [rule.value for rule in rules], relative)
        bound = instance["lower_bound_float"]
        open_gap = best is not None and bound is not None and not instance["proven"]
        band = (place(bound), place(best), "the optimum lies here") if open_gap else None
        y_axis = "distance to the best known cost" if relative else "cost"
        return charts.figure(lines, x, y, ("time since the start", y_axis), rules=rules, band=band)


def solution(picture: Split | Schedule, wide: int = charts.WIDE) -> Markup:
    """A drawing of a solution."""
    return split_svg.draw(picture, wide) if isinstance(picture, Split) else schedule_svg.draw(picture, wide)


def _colours(rankings: Iterable[Sequence[Row]]) -> list[dict[str, str]]:
    """Colour classes of the first solvers of each ranking; a solver keeps its earlier colour if possible."""
    known: dict[str, int] = {}
    colours = []
    for ranking in rankings:
        first = [row["solver"] for row in ranking[: charts.COLOURS]]
        own: dict[str, int] = {}
        for name in first:
            if name in known and known[name] not in own.values():
                own[name] = known[name]
        free = iter([colour for colour in range(1, charts.COLOURS + 1) if colour not in own.values()])
        own |= {name: next(free) for name in first if name not in own}
        known = own | known
        colours.append({row["solver"]: f"s{own.get(row['solver'], 0)}" for row in ranking})
    return colours


def _made_from(runs: pl.DataFrame) -> str:
    """The sentence on the results that a page shows; after a killed build, pages may differ in this."""
    last = max(runs["started"], default="")
    return f"Made from {text.count(len(runs), 'run')}{f', the last of {last[:10]} {last[11:16]} UTC' if last else ''}."


def _greatest_bound_first(run: Row) -> tuple[bool, Fraction]:
    """Sort key of runs with a bound: by exact value, contradicted ones last."""
    return not run["bound_trusted"], -Fraction(run["lower_bound"])


def _counts(failed: Iterable[Row]) -> list[tuple[str, int]]:
    return sorted(Counter(run["status"] for run in failed).items(), key=lambda item: (-item[1], item[0]))


def _seconds_between(started: str, ended: str | None) -> float | None:
    """Duration of a campaign; None if it was killed or is still running."""
    if ended is None:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()


def _ways(runs: Iterable[Row]) -> list[Row]:
    """A row per backend and enforcement of limits, with its number of runs; most runs first."""
    counts = Counter((run["backend"], held(json.loads(run["enforced"] or "{}"))) for run in runs if run["backend"])
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"backend": backend, "words": words, "runs": number} for (backend, words), number in ordered]


def _fractions() -> charts.Scale:
    return charts.linear(0.0, 1.0, lambda value: f"{100 * value:.0f} %")


def _times(times: Sequence[float], limit: float) -> charts.Scale:
    low = max(min(times) * 0.8, 1e-3)
    return charts.logarithmic(low, max(limit, max(times), low * 2), lambda value: f"{value:g} s")


def _heights(lines: Sequence[Curve], more: Sequence[float], relative: bool) -> charts.Scale:
    """Scale of a convergence chart: it covers everything drawn, except very bad first incumbents."""
    values = [*more, *(value for line in lines for _, value in line.points)]
    low, high = min(values), max(values)
    if not relative:
        return charts.amounts(min(low, 0.0), high if high > 0 else 1.0)
    final = max([*more, *(line.points[-1][1] for line in lines)])
    return charts.gaps(max(1.5 * min(low, 0.0), -1.0), max(1.5 * min(high, max(10 * final, 9.0)), 0.002))


def _run_curves(
    division: Division, runs: Sequence[Row], reports: Mapping[str, Any], place: Any, until: float, *, bounds: bool
) -> list[Curve]:
    """One curve per run, in the order of the runs; the first of each method has its name as label."""
    lines: list[Curve] = []
    named: set[str] = set()
    for run in runs:
        reported = reports[run["id"]]
        if not reported:
            continue
        solver, style = run["solver"], division.colours.get(run["solver"], "s0")
        last = exact(run["lower_bound"] if bounds else run["cost"])
        what = "lower bound" if bounds else "cost"
        name = f"{solver} bound" if bounds and run["kind"] == "solver" else solver
        lines.append(
            Curve(
                title=f"{solver}, seed {run['seed']}: {what} {last} after {seconds(reported[-1][0])} s",
                points=[(time_s, place(value)) for time_s, value in reported],
                until=until,
                style=f"{style} bound" if bounds else style,
                label="" if solver in named or (style == "s0" and run["kind"] == "solver") else name,
                marks=style != "s0",
            )
        )
        named.add(solver)
    return lines
