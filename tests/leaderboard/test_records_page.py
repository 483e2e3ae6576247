"""The page of records: what it says of each instance, its downloads, and what replaced what."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from shardmark.harness.records.best import BestKnown
from shardmark.harness.records.history import Improvement, Withdrawal
from shardmark.harness.results.ranking import Tables
from shardmark.instances import catalog
from shardmark.leaderboard.pages.site import Site
from shardmark.leaderboard.records_page import PAGE, difference, pages, solution_files
from tests.leaderboard.sites import of_class, sections, words

COST = Improvement(
    instance="contest-A",
    checksum="a" * 64,
    kind="cost",
    value="6548641532",
    solution="b" * 64,
    method="a-method",
    version="0123456789ab",
    seed=7,
    timeout_s=2.0,
    memory_mib=1024.0,
    cores=1,
    wall_s=1.23,
    machine="Example 3000, 4 CPUs, 8 GiB",
    date="2025-01-02",
    by="Ada <b>",
)
BOUND = replace(COST, kind="bound", value="6548553650", solution="", by="Ben")


def page_of(scored: Tables, *history: Improvement) -> tuple[ET.Element, dict[str, str]]:
    """The page of one record and an instance without one, and the other files."""
    site = Site(scored)
    site.records = [BestKnown(catalog.find("contest-A"), history), BestKnown(catalog.find("chain"), ())]
    files = dict(pages(site))
    return ET.fromstring(files.pop(PAGE).partition("\n")[2]), files


def cells(page: ET.Element, heading: str) -> list[list[str]]:
    (section,) = sections(page, heading)
    return [[words(cell) for cell in row] for body in section.iter("tbody") for row in body]


def test_an_improvement_is_shown_with_what_it_replaced(scored: Tables) -> None:
    better = replace(COST, value="6548553650", date="2025-03-04", method="another", by="Cy")
    page, files = page_of(scored, COST, BOUND, better)
    (row,) = cells(page, "every")
    values = [
        "contest-A",
        "intraop",
        "6,548,553,650",
        "6,548,553,650",
        "optimal",
        "optimal",
        "claimed",
        "6,548,641,531",
        "<0.01 % less",
    ]
    assert row == [*values, "another", "a-method"]
    (change,) = cells(page, "improvements")
    assert change == ["2025-03-04", "contest-A", "cost", "6,548,641,532", "6,548,553,650", "another", "Cy"]
    assert cells(page, "totals")[0] == ["intraop", "1", "1", "1", "0", "0", "1", "1", "0", "0"]
    assert "yet: chain." in words(page)
    assert files["records/records.solu"] == "=opt= contest-A 6548553650\n=unkn= chain\n"
    assert not of_class(page, "alarm")


def test_a_withdrawn_bound_is_shown_with_the_reason_and_replaces_nothing(scored: Tables) -> None:
    why = Withdrawal("contest-A", "withdrawn", BOUND.value, "a-method", "0123456789ab", "Not <so>.", "2025-05-06", "Di")
    lower = replace(BOUND, value="6548000000", method="another")
    page, _ = page_of(scored, COST, replace(BOUND, withdrawn=why), lower)
    (row,) = cells(page, "every")
    assert row[3:6] == ["6,548,000,000", "0.01 %", "open"]
    assert cells(page, "withdrawn") == [["2025-05-06", "contest-A", "6,548,553,650", "a-method", "0123456789ab"]]
    (section,) = sections(page, "withdrawn")
    assert "2025-05-06, a-method, by Di: Not <so>." in "".join(section.itertext())
    assert sections(page, "improvements") == []
    assert sections(page_of(scored, COST, BOUND)[0], "withdrawn") == []


def test_an_open_record_is_above_its_bound_and_markup_is_text(scored: Tables) -> None:
    page, _ = page_of(scored, COST, BOUND)
    (row,) = cells(page, "every")
    assert row[4:10] == ["<0.01 %", "open", "claimed", "6,548,641,531", "<0.01 % more", "a-method"]
    assert sections(page, "improvements") == []


def test_every_solution_that_the_page_links_is_a_file_of_the_site(scored: Tables) -> None:
    site = Site(scored)
    page = ET.fromstring(dict(pages(site))[PAGE].partition("\n")[2])
    linked = {link.get("href") for link in page.iter("a") if link.get("href", "").startswith("records/")}
    files = {path for path, _ in solution_files(site)} | {f"records/records.{end}" for end in ("csv", "json", "solu")}
    assert linked == files


@pytest.mark.parametrize(
    ("over", "words"), [(None, "–"), (0.0, "the same"), (-0.00154, "0.15 % less"), (0.5, "50 % more")]
)
def test_difference_from_the_published_cost(over, words):
    assert difference(over) == words
