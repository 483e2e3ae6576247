"""The page of a layout, its pictures and what a notebook shows tell what the verifier and a simulation say."""

from __future__ import annotations

import random
import re

import pytest
from one_f_one_b import makespan, one_f_one_b

from shardmark.harness import verify
from shardmark.leaderboard.charts import NARROW, WIDE
from shardmark.leaderboard.drawings.timeline_svg import broken, drawing
from shardmark.plans.cluster.run import KINDS, SHARDS
from shardmark.plans.cluster.views import timeline as views
from shardmark.plans.cluster.views.page import page
from shardmark.plans.cluster.views.pictures import block_seconds, blocks, comparison, crossings, memory
from shardmark.plans.cluster.views.timeline import idle_shares, simulated, timeline

ENTERING = 2**24  # bytes that go from one block to the next
UNEQUAL = [(3, 1, 2, 1), (2, 0, 1, 2), (4, 4, 2, 1)]  # stages: blocks, recomputed ones, replicas, devices of each
SIXTY = [(3 if i < 6 else 2, int(i < 20), 20, 8) for i in range(60)]  # 126 layers on 9,600 devices


@pytest.fixture(scope="module")
def unequal(layout):
    return layout(UNEQUAL, batch=12)


@pytest.mark.parametrize("shard", SHARDS)
@pytest.mark.parametrize("train", ["adam", "sgd", "none"])
def test_memory_by_kind_sums_to_what_the_verifier_counts(layout, train, shard):
    found = layout([(3, 0 if train == "none" else 2, 4, 1), (2, 0, 2, 2)], batch=8, train=train, shard=shard)
    stages = verify.stages(found.instance, found.solution)
    for stage, held, row in zip(found.stages, stages.held, memory(found).rows, strict=True):
        assert stage.memory - stage.held["working"] == pytest.approx(sum(held.values()), rel=1e-12)
        own = sum(stage.held[kind] for kind in KINDS[: found.run.own])
        assert (own, stage.held["activations"]) == pytest.approx((held["fixed"], held["activations"]), rel=1e-12)
        assert (stage.held["working"] > 0) == bool(stage.recomputed or found.run.whole)
        assert row.load * 2**30 == pytest.approx(stage.memory, rel=1e-12)
        assert sum(row.times[0].values()) == pytest.approx(row.load, rel=1e-12)


def test_passes_take_the_time_of_a_microbatch(unequal):
    """Blocks take 10, 20, 30, 10, ... ms forward on one device, and a border of stages 2 x 16 MiB at 450 GB/s.

    Two devices pass half of it each, and gather the other half one way.
    """
    border = 2 * ENTERING / 450e9
    forward = [0.06, (0.01 + 0.02) / 2, 0.03 + 0.01 + 0.02 + 0.03]
    for stage, compute, again, ends in zip(unequal.stages, forward, [0.01, 0.0, 0.09], [1, 2 * 0.75, 1], strict=True):
        assert stage.forward_s == pytest.approx(compute + ends * border / 2)
        assert stage.backward_s == pytest.approx(2 * compute + ends * border / 2)
        assert stage.recomputation_s == pytest.approx(again)
    assert block_seconds(unequal)[:4] == pytest.approx([0.04, 0.06, 0.09, 0.015])


def test_a_stage_alone_takes_the_time_of_the_plan(layout):
    found = layout([(5, 2, 4, 2)], batch=32)
    run = simulated(found)
    assert run.end_s == pytest.approx(found.cost_s, rel=1e-12)
    assert idle_shares(found, run) == pytest.approx([0.0], abs=1e-12)
    assert "ends as the plan's formula says" in timeline(found, run).caption


@pytest.mark.parametrize("seed", range(20))
def test_the_step_that_is_drawn_is_that_of_the_oracle_and_close_to_the_formula(layout, seed):
    """The formula is an upper bound if forward passes have the same share everywhere, as docs/tracks/hybrid.md says."""
    rng = random.Random(seed)
    replicas = rng.choice([1, 2])
    stages = [(rng.randint(1, 3), 0, replicas, 1) for _ in range(rng.randint(1, 4))]
    found = layout(stages, batch=replicas * rng.randint(len(stages), 12), entering=2)
    run = simulated(found)
    passes = max(one.finish for one in run.passes)
    times = [(stage.forward_s, stage.microbatch_s - stage.forward_s) for stage in found.stages]
    count = found.run.microbatches // replicas
    assert passes == pytest.approx(makespan(*zip(*times, strict=True), count, one_f_one_b))
    assert run.end_s <= found.cost_s * (1 + 1e-6)
    microbatch = [stage.microbatch_s for stage in found.stages]
    slowest = microbatch.index(max(microbatch))
    saved = found.cost_s - passes - max(stage.sync_s for stage in found.stages)
    assert saved <= sum(microbatch[slowest + 1 :]) + 1e-6


def test_what_differs_from_the_formula_is_said(unequal):
    run, found = simulated(unequal), timeline(unequal, simulated(unequal))
    assert run.end_s != pytest.approx(unequal.cost_s, rel=1e-3)
    percent = 100 * abs(run.end_s / unequal.cost_s - 1)
    assert re.search(rf"This step ends {percent:.1f} % (before|after) the 2,405 ms of the plan", found.caption)
    assert len(found.marks) == 2


def test_every_pass_of_the_first_replicas_is_drawn(unequal):
    found = timeline(unequal, simulated(unequal))
    assert len(found.windows) == 1
    for lane, stage in zip(found.lanes, unequal.stages, strict=True):
        counts = {
            kind: sum(one.kind == kind for one in lane.passes) for kind in ("forward", "backward", "recomputation")
        }
        each = 12 // stage.replicas
        assert counts == {"forward": each, "backward": each, "recomputation": each if stage.recomputed else 0}
        spent = sum(one.finish - one.start for one in lane.passes if one.kind != "sync")
        assert spent == pytest.approx(1e3 * each * stage.microbatch_s)
        assert [one.kind for one in lane.passes].count("sync") == (stage.replicas > 1)


def test_the_steady_state_of_a_long_batch_is_left_out(layout):
    found = layout([(2, 1, 2, 1), (2, 0, 2, 1)], batch=1000)
    drawn = timeline(found, simulated(found))
    (begin, first), (last, end) = drawn.windows
    slowest = 1e3 * max(stage.microbatch_s for stage in found.stages)
    assert (begin, end) == (0.0, pytest.approx(1e3 * max(simulated(found).end_s, found.cost_s)))
    assert drawn.left_out.endswith("ms not drawn")
    assert 3 * slowest < first < 8 * slowest
    assert 3 * slowest < end - last < 8 * slowest
    numbers = [one.microbatch for one in drawn.lanes[0].passes if one.microbatch is not None]
    assert (min(numbers), max(numbers)) == (0, 998)
    assert not any(first < one.start and one.finish < last for one in drawn.lanes[0].passes)


def test_microbatches_beyond_those_simulated_take_the_time_of_the_slowest_stage(layout, monkeypatch):
    stages = [(2, 1, 2, 1), (1, 0, 1, 1), (2, 0, 2, 1)]
    found = layout(stages, batch=1000)
    exact = simulated(found)
    monkeypatch.setattr(views, "MOST_PASSES", 600)
    run = simulated(found)
    assert (exact.simulated, run.simulated) == (1000, 100)
    assert run.end_s == pytest.approx(exact.end_s)
    drawn = timeline(found, run)
    assert "100 microbatches are simulated" in drawn.caption
    assert max(one.microbatch for one in drawn.lanes[0].passes if one.microbatch is not None) == 998
    whole = timeline(found, exact)
    late = [[one for one in x.lanes[0].passes if one.start > x.windows[1][0]] for x in (drawn, whole)]
    assert [(one.kind, one.microbatch) for one in late[0]] == [(one.kind, one.microbatch) for one in late[1]]
    assert [one.start for one in late[0]] == pytest.approx([one.start for one in late[1]])


def test_serving_has_forward_passes_alone(layout):
    found = layout([(2, 0, 2, 1), (2, 0, 1, 2)], batch=40, train="none")
    run = simulated(found)
    drawn = timeline(found, run)
    assert {one.kind for lane in drawn.lanes for one in lane.passes} == {"forward"}
    fill = sum(stage.microbatch_s for stage in found.stages)
    assert run.end_s == pytest.approx(fill + 39 * found.cost_s, rel=0.05)
    assert "The first microbatch leaves after" in drawn.caption
    assert not re.search("backward|gradient|kept|again", page(found).partition("<body>")[2])


def test_blocks_are_as_wide_as_they_take_long(unequal):
    found = blocks(unequal)
    parts = verify.parts(unequal.instance, unequal.solution)
    assert [row.load for row in found.rows] == pytest.approx([1e3 * load for load in parts.loads])
    for row, stage in zip(found.rows, unequal.stages, strict=True):
        assert [name for name, *_ in row.work] == list(stage.blocks)
        assert sum(time for _, time, _ in row.work) == pytest.approx(row.times[0]["work"])
        assert [name for name, _, style in row.work if "again" in style] == list(stage.recomputed)
    assert crossings(unequal) == {(0, 1): ENTERING, (1, 2): ENTERING}
    assert [(arc.source, arc.target, arc.amount) for arc in found.tensors] == [(0, 1, ENTERING), (1, 2, ENTERING)]


def test_customary_layouts_are_compared_with_this_one(unequal):
    found = comparison(unequal)
    assert [row.length for row in found.rows] == pytest.approx([1e3 * unequal.cost_s, 1.5e3 * unequal.cost_s, 0.0])
    assert found.rows[1].shown.endswith("ms, 1.50 times as long")
    assert found.rows[2].shown == "does not fit, 954 MiB per device too few"


def test_the_page_needs_no_other_file_and_tells_every_figure(unequal):
    found = page(unequal)
    assert not re.search(r'(href|src)="[^#]|url\(|<script', found)
    headings = re.findall(r"<h\d[^>]*>([^<]+)", found)
    assert len(headings) == len(set(headings)) == 13
    for stage in unequal.stages:
        assert f"{1e3 * stage.forward_s:.3f}" in found
        assert f"{stage.memory / 2**30:.2f}" in found
    assert unequal.gap_text in found
    pictures = re.findall("<svg[^>]*>", found)
    assert all("aria-label=" in picture or "aria-hidden=" in picture for picture in pictures)
    assert sum("aria-label=" in picture for picture in pictures) == 8, "four pictures, for wide and narrow screens"


def test_sixty_stages_are_drawn_in_a_small_file(layout):
    found = layout(SIXTY, batch=2400, machines=1250)
    assert (len(found.blocks), found.used) == (126, 9600)
    text = page(found)
    assert len(text) < 700_000
    assert all(f"stage {i}, 20 × 8" in text for i in range(60))


def test_a_notebook_shows_the_table_and_the_timeline(unequal):
    found = unequal._repr_html_()
    assert unequal.gap_text in found
    assert found.count("<tr>") >= len(unequal.stages) + 8
    for width in (WIDE, NARROW):
        assert drawing(timeline(unequal, simulated(unequal)), width) in found
    assert "layers.0 ... layers.2" in found


def test_a_broken_scale_is_linear_in_its_windows():
    scale = broken([(0.0, 10.0), (90.0, 100.0)], 0.2)
    assert [scale(x) for x in (0, 5, 10, 50, 90, 95, 100)] == pytest.approx([0, 0.2, 0.4, 0.5, 0.6, 0.8, 1])
    assert {value for value, _ in scale.ticks} <= {*range(11), *range(90, 101)}
    assert {0.0, 10.0, 90.0, 100.0} <= {value for value, _ in scale.ticks}


def test_a_sample_passes_all_stages_in_the_time_of_the_plan(layout):
    found = layout([(3, 0, 1, 2), (2, 0, 1, 4)], batch=1, train="none", serving="latency")
    run = simulated(found)
    assert run.end_s == pytest.approx(found.cost_s, rel=1e-12)
    drawn = timeline(found, run)
    assert drawn.title == "The way through all stages"
    assert drawn.caption.endswith(f"The result is there after {1e3 * found.cost_s:.4g} ms.")
    assert "The rows add up to the time per sample." in blocks(found).caption
    assert sum(row.load for row in blocks(found).rows) == pytest.approx(1e3 * found.cost_s)
    assert "microbatch" not in comparison(found).title
