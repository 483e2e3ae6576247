"""Chains and passes that a plan keeps together cost what their operators cost, and splits of them are judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from effort import Deferred
from hypothesis import given
from hypothesis import strategies as st
from referee import answer

import shardmark as sm
from shardmark.harness.verify import verify
from shardmark.instances.models.as_pipeline import as_pipeline, with_helpers
from shardmark.instances.models.devices import Device, device
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.reader import read_model
from shardmark.instances.models.roofline import Costs
from shardmark.plans.joining import Joined
from shardmark.plans.parts import crossing_bytes

pytestmark = pytest.mark.usefixtures("stablehlo_in_process")

training_steps_of_jax = Deferred("training_steps")
ROOT = Path(__file__).parents[3]
STEP = ROOT / "tests" / "data" / "stablehlo" / "transformer.mlir.gz"
#: A tensor of b bytes takes 2 + b / 4 microseconds.
DEVICE = Device("toy", {"float32": 1e12}, 1e12, 1e9, 0, 4e6, 2e-6, "made up")


@st.composite
def training_steps(draw):
    """Random operators of a forward pass, then others of a backward pass, most with a counterpart."""
    model = Model("step")
    count = draw(st.integers(2, 5))
    tensors = [model.tensor("x", (4,), "uint8")]
    for number in range(2 * count):
        late = number >= count
        reads = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique=True))
        written = model.tensor(f"t{number}", (draw(st.integers(0, 40)),), "uint8")
        counterpart = draw(st.none() | st.integers(0, count - 1)) if late else None
        accesses = [[Access(tensor, (None,)) for tensor in side] for side in (reads, [written])]
        model.operator(f"o{number}", "any", *accesses, {}, backward=late, forward=counterpart)
        tensors.append(written)
    work = draw(st.lists(st.integers(0, 9), min_size=2 * count, max_size=2 * count))
    return model, work


def loads_of(model, work, stage):
    """Microseconds of every stage by definition: its work, and each tensor that it and other stages use, once."""
    loads = dict.fromkeys(stage, 0.0)
    for number, time in zip(stage, work, strict=True):
        loads[number] += time
    for tensor, readers in zip(model.tensors, model.readers(), strict=True):
        if tensor.producer is not None:
            users = {stage[user] for user in (tensor.producer, *readers)}
            for number in users if len(users) > 1 else ():
                loads[number] += 2 + tensor.bytes / 4
    return loads


@given(training_steps(), st.lists(st.integers(0, 2), min_size=10, max_size=10))
def test_a_split_of_units_costs_what_the_split_of_their_operators_costs(drawn, blocks):
    model, work = drawn
    joined = Joined.of(model, fused=False, passes=True)
    assert sorted(index for group in joined.groups for index in group) == list(range(len(model.operators)))
    costs = joined.sums(Costs(1e-6 * np.array(work, dtype=float), "given"))
    of_units = sorted(blocks)[: len(joined.groups)]  # in the order of the forward pass, so that there is no cycle
    stage = dict(zip([tuple(group) for group in joined.groups], of_units, strict=True))
    of_operators = [next(number for group, number in stage.items() if index in group) for index in range(len(work))]
    instance = as_pipeline(joined.model, costs, DEVICE, 3)
    expected = max(loads_of(model, work, of_operators).values())
    assert verify(instance, with_helpers(instance, of_units).tolist()).cost == pytest.approx(expected)
    assert crossing_bytes(joined.model, of_units, 3) == crossing_bytes(model, of_operators, 3)


@given(training_steps())
def test_units_keep_the_order_of_the_forward_pass(drawn):
    model, _ = drawn
    joined = Joined.of(model, fused=False, passes=True)
    unit_of = {index: unit for unit, group in enumerate(joined.groups) for index in group}
    kept = set(joined.model.edges())
    for source, reader in model.edges():
        if not model.operators[reader].backward:
            assert unit_of[source] == unit_of[reader] or (unit_of[source], unit_of[reader]) in kept


@pytest.fixture(scope="module")
def step(stablehlo_in_process):
    return sm.plan(STEP, devices=2, timeout=20)


def test_a_stage_has_both_passes_of_its_operators(step):
    model = read_model(step.source)
    chains = Joined.of(model, fused=True, passes=False)
    of = [step.assignment[operator.name] for operator in chains.chains.operators]
    pairs = [(o.forward, i) for i, o in enumerate(chains.chains.operators) if o.forward is not None]
    assert len(pairs) > 50
    assert all(of[forward] == of[backward] for forward, backward in pairs)
    assert len(step.parts) == 2
    assert step.speedup > 1.2


def test_chains_are_fused_by_default_for_stablehlo_alone(step):
    assert step.options["fuse"]
    plain = sm.plan(step.source, devices=2, timeout=10, fuse=False)
    assert not plain.options["fuse"]
    assert plain.single_device_us > 2 * step.single_device_us, "launches of operators that XLA fuses"
    assert not sm.plan(ROOT / "tests/data/operator_times/convolutions.onnx", devices=2, timeout=5).options["fuse"]


def test_the_command_turns_fusion_off(step):
    found = answer("plan", step.source, "--devices", 1, "--no-fuse", "--timeout", 4)
    assert found["options"]["fuse"] is False
    assert found["cost_us"] > step.single_device_us


def test_a_plan_of_a_training_step_is_a_split(step, tmp_path):
    """Its stages pass gradients back, which is no cycle."""
    step.save(tmp_path)
    again = sm.plan(step.source, devices=2, split=tmp_path / "plan.json", timeout=5)
    assert again.assignment == step.assignment
    assert again.cost == pytest.approx(step.cost)


def test_a_split_that_divides_chains_is_judged_operator_by_operator(step):
    operators = read_model(step.source).operators
    half = {operator.name: int(number >= len(operators) // 2) for number, operator in enumerate(operators)}
    found = sm.plan(step.source, devices=2, split=half, timeout=2)
    assert found.assignment == half
    assert len(found.model.operators) == len(operators)


def test_a_device_may_launch_in_no_time(step, tmp_path):
    h100 = device("h100")
    (tmp_path / "graphs.toml").write_text(
        f'source = "H100 with CUDA graphs"\npeak = {{ float32 = {h100.peak["float32"]} }}\nlaunch = 0\n'
        f"bandwidth = {h100.bandwidth}\nmemory = {h100.memory}\n"
        f"link_bandwidth = {h100.link_bandwidth}\nlink_latency = {h100.link_latency}\n"
    )
    found = sm.plan(step.source, devices=2, device=tmp_path / "graphs.toml", timeout=10)
    launches = sum(
        not operator.view for operator in Joined.of(read_model(step.source), fused=True, passes=True).chains.operators
    )
    assert found.single_device_us == pytest.approx(step.single_device_us - 5 * launches)


@pytest.mark.thorough(cases=1)
@pytest.mark.gate
@pytest.mark.parametrize("again", [0, 1], ids=["kept", "rematerialised"])
def test_a_step_costs_the_same_with_and_without_scan(again, tmp_path):
    costs = []
    for scan in (0, 1):
        path = tmp_path / f"{scan}.mlir"
        sizes = {"layers": 2, "batch": 8, "sequence": 256, "width": 256, "scan": scan, "rematerialise": again}
        path.write_bytes(training_steps_of_jax.lowered("transformer", "sgd", **sizes))
        found = sm.plan(path, devices=2, timeout=20)
        assert found.passes
        assert found.gap_text.endswith("with both passes of a layer together has a lower bottleneck")
        costs.append(found.cost)
    assert costs[0] == pytest.approx(costs[1], rel=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("layers", [8, 24])
def test_training_steps_have_a_small_gap(layers, tmp_path):
    path = tmp_path / "step.mlir"
    script = [sys.executable, ROOT / "examples" / "training_steps.py", "transformer", f"layers={layers}"]
    subprocess.run([*script, "--output", path], check=True)
    found = sm.plan(path, devices=4, timeout=30)
    assert len(found.groups) < len(found.assignment) / 3
    assert len(found.parts) == 4
    assert found.gap <= 0.1
