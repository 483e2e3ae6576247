"""A small site with everything that scripts act on, and one tab of Chromium to look at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from effort import Deferred

from shardmark.cli.arguments import main
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.database import Store
from shardmark.harness.results.records import Incumbent, Record
from shardmark.harness.verify import verify
from shardmark.instances import catalog
from tests.leaderboard.conftest import fill
from tests.leaderboard.later import add_later

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

playwright = Deferred("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
AXE = Path(str(distribution("axe-playwright-python").locate_file("axe_playwright_python/axe.min.js")))
#: Leaves the first of the rows, items and marks of a parent that differ in nothing but words and numbers.
THIN_OUT = """
  const look = (part) => `${part.tagName} ${part.getAttribute("class")} ${part.getAttribute("role")}`;
  for (const part of document.querySelectorAll(".wide, .narrow")) if (!part.checkVisibility()) part.remove();
  for (const parent of document.querySelectorAll("tbody, ul, svg, svg g, select")) {
    const seen = new Set();
    for (const part of [...parent.children]) {
      const looks = [part, ...part.querySelectorAll("*")].map(look).join();
      if (seen.has(looks) || part.hidden) part.remove();
      seen.add(looks);
    }
  }
"""
DESKTOP = {"width": 1440, "height": 900}
#: Solutions of embedded instances, at least one per track, so that the site has drawings of each kind.
SOLVED = {
    "diamond": [0, 0, 2, 0],
    "chain": [0, 0, 0, 1, 1],
    "crossing": [0, 0, 1, 1],
    "sandwich-latency": {"device": [2, 0, 0, 1], "slot": [0, 0, 0, 1]},
    "dataflow-12": {
        "device": [1, 1, 2, 1, 1, 1, 2, 1, 2, 2, 2, 1],
        "order": [[], [0, 1, 3, 4, 5, 7, 11], [2, 6, 8, 10, 9]],
    },
}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the site: made-up runs of two campaigns and versions, and a real solution of each kind."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium, Debian's package chromium")
    results, folder = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("site")
    with closing(Store.open(results, create=True)) as store:
        fill(store)
        add_later(store)
        for name, solution in SOLVED.items():
            add_solution(store, name, solution)
    assert main(["leaderboard", "--results", str(results), "--output", str(folder), "--json"]) == 0
    return folder


def add_solution(store: Store, name: str, solution: Any) -> None:
    """Store a run that found a solution of an embedded instance."""
    entry = catalog.find(name)
    path = catalog.at_hand(entry)
    assert path is not None
    problem = Problem.of(entry, path)
    verdict = verify(problem.instance, solution)
    assert verdict.feasible
    assert verdict.cost is not None
    store.add_instance(problem.checksum, problem.id, entry.track, problem.summary, problem.published)
    store.add_solver("5" * 64, entry.track, "by-hand", "solver", "", "Writes solutions down.", {})
    store.add_run(
        2,  # the campaign of the made-up runs
        Record(
            id=f"{name} by-hand",
            track=entry.track,
            instance=name,
            checksum=problem.checksum,
            solver="by-hand",
            kind="solver",
            solver_hash="5" * 64,
            seed=0,
            timeout_s=2.0,
            memory_mib=1024.0,
            cores=1,
            started="2025-11-21T06:00:00.000+00:00",
            stop="exit",
            status="ok",
            reason="",
            cost=verdict.cost,
            lower_bound=None,
            wall_s=0.5,
            cpu_s=0.5,
            peak_mib=40.0,
            solution=solution,
            incumbents=[Incumbent(0.25, True, verdict.cost)],
        ),
    )


@dataclass
class Visitor:
    """A browser tab on the site that notes what must not happen: messages in the console and requests outside."""

    page: Page
    site: Path
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.complaints.append(f"{self.page.url}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"{self.page.url}: {error}"))
        self.page.on("requestfailed", self._note_failure)
        self.page.on("request", self._note_request)

    def _note_failure(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # an icon that the next page overtook
            self.complaints.append(f"failed: {request.url} {request.failure}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith(self.site.as_uri()):
            self.complaints.append(f"outside: {request.url}")

    def open(self, path: str) -> Page:
        """Show a page of the site, with its query."""
        self.page.goto(f"{self.site.as_uri()}/{path}")
        return self.page

    def axe(self, part: str, *rules: str) -> list[str]:
        """Return the violations of axe-core in a part of the page that is shown; of some rules only if named.

        The page is thinned out first: axe-core takes long for what is hidden, and for rows that are all alike.
        """
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
            self.page.evaluate(THIN_OUT)
        options: dict[str, Any] = {
            "resultTypes": ["violations"],
            "preload": False,  # it would fetch style sheets
            "selectors": False,  # they take a quarter of the time
        }
        if rules:
            options["runOnly"] = list(rules)
        found = self.page.evaluate(
            "([part, options]) => axe.run(document.querySelector(part), options)", [part, options]
        )
        return [
            f"{self.page.url}: {rule['id']}: {node['html']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"][:3]
        ]


@pytest.fixture(scope="module")  # it must be gone before tests that look for children of their process
def chromium(site: Path) -> Iterator[Browser]:
    """One headless Chromium; it has no sandbox, as tests may run as root and it shows our own pages only."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(chromium: Browser, site: Path) -> Iterator[Visitor]:
    """The only tab: pages keep nothing but their addresses, so tests can share it."""
    with chromium.new_context(viewport=DESKTOP, accept_downloads=True) as context:
        yield Visitor(context.new_page(), site)


@pytest.fixture
def visitor(tab: Visitor) -> Iterator[Visitor]:
    """The tab, on a screen in light colours; the test fails if anything was complained about."""
    tab.complaints.clear()
    yield tab
    tab.page.set_viewport_size(DESKTOP)
    tab.page.emulate_media(color_scheme="light")
    assert tab.complaints == []
