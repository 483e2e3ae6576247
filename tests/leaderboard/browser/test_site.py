"""The site in Chromium: sort, search, filter, compare, highlight, download; links, accessibility, no stray request."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import polars as pl
import pytest
from effort import Deferred

from shardmark.leaderboard.explore.wilcoxon import signed_rank
from tests.leaderboard.browser.conftest import SOLVED, Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

playwright = Deferred("playwright.sync_api")
#: A page of each template, with filters that leave a few rows of long tables.
KINDS = (
    *("index.html", "instances.html?track=intraop", "solvers.html?track=intraop", "compare.html?track=pipeline"),
    *("failures.html", "scores.html", "data/index.html", "records.html?track=scheduling", "reproduce/index.html"),
    *("tracks/placement.html", "tracks/pipeline.html", "solvers/pipeline/brkga-100.html"),
    *("solvers/pipeline/exact.html", "instances/pipeline/regal-01-k2.html"),
)
#: Pages whose drawings of solutions are looked at, as the rest of them is that of the page above.
DRAWN = (
    *("intraop/diamond", "pipeline/chain", "placement/crossing", "placement/sandwich-latency"),
    "scheduling/dataflow-12",
)


def column(page: Page, key: str) -> list[str]:
    """Text of the shown cells of a column of an index."""
    return page.evaluate(
        """(key) => {
          const heading = document.querySelector(`th[data-column="${key}"]`);
          const rows = [...heading.closest("table").tBodies[0].rows].filter((row) => !row.hidden);
          return rows.map((row) => row.cells[heading.cellIndex].textContent.trim());
        }""",
        key,
    )


def test_every_page_and_link_works(visitor: Visitor, site: Path) -> None:
    """No message in the console, no request outside the folder, no link that leads nowhere.

    The pages are frames of one page, which is many times as fast as one after another.
    """
    paths = sorted(site.rglob("*.html"), key=lambda path: path.name != "compare.html")  # drawn only if in sight
    frames = "".join(f'<iframe src="{path.as_uri()}"></iframe>' for path in paths)
    (site / "every.htm").write_text(f"<!DOCTYPE html>{frames}", encoding="utf-8")
    page = visitor.open("every.htm")
    page.frames[1].wait_for_selector("#curves")
    anchors: dict[str, set[str]] = {}
    targets: list[tuple[str, str, str]] = []
    for frame in page.frames[1:]:
        ids, links = frame.evaluate(
            """[[...document.querySelectorAll("[id]")].map((element) => element.id),
                [...document.querySelectorAll("a")].map((a) => new URL(a.getAttribute("href"), location).href)]"""
        )
        source = unquote(urlsplit(frame.url).path)
        anchors[source] = set(ids)
        for link in links:
            parts = urlsplit(link)
            if parts.scheme == "file":
                targets.append((source, unquote(parts.path), unquote(parts.fragment)))
    assert anchors.keys() == set(map(str, paths))
    assert len(anchors) > 60
    dead = [(source, target) for source, target, _ in targets if not Path(target).is_file()]
    lost = [(s, t, fragment) for s, t, fragment in targets if fragment and fragment not in anchors[t]]
    assert (dead, lost) == ([], [])


def test_pages_are_accessible_and_fit_a_phone(visitor: Visitor) -> None:
    """axe-core finds no violation; in the dark only colours differ. No page is wider than a phone."""
    found, wide = [], []
    pages = [(path, "html") for path in KINDS]
    pages += [(f"instances/{path}.html", "[aria-labelledby=solution]") for path in DRAWN]
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    for number, (path, part) in enumerate(pages):
        page = visitor.open(path)
        if "compare" in path:
            page.wait_for_selector("#curves")
        found += visitor.axe(part)
        if number % 3 == 0:
            page.emulate_media(color_scheme="dark")
            found += visitor.axe(part, "color-contrast")
            page.emulate_media(color_scheme="light")
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)
    assert found == []
    assert wide == []


def test_rows_keep_their_names_while_a_phone_scrolls_them(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 360, "height": 740})
    for path in ("instances.html", "tracks/pipeline.html", "solvers/pipeline/brkga-100.html"):
        page = visitor.open(path)
        for table in page.locator(".scroll:visible:has(tbody th)").all():
            table.evaluate("element => { element.scrollLeft = 1000; }")
            for box in (row.bounding_box() for row in table.locator("tbody th").all()[:3]):
                assert box is not None
                assert 0 <= box["x"] <= 180, path
                assert box["width"] <= 180, path


def test_tables_sort_by_a_click(visitor: Visitor) -> None:
    page = visitor.open("tracks/pipeline.html")
    heading = page.locator("[aria-labelledby='ranking'] th", has_text="Best").first
    heading.get_by_role("button").click()
    playwright.expect(heading).to_have_attribute("aria-sort", "descending")
    best = page.locator("[aria-labelledby='ranking'] tbody tr td:nth-child(9)").all_inner_texts()
    assert best == sorted(best, key=int, reverse=True)
    heading.get_by_role("button").press("Enter")
    playwright.expect(heading).to_have_attribute("aria-sort", "ascending")


def test_an_index_is_searched_filtered_and_sorted_and_its_address_says_how(visitor: Visitor) -> None:
    page = visitor.open("instances.html")
    playwright.expect(page.get_by_role("status")).to_have_text("33 instances")
    page.get_by_label("Search").fill("REGAL k8")
    playwright.expect(page.get_by_role("status")).to_have_text("5 of 33 instances")
    page.get_by_label("Nodes from").fill("100")
    page.get_by_role("combobox", name="Status").select_option("open")
    page.get_by_role("button", name="Nodes").click()
    shown = column(page, "instance")
    assert shown == ["regal-04-k8", "regal-03-k8", "regal-02-k8", "regal-01-k8"]
    assert urlsplit(page.url).query == "q=REGAL+k8&nodes=100..&status=open&sort=-nodes"
    page.reload()
    assert column(page, "instance") == shown
    page.get_by_role("button", name="Clear all filters").click()
    assert len(column(page, "instance")) == 33
    assert urlsplit(page.url).query == "sort=-nodes"


def test_filters_are_folded_on_a_phone(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    page = visitor.open("solvers.html")
    kind, button = page.get_by_role("combobox", name="Kind"), page.get_by_role("button", name="Filters")
    playwright.expect(page.get_by_role("searchbox")).to_be_visible()
    playwright.expect(kind).to_be_hidden()
    button.click()
    playwright.expect(kind).to_be_visible()
    playwright.expect(button).to_have_attribute("aria-expanded", "true")
    page = visitor.open("solvers.html?kind=solver")  # what is chosen is seen
    playwright.expect(kind).to_be_visible()


def test_records_are_searched_and_a_link_shows_its_row(visitor: Visitor) -> None:
    page = visitor.open("records.html?status=optimal")
    page.get_by_role("searchbox").fill("diamond")
    assert column(page, "instance") == ["diamond"]
    page = visitor.open("records.html?q=diamond#chain")
    playwright.expect(page.locator("tr#chain")).to_be_in_viewport()
    assert set(column(page, "instance")) == {"chain", "diamond"}


def test_columns_are_chosen(visitor: Visitor) -> None:
    page = visitor.open("solvers.html?kind=bound+method")
    assert set(column(page, "kind")) == {"bound method"}
    playwright.expect(page.locator("th[data-column=failed]")).to_be_hidden()
    page.get_by_text("Columns").click()
    page.get_by_label("Failed").check()
    page.get_by_label("Rank", exact=True).uncheck()
    page.reload()
    playwright.expect(page.locator("th[data-column=failed]")).to_be_visible()
    playwright.expect(page.locator("th[data-column=rank]")).to_be_hidden()


def test_without_scripts_everything_is_there(chromium: Browser, site: Path) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        for path, rows in (("instances.html", 33), ("compare.html", 20)):
            page.goto(f"{site.as_uri()}/{path}")
            assert page.locator("tbody tr").count() >= rows
            assert page.locator("[hidden], input, select, button").count() == 0
        assert "moves" in page.locator("[aria-labelledby='pairs-2'] tbody").inner_text()


def test_two_solvers_are_compared(visitor: Visitor) -> None:
    page = visitor.open("compare.html?track=pipeline&a=random-100&b=brkga-100")
    playwright.expect(page.locator(".verdict")).to_have_text("random-100 scores higher on 0, brkga-100 on 10; 0 ties.")
    playwright.expect(page.locator(".sure")).to_contain_text("exact: p = 0.002")
    assert page.locator("svg circle.dot.second").count() == 20  # costs and times
    size = [abs(float(x.replace("−", "-"))) for x in page.locator(".differences td:nth-child(6)").all_inner_texts()]
    assert size == sorted(size, reverse=True)
    page.get_by_role("button", name="Curves of regal-03-k2").click()
    playwright.expect(page.locator("#curves")).to_have_text("Curves of regal-03-k2")
    assert page.locator("[aria-labelledby=curves] svg .series").count() == 4  # two sides of two seeds
    page.get_by_label("Costs as").select_option("cost")
    playwright.expect(page.locator("h2", has_text="Costs")).to_have_text("Costs")
    assert urlsplit(page.url).query == "track=pipeline&a=random-100&b=brkga-100&instance=regal-03-k2&axis=cost"
    page.get_by_label("Track").select_option("intraop")
    playwright.expect(page.locator(".verdict")).to_contain_text("cfn-penalty scores higher on")
    page = visitor.open("compare.html?track=placement&a=search&b=one-accelerator")
    playwright.expect(page.locator(".sure")).to_contain_text("p is at least 0.5, however one-sided")


def test_two_versions_and_two_campaigns_are_compared(visitor: Visitor) -> None:
    page = visitor.open("compare.html?track=pipeline&a=moves&b=moves&b-version=050505050505")
    verdict = page.locator(".verdict")
    playwright.expect(verdict).to_contain_text("moves abababa scores higher on 9, moves 0505050 on 0; 0 ties.")
    assert page.locator("[aria-labelledby=curves] svg .series").count() == 2
    page = visitor.open("compare.html?track=pipeline&by=campaigns&a=3&b=2")
    playwright.expect(page.locator(".verdict")).to_contain_text("scores higher on 9")
    playwright.expect(page.locator(".differences")).to_contain_text("moves")


def test_a_solver_and_a_bound_method_are_not_compared(visitor: Visitor) -> None:
    page = visitor.open("compare.html?track=pipeline&a=moves&b=exact")
    playwright.expect(page.locator("#comparison")).to_contain_text("choose two of a kind")


def test_the_script_tests_significance_as_python_does(visitor: Visitor) -> None:
    page, random = visitor.open("compare.html"), Random(0)
    samples = [[random.gauss(0.3, 1) for _ in range(n)] for n in (1, 2, 9, 50, 51, 200)]
    samples += [[0.1 * random.randint(-2, 4) for _ in range(n)] for n in (5, 30, 120)]  # with ties
    found = page.evaluate("(samples) => samples.map(wilcoxon.signedRank)", samples)
    assert found == pytest.approx([signed_rank(sample) for sample in samples], rel=1e-6)
    assert page.evaluate("wilcoxon.signedRank([0, 1e-12])") is None


def test_a_solver_is_highlighted_by_a_click_and_by_the_address(visitor: Visitor) -> None:
    page = visitor.open("tracks/pipeline.html")
    row = "[aria-labelledby='ranking'] tr"
    playwright.expect(page.locator(f"{row}.chosen th")).to_have_text("newcomer")  # the newest, until the reader chooses
    page.locator(row, has_text="brkga-100").last.get_by_role("button").click()
    playwright.expect(page.locator(f"{row}.chosen th")).to_have_text("brkga-100")
    assert urlsplit(page.url).query == "solver=brkga-100"
    assert page.locator("[aria-labelledby='profile'] .wide g.series.chosen path").count() >= 1
    page = visitor.open("instances/pipeline/regal-01-k2.html?solver=moves")
    assert set(page.locator("tr.chosen th").all_inner_texts()) == {"moves"}
    page.locator("svg g.series[data-solver=brkga-100]").first.dispatch_event("click")
    assert urlsplit(page.url).query == "solver=brkga-100"
    page.get_by_role("button", name="Highlight brkga-100", exact=True).first.click()
    assert urlsplit(page.url).query == "solver=none"
    assert page.locator(".chosen").count() == 0


def test_files_are_taken_by_a_click(visitor: Visitor) -> None:
    """Tables, the instance, its best solution, a log and the records open and hold what the site has."""
    page = visitor.open("data/index.html")
    runs = int(page.locator("#runs .n").inner_text().replace(",", ""))
    every = page.locator("#runs")
    assert pl.read_csv(taken(page, every, "CSV"), infer_schema_length=None).height == runs
    assert pl.read_parquet(taken(page, every, "Parquet")).height == runs
    assert len(json.loads(taken(page, every, "JSON"))) == runs
    files = visitor.open("instances/pipeline/chain.html").locator("[aria-labelledby=take]")
    assert json.loads(taken(page, files, "The best solution")) == SOLVED["chain"]
    page.go_back()
    assert json.loads(taken(page, files, "The instance's file"))["format"] == "shardmark/pipeline/1"
    failure = visitor.open("failures.html").locator("td", has_text="The whole log").first
    failure.get_by_text("Log", exact=True).click()
    assert taken(page, failure, "The whole log").startswith(b"the beginning\n")
    assert taken(page, visitor.open("records.html").locator("main"), ".solu lines").startswith(b"=")


def taken(page: Page, part: Locator, name: str) -> bytes:
    """Click a link in a part of a page; return the file that Chromium saves, or the text that it shows instead."""
    link = part.get_by_role("link", name=name).first
    address = link.evaluate("(a) => a.href")
    if address.endswith((".csv", ".parquet", ".gz")):
        with page.expect_download() as saved:
            link.click()
        return Path(saved.value.path()).read_bytes()
    link.click()
    page.wait_for_url(address)
    return page.locator("pre").inner_text().encode()
