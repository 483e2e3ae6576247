"""Scales, labels and marks of charts, and the colours that they are drawn in."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark import leaderboard
from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import Bar, Curve, Rule
from shardmark.leaderboard.charts.stacks import swatches

STYLE = (Path(leaderboard.__file__).parent / "static" / "style.css").read_text()
SCALES = [
    charts.linear(0.0, 1.0),
    charts.logarithmic(0.01, 300.0),
    charts.logarithmic(0.9, 1.3),
    charts.gaps(-1.0, 2000.0),
    charts.gaps(0.0, 0.01),
    charts.amounts(0.0, 1e12),
    charts.losses(0.0),
    charts.losses(0.9, 0.97),
    charts.losses(0.1, 0.33),
    charts.losses(1.0),
]


@pytest.mark.parametrize("scale", SCALES)
@given(data=st.data())
def test_scales_are_monotone_and_stay_inside(scale: charts.Scale, data: st.DataObject) -> None:
    wide = st.floats(scale.low * 2 - 1, scale.high * 2 + 1)
    low, high = sorted([data.draw(wide), data.draw(wide)])
    assert 0.0 <= scale(low) <= scale(high) <= 1.0


@pytest.mark.parametrize("scale", SCALES)
def test_ticks_are_inside_in_order_and_readable(scale: charts.Scale) -> None:
    values = [value for value, _ in scale.ticks]
    assert values == sorted(set(values))
    assert 1 <= len(values) <= 14
    assert all(scale.low <= value <= scale.high * 1.0001 for value in values)
    assert len({words for _, words in scale.ticks}) == len(values)


def test_an_axis_of_losses_far_from_the_best_has_ticks() -> None:
    assert [words for _, words in charts.losses(0.12, 0.33).ticks] == ["100 %", "90 %", "80 %", "70 %", "60 %"]


def test_a_scale_without_extent_draws_in_the_middle_of_nothing() -> None:
    assert charts.linear(3.0, 3.0)(3.0) == 0.0


def test_ticks_below_zero_have_a_true_minus_sign() -> None:
    assert [words for _, words in charts.linear(-4.0, 2.0).ticks] == ["−4", "−2", "0", "2"]


@pytest.mark.parametrize(
    "scale",
    [charts.gaps(0.0, math.inf), charts.logarithmic(5e-324, 1.7e308), charts.amounts(-1.7e308, 1.7e308)],
    ids=["gaps", "logarithmic", "amounts"],
)
def test_scales_reach_to_the_ends_of_float64(scale: charts.Scale) -> None:
    places = [scale(value) for value in (-math.inf, 0.0, 1.0, 1e300, math.inf)]
    assert places == sorted(places)
    assert all(0.0 <= place <= 1.0 for place in places)
    assert 1 <= len(scale.ticks) <= 700
    assert all(math.isfinite(value) for value, _ in scale.ticks)


def test_round_values() -> None:
    assert charts.round_values(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert charts.round_values(0.9, 1) == [0.9, 0.92, 0.94, 0.96, 0.98, 1.0]
    assert charts.round_values(0, 47) == [0, 10, 20, 30, 40]
    assert charts.round_values(0, 1e-13) == [0, 2e-14, 4e-14, 6e-14, 8e-14, 1e-13]
    assert charts.round_values(-1.7e308, 1.7e308) == [-1.7e308]
    assert charts.round_values(0, 1e300) == [0, 2e299, 4e299, 6e299, 8e299, 1e300]
    assert charts.round_values(0, 5e-324) == [0]


@given(st.lists(st.floats(0, 300), max_size=15))
def test_labels_are_spread(places: list[float]) -> None:
    moved = charts.spread(places, 15.0, 0.0, 300.0)
    order = sorted(range(len(places)), key=places.__getitem__)
    assert all(moved[b] - moved[a] >= 15.0 - 1e-6 for a, b in itertools.pairwise(order))
    assert all(y <= 300.0 + 1e-6 for y in moved)
    apart = all(b - a >= 15.0 for a, b in itertools.pairwise(sorted(places)))
    assert not apart or moved == places


def test_ranking_axis_comes_closer_when_nothing_is_far() -> None:
    assert [charts.lowest(values) for values in ([0.2, 0.9], [0.6], [0.97, 1.0], [], [0.996])] == [0, 0.5, 0.9, 0, 0.99]


def test_a_legend_shows_each_fill_next_to_its_words() -> None:
    legend = ET.fromstring(swatches([("s1", "work"), ("s2", "<memory>")]))
    assert ["".join(item.itertext()) for item in legend.iter("li")] == ["work", "<memory>"]
    for sample, style in zip(legend.iter("svg"), ("s1", "s2"), strict=True):
        left, top, width, height = map(float, sample.get("viewBox", "").split())
        [fill] = sample.iter("rect")
        x, y, across, down = (float(fill.get(name, "nan")) for name in ("x", "y", "width", "height"))
        assert fill.get("class") == style
        assert left <= x < x + across <= left + width
        assert top <= y < y + down <= top + height


def test_ranking_marks_lie_where_the_values_are() -> None:
    bars = [
        Bar("best", "a.html", 1.0, 0.5, "2.00", "best: score sum 2", "s1"),
        Bar("<b>&", "b.html", 0.25, None, "0.50", "worse", "s0"),
    ]
    svg = ET.fromstring(charts.ranking(bars, charts.WIDE, "score"))
    dots = [float(dot.get("cx", "")) for dot in svg.iter("circle")]
    [span] = [rect for rect in svg.iter("rect") if rect.get("class") == "span"]
    start = float(span.get("x", ""))
    assert start + float(span.get("width", "")) == pytest.approx(dots[0], abs=0.2)
    assert dots[0] - start == pytest.approx((dots[0] - dots[1]) * 0.5 / 0.75, abs=0.3)
    assert [link.get("href") for link in svg.iter("a")] == ["a.html", "b.html"]
    assert "<b>&" in [words.text for words in svg.iter("text")]


def test_curves_hold_each_value_until_the_next() -> None:
    line = Curve("a: 1 after 2 s", [(1.0, 0.0), (2.0, 0.5), (4.0, 1.0)], 10.0, "s1", "a")
    x, y = charts.linear(0.0, 10.0), charts.linear(0.0, 1.0)
    chart = charts.curves([line], x, y, (charts.WIDE, 300), ("time", "score"), rules=[Rule(0.5, "half", "a half")])
    svg = ET.fromstring(chart)
    [group] = [g for g in svg.iter("g") if g.get("class") == "series s1" and g.find("path[@d]") is not None][:1]
    path = group.find("path")
    assert path is not None
    parts = re.findall(r"([MHV])([\d.]+)(?: ([\d.]+))?", path.get("d", ""))
    assert [command for command, *_ in parts] == ["M", "H", "V", "H", "V", "H"]
    across = [float(value) for command, value, _ in parts if command in "MH"]
    steps = np.diff(across) / (across[-1] - across[0])
    assert steps == pytest.approx([1 / 9, 2 / 9, 6 / 9], abs=0.002)
    foot, middle, top = (float(value) for value in (parts[0][2], parts[2][1], parts[4][1]))
    assert foot - middle == pytest.approx(middle - top)
    assert foot > top  # SVG counts from above
    assert [title.text for title in svg.iter("title")] == ["a half", "a: 1 after 2 s", "a: 1 after 2 s"]


def test_labels_are_at_the_side_of_wide_charts_and_below_narrow_ones() -> None:
    line = Curve("t", [(1.0, 0.0)], 10.0, "s1", "the name")
    drawn = [
        charts.curves([line], charts.linear(0, 10), charts.linear(0, 1), (width, 300), ("x", "y"))
        for width in (charts.WIDE, charts.NARROW)
    ]
    assert ["the name" in chart for chart in drawn] == [True, False]
    assert "the name" in charts.legend([line])


def test_long_curves_are_thinned() -> None:
    points = [(float(i), float(-i)) for i in range(100_000)]
    kept = charts.thin(points)
    assert len(kept) <= charts.MAX_POINTS + 2
    assert (kept[0], kept[-1]) == (points[0], points[-1])


def palette(block: str) -> dict[str, str]:
    """Custom properties with a colour in a piece of the style sheet."""
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


LIGHT = palette(STYLE.split("@media")[0])
DARK = LIGHT | palette(STYLE.split("@media")[1])

#: Machado, Oliveira and Fernandes 2009, Table 1, severity 1.0: linear RGB as seen with each deficiency
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear_rgb(colour: str) -> np.ndarray:
    """Light of a #rrggbb colour, shape (3,), 0 to 1."""
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of the Web Content Accessibility Guidelines, 1 to 21."""
    low, high = sorted(float(linear_rgb(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(light: np.ndarray) -> np.ndarray:
    """Place of linear RGB in Ottosson's Oklab, in hundredths, shape (3,)."""
    cones = np.array([[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]])
    lab = np.array([[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]])
    return np.asarray(100 * (lab @ np.cbrt(cones @ np.clip(light, 0, 1))))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_solvers_have_colours_that_stay_apart(colours: dict[str, str], deficiency: str) -> None:
    seen = [
        oklab(np.array(DEFICIENCIES[deficiency]) @ linear_rgb(colours[f"s{i}"])) for i in range(1, charts.COLOURS + 1)
    ]
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) >= 12


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_everything_can_be_read(colours: dict[str, str]) -> None:
    paper = colours["paper"]
    assert all(contrast(colours[f"s{i}"], paper) >= 3 for i in range(1, charts.COLOURS + 1))
    assert all(contrast(colours[name], paper) >= 4.5 for name in ("ink", "soft", "link", "alarm"))
    assert contrast(colours["alarm"], colours["q0"]) >= 4.5
    assert contrast(colours["ink"], colours["alarm-paper"]) >= 4.5
    assert all(contrast(colours["ink"], colours[f"q{i}"]) >= 4.5 for i in range(1, 5))
    assert all(contrast(colours[f"q{i}-ink"], colours[f"q{i}"]) >= 4.5 for i in range(5, 8))


def test_marks_in_one_place_do_not_overlap() -> None:
    assert charts.dodged([10, 50, 12, 51, 11, 13]) == [(10, 0), (50, 0), (12, -8), (51, -8), (11, 8), (13, 0)]
