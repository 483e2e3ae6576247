"""Splits of today are what they say, cost what the referee says, and are compared with ours as quotients."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances.models.onnx_file import read_onnx
from shardmark.leaderboard.reproductions import Run
from shardmark.leaderboard.reproductions.pipeline import models
from shardmark.leaderboard.reproductions.pipeline.models import balanced, splits_of_today

NAMES = [path.stem.removeprefix("light_") for path in models.light_models()]
SETTINGS = replace(models.DEFAULTS, stages=(2,))
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7), st.integers(1, 4))
def test_balanced_parts_have_the_least_largest_weight(weights, parts):
    found = balanced(weights, parts)
    assert found == sorted(found)
    assert found[0] == 0
    assert max(found) < parts
    heaviest = max(sum(w for w, part in zip(weights, found, strict=True) if part == p) for p in range(parts))
    cuts = (
        [0, *between, len(weights)]
        for count in range(min(parts, len(weights)))
        for between in combinations(range(1, len(weights)), count)
    )
    assert heaviest == min(max(sum(weights[a:b]) for a, b in pairwise(at)) for at in cuts)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_has_splits_of_today(name):
    model = read_onnx(LIGHT / f"light_{name}.onnx")
    for stages in (2, 4, 8):
        found = splits_of_today(model, name, stages)
        assert list(found) == ["equal operators", "equal parameters", "equal FLOPs", "ssp4onnx"]
        for way, split in found.items():
            assert len(split) == len(model.operators), way
            assert set(split) <= set(range(stages))
        assert set(found["ssp4onnx"]) == set(range(stages))


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return models.plan(SETTINGS, tmp_path_factory.mktemp("graphs"))


def outcomes(cells, share):
    """Runs that find this share of the least bottleneck of today, and prove four fifths of it."""
    nothing = Run(cells[0], "ok", "", 1.0, None, None, None, None, False)
    for cell in cells:
        cost = share * min(us for _, us in cell.about.today)
        found = {"cost": cost} if cell.kind == "solver" else {"bound": 0.8 * cost}
        yield replace(nothing, cell=cell, **found)


@pytest.mark.gate
def test_speed_ups_are_quotients(cells):
    assert len(cells) == 9 * 2 * 2
    report = models.report(SETTINGS, [*outcomes(cells, 0.5)])
    assert not report.notes
    h100, t4 = report.sections
    assert h100.words == ["Our splits are at most 25.00 % from the best there is."]
    means, rows = t4.tables
    best = means.rows[-1]
    assert best["against"] == "the best of them"
    assert [best[key] for key in ("k=2", "all", "least", "greatest")] == pytest.approx([2, 2, 2, 2])
    assert len(rows.rows) == 9
    assert all(
        min(value for key, value in row.items() if key[:5] in ("equal", "ssp4o")) == pytest.approx(2)
        for row in rows.rows
    )


@pytest.mark.gate
def test_a_split_of_today_that_is_better_is_named(cells):
    report = models.report(SETTINGS, [*outcomes(cells, 1.25)])
    assert len(report.notes) >= 18
    assert report.notes[0].startswith("Worse than ")
    nothing = Run(cells[0], "ok", "", 1.0, None, None, None, None, False)
    empty = models.report(SETTINGS, [replace(nothing, cell=cell) for cell in cells])
    assert not empty.sections
    assert len(empty.notes) == 18
