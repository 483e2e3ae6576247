"""A layout of a run fits, costs what the referee says, is no worse than what people do, and is answered in words."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from effort import Deferred
from referee import answer, refused

import shardmark as sm
from shardmark import api
from shardmark.harness.verify import stages, verify
from shardmark.instances.errors import InputError
from shardmark.plans.cluster import configurations
from shardmark.plans.cluster.saving import document
from shardmark.plans.runs.layout_check import check_layout

training_steps = Deferred("training_steps")
pytestmark = [pytest.mark.gate, pytest.mark.usefixtures("stablehlo_in_process")]
SIZES = {"layers": 4, "width": 512, "heads": 8, "sequence": 512, "vocabulary": 1000, "batch": 2}
DEVICE = """source = "made up"
peak = { bfloat16 = 100e12, float32 = 10e12 }
bandwidth = 1e12
memory = MEMORY
launch = 1e-6
link_bandwidth = 100e9
link_latency = 1e-6
network_bandwidth = 10e9
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stablehlo_in_process):
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("layouts")
    (folder / "step.mlir").write_bytes(training_steps.lowered("transformer", "sgd", bits=16, **SIZES))
    for name, memory in (("large", "1e9"), ("small", "90e6"), ("tiny", "20e6")):
        (folder / f"{name}.toml").write_text(DEVICE.replace("MEMORY", memory))
    return folder


def laid_out(folder, device, **given):
    usual = {"cluster": (2, 2), "batch": 16, "timeout": 20, "max_tensor": 2}
    return sm.plan(folder / "step.mlir", device=folder / f"{device}.toml", **usual | given)


@pytest.fixture(scope="module")
def large(folder):
    return laid_out(folder, "large")


@pytest.fixture(scope="module")
def small(folder):
    return laid_out(folder, "small")


@pytest.fixture(scope="module")
def served(folder):
    return laid_out(folder, "large", train="none", batch=None)


@pytest.mark.parametrize("name", ["large", "small"])
def test_a_layout_is_verified_and_no_worse_than_what_people_do(request, name):
    found = request.getfixturevalue(name)
    verdict = verify(found.instance, found.solution)
    assert verdict.feasible
    assert found.cost_s == verdict.cost
    assert found.bound_s <= found.cost_s <= 1.05 * found.bound_s
    assert found.instance.objective == "step"
    assert all(practice.cost is None or practice.cost >= found.cost_s for practice in found.practices)
    assert {practice.name for practice in found.practices} == {
        "equal layers, the best equal degrees",
        "data parallelism alone",
        "tensor parallelism in a machine, a pipeline between",
    }
    assert sum(stage.replicas * stage.tensor for stage in found.stages) == found.used <= 4
    assert all(stage.memory <= found.run.device.memory * (1 + 1e-9) for stage in found.stages)
    assert 0 < found.utilisation < 1
    assert found.samples_per_s == pytest.approx(16 / found.cost_s)
    assert found.run.microbatch == 2
    assert [name for stage in found.stages for name in stage.blocks][1:5] == [f"layer{i}" for i in range(4)]


def test_little_memory_costs_time(large, small):
    assert small.cost_s > large.cost_s
    assert not any(stage.recomputed for stage in large.stages)
    assert any(stage.recomputed for stage in small.stages) or len(small.stages) > 1


def test_dividing_the_state_over_replicas_takes_less_memory(folder, large):
    divided = laid_out(folder, "large", shard="optimizer")
    assert max(stage.memory for stage in divided.stages) < max(stage.memory for stage in large.stages)


def test_serving_has_one_pass(served, large):
    assert served.instance.objective == "throughput"
    assert served.utilisation > 0
    assert served.samples_per_s > large.samples_per_s
    assert not any(stage.recomputed for stage in served.stages)


def test_the_backward_pass_is_that_of_the_step(large):
    assert large.rule is None
    assert 1.8 < large.backward < 2.6
    told = f"backward pass: the step's own, {large.backward:.3g} times as long as the forward pass on one device"
    assert told in str(large)


def test_a_step_without_names_says_that_a_rule_completes_it(folder, capsys):
    jax = pytest.importorskip("jax")
    sizes = SIZES | {"layers": 1, "width": 64, "sequence": 64, "vocabulary": 100}
    step, arguments = training_steps.step_of("transformer", "sgd", bits=16, **sizes)
    (folder / "bare.mlir").write_text(jax.jit(step, donate_argnums=(0, 1)).lower(*arguments).as_text())
    found = sm.plan(folder / "bare.mlir", cluster=(1, 1), batch=4, device=folder / "large.toml", timeout=4)
    assert found.backward == pytest.approx(2)
    assert "2 times as long as the forward pass on one device by rule: the file's operators have no names" in str(found)


def test_the_latency_of_a_sample_needs_tensor_parallelism_and_no_replicas(folder, served):
    found = laid_out(folder, "large", train="none", objective="latency", batch=None)
    assert found.gap == 0
    assert found.bound_from == "dynamic program"
    assert {stage.replicas for stage in found.stages} == {1}
    assert {stage.tensor for stage in found.stages} == {2}
    assert found.cost_s == pytest.approx(sum(stage.forward_s for stage in found.stages))
    assert found.cost_s < sum(stage.microbatch_s for stage in served.stages)
    assert found.samples_per_s < served.samples_per_s
    assert all(practice.cost is None or practice.cost >= found.cost_s for practice in found.practices)
    assert f"time per 2 samples: {1e3 * found.cost_s:,.6g} ms, proven optimal" in str(found)


def test_other_questions_name_the_cluster(folder):
    jax = pytest.importorskip("jax")
    assert "--cluster MxD" in str(sm.plan(folder / "step.mlir", devices=2, timeout=10))
    params, batch, loss = training_steps.transformer(**SIZES | {"layers": 8, "width": 64})
    (folder / "loss.mlir").write_text(jax.jit(loss).lower(params, batch).as_text(debug_info=True))
    told = [str(sm.plan(folder / "loss.mlir", devices=count, timeout=10)) for count in (2, 8)]
    assert ["many devices: --cluster MxD --train none" in text for text in told] == [False, True]


def test_the_command_tells_the_same(folder, large, capsys):
    command = ["plan", folder / "step.mlir", "--cluster", "2x2", "--batch", 16, "--timeout", 20, "--max-tensor", 2]
    found = answer(*command, "--device", folder / "large.toml")
    assert found["cost_s"] == pytest.approx(large.cost_s)
    assert found["solution"] == large.solution
    assert [stage["replicas"] for stage in found["stages"]] == [stage.replicas for stage in large.stages]
    assert len(found["practices"]) == 3


def test_what_is_saved_is_the_verifiers_and_shown(small, tmp_path):
    assert small.save(tmp_path / "layout").parent == tmp_path / "layout"
    assert check_layout(tmp_path / "layout").equal
    text = (tmp_path / "layout" / "plan.html").read_text()
    assert small.gap_text in text
    assert all(name in text for stage in small.stages for name in stage.blocks)


def test_stages_hold_and_take_what_the_verifier_counts(small):
    verified = stages(small.instance, small.solution)
    for i, stage in enumerate(small.stages):
        assert stage.memory - stage.held["working"] == pytest.approx(sum(verified.held[i].values()), rel=1e-12)
        assert stage.backward_s == pytest.approx(2 * stage.forward_s, rel=0.2)  # transfers take equally long both ways


def test_words_tell_the_same(small):
    told = str(small)
    assert f"time per step: {1e3 * small.cost_s:,.6g} ms, {small.gap_text}" in told
    assert "data parallelism alone" in told
    assert sum(line.startswith("stage ") for line in told.splitlines()) == len(small.stages)


def test_shardings_that_are_not_proven_the_fastest_are_told(folder, monkeypatch):
    def unsure(instance, method, **given):
        found = api.solve(instance, method, **given)
        return replace(found, lower_bound=int(found.cost / 1.25), bound_from=method)

    monkeypatch.setattr(configurations, "api", SimpleNamespace(solve=unsure))
    found = laid_out(folder, "large")
    assert {(one.degree, round(one.gap, 3)) for one in found.unproven} == {(2, 0.25)}
    assert {name for one in found.unproven for name in one.blocks} == {
        name for stage in found.stages for name in stage.blocks
    }
    assert "block shardings: layer0 and 3 equal blocks on 2 devices: at most 26 % above the best one" in str(found)
    told = document(found)["unproven_shardings"]
    assert [one["blocks"] for one in told] == [one.blocks for one in found.unproven]


def test_proven_shardings_are_told(large):
    assert large.unproven == []
    assert "block shardings: all proven optimal" in str(large)
    assert large.gap_text.startswith("proven optimal: no layout of these blocks and shardings")


def test_a_block_without_a_sharding_in_time_is_refused(folder, monkeypatch):
    def nothing(instance, method, **given):
        return replace(api.solve(instance, method, **given), cost=None)

    monkeypatch.setattr(configurations, "api", SimpleNamespace(solve=nothing))
    with pytest.raises(InputError, match=r"max_tensor: expected at most 1: no sharding of \d+ operators on 2 devices"):
        laid_out(folder, "large")


def test_too_little_memory_is_one_sentence_with_the_number(folder):
    with pytest.raises(InputError, match=r"memory: expected at least [0-9,]+ bytes, which block .* needs on"):
        laid_out(folder, "tiny", batch=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster", "4"), ["cluster: expected machines and the devices of each, such as 4x8, found '4'"]),
        (("--cluster", "0x8", "--batch", 8), ["found '0x8'"]),
        (("--cluster", "h100:2,v100:2", "--batch", 8), ["a cluster of unlike machines is a machine file, --machine"]),
        (("--cluster", "2x2"), ["batch: expected the samples per step, such as --batch 512"]),
        (("--cluster", "2x2", "--batch", 7, "--microbatch", 2), ["batch: expected a multiple of the 2 samples"]),
        (("--cluster", "2x2", "--batch", 8, "--device", "t4"), ["network_bandwidth in the TOML file", "t4 has none"]),
        (("--cluster", "2x2", "--batch", 8, "--devices", 4), ["--devices: expected no such option with --cluster"]),
        (("--cluster", "2x2", "--batch", 8, "--objective", "latency"), ["objective: expected train none as well"]),
        (
            ("--cluster", "2x2", "--batch", 8, "--objective", "latency", "--train", "none"),
            ["batch: expected none with the objective latency"],
        ),
        (("--devices", 4, "--objective", "latency"), ["objective: expected a cluster as well"]),
        (("--devices", 4, "--batch", 8), ["batch: expected a cluster as well, such as --cluster 4x8"]),
    ],
)
def test_bad_input_is_one_sentence(folder, options, words):
    told = refused("plan", folder / "step.mlir", *options)
    assert all(word in told for word in words), told
