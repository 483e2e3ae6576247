"""A small site with everything that scripts act on, and one Chromium to look at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from harness.results.database import Store
from shardmark.cli.arguments import main
from tests.leaderboard.conftest import fill
from tests.leaderboard.later import add_later

CHROMIUM = shutil.which("chromium")
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
#: Real runs, one instance per track, so that the site has drawings of solutions.
REAL = {"diamond": "greedy", "chain": "mla", "crossing": "equal-parts", "dataflow-12": "heft-fifo"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the site: made-up runs of two campaigns and versions, and a real run per track."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium, Debian's package chromium")
    results, folder = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("site")
    with closing(Store.open(results, create=True)) as store:
        fill(store)
        add_later(store)
    for instance, solver in REAL.items():
        arguments = [
            "--instance",
            instance,
            "--solver",
            solver,
            "--seeds",
            "1",
            "--timeout",
            "100",
            "--results",
            str(results),
        ]
        assert main(["run", *arguments, "--json"]) == 0
    assert main(["leaderboard", "--results", str(results), "--output", str(folder), "--json"]) == 0
    return folder


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

    def axe(self, *rules: str) -> list[str]:
        """Return the violations of axe-core on the page that is shown; of some rules only if they are named."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}  # it would fetch style sheets
        if rules:
            options["runOnly"] = list(rules)
        found = self.page.evaluate("(options) => axe.run(document, options)", options)
        return [
            f"{self.page.url}: {rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"][:3]
        ]


@pytest.fixture(scope="module")
def chromium(site: Path) -> Iterator[Browser]:
    """One headless Chromium; it has no sandbox, as tests may run as root and it shows our own pages only."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visitor(chromium: Browser, site: Path) -> Iterator[Visitor]:
    """A fresh tab; the test fails if anything was complained about."""
    with chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True) as context:
        visitor = Visitor(context.new_page(), site)
        yield visitor
    assert visitor.complaints == []
