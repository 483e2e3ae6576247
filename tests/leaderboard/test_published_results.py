"""Published results on the pages: rows of another kind, outside every ranking, with contradictions in plain words."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from shardmark.harness.results.ranking import tables
from shardmark.harness.results.records import Bound, Incumbent
from shardmark.leaderboard.build import build
from shardmark.leaderboard.text import page_of, times
from tests.leaderboard.conftest import filled
from tests.leaderboard.sites import sections, tree, words

Pages = Callable[[int, int], tuple[ET.Element, ET.Element]]


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    """The pages of contest-G and of the track after one run of a solver with this cost and this bound."""

    def make(cost: int, bound: int) -> tuple[ET.Element, ET.Element]:
        facts = {"best_cost": "217039", "lower_bound": "217039"}
        with filled(tmp_path, "intraop") as filler:
            filler.declare("ours", "solver")
            filler.store.add_instance("intraop-contest-G", "contest-G", "intraop", {"nodes": 816}, facts)
            found = [Incumbent(0.5, True, cost)]
            filler.add("ours", "solver", 0, "contest-G", "ok", "", cost, found, [Bound(0.6, bound)])
            site = build(tables(filler.store), tmp_path / "site").parent
        paths = page_of("instances", "intraop", "contest-G"), page_of("tracks", "intraop")
        instance, track = (tree(site / path) for path in paths)
        return instance, track

    return make


def table(page: ET.Element, heading: str) -> dict[str, list[str]]:
    """Rows of the first table that stands below a heading, by their first cell."""
    [section] = sections(page, heading)
    body = next(section.iter("tbody"))
    return {words(row[0]): [words(cell) for cell in row[1:]] for row in body}


def test_published_rows_are_no_rows_of_solvers(pages: Pages) -> None:
    instance, track = pages(271299, 200000)
    rows = table(instance, "published")
    assert len(rows) == 11
    assert rows["1st place"][:4] == ["217,039", "0.800", "1.085", "better"]
    assert rows["3rd place"][:4] == ["362,368", "1.336", "1.812", "worse"]
    assert rows["lower bound"][3] == "better"
    assert list(table(instance, "results")) == ["ours"]
    assert [row[0] for row in table(track, "ranking").values()] == ["ours"]
    assert table(track, "published")["XLA"][:4] == ["1 / 1", "4.662", "0", "0"]


def test_the_chart_has_a_mark_for_each_of_them_and_for_ours(pages: Pages) -> None:
    _, track = pages(271299, 200000)
    [chart] = [x for x in track.iter("div") if x.get("class") == "wide" and "above the best lower bound" in words(x)]
    marks = [x.get("class", "").split() for x in chart.iter("g") if "mark" in x.get("class", "").split()]
    kinds = [next(kind for kind in ("dot", "ring", "target", "cross") if kind in mark) for mark in marks]
    assert sorted(kinds) == ["cross", "dot", *["ring"] * 5, "target"]
    places = {
        (group.findtext("title") or "").split(" on ")[0]: float(circle.get("cx", ""))
        for group in chart.iter("g")
        if group.get("class") and (circle := group.find("circle")) is not None
    }
    assert places["1st place"] < places["ours"] < places["3rd place"] < places["5th place"] < places["4th place"]


@pytest.mark.parametrize(
    ("cost", "bound", "whose", "sentence"),
    [
        (300000, 217040, "1st place", "below a bound proved here"),
        (217038, 9, "lower bound", "above a cost verified here"),
    ],
)
def test_contradictions_are_told_in_words(pages: Pages, cost: int, bound: int, whose: str, sentence: str) -> None:
    instance, track = pages(cost, bound)
    assert table(instance, "published")[whose][3] == sentence
    assert [x for x in track.iter("td") if "lie" in x.get("class", "").split()]
    for page in (instance, track):
        [alarm] = [x for x in page.iter("section") if x.get("class") == "alarm"]
        assert "Published values were not verified here" in words(alarm)


def test_ratios_show_what_tells_them_from_one() -> None:
    shown = [times(x) for x in (None, 1.0, 1.00002, 0.99996, 1.3362, 12.345, 256.9, 12345.6)]
    assert shown == ["–", "1.000", "1.00002", "0.99996", "1.336", "12.35", "256.9", "12,346"]
