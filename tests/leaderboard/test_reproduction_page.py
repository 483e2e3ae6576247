"""Pages of reproductions: what they say, that they hold together, with a leaderboard in the same site and without."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from shardmark.harness.results.ranking import Tables
from shardmark.instances import InputError
from shardmark.leaderboard import charts
from shardmark.leaderboard.build import HEADER, build
from shardmark.leaderboard.regressions.page import write as write_regressions
from shardmark.leaderboard.report import (
    HERE,
    PAPER,
    Axis,
    Bars,
    Bracket,
    Dot,
    Ladder,
    Length,
    Line,
    Plot,
    Report,
    Section,
    Strips,
    Table,
)
from shardmark.leaderboard.reproduction_page import figures, grid, write
from tests.leaderboard.sites import broken_links, of_class, tree, words

HOSTILE = "<script>alert('x')</script> & \"quoted\""
STAGES = Axis("stages", logarithmic=True, at=(2, 8, 64))
REPORT = Report(
    name="made-up",
    title="How close?",
    about="Bounds and other bounds.",
    facts={"Sample": HOSTILE, "Seed": "7"},
    sections=[
        Section(
            "First",
            ["Words of it."],
            [
                Table(
                    "Fractions",
                    [
                        {"bound": "simple", "figures": HERE, "k=2": 0.5, "k=64": 0.25, "graphs": 1200},
                        {"bound": "simple", "figures": PAPER, "k=2": 0.9579, "k=64": None, "graphs": None},
                    ],
                    note="Below it.",
                ),
                Table("Empty", []),
            ],
            [
                Plot(
                    "Lines",
                    "Dashed: as published.",
                    STAGES,
                    Axis("fraction"),
                    [
                        Line("ours", [(2, 0.5), (8, 0.75), (64, 1.0)], 1),
                        Line("theirs", [(2, 0.4), (64, 0.9)], 1, published=True),
                        Line("absent", [], 2),
                    ],
                )
            ],
        ),
        Section(
            "Second",
            pictures=[
                Ladder("Closing in", "On the bar.", "bound", [Bracket("a", 0.5), Bracket("b", 0.9, published=True)]),
                Plot(
                    "Points",
                    "Runs.",
                    Axis("nodes", logarithmic=True),
                    Axis("time", logarithmic=True, unit=" s", span=(0.1, 10.0)),
                    [Line("dots", [(50, 0.2), (200, 2.0)], 3, shape="dots")],
                    [(5.0, "limit")],
                ),
            ],
        ),
    ],
    notes=["One run failed."],
    sources=[("The paper", "https://example.org/paper"), ("a preprint", "")],
)


@pytest.fixture
def page(tmp_path: Path) -> ET.Element:
    """The page of the made-up report, without a leaderboard."""
    return tree(write(REPORT, tmp_path / "site"))


def test_the_page_states_all_and_shows_figures_side_by_side(page: ET.Element) -> None:
    assert page.findtext("body/main/h1") == "How close?"
    facts = {div.findtext("dt"): div.findtext("dd") for div in page.iterfind(".//dl/div")}
    assert facts == {"Sample": HOSTILE, "Seed": "7"}
    ours, theirs = [[words(cell) for cell in row] for row in next(page.iter("tbody"))]
    assert ours == ["simple", "here", "0.5000", "0.2500", "1,200"]
    assert theirs == ["simple", "paper", "0.9579", "–", "–"]
    assert [words(row)[:6] for row in of_class(page, "published") if row.tag == "tr"] == ["simple"]
    [notes] = of_class(page, "notes")
    assert words(notes) == "One run failed."
    assert "The paper A preprint Costs are verified from the definitions by an independent referee." in words(page)


def test_numbers_below_zero_have_a_true_minus_sign_and_are_sorted_as_numbers() -> None:
    [row] = grid(Table("Changes", [{"figures": HERE, "change": -5.25, "runs": 2}], digits=1)).rows
    assert [(cell.shown, cell.key) for cell in row[1]] == [("here", None), ("−5.2", "-5.25"), ("2", "2")]


def test_commands_in_words_and_notes_are_code_and_the_rest_is_escaped(tmp_path: Path) -> None:
    sentences = ["`shardmark fetch <contest>` downloads them & more.", "A lone ` stays."]
    report = replace(REPORT, notes=sentences, sections=[Section("First", sentences, [])])
    text = write(report, tmp_path).read_text()
    assert text.count("<code>shardmark fetch &lt;contest&gt;</code> downloads them &amp; more.") == 2
    assert text.count("A lone ` stays.") == 2


def test_the_page_holds_together(page: ET.Element) -> None:
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    labelled = [element.get("aria-labelledby") for element in page.iter() if element.get("aria-labelledby")]
    assert set(labelled) <= set(ids)
    for table in page.iter("table"):
        [head] = table.findall("thead/tr")
        for row in table.findall("tbody/tr"):
            assert len(row) == len(head)
            keys = [cell.get("data-sort") for cell in row if cell.get("class") == "n"]
            assert all(key == "" or float(key or "nan") >= 0 for key in keys)
    assert not any(script.text for script in page.iter("script"))


def test_several_pictures_of_a_section_are_half_as_wide() -> None:
    for section, wide in zip(REPORT.sections, (charts.WIDE, charts.HALF), strict=True):
        for _, drawn in figures(section.pictures):
            [box, *_] = (svg.get("viewBox", "") for svg in ET.fromstring(f"<p>{drawn}</p>").iter("svg"))
            assert box.split()[2] == str(wide)


def test_pictures_show_what_the_report_has(page: ET.Element) -> None:
    lines, ladder, points = [chart for chart in of_class(page, "wide") if chart.tag == "div"]
    titles = [title.text for title in lines.iter("title")]
    assert titles == ["theirs", "ours", "ours"]  # the curves, the first on top, and the label of ours
    [path] = [g.find("path").get("d") for g in lines.iter("g") if g.get("class") == "series s1"][:1]  # type: ignore[union-attr]
    x, y = zip(*(map(float, place.split()) for place in re.split("[ML]", path or "")[1:]), strict=True)
    assert x[2] - x[1] == pytest.approx(1.5 * (x[1] - x[0]), rel=0.01)  # three doublings after two
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], rel=0.01)
    assert len(of_class(lines, "published")) == 1
    spans = [float(bar.get("width", "")) for bar in of_class(ladder, "span")]
    assert spans[0] == pytest.approx(5 * spans[1], rel=0.01)
    [dots] = of_class(points, "dots")
    assert len(list(dots.iter("circle"))) == 2
    assert "limit: 5 s" in [title.text for title in points.iter("title")]
    assert any(words(legend) == "dots" for legend in of_class(page, "always"))


def test_values_that_hold_are_drawn_in_steps_with_what_they_range_over(tmp_path: Path) -> None:
    seeds = Line(
        "seeds", [(1, 0.5), (3, 0.1), (9, 0.0)], 2, shape="steps", spread=[(1, 0.4, 0.9), (3, 0.0, 0.2), (9, 0, 0)]
    )
    other = Line("other", [(1, 0.2), (10, 0.1)], 1, shape="steps")
    x, y = Axis("time", span=(0, 10), unit=" s"), Axis("above the best", distances=True)
    made = replace(REPORT, sections=[Section("Only", pictures=[Plot("Steps", "Shaded.", x, y, [seeds, other])])])
    chart = of_class(tree(write(made, tmp_path / "site")), "wide")[0]
    [path] = [g.find("path").get("d") for g in chart.iter("g") if g.get("class") == "series s2"][:1]  # type: ignore[union-attr]
    start, *corners = re.split("[MHV]", path or "")[1:]
    assert len(corners) == 5  # across and down twice, and on to the last point, which is where it ends
    wide = float(corners[2]) - float(start.split()[0])
    assert float(corners[0]) - float(start.split()[0]) == pytest.approx(wide / 4, rel=0.01)
    assert corners[4] == corners[2]
    [area] = of_class(chart, "spread")
    numbers = [tuple(map(float, place.split())) for place in re.split("[ML]", area.get("d", "")[:-1])[2:]]
    [zero] = [float(line.get("y1", "")) for line in of_class(chart, "zero")]
    assert [height == pytest.approx(zero, abs=0.1) for _, height in numbers] == [True, True, True, False, False]
    assert {"+1 %", "+10 %", "best"} <= {text.text for text in of_class(chart, "tick")}


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_picture_without_lines_is_drawn(tmp_path: Path, logarithmic: bool) -> None:
    empty = Plot("Nothing", "No run found a solution.", Axis("seconds", logarithmic=logarithmic), Axis("cost"), [])
    made = replace(REPORT, sections=[Section("Only", pictures=[empty])])
    assert "No run found a solution." in write(made, tmp_path).read_text()


def test_dots_stand_on_strips_by_their_distance_and_shape(tmp_path: Path) -> None:
    rows = [
        (
            "A",
            [
                Dot("ours", 0.0, 1),
                Dot("1st", 0.01, role="winner"),
                Dot("2nd", 0.1, role="team"),
                Dot("c", 9, role="compiler"),
            ],
        ),
        ("B", [Dot("2nd", 0.1, role="team")]),
    ]
    made = replace(REPORT, sections=[Section("Only", pictures=[Strips("Dots", "Words.", "above", "bound", rows)])])
    page = tree(write(made, tmp_path / "site"))
    chart = of_class(page, "wide")[0]
    marks = {(g.findtext("title") or "").split(":")[0]: g for g in of_class(chart, "mark")}
    assert list(marks) == ["c on A", "2nd on A", "1st on A", "ours on A", "2nd on B"]  # the first lies on top
    x = {name: float(c.get("cx", "")) for name, g in marks.items() if (c := g.find("circle")) is not None}
    assert x["ours on A"] < x["1st on A"] < x["2nd on A"] == x["2nd on B"]
    assert marks["2nd on B"].findtext("title") == "2nd on B: 1.100 times the bound, published, not run here"
    assert marks["ours on A"].findtext("title") == "ours on A: 1.000 times the bound"
    [key] = of_class(page, "legend")
    assert [words(item) for item in key] == [
        "ours",
        *(f"{who}, published, not run here" for who in ("winner of the contest", "others", "XLA")),
    ]


@pytest.mark.parametrize("width", [charts.WIDE, charts.NARROW])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.0), (0.0, 1e6), (0.0, 0.01), (-0.5, 3.0)])
def test_words_below_strips_do_not_run_into_each_other(low: float, high: float, width: int) -> None:
    strip = charts.Strip("a", None, [charts.Mark("m", 0.0, "m", "s1")])
    ticks = of_class(ET.fromstring(charts.strips([strip], charts.gaps(low, high), width, "axis")), "tick")
    ends = [(float(t.get("x", "")), 3.3 * len(t.text or "")) for t in ticks]
    assert len(ends) >= 2
    assert all(a + half < b - other for (a, half), (b, other) in pairwise(ends))


def test_the_page_stands_alone(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write(REPORT, site)
    assert broken_links(site) == []
    listed = tree(site / "reproduce" / "index.html")
    assert [link.text for link in listed.iterfind("body/main/ul/li/a")] == ["made-up"]
    write(replace(REPORT, name="made-up-too", title=HOSTILE), site)
    listed = tree(site / "reproduce" / "index.html")
    told = ["made-up: How close?", f"made-up-too: {HOSTILE}"]
    assert [words(item) for item in listed.iterfind("body/main/ul/li")] == told
    assert not list(site.rglob("*preview*"))
    assert (site / "reproduce" / "made-up.html").stat().st_mode & 0o777 == 0o644


def test_a_page_brings_what_all_pages_need_anew(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write(REPORT, site)
    style = (site / "static" / "style.css").read_bytes()
    (site / "static" / "style.css").write_text("of an older version")
    write(REPORT, site)
    assert (site / "static" / "style.css").read_bytes() == style


def test_a_page_with_runs_is_not_written_over_by_one_without(tmp_path: Path) -> None:
    bare = replace(REPORT, title="Published only?", empty=True)
    page = write(bare, tmp_path / "site")
    assert write(bare, tmp_path / "site") == write(REPORT, tmp_path / "site") == page
    kept = page.read_bytes()
    with pytest.raises(InputError, match=r"made-up\.html: expected runs: nothing was run here"):
        write(bare, tmp_path / "site")
    assert page.read_bytes() == kept


def test_a_leaderboard_keeps_and_links_reproductions(scored: Tables, tmp_path: Path) -> None:
    site = tmp_path / "site"
    write(REPORT, site)
    page = site / "reproduce" / "made-up.html"
    kept = HEADER.split(page.read_text(encoding="utf-8"))
    index = build(scored, site)
    assert HEADER.split(page.read_text(encoding="utf-8")) == kept
    assert broken_links(site) == []
    write(replace(REPORT, name="another"), site)
    targets = [a.get("href") for a in tree(index).iter("a")]
    assert "reproduce/index.html" in targets
    listed = tree(site / "reproduce" / "index.html")
    assert [link.text for link in listed.iterfind("body/main/ul/li/a")] == ["another", "made-up"]
    assert "../index.html" in [a.get("href") for a in tree(site / "reproduce" / "another.html").iter("a")]
    assert broken_links(site) == []


def test_all_pages_of_a_site_have_the_same_menu(scored: Tables, tmp_path: Path) -> None:
    site = tmp_path / "site"
    write(REPORT, site)
    write_regressions([], site)
    build(scored, site)
    write(replace(REPORT, name="another"), site)
    pages = [
        tree(site / x)
        for x in (
            "scores.html",
            "regressions/index.html",
            *(f"reproduce/{x}.html" for x in ("index", "another", "made-up")),
        )
    ]
    menus = [
        [((a.text or ""), (a.get("href") or "").removeprefix("../")) for a in page.iterfind("body/header//a")]
        for page in pages
    ]
    assert all(found == menus[0] for found in menus)
    assert ("placement", "tracks/placement.html") in menus[0]
    assert ("Regressions", "regressions/index.html") in menus[0]


def test_a_leaderboard_without_reproductions_says_how_to_make_them(scored: Tables, tmp_path: Path) -> None:
    build(scored, tmp_path / "site")
    assert "shardmark reproduce NAME" in words(tree(tmp_path / "site" / "reproduce" / "index.html"))


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for place in (tmp_path, tmp_path / "thesis.tex", tmp_path / "thesis.tex" / "site"):
        with pytest.raises(InputError, match="expected a folder"):
            write(REPORT, place)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_bars_begin_at_zero_and_have_their_deviations(tmp_path: Path) -> None:
    rows = [Length("fast", 10.0, 2.0, 1), Length("slow", 40.0, 0.0, 2)]
    section = Section("Bars", pictures=[Bars("Means", "Of all.", "makespan", rows)])
    page = tree(write(replace(REPORT, sections=[section]), tmp_path / "site"))
    wide = next(element for element in page.iter() if element.tag.endswith("svg"))
    spans = [float(element.get("width", 0)) for element in of_class(wide, "span")]
    whiskers = [
        float(e.get("x2", 0)) - float(e.get("x1", 0)) for e in of_class(wide, "floor") if e.get("y1") == e.get("y2")
    ]
    assert spans[1] == pytest.approx(4 * spans[0], rel=1e-2)
    assert whiskers == [pytest.approx(0.4 * spans[0], rel=2e-2), 0]
    assert "fast: 10, standard deviation 2" in words(wide)
    assert "slow: 40" in words(wide)
    assert "standard deviation 0" not in words(wide), "a value without one"
    assert [words(value) for value in of_class(wide, "value")] == ["10.00", "40.00"]
    assert of_class(wide, "limit") == []


def test_bars_have_a_line_at_what_is_below_them(tmp_path: Path) -> None:
    rows = [Length("fast", 1000.0, 0.0, 1), Length("slow", 4000.4, 0.0, 2)]
    section = Section("Bars", pictures=[Bars("Means", "Of all.", "makespan", rows, bound=500.0)])
    page = tree(write(replace(REPORT, sections=[section]), tmp_path / "site"))
    wide = next(element for element in page.iter() if element.tag.endswith("svg"))
    [limit] = of_class(wide, "limit")
    first = of_class(wide, "span")[0]
    left, width = (float(first.get(key, 0)) for key in ("x", "width"))
    assert float(limit.get("x1", 0)) == pytest.approx(left + width / 2, abs=0.2)
    assert [words(value) for value in of_class(wide, "value")] == ["1,000", "4,000"]
