"""Drawings of schedules: every vertex has its place in its device's row, and what is critical can be told."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from shardmark.leaderboard.drawings.schedule_svg import (
    MANY_HOPS,
    MAX_NAMED,
    MAX_ROWS,
    draw,
    rows,
    rows_to_draw,
    together,
)
from shardmark.leaderboard.report import Device, Link, Schedule

HOSTILE = "<script>alert('x')</script> & \"quoted\""
SMALL = Schedule(
    nodes=["a", "b", HOSTILE, "d"],
    device=[0, 0, 1, 1],
    start=[0.0, 4.0, 5.0, 0.0],
    finish=[4.0, 6.0, 10.0, 1.0],
    devices=[
        Device("fast", "busy 60 % of the time", speed="speed 2"),
        Device("slow", "busy 60 % of the time", speed="speed 1"),
    ],
    chain=[Link(0, "start"), Link(2, "transfer")],
    bound=8.0,
)


def pictures(schedule: Schedule) -> list[ET.Element]:
    """The drawings for wide and for narrow screens."""
    page = ET.fromstring(f"<div>{draw(schedule)}</div>")
    return [page.findall(f"./div[@class='{width}']/svg")[0] for width in ("wide", "narrow")]


def of_class(picture: ET.Element, name: str) -> list[ET.Element]:
    return [x for x in picture.iter() if name in (x.get("class") or "").split()]


def bars(path: ET.Element) -> list[list[float]]:
    """Left, middle and width of each bar of a path."""
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", path.get("d", ""))
    return [list(map(float, bar)) for bar in found]


def large(vertices: int, devices: int, seed: int = 0) -> Schedule:
    """Vertices one after another on random devices, all on the chain of every third one."""
    draw_ = random.Random(seed)
    device = [draw_.randrange(devices) for _ in range(vertices)]
    free, start, finish = [0.0] * devices, [0.0] * vertices, [0.0] * vertices
    for v, d in enumerate(device):
        start[v] = free[d] + draw_.random()
        finish[v] = free[d] = start[v] + draw_.random() * 2
    chain = [Link(v, "transfer") for v in range(0, vertices, 3)]
    used = [Device(f"device-{d}", "speed 1, busy 50 % of the time") for d in range(devices)]
    return Schedule([f"layer/{v}" for v in range(vertices)], device, start, finish, used, chain, 1.0)


def test_bars_are_where_and_as_long_as_vertices_run() -> None:
    for picture in pictures(SMALL):
        ((a_left, a_top, a_wide),), ((c_left, c_top, c_wide),) = map(bars, of_class(picture, "critical"))
        others = [bar for path in of_class(picture, "run") for bar in bars(path)]
        ((b_left, b_top, b_wide), (d_left, d_top, d_wide)) = others
        assert a_top == b_top < c_top == d_top
        assert (a_left, b_left, c_left) == (
            d_left,
            pytest.approx(a_left + 0.8 * (c_left - a_left), abs=0.2),
            pytest.approx(a_left + c_wide + 0.7, abs=0.2),
        )
        assert [a_wide + 0.7, b_wide + 0.7] == pytest.approx([0.8 * (c_wide + 0.7), 0.4 * (c_wide + 0.7)], abs=0.2)
        assert d_wide + 0.7 == pytest.approx((c_wide + 0.7) / 5, abs=0.2)
        [limit] = of_class(picture, "limit")
        assert float(limit.get("x1", 0)) == pytest.approx(a_left + 1.6 * (c_left - a_left), abs=0.2)
        [hop] = of_class(picture, "hop")
        start, end = (tuple(map(float, place.split())) for place in (hop.get("d") or "M")[1:].split("L"))
        assert start[0] == pytest.approx(b_left, abs=0.2)
        assert end[0] == pytest.approx(c_left, abs=0.2)
        assert start[1] < end[1]
        assert picture.get("aria-label") == "4 vertices on 2 devices, makespan 10, lower bound 8"


def test_words_tell_what_runs_when_and_what_it_waited_for() -> None:
    wide, narrow = pictures(SMALL)
    told = [title.text for title in wide.iter("title")]
    assert told == [
        "fast: 2 vertices, speed 2, busy 60 % of the time",
        "b: 4 to 6 on fast (speed 2)",
        "a: 0 to 4 on fast (speed 2), waited for nothing",
        "slow: 2 vertices, speed 1, busy 60 % of the time",
        "d: 0 to 1 on slow (speed 1)",
        f"{HOSTILE}: 5 to 10 on slow (speed 1), waited for a transfer",
    ]
    assert [x.text for x in of_class(wide, "name")] == ["fast, speed 2", "slow, speed 1"]
    assert [x.text for x in of_class(narrow, "name")] == ["fast", "slow"]
    assert {"makespan 10", "lower bound 8", "time, in the unit of the instance"} <= {x.text for x in wide.iter("text")}


@pytest.mark.parametrize(("bound", "anchor"), [(8.0, "end"), (0.5, "start")])
def test_the_words_of_a_line_stand_before_it_where_there_is_room(bound: float, anchor: str) -> None:
    for picture in pictures(replace(SMALL, bound=bound)):
        [label] = [x for x in picture.iter("text") if (x.text or "").startswith("lower bound")]
        assert label.get("text-anchor") == anchor


def legend(schedule: Schedule) -> list[str]:
    page = ET.fromstring(f"<div>{draw(schedule)}</div>")
    return ["".join(item.itertext()) for item in page.findall("ul/li")]


def test_the_legend_has_the_marks_that_there_are() -> None:
    every = [
        "a vertex runs",
        "a vertex of the critical chain runs",
        "a transfer on the critical chain",
        "lower bound: no schedule ends before it",
    ]
    assert legend(SMALL) == every
    assert legend(replace(SMALL, bound=None, chain=[Link(0, "start"), Link(1, "device")])) == every[:2]
    assert legend(replace(SMALL, chain=[Link(v, "device") for v in range(4)])) == [every[1], every[3]]
    nothing = draw(Schedule([], [], [], [], [], []))
    assert "<ul" not in nothing  # without anything in it, it would hold the rest of the page


def spans(found: Sequence[tuple[float, float]], pixel: float) -> list[tuple[int, ...]]:
    start, finish = zip(*found, strict=True)
    schedule = replace(SMALL, nodes=["v"] * len(found), start=start, finish=finish)
    return [span.vertices for span in together(schedule, range(len(found)), pixel)]


def test_only_what_is_narrow_and_near_is_drawn_together() -> None:
    row = [(0.0, 0.2), (0.2, 0.4), (0.9, 1.0), (2.5, 2.6), (2.6, 5.0), (5.0, 5.1), (5.1, 5.2)]
    assert spans(row, 1.0) == [(0, 1, 2), (3,), (4,), (5, 6)]
    assert spans(row, 0.01) == [(v,) for v in range(7)]


def test_every_vertex_of_a_large_schedule_is_drawn_once_in_a_page_that_stays_small() -> None:
    schedule = large(5271, 50)
    drawing = draw(schedule)
    assert len(drawing) < 300_000
    for row in rows(schedule):
        drawn = Counter(v for span in together(schedule, row.vertices, 0.3) for v in span.vertices)
        assert drawn == Counter(row.vertices)
    wide, narrow = pictures(schedule)
    assert len(of_class(wide, "run")) == len(of_class(narrow, "run")) == 50  # a path a device, as there are too many
    assert sum(len(bars(path)) for path in of_class(wide, "run")) > MAX_NAMED
    assert {x.get("class") for x in of_class(wide, "hop")} == {"hop many"}
    assert MANY_HOPS < 5271 / 3


def test_of_many_devices_the_most_telling_are_drawn_and_the_others_counted() -> None:
    schedule = replace(large(3000, 500), chain=[Link(7, "start")])
    every = rows(schedule)
    shown = rows_to_draw(schedule, every)
    assert [row.device for row in shown] == sorted(row.device for row in shown)
    assert len(shown) == MAX_ROWS
    assert schedule.device[7] in {row.device for row in shown}
    left = [row for row in every if row not in shown]
    assert min(row.busy for row in shown if row.device != schedule.device[7]) >= max(row.busy for row in left)
    assert "Not drawn: 440 more devices; devices of the critical chain come first" in draw(schedule)
    assert "Not drawn" not in draw(SMALL)


def test_the_axis_can_be_longer_than_the_schedule() -> None:
    short, long = pictures(SMALL)[0], pictures(replace(SMALL, until=20.0))[0]
    widths = [bars(of_class(picture, "critical")[1])[0][2] + 0.7 for picture in (short, long)]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)


def test_what_runs_nothing_and_takes_no_time_is_drawn() -> None:
    nothing = Schedule([], [], [], [], [], [])
    assert pictures(nothing)[0].get("aria-label") == "0 vertices on 0 devices, makespan 0"
    instant = replace(SMALL, start=[0.0] * 4, finish=[0.0] * 4, bound=0.0)
    assert len(of_class(pictures(instant)[0], "critical")) == 2
