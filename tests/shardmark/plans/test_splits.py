"""A user's own split: judged as it is, and compared with the best one found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import pytest
from referee import answer, refusal, shardmark

import shardmark as sm
from shardmark.harness.verify import verify
from shardmark.plans.splits import stages_of

SQUEEZENET = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
STAGES = 3


@pytest.fixture(scope="module")
def best():
    return sm.plan(SQUEEZENET, devices=STAGES, timeout=20)


@pytest.fixture(scope="module")
def equal(best):
    """Equal numbers of operators."""
    names = list(best.assignment)
    return {name: place * STAGES // len(names) for place, name in enumerate(names)}


def test_a_split_is_judged_as_it_is(best, equal, tmp_path):
    file = tmp_path / "equal.json"
    file.write_text(json.dumps({"a name that is no operator": 7, **equal}))
    told = []
    found = sm.plan(SQUEEZENET, devices=STAGES, split=file, timeout=20, progress=told.append)
    assert found.assignment == equal
    assert found.cost == verify(found.instance, found.solution).cost > best.cost * 1.01
    assert best.lower_bound * 0.98 < found.lower_bound <= best.cost
    assert found.cost > found.better >= found.lower_bound
    assert found.gap_text.startswith("at most ")
    assert f"better split: {found.better:,.6g} µs, found if no split is given" in str(found).splitlines()
    assert f"{file}: ignored 1 name that no operator of the model has, such as 'a name that is no operator'" in told
    assert f"the split as given: {found.cost:,.6g} µs" in told
    assert found.save(tmp_path / "plan").exists()


def test_the_best_split_has_no_better_one(best):
    assert best.gap == 0
    found = sm.plan(SQUEEZENET, devices=STAGES, split=best.assignment, timeout=20)
    assert found.cost == best.cost
    assert found.assignment == best.assignment
    assert found.better is None


def test_stages_may_have_any_order_and_gaps(best):
    """They are numbered anew, in the order of the data's flow."""
    other = {name: 40 - 10 * stage for name, stage in best.assignment.items()}
    found = sm.plan(SQUEEZENET, devices=41, split=other, timeout=5)
    assert found.assignment == best.assignment
    assert found.cost == best.cost
    assert found.layout.idle == 41 - STAGES


def test_the_command_judges_a_split(equal, tmp_path):
    file = tmp_path / "equal.json"
    file.write_text(json.dumps(equal))
    found = answer("plan", SQUEEZENET, "--devices", STAGES, "--split", file, "--timeout", 10)
    assert found["cost_us"] > found["better_us"] >= found["lower_bound_us"]
    assert found["gap"] > 0.01


def test_a_whole_plan_is_a_split(best, tmp_path):
    best.save(tmp_path)
    _, given = stages_of(tmp_path / "plan.json", best.model, STAGES, print)
    assert given == list(best.assignment.values())
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    cases = {
        "format: expected 'shardmark/plan/1', or an object with nothing but": {"format": "shardmark/stages/1"},
        "track: expected a plan over equal devices, 'pipeline', found 'placement'": {"track": "placement"},
        "expected an object with the stage of every operator, such as": {"assignment": [0, 1]},
    }
    for words, edited in cases.items():
        told = refusal(stages_of, plan | edited, best.model, STAGES, print)
        assert told.startswith("split: ")
        assert words in told


def test_bad_splits_are_refused_in_a_sentence(equal, tmp_path):
    first, *_, last = equal
    cases = {
        "expected an object with the stage of every operator, such as": [0, 1],
        f"expected a stage for every operator, found none for 1 of {len(equal)}, such as {last!r}": {
            name: stage for name, stage in equal.items() if name != last
        },
        f", did you mean '{last}x'?": {name + "x" * (name == last): stage for name, stage in equal.items()},
        f"{first!r}: expected a stage from 0 to 2, found 3": equal | {first: STAGES},
        f"{first!r}: expected a stage from 0 to 2, found true": equal | {first: True},
        f"{first!r}: expected a stage from 0 to 2, found '1'": equal | {first: "1"},
        f"{first!r}: expected a stage from 0 to 2, found an integer of 1329 bits": equal | {first: 10**400},
        ": expected no cycle among the stages, found 0 -> 1 -> 2 -> 0 through the edges ": equal | {first: STAGES - 1},
        f", {first!r} -> ": equal | {first: STAGES - 1},
    }
    file = tmp_path / "mine.json"
    for words, split in cases.items():
        file.write_text(json.dumps(split))
        told = refusal(sm.plan, SQUEEZENET, devices=STAGES, split=file, timeout=5)
        assert told.startswith(str(file)), words
        assert words in told
        if isinstance(split, dict):
            assert refusal(sm.plan, SQUEEZENET, devices=STAGES, split=split, timeout=5).startswith("split")
    assert "nowhere.json" in refusal(sm.plan, SQUEEZENET, devices=STAGES, split=tmp_path / "nowhere.json")
    assert "expected a path" in refusal(sm.plan, SQUEEZENET, devices=STAGES, split="nul\0")
    assert refusal(sm.plan, SQUEEZENET, devices=STAGES, split=3).endswith(", found 3")
    os.mkfifo(tmp_path / "pipe")  # that nobody writes to
    assert "expected a regular file" in refusal(sm.plan, SQUEEZENET, devices=STAGES, split=tmp_path / "pipe")


@pytest.fixture
def halves(tmp_path):
    """A model of three operators, of which the first has two outputs."""
    nodes = [
        onnx.helper.make_node("Split", ["x"], ["half 0", "half 1"], name="split", axis=0, num_outputs=2),
        onnx.helper.make_node("Exp", ["half 0"], ["y"], name="exp 4"),
        onnx.helper.make_node("Concat", ["y", "half 1"], ["z"], name="join", axis=0),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "xz"]
    graph = onnx.helper.make_graph(nodes, "graph", ends[:1], ends[1:])
    file = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), file)
    return file


def test_one_operator_is_told_in_the_singular(halves):
    lines = str(sm.plan(halves, devices=2, split={"split": 0, "exp 4": 1, "join": 1}, timeout=1)).splitlines()
    assert [line.partition(", ")[0] for line in lines[-2:]] == ["stage 0: 1 operator", "stage 1: 2 operators"]


def test_a_cycle_is_told_in_the_words_of_the_user(halves):
    """By the stage numbers that they gave, gaps and all, and by operators: an output of several is none."""
    told = refusal(sm.plan, halves, devices=8, split={"split": 3, "exp 4": 7, "join": 3})
    expected = "expected no cycle among the stages, found 3 -> 7 -> 3 through the edges "
    assert told == f"split: {expected}'split' -> 'exp 4', 'exp 4' -> 'join'"


def test_a_bad_split_is_refused_before_operators_are_measured(equal):
    told = []
    refusal(sm.plan, SQUEEZENET, devices=2, split=equal, profile=True, progress=told.append)
    assert told == []


def test_a_long_name_that_is_ignored_is_shortened(best):
    told = []
    sm.plan(SQUEEZENET, devices=STAGES, split={"x" * 10_000: 0, **best.assignment}, timeout=1, progress=told.append)
    assert max(map(len, told)) < 300


@pytest.mark.parametrize(
    "options", [{"mesh": "2x2"}, {"devices": "h100:2,cpu:1"}, {"devices": 3, "fuse": True}], ids=str
)
def test_only_equal_devices_and_the_files_own_operators_take_a_split(options, equal):
    expected = "split: expected a number of equal devices and no fuse"
    assert expected in refusal(sm.plan, SQUEEZENET, split=equal, **options)


def test_a_split_and_other_numbers_of_devices_do_not_go_together():
    words = ("plan", SQUEEZENET, "--devices", 2, "--sweep", 4, "--split", "mine.json")
    assert "--sweep: expected no --split as well" in shardmark(*words).stderr
