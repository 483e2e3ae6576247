"""The site as a whole: what its pages say, that they hold together, and how they get into the folder.

``SHARDMARK_GOLDEN=write pytest tests/leaderboard`` writes anew what `test_pages_say_what_they_said` compares with.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.results.records import Bound, Incumbent
from shardmark.instances import InputError
from shardmark.leaderboard import build as building
from shardmark.leaderboard.build import build
from shardmark.leaderboard.pages.environment import environment
from shardmark.leaderboard.pages.site import Site
from shardmark.leaderboard.pages.tracks import AT_LIMIT, colours_of
from shardmark.leaderboard.report import Device, Link, Schedule, Split
from shardmark.leaderboard.text import page_of
from tests.leaderboard.conftest import Filler, filled
from tests.leaderboard.sites import FOREIGN, add_foreign, files, of_class, sections, tree, words

GOLDEN = Path(__file__).with_name("golden.json")
GOLDEN_PAGES = (
    *("index.html", "failures.html", "tracks/intraop.html", "tracks/pipeline.html", "tracks/placement.html"),
    *("solvers/pipeline/brkga-100.html", "solvers/pipeline/exact.html", "solvers/intraop/cfn-penalty.html"),
    *("solvers/placement/dp.html", "solvers/placement/load.html", "instances/placement/bert-half.html"),
    *("instances/intraop/gemma-like.html", "instances/intraop/beyond-64-bits.html", "instances/intraop/free.html"),
    *("instances/intraop/contest-g_7414d05da9cf562b.html", "instances/pipeline/regal-01-k2.html"),
)
#: Scripts that only some pages have.
SCRIPTS = {
    "tracks/placement.html": ["fold.js"],
    "instances.html": ["finder.js"],
    "solvers.html": ["finder.js"],
    "records.html": ["finder.js"],
    "compare.html": ["index.js", "wilcoxon.js", "plot.js", "sides.js", "compare.js"],
}
VOID = {"meta", "link", "br", "hr", "img", "input"}
SVG = {"line", "rect", "circle", "path", "text"}


@pytest.fixture(scope="module")
def site(scored: Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the site of the made-up database."""
    return build(scored, tmp_path_factory.mktemp("site")).parent


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, ET.Element]:
    """Every page as a tree, by its path; parsing fails unless it is well-formed."""
    return {path.relative_to(site).as_posix(): tree(path) for path in site.rglob("*.html")}


def cells(element: ET.Element) -> list[list[str]]:
    """Text of the cells of every row of the tables below an element, headings left out."""
    return [[words(cell) for cell in row] for body in element.iter("tbody") for row in body]


def extract(page: ET.Element) -> dict[str, Any]:
    """Return the content of a page: headings, sentences, tables, tooltips of its wide charts."""
    main = page.find("body/main")
    assert main is not None
    rows = [[words(cell) for cell in row] for row in main.iter("tr")]
    tags = ("h1", "h2", "p", "li", "dt", "dd", "figcaption")
    texts = [words(element) for element in main.iter() if element.tag in tags]
    tooltips = [title.text for chart in of_class(main, "wide") for title in chart.iter("title")]
    return {
        "title": page.findtext("head/title"),
        "said": texts,
        "rows": rows,
        "tooltips": list(dict.fromkeys(tooltips)),
    }


def test_pages_say_what_they_said(pages: dict[str, ET.Element]) -> None:
    found = {path: extract(pages[path]) for path in GOLDEN_PAGES}
    if os.environ.get("SHARDMARK_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert list(found) == list(expected)
    for path, content in found.items():
        assert content == expected[path], path


def test_there_is_a_page_for_everything(pages: dict[str, ET.Element], scored: Tables) -> None:
    methods = scored.runs.select("track", "solver").n_unique()
    assert len(pages) == 9 + len(scored.tracks) + methods + scored.instances.height
    assert all(len(list(page.iter("h1"))) == 1 for page in pages.values())


def test_html_is_html_and_not_only_xml(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<!DOCTYPE html>\n<html lang=")
        closed = set(re.findall(r"<(\w+)(?:\s[^<>]*)?/>", text))
        assert closed <= VOID | SVG, path
        ids = re.findall(r'\sid="([^"]*)"', text)
        assert len(ids) == len(set(ids)), path


def links(page: ET.Element) -> Iterator[tuple[ET.Element, str]]:
    """Every element that points somewhere, and where."""
    for element in page.iter():
        for name in ("href", "src"):
            if name in element.attrib:
                yield element, element.attrib[name]


def test_no_space_stands_before_a_period_or_comma(pages: dict[str, ET.Element]) -> None:
    for path, page in pages.items():
        for sentence in page.iter("p"):
            assert not re.search(r"\s[.,;](\s|$)", "".join(sentence.itertext())), path


def test_links_lead_somewhere(site: Path, pages: dict[str, ET.Element]) -> None:
    reached = {"index.html"}
    for path, page in pages.items():
        for element, target in links(page):
            parts = urlsplit(target)
            if parts.scheme:
                assert (element.tag, parts.scheme) == ("a", "https"), (path, target)
                continue
            file = (site / path).parent / unquote(parts.path) if parts.path else site / path
            assert file.is_file(), (path, target)
            name = file.resolve().relative_to(site).as_posix()
            reached.add(name)
            if parts.fragment:
                assert any(e.get("id") == parts.fragment for e in pages[name].iter()), (path, target)
    assert reached >= set(pages)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for file in (site / "static").iterdir():
        assert file.suffix in (".css", ".js", ".svg")
        text = file.read_text(encoding="utf-8").replace('"http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch|XMLHttpRequest|import\(", text), file.name


def test_no_code_stands_in_pages(pages: dict[str, ET.Element]) -> None:
    for path, page in pages.items():
        scripts = list(page.iter("script"))
        names = ["state.js", "table.js", "highlight.js", *SCRIPTS.get(path, ())]
        assert [(script.text, Path(script.get("src", "")).name) for script in scripts] == [(None, x) for x in names], (
            path
        )
        for element in page.iter():
            assert element.tag != "style", path
            assert not any(name.startswith("on") or name == "style" for name in element.attrib), path
            assert not element.get("href", "").lower().startswith("javascript:"), path


def test_every_page_allows_nothing_but_its_own_files(pages: dict[str, ET.Element]) -> None:
    for path, page in pages.items():
        first, second = list(page.iterfind("head/*"))[:2]
        assert first.get("charset") == "utf-8"
        assert second.get("http-equiv") == "Content-Security-Policy", path
        rules = dict(rule.strip().split(" ", 1) for rule in second.get("content", "").split(";"))
        assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
        assert rules == dict.fromkeys(("script-src", "style-src", "img-src"), "'self'")


def test_every_page_says_which_results_it_shows(pages: dict[str, ET.Element]) -> None:
    for path, page in pages.items():
        [footer] = page.iter("footer")
        assert words(footer).startswith(
            "Made from 291 runs, the last of 2025-11-21 06:00 UTC, on Example Processor 3000 <b>, "
            "by shardmark 0.1.0; schema 3. All data. Costs are"
        ), path


def test_marks_of_direction_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    marks = "\u202e\u2067\u200f\u200b\x85"
    name = f"ab{'cd'.join(marks)}ef"
    store = Store.open(tmp_path / "results", create=True)
    campaign = store.add_campaign("2025-11-21T06:00:00+00:00", [name], name, dict.fromkeys(("cpu", "os"), name))
    checksum, version = f"pipeline-{name}", f"{len(name):02x}" * 32
    store.add_instance(checksum, name, "pipeline", {"nodes": 3, name: name}, {"best_cost": "1", "source": name})
    store.add_solver(version, "pipeline", name, "solver", name, name, {name: name})
    filler = Filler(store, campaign, "pipeline")
    filler.add(name, "solver", 0, name, "error", name, 2.5, [Incumbent(0.1, True, 2.5)], [])
    store.connection.execute("UPDATE runs SET log = ?", (name,))
    site = build(tables(store), tmp_path / "site", {checksum: f"Not drawn: {name}."}).parent
    store.close()
    shown = name.encode("unicode_escape").decode()
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not set(marks) & set(text), path
        without = ("scores.html", "records.html", "compare.html")
        assert shown in text or path.parent.name == "reproduce" or path.name in without


def test_hostile_text_is_text(site: Path, pages: dict[str, ET.Element]) -> None:
    hostile = "<script>alert('x')</script> & \"quoted\""
    assert not any("<script>" in path.read_text(encoding="utf-8") for path in site.rglob("*.html"))
    assert f"ValueError: {hostile}" in words(pages["failures.html"])
    assert hostile in words(pages["tracks/intraop.html"])
    assert "with <i>HTML</i>.json" in words(pages["tracks/intraop.html"])
    assert "Example Processor 3000 <b>" in words(pages["index.html"])
    assert all("\x1b" not in text and "\x00" not in text for text in map(words, pages.values()))


def test_every_failure_is_shown_with_reason_and_log(pages: dict[str, ET.Element], scored: Tables) -> None:
    rows = table_of(pages["failures.html"], "failures")
    limited = scored.runs.filter(AT_LIMIT)["id"].to_list()
    ended = [run for run in scored.runs.iter_rows(named=True) if run["status"] not in ("ok", "declined")]
    failed = [run for run in ended if run["id"] not in limited]
    assert len(rows) == len(failed) == 11
    for run in failed:
        [row] = [row for row in rows if row[:4] == [run["track"], run["instance"], run["solver"], str(run["seed"])]]
        assert row[4] == run["status"]
        assert row[-1].startswith(run["reason"])
        assert row[-1].endswith("the end The whole log") or row[-1].endswith("the endThe whole log")
        assert "the beginning" not in row[-1]


def test_declines_are_listed_apart_and_counted(pages: dict[str, ET.Element], scored: Tables) -> None:
    page = pages["failures.html"]
    rows = table_of(page, "declined")
    assert rows[0] == ["pipeline", "–", "moves", "1 instance", "takes graphs of at most 10 nodes"]
    assert ["placement", DIVISIONS[0], "search", "2 instances", "is for free sets"] in rows
    assert [row[1] for row in rows[1:]] == sorted((row[1] for row in rows[1:]), key=DIVISIONS.index)
    declined = scored.runs.filter(scored.runs["status"] == "declined").height
    assert sum(int(row[3].split()[0]) for row in rows) == declined == 36
    assert "36 runs in which the solver or bound method declined the instance." in words(page)
    [fold] = [x for x in page.iter("details") if of_class(x, "cards")]
    assert fold.get("open") is None
    totals = {row[0]: row[5:9] for row in table_of(pages["index.html"], "totals")}
    assert totals == {
        "intraop": ["64", "1", "7", "0"],
        "pipeline": ["167", "2", "4", "1"],
        "placement": ["60", "0", "0", "35"],
    }
    assert "Of 60 runs none failed, but 35 were declined." in words(pages["tracks/placement.html"])
    assert (
        "misclaim 1, output 1, processes 1) and 1 was declined. 2 runs reached their time limit with an answer."
        in words(pages["tracks/pipeline.html"])
    )
    load = pages["solvers/placement/load.html"]
    assert "Declined is for throughput: bert-latency, gnmt-latency All declined runs" in words(load)
    assert "Failures" not in [words(heading) for heading in load.iter("h2")]


def test_seeds_that_declined_an_instance_are_told_from_instances(tmp_path: Path) -> None:
    with filled(tmp_path, "pipeline") as filler:
        filler.declare("shy", "solver")
        for name in "ab":
            filler.store.add_instance(f"pipeline-{name}", name, "pipeline", {"track": "pipeline", "name": name}, {})
            for seed in range(3):
                filler.add("shy", "solver", seed, name, "declined", "no", None, [], [])
        page = tree(build(tables(filler.store), tmp_path / "site").parent / "failures.html")
    assert "There are none." in words(page)
    assert table_of(page, "declined") == [["pipeline", "shy", "2 instances", "no"]]
    [cell] = [cell for cell in page.iter("td") if cell.get("data-sort")]
    assert (cell.get("data-sort"), cell.get("title")) == ("2", "6 runs")
    [fold] = page.find(".//main").iter("details")  # type: ignore[union-attr]
    assert fold.get("open") == ""


def test_exact_costs_are_shown_and_told(pages: dict[str, ET.Element]) -> None:
    shown = {td.get("title"): td.text for td in pages["instances/intraop/beyond-64-bits.html"].iter("td")}
    assert shown["2000002876201781401777"] == "2,000,002,876,201,781,401,777"


def test_contradictions_are_shown(pages: dict[str, ET.Element]) -> None:
    [alarm] = of_class(pages["tracks/pipeline.html"], "alarm")
    assert cells(alarm) == [["regal-01-k2", "anchored", "0", "17.748", "17.4", "brkga-10000"]]
    assert of_class(pages["index.html"], "alarm")
    assert of_class(pages["instances/pipeline/regal-01-k2.html"], "alarm")
    assert not of_class(pages["instances/pipeline/regal-00-k2.html"], "alarm")


def test_bounds_on_an_instance_page_begin_with_the_greatest(tmp_path: Path) -> None:
    best = 2**80
    bounds = {"low": best - 3, "high": best - 1, "false": best + 5, "middle": best - 2}
    with filled(tmp_path, "intraop") as filler:
        filler.store.add_instance("intraop-x", "x", "intraop", {"nodes": 3}, {})
        for name, value in bounds.items():  # those that find a cost first would stand first if sorted by it
            kind, cost = ("bound", None) if name == "high" else ("solver", best + value % 7)
            filler.declare(name, kind)
            found = [] if cost is None else [Incumbent(0.1, True, cost)]
            filler.add(name, kind, 0, "x", "ok", "", cost, found, [Bound(0.2, value)])
        filler.declare("best", "solver")
        filler.add("best", "solver", 0, "x", "ok", "", best, [Incumbent(0.1, True, best)], [])
        page = tree(build(tables(filler.store), tmp_path / "site").parent / "instances" / "intraop" / "x.html")
    assert [row[0] for row in table_of(page, "bounds")] == ["high", "middle", "low", "false"]


def test_costs_come_down_to_the_best_and_bounds_up_to_it(pages: dict[str, ET.Element]) -> None:
    chart = of_class(pages["instances/intraop/beyond-64-bits.html"], "wide")[0]
    [zero] = [float(line.get("y1", "")) for line in of_class(chart, "zero")]
    ends: dict[str, list[float]] = {}
    for path in chart.iter("path"):
        if heights := re.findall(r"V([\d.]+)", path.get("d", "")):
            title = next(group.findtext("title", "") for group in chart.iter("g") if path in list(group))
            ends.setdefault(title.split(",")[0], []).append(float(heights[-1]))
    assert min(abs(y - zero) for y in ends["cfn-penalty"]) < 0.2
    assert max(ends["random"]) < max(ends["greedy"]) < zero < min(ends["relaxation"])


KINDS = ["contiguous", "contiguous, overlap half, clusters", "acyclic", "free"]
DIVISIONS = [f"throughput, {name}" for name in KINDS] + ["latency, contiguous"]


def table_of(page: ET.Element, label: str) -> list[list[str]]:
    """Cells of the table that a heading with this id names."""
    [region] = [x for x in page.iter("div") if x.get("aria-labelledby") == label]
    return cells(region)


def test_modes_of_a_track_are_ranked_apart(pages: dict[str, ET.Element]) -> None:
    page = pages["tracks/placement.html"]
    overview = table_of(page, "rankings")
    assert [row[0] for row in overview] == DIVISIONS
    assert [row[1] for row in overview] == ["dp", "one-accelerator", "dp", "search", "one-accelerator"]
    assert table_of(pages["index.html"], "track-3") == overview
    parts = of_class(page, "division")
    assert [words(part[0]) for part in parts] == [name.capitalize() for name in DIVISIONS]
    assert [part.get("open") for part in parts] == ["", *[None] * 4]
    solvers = [[row[1] for row in table_of(part, f"ranking-{part.get('id')}")] for part in parts]
    alone = ["one-accelerator"]
    assert solvers == [["dp", *alone], alone, ["dp", *alone], ["search", *alone], alone]
    matrix = [[row[0] for row in table_of(part, f"matrix-{part.get('id')}")] for part in parts]
    assert matrix == [[f"bert-{mode}", f"gnmt-{mode}"] for mode in ("plain", "half", "acyclic", "free", "latency")]
    assert not of_class(pages["tracks/pipeline.html"], "division")


def test_a_ranking_is_shown_as_if_there_were_no_other(
    stored: Store, pages: dict[str, ET.Element], tmp_path: Path
) -> None:
    alone = build(tables(stored, {"bert-plain", "gnmt-plain"}), tmp_path / "site").parent / "tracks" / "placement.html"
    [part] = of_class(tree(alone), "division")
    together = of_class(pages["tracks/placement.html"], "division")[0]
    assert ET.tostring(part).strip() == ET.tostring(together).strip()


def test_solvers_keep_their_colours_from_ranking_to_ranking() -> None:
    rankings = [list("abcdefgh"), list("hcxa"), list("gfedcb"), []]
    first, second, third, none = colours_of([[{"solver": name} for name in ranking] for ranking in rankings])
    assert list(first.values()) == ["s1", "s2", "s3", "s4", "s5", "s6", "s0", "s0"]
    assert second == {"h": "s2", "c": "s3", "x": "s4", "a": "s1"}
    assert {name: third[name] for name in "bcdef"} == {name: first[name] for name in "bcdef"}
    assert third["g"] == "s1"
    assert none == {}


def test_who_declines_a_whole_ranking_is_named_beneath_it(pages: dict[str, ET.Element]) -> None:
    texts = [
        [words(line).removeprefix("Declined every instance, so not ranked: ") for line in of_class(part, "more")]
        for part in of_class(pages["tracks/placement.html"], "division")
    ]
    assert texts[0] == ["picky, search.", "critical-path."]
    assert texts[1] == ["dp, picky, search.", "critical-path."]
    assert texts[-1] == ["dp, picky, search.", "load."]
    [latency] = table_of(pages["tracks/placement.html"], "ranking-latency-contiguous")
    assert latency[7] == "1 / 2"  # who declines one instance of two stands there, with a 0 for it
    dp = pages["solvers/placement/dp.html"]
    assert [row[:2] for row in table_of(dp, "standing")] == [[DIVISIONS[0], "1 of 2"], [DIVISIONS[2], "1 of 2"]]
    assert "has no rank in them: throughput, contiguous, overlap half, clusters; throughput, free; latency" in words(dp)
    assert {row[2] for row in table_of(dp, "results") if row[3] == "declined"} == {"1"}
    assert {tuple(row[4:6]) for row in table_of(dp, "results") if row[3] == "declined"} == {("–", "–")}
    assert "It declined every instance and has no rank." in words(pages["solvers/placement/picky.html"])


def test_tables_can_be_sorted(site: Path, pages: dict[str, ET.Element]) -> None:
    script = (site / "static" / "table.js").read_text(encoding="utf-8")
    assert "aria-sort" in script
    assert "table.sortable" in script
    assert not re.search(r"innerHTML|eval|document\.write|setAttribute\(\"on", script)
    for path, page in pages.items():
        for table in page.iter("table"):
            assert "sortable" in table.get("class", ""), path
            [head], rows = table.findall("thead/tr"), table.findall("tbody/tr")
            assert rows
            assert all(cell.tag == "th" and cell.get("scope") == "col" for cell in head), path
            assert all(len(row) == len(head) for row in rows if row[0].get("colspan") is None), path
            for row in rows:
                keys = [cell.get("data-sort") for cell in row if "n" in cell.get("class", "").split()]
                assert all(key == "" or float(key or "nan") == float(key or "nan") for key in keys), path


def test_unequal_limits_and_absent_runs_are_noted(pages: dict[str, ET.Element]) -> None:
    [notes] = of_class(pages["tracks/intraop.html"], "notes")
    assert "different time, core or memory limits are compared on 1 of its instances" in words(notes)
    assert not of_class(pages["instances/intraop/free.html"], "notes")
    [notes] = of_class(pages["instances/intraop/tight.html"], "notes")
    assert "10 s, 1 core" in words(notes)
    assert "Not run on every instance, scored 0 on the others: single-block." in words(pages["tracks/pipeline.html"])
    assert "Not run on regal-03-k8" in words(pages["solvers/pipeline/single-block.html"])


def test_why_a_run_stopped_what_it_said_and_what_is_true_stand_apart(pages: dict[str, ET.Element]) -> None:
    page = pages["solvers/pipeline/merge.html"]
    [table] = [table for table in page.iter("table") if "Stopped" in words(table)]
    rows = {row[0]: row[2:8] for row in cells(table)}
    assert rows["regal-03-k2"] == ["exit", "done", "1.5", "–", "7", "feasible"]
    assert rows["regal-02-k8"] == ["lost", "nothing", "–", "–", "0", "nothing"]
    assert {row[-1] for row in cells(table)} == {"example-2"}
    assert "posix: time, cores enforced; CPU time, memory, processes, output watched; isolation" in words(page)
    assert "stopped: exit · last message: done · verified: feasible" in words(pages["failures.html"])


def test_runs_of_the_first_schema_say_what_was_not_recorded(pages: dict[str, ET.Element]) -> None:
    page = pages["solvers/pipeline/random-1.html"]
    assert "Enforcement of limitsnot recorded" in words(page)
    [table] = [table for table in page.iter("table") if "Stopped" in words(table)]
    assert {tuple(row[2:8]) for row in cells(table)} == {("exit", "–", "–", "–", "–", "–")}


def test_machines_and_their_disturbances_are_shown(pages: dict[str, ET.Element]) -> None:
    [table] = [table for table in pages["index.html"].iter("table") if "Disturbances" in words(table)]
    first, second = cells(table)
    assert first[1:3] == ["2.5 h", "281"]
    assert first[4:6] == ["dask, 2 at once, limits by posix and benchexec", "none found"]
    assert second[3].startswith("example-2: Example Processor 3000 <b>, 2 cores")
    assert second[3].endswith("governor performance, turbo off")
    assert second[5].startswith("The processor slowed down for heat: cpu0, cpu1.")
    [notes] = of_class(pages["tracks/pipeline.html"], "notes")
    assert "The machine was disturbed in a campaign with 10 of its runs. The processor slowed down" in words(notes)
    assert "disturbed" not in words(pages["tracks/intraop.html"])


def test_charts_and_tables_say_which_solver_they_show(pages: dict[str, ET.Element]) -> None:
    track, instance = pages["tracks/pipeline.html"], pages["instances/pipeline/regal-01-k8.html"]
    for page, tags in ((track, {"g", "tr", "li"}), (instance, {"g", "tr", "li"})):
        found = [x for x in page.iter() if x.get("data-solver") == "brkga-100"]
        assert {x.tag for x in found} == tags
    hostile = [
        x for x in pages["tracks/intraop.html"].iter("tr") if (x.get("data-solver") or "").startswith("<script>")
    ]
    assert len(hostile) == 1


def test_sizes_and_modes_are_told_in_words(pages: dict[str, ET.Element]) -> None:
    page = words(pages["instances/placement/bert-latency.html"])
    assert "512 nodes · 704 edges" in words(pages["instances/pipeline/regal-01-k8.html"])
    assert "Latency, contiguous: the cost is the time that one sample takes; no path leaves" in page


def test_a_drawing_stands_on_the_page_of_its_instance(scored: Tables, tmp_path: Path) -> None:
    checksum = "placement-bert-free"
    devices = [Device("accelerator 0", "load 12.5"), Device("CPU 2", "load 7", cpu=True)]
    picture = Split(["a", "b", "c"], [(0, 1), (1, 2)], [0, 0, 1], devices, caption="Found by search, cost 12.5.")
    folder = build(scored, tmp_path / "site", {checksum: (picture,)}).parent / "instances" / "placement"
    page = tree(folder / "bert-free.html")
    [section] = sections(page, "solution")
    assert len(list(section.iter("svg"))) == 4  # wide, narrow, and the legend's
    assert "accelerator 0: 2 nodes, load 12.5" in words(section)
    assert "Found by search, cost 12.5. Each colour is a stage or device" in words(section)
    assert not any("style" in element.attrib for element in page.iter())
    assert 'id="solution"' not in (folder / "bert-plain.html").read_text(encoding="utf-8")


def test_a_schedule_is_drawn_as_one(scored: Tables, tmp_path: Path) -> None:
    devices = [Device("fast", speed="speed 2"), Device("slow", speed="speed 1")]
    picture = Schedule(["a", "b"], [0, 1], [0, 3], [2, 4], devices, [Link(0, "start"), Link(1, "transfer")], 3.0)
    page = (
        build(scored, tmp_path / "site", {"placement-bert-free": (picture,)}).parent
        / "instances/placement/bert-free.html"
    )
    [section] = sections(tree(page), "solution")
    assert "a: 0 to 2 on fast (speed 2), waited for nothing" in words(section)
    assert "Each row is a device, the fastest first" in words(section)
    assert "squares run on CPUs" not in words(section)


def test_every_page_says_that_bounds_rest_on_their_methods(pages: dict[str, ET.Element]) -> None:
    for path, page in pages.items():
        told = "otherwise the bound, and any optimality that it proves, is only as reliable as its method"
        assert told in words(page), path
    claim = "proven, if the bound, a claim, holds"
    proven = [page for page in pages.values() if claim in words(page)]
    assert proven
    assert [link.get("href") for link in proven[0].iter("a") if link.text == claim] == ["../../scores.html#trust"]
    assert [x for x in pages["scores.html"].iter("dt") if x.get("id") == "trust"]


def test_why_a_solution_is_not_drawn_stands_on_its_page(scored: Tables, tmp_path: Path) -> None:
    folder = build(scored, tmp_path / "site", {"placement-bert-free": "Not drawn: <lost>."}).parent / "instances"
    pages = [tree(folder / "placement" / f"{name}-free.html") for name in ("bert", "gnmt")]
    assert ["Not drawn: <lost>." in words(page) for page in pages] == [True, False]
    assert not [x for x in pages[0].iter("section") if x.get("aria-labelledby") == "solution"]


def test_a_solver_that_bounds_stands_among_the_bound_methods_once(scored: Tables, tmp_path: Path) -> None:
    site = build(scored, tmp_path / "site").parent
    page = tree(site / page_of("tracks", "intraop"))
    [section] = sections(page, "bounds")
    names = [x.text for x in section.findall(".//th/a")]
    assert sorted(names) == ["cfn-penalty", "relaxation", "simple"]
    assert "Solvers that also report bounds are included." in words(section)
    own = words(tree(site / page_of("solvers", "intraop", "cfn-penalty")))
    assert re.search(r"Rank \d of 4 with", own)
    other = words(tree(site / page_of("tracks", "pipeline")))
    assert "stand among them" not in other


def test_runs_that_failed_alike_share_a_line() -> None:
    failed = [("a", 0, "infeasible", "full"), ("b", 0, "crash", "full"), ("c", 1, "infeasible", "full")]
    runs = [dict(zip(("solver", "seed", "status", "reason"), x, strict=True)) for x in failed]
    parts: Any = environment().get_template("parts.html").module
    page = ET.fromstring(parts.failures("", "scheduling", runs, "solver"))
    told = ["".join(item.itertext()) for item in page.iter("li")]
    assert told == ["infeasible a, seed 0; c, seed 1: full", "crash b, seed 0: full"]


def test_an_empty_database_gives_a_site(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "results", create=True)) as store:
        index = build(tables(store), tmp_path / "site")
    assert "No runs are recorded yet." in words(tree(index))


@pytest.fixture(scope="module")
def one(stored: Store) -> Tables:
    """Tables of one instance of one track."""
    return tables(stored, {"bert-plain"})


@pytest.fixture(scope="module")
def few(stored: Store) -> Tables:
    """Tables of other instances, of two tracks."""
    return tables(stored, {"gnmt-free", "regal-00-k2"})


@pytest.mark.gate
def test_a_second_build_replaces_the_first_and_says_the_same(one: Tables, few: Tables, tmp_path: Path) -> None:
    output, fresh = tmp_path / "deep" / "site", build(one, tmp_path / "fresh").parent
    for tables_of_build in (one, few, one):
        assert build(tables_of_build, output) == output / "index.html"
    assert files(output) == files(fresh)
    assert not (output / "instances" / "pipeline").exists()
    assert [path for path in output.rglob("*") if path.is_dir() and not any(path.iterdir())] == []
    assert [path.name for path in output.parent.iterdir()] == ["site"]


@pytest.mark.gate
def test_files_of_others_stay_as_they_are(one: Tables, few: Tables, tmp_path: Path) -> None:
    output = build(few, tmp_path / "site").parent
    add_foreign(output)
    (output / "empty").mkdir()
    (output / "linked").symlink_to("notes")
    inodes = {path: (output / path).stat().st_ino for path in FOREIGN}
    for tables_of_build in (one, few, one):
        build(tables_of_build, output)
        assert files(output).items() >= FOREIGN.items()
        assert {path: (output / path).stat().st_ino for path in FOREIGN} == inodes
        assert (output / "empty").is_dir()
        assert os.readlink(output / "linked") == "notes"


def test_a_list_of_files_that_leads_out_of_the_site_removes_nothing(one: Tables, tmp_path: Path) -> None:
    output = build(one, tmp_path / "site").parent
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (output / ".shardmark-files").write_text(f"{mine}\n../mine.txt\ntracks/../../mine.txt\n\n")
    build(one, output)
    assert mine.read_text() == "mine"


def test_a_site_is_held_while_it_is_written(one: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def look(folder: Path, files: Iterator[tuple[str, str]]) -> None:
        with (folder / ".shardmark-site").open() as marker, pytest.raises(BlockingIOError):
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken.append(len(list(files)))

    monkeypatch.setattr(building, "publish", look)
    build(one, tmp_path / "site")
    assert taken
    with (tmp_path / "site" / ".shardmark-site").open() as marker:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_build_that_fails_leaves_the_old_site(one: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "site"
    build(one, output)
    before = files(output)

    def fail(site: Site) -> Iterator[tuple[str, str]]:
        yield "index.html", "half a site"
        raise RuntimeError("no more")

    monkeypatch.setattr(building, "WRITERS", (fail,))
    with pytest.raises(RuntimeError, match="no more"):
        build(one, output)
    assert files(output) == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_full_disk_leaves_the_old_site(one: Tables, few: Tables, tmp_path: Path) -> None:
    output = build(one, tmp_path / "site").parent
    add_foreign(output)
    before = files(output)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, hard))
    try:
        with pytest.raises(InputError, match=r"expected a folder that can be written \(File too large\)"):
            build(few, output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(output) == before
    assert not (output / ".shardmark-new").exists()


def test_the_documentation_is_kept_and_linked(one: Tables, site: Path, tmp_path: Path) -> None:
    output = tmp_path / "site"
    (output / "docs").mkdir(parents=True)
    (output / "docs" / "index.html").write_text("how")
    for _ in range(2):
        index = build(one, output)
        assert (output / "docs" / "index.html").read_text() == "how"
        assert "docs/index.html" in [target for _, target in links(tree(index))]
    assert "docs/index.html" not in (site / "index.html").read_text(encoding="utf-8")


def test_a_folder_of_somebody_else_is_left_alone(scored: Tables, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="expected a folder that is empty or holds an earlier leaderboard"):
        build(scored, tmp_path)
    with pytest.raises(InputError, match="expected a folder"):
        build(scored, tmp_path / "thesis.tex")
    assert files(tmp_path) == {"thesis.tex": b"years of work"}
