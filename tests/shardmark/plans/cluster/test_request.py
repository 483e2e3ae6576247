"""What is asked of a cluster: one sentence for what is no cluster, no batch, or no model to lay out."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from referee import refused

import shardmark as sm
from shardmark.instances.errors import InputError

WIDTH = 8
DEVICE = """source = "made up"
peak = { float32 = 1e12 }
bandwidth = 1e11
memory = 1e9
launch = 0
link_bandwidth = 1e10
link_latency = 0
"""


def saved(path, nodes, samples=2, weights=(), inner=()):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [samples, WIDTH]) for name in ("x", "y")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [*weights, *inner])), path)
    return path


def product(path, samples=2):
    weight = numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), "w")
    return saved(path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="n")], samples, [weight])


def looped(path):
    """A product in two rounds of a loop."""
    infos = [("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("a", TensorProto.FLOAT, [2, WIDTH])]
    results = [("d", TensorProto.BOOL, []), ("b", TensorProto.FLOAT, [2, WIDTH])]
    nodes = [helper.make_node("MatMul", ["a", "w"], ["b"]), helper.make_node("Identity", ["c"], ["d"])]
    ends = [[helper.make_tensor_value_info(*info) for info in side] for side in (infos, results)]
    weight = numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), "w")
    loop = helper.make_node("Loop", ["rounds", "on", "x"], ["y"], name="l", body=helper.make_graph(nodes, "b", *ends))
    constants = [numpy_helper.from_array(np.array(2), "rounds"), numpy_helper.from_array(np.array(True), "on")]
    return saved(path, [loop], weights=[weight], inner=constants)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "device.toml").write_text(DEVICE)
    return product(tmp_path / "m.onnx")


def laid_out(model, **given):
    usual = {"cluster": (1, 2), "batch": 8, "device": model.with_name("device.toml"), "timeout": 5}
    return sm.plan(model, **usual | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cluster": 3}, "cluster: expected machines and the devices of each, such as 4x8, found '3'"),
        ({"cluster": (1, 2, 3)}, "found '1x2x3'"),
        ({"cluster": (1.0, 2)}, "found '1.0x2'"),
        ({"cluster": (10**6, 10**6)}, "cluster: expected at most 1,000,000 devices, found 1,000,000,000,000"),
        ({"batch": 10**30}, "batch: expected at most 2,147,483,647"),
        ({"batch": True}, "batch: expected a whole number, at least 1, found True"),
        ({"max_tensor": None}, "max_tensor: expected a whole number, at least 1, found None"),
        ({"train": "none", "shard": "optimizer"}, "shard: expected one of none, weights with train none, as there are"),
        ({"batch": None}, "batch: expected the samples per step, such as --batch 512"),
        ({"profile": True}, "profile: expected none with a cluster, where operators take the time of the roofline"),
        (
            {"microbatch": 4},
            "microbatch: expected a dimension of the file's inputs, such as 2, the first one of x, found 4",
        ),
        ({"train": ["adam"]}, r"train: expected one of adam, sgd, none, found \['adam'\]"),
        ({"cluster": None, "devices": 2, "batch": None, "shard": "weights"}, "shard: expected a cluster as well"),
    ],
)
def test_arguments_of_the_wrong_kind(model, given, message):
    with pytest.raises(InputError, match=message):
        laid_out(model, **given)


def test_numpy_integers_are_whole_numbers(model):
    assert laid_out(model, cluster=(1, 1), batch=np.int64(8), microbatch=np.int32(2)).run.microbatches == 4


@pytest.mark.parametrize("batch", [None, 2])
def test_a_stream_of_samples_has_any_number_of_replicas(model, batch):
    """Three divide no batch of 8 microbatches, and one of a single microbatch has one replica."""
    found = laid_out(model, cluster=(1, 3), batch=batch, train="none")
    assert [(stage.replicas, stage.tensor) for stage in found.stages] == [(3, 1)]
    assert found.gap == 0
    assert found.cost_s == pytest.approx(found.stages[0].microbatch_s / 3)
    assert found.gap_text.endswith("is faster")
    assert "run: 2 samples at a time; serving" in str(found)


def test_numbers_of_replicas_that_a_stream_leaves_out_are_told(model):
    found = laid_out(model, cluster=(1, 32), batch=None, train="none", max_tensor=1)
    assert found.gap_text.endswith(f"is faster, of those whose numbers of replicas divide {found.run.rounds:,}")
    assert {d for d in range(1, 33) if found.run.rounds % d} == {23, 25, 29, 31}


def test_a_batch_that_cannot_be_divided_has_a_hint(model):
    found = str(laid_out(model, cluster=(1, 3), batch=2 * 7, max_tensor=1))
    assert "run: batch 14 in 7 microbatches of 2; adam" in found
    assert "hint: 7 microbatches cannot be divided among replicas; those of batch 18 can" in found
    assert "run: batch 2 in 1 microbatch of 2; adam" in str(laid_out(model, cluster=(1, 1), batch=2))
    assert "hint" not in str(laid_out(model, cluster=(1, 3), batch=2 * 6, max_tensor=1))


def test_a_small_model_has_memory_in_a_small_unit(model):
    """Weights in 256 bytes, and what enters and leaves in 64 each."""
    assert "memory bytes 384" in str(laid_out(model, train="none", max_tensor=1))


def test_a_model_without_samples_or_work_is_refused(model):
    with pytest.raises(InputError, match="expected at least one sample in the first dimension of the first input"):
        laid_out(product(model.with_name("none.onnx"), samples=0))
    idle = saved(model.with_name("idle.onnx"), [helper.make_node("Identity", ["x"], ["y"], name="n")])
    with pytest.raises(InputError, match="expected operators that take time, found none"):
        laid_out(idle)


def test_rounds_of_a_loop_are_no_modules_of_pytorch(model):
    layout = laid_out(looped(model.with_name("loop.onnx")), cluster=(1, 1))
    with pytest.raises(InputError, match="expected a model without loops and branches to export torch"):
        layout.save(model.parent / "plan", export="torch")
    assert not (model.parent / "plan").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--cluster", "1x2", "--batch", 8, "--no-fuse"),
            "--no-fuse: expected no such option with --cluster, which always",
        ),
        (
            ("--cluster", "1x2", "--batch", 8, "--profile"),
            "--profile: expected no such option with --cluster, where operat",
        ),
        (
            ("--cluster", "1x2", "--batch", 8, "--mesh", "2x1"),
            "--mesh: expected no such option with --cluster, which choo",
        ),
        (("--devices", 2, "--max-tensor", 4), "max_tensor: expected a cluster as well, such as --cluster 4x8"),
    ],
)
def test_options_of_other_plans_are_not_ignored(model, options, message):
    assert message in refused("plan", model, *options)
