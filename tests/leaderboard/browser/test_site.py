"""The site in Chromium: sort, search, filter, compare, highlight; links, accessibility, and no stray request."""

from __future__ import annotations

from pathlib import Path
from random import Random
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from leaderboard.explore.wilcoxon import signed_rank
from tests.leaderboard.browser.conftest import Visitor

#: A page of each kind, and pages with every kind of drawing.
KINDS = (
    *("index.html", "instances.html", "solvers.html", "compare.html?track=pipeline", "failures.html", "scores.html"),
    *("data/index.html", "records.html"),
    *("reproduce/index.html", "tracks/pipeline.html", "tracks/placement.html", "solvers/pipeline/brkga-100.html"),
    *("solvers/pipeline/exact.html", "instances/pipeline/regal-01-k2.html", "instances/intraop/diamond.html"),
    *("instances/pipeline/chain.html", "instances/placement/crossing.html", "instances/scheduling/dataflow-12.html"),
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
    """No message in the console, no request outside the folder, no link that leads nowhere."""
    anchors: dict[str, set[str]] = {}
    targets: list[tuple[str, str, str]] = []
    for path in sorted(site.rglob("*.html")):
        page = visitor.open(path.relative_to(site).as_posix())
        ids, links = page.evaluate(
            """[[...document.querySelectorAll("[id]")].map((element) => element.id),
                [...document.querySelectorAll("a")].map((a) => new URL(a.getAttribute("href"), location).href)]"""
        )
        anchors[str(path)] = set(ids)
        for link in links:
            parts = urlsplit(link)
            if parts.scheme == "file":
                targets.append((str(path), unquote(parts.path), unquote(parts.fragment)))
    assert len(anchors) > 60
    dead = [(source, target) for source, target, _ in targets if not Path(target).is_file()]
    lost = [(s, t, fragment) for s, t, fragment in targets if fragment and fragment not in anchors[t]]
    assert (dead, lost) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_phone(chromium: Browser, site: Path, scheme: str) -> None:
    """axe-core finds no violation; in the dark only colours differ. No page is wider than a phone."""
    with chromium.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme) as context:
        visitor, found, wide = Visitor(context.new_page(), site), [], []
        for path in KINDS if scheme == "light" else KINDS[::3]:
            page = visitor.open(path)
            if "compare" in path:
                page.wait_for_selector("#curves")
            found += visitor.axe(*(["color-contrast"] if scheme == "dark" else []))
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(path)
    assert found == []
    assert wide == []
    assert visitor.complaints == []


def test_tables_sort_by_a_click(visitor: Visitor) -> None:
    page = visitor.open("tracks/pipeline.html")
    heading = page.locator("[aria-labelledby='ranking'] th", has_text="Best").first
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    best = page.locator("[aria-labelledby='ranking'] tbody tr td:nth-child(9)").all_inner_texts()
    assert best == sorted(best, key=int, reverse=True)
    heading.get_by_role("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")


def test_an_index_is_searched_filtered_and_sorted_and_its_address_says_how(visitor: Visitor) -> None:
    page = visitor.open("instances.html")
    expect(page.get_by_role("status")).to_have_text("32 instances")
    page.get_by_label("Search").fill("REGAL k8")
    expect(page.get_by_role("status")).to_have_text("5 of 32 instances")
    page.get_by_label("Nodes from").fill("100")
    page.get_by_role("combobox", name="Status").select_option("open")
    page.get_by_role("button", name="Nodes").click()
    shown = column(page, "instance")
    assert shown == ["regal-04-k8", "regal-03-k8", "regal-02-k8", "regal-01-k8"]
    assert urlsplit(page.url).query == "q=REGAL+k8&nodes=100..&status=open&sort=-nodes"
    page.reload()
    assert column(page, "instance") == shown
    page.get_by_role("button", name="Clear all filters").click()
    assert len(column(page, "instance")) == 32
    assert urlsplit(page.url).query == "sort=-nodes"


def test_columns_are_chosen(visitor: Visitor) -> None:
    page = visitor.open("solvers.html?kind=bound+method")
    assert set(column(page, "kind")) == {"bound method"}
    expect(page.locator("th[data-column=failed]")).to_be_hidden()
    page.get_by_text("Columns").click()
    page.get_by_label("Failed").check()
    page.get_by_label("Rank", exact=True).uncheck()
    page.reload()
    expect(page.locator("th[data-column=failed]")).to_be_visible()
    expect(page.locator("th[data-column=rank]")).to_be_hidden()


def test_without_scripts_everything_is_there(chromium: Browser, site: Path) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        for path, rows in (("instances.html", 32), ("compare.html", 20)):
            page.goto(f"{site.as_uri()}/{path}")
            assert page.locator("tbody tr").count() >= rows
            assert page.locator("[hidden], input, select, button").count() == 0
        assert "moves" in page.locator("[aria-labelledby='pairs-2'] tbody").inner_text()


def test_two_solvers_are_compared(visitor: Visitor) -> None:
    page = visitor.open("compare.html?track=pipeline&a=random-100&b=brkga-100")
    expect(page.locator(".verdict")).to_have_text("random-100 scores higher on 0, brkga-100 on 10; 0 ties.")
    expect(page.locator(".sure")).to_contain_text("exact: p = 0.002")
    assert page.locator("svg circle.dot.second").count() == 20  # costs and times
    size = [abs(float(x.replace("−", "-"))) for x in page.locator(".differences td:nth-child(6)").all_inner_texts()]
    assert size == sorted(size, reverse=True)
    page.get_by_role("button", name="Curves of regal-03-k2").click()
    expect(page.locator("#curves")).to_have_text("Curves of regal-03-k2")
    assert page.locator("[aria-labelledby=curves] svg .series").count() == 4  # two sides of two seeds
    page.get_by_label("Costs as").select_option("cost")
    expect(page.locator("h2", has_text="Costs")).to_have_text("Costs")
    assert urlsplit(page.url).query == "track=pipeline&a=random-100&b=brkga-100&instance=regal-03-k2&axis=cost"
    page.get_by_label("Track").select_option("intraop")
    expect(page.locator(".verdict")).to_contain_text("cfn-penalty scores higher on")


def test_two_versions_and_two_campaigns_are_compared(visitor: Visitor) -> None:
    page = visitor.open("compare.html?track=pipeline&a=moves&b=moves&b-version=050505050505")
    expect(page.locator(".verdict")).to_contain_text("moves abababa scores higher on 9, moves 0505050 on 0; 0 ties.")
    assert page.locator("[aria-labelledby=curves] svg .series").count() == 2
    page = visitor.open("compare.html?track=pipeline&by=campaigns&a=3&b=2")
    expect(page.locator(".verdict")).to_contain_text("scores higher on 9")
    expect(page.locator(".differences")).to_contain_text("moves")


def test_a_solver_and_a_bound_method_are_not_compared(visitor: Visitor) -> None:
    page = visitor.open("compare.html?track=pipeline&a=moves&b=exact")
    expect(page.locator("#comparison")).to_contain_text("choose two of a kind")


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
    expect(page.locator(f"{row}.chosen th")).to_have_text("newcomer")  # the newest, until the reader chooses
    page.locator(row, has_text="brkga-100").last.get_by_role("button").click()
    expect(page.locator(f"{row}.chosen th")).to_have_text("brkga-100")
    assert urlsplit(page.url).query == "solver=brkga-100"
    assert page.locator("[aria-labelledby='profile'] .wide g.series.chosen path").count() >= 1
    page = visitor.open("instances/pipeline/regal-01-k2.html?solver=moves")
    assert set(page.locator("tr.chosen th").all_inner_texts()) == {"moves"}
    page.locator("svg g.series[data-solver=brkga-100]").first.dispatch_event("click")
    assert urlsplit(page.url).query == "solver=brkga-100"
    page.get_by_role("button", name="Highlight brkga-100", exact=True).first.click()
    assert urlsplit(page.url).query == "solver=none"
    assert page.locator(".chosen").count() == 0
