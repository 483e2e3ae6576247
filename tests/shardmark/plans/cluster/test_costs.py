"""Parameters, arithmetic and kept activations of transformers are those of published formulas."""

from __future__ import annotations

import pytest
from effort import Deferred

from shardmark.instances.models.devices import device
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.stablehlo.module import parse
from shardmark.instances.models.stablehlo_file import model_of
from shardmark.plans.cluster.attention import with_kernels
from shardmark.plans.cluster.blocks import blocks_of
from shardmark.plans.cluster.configurations import costs_of
from shardmark.plans.cluster.kept import kept
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.serving.live import peak_bytes
from shardmark.plans.cluster.submodels import forward_pass, part_of, structure

training_steps = Deferred("training_steps")
LAYERS, WIDTH, HEADS, TOKENS, WORDS = 3, 256, 4, 128, 1000


@pytest.fixture(scope="module")
def forward():
    pytest.importorskip("jax")
    sizes = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "sequence": TOKENS, "vocabulary": WORDS, "batch": 1}
    text = training_steps.lowered("transformer", "sgd", bits=16, **sizes)
    return forward_pass(model_of(parse(text, "step"), "step"))


def blocks(forward):
    return [part_of(forward, block.operators) for block in blocks_of(forward)]


def a_run(**given):
    usual = {"machines": 1, "devices": 8, "device": device("h100"), "network": 50e9, "batch": 8, "microbatch": 1}
    return Run(**usual | given)


def test_the_forward_pass_has_no_operators_for_the_backward_pass(forward):
    assert not any(operator.backward for operator in forward.operators)
    read = {access.tensor for operator in forward.operators for access in operator.reads}
    written = {access.tensor for operator in forward.operators for access in operator.writes}
    assert written - read <= set(forward.outputs)


def test_parameters_and_arithmetic_are_those_of_megatron(forward):
    """Narayanan et al., SC 2021, Equations 2 and 3, without biases and positions, and with the head of its own."""
    parameters = sum(tensor.numbers for tensor in forward.tensors if tensor.parameter)
    assert parameters == 12 * LAYERS * WIDTH**2 + 2 * WORDS * WIDTH + 2 * LAYERS * WIDTH
    multiply_adds = sum(operator.multiply_adds for operator in forward.operators)
    formula = 72 * TOKENS * LAYERS * WIDTH**2 * (1 + TOKENS / (6 * WIDTH) + WORDS / (12 * LAYERS * WIDTH))
    assert 3 * 2 * multiply_adds == pytest.approx(formula, rel=1e-12)


def test_kept_activations_are_those_of_korthikanti_without_masks(forward):
    """MLSys 2023, Section 4, with attention in one kernel: 34 s b h, of which two masks of dropout are 2 s b h."""
    layer = with_kernels(blocks(forward)[2])
    found = sum(layer.tensors[tensor].bytes for tensor in kept(layer) if layer.tensors[tensor].shape[-1] > 1)
    assert found == pytest.approx(32 * TOKENS * WIDTH, rel=0.01)  # and the sums of norms


def test_attention_is_one_kernel(forward):
    layer = blocks(forward)[2]
    joined = with_kernels(layer)
    scores = (1, HEADS, TOKENS, TOKENS)
    assert any(layer.tensors[access.tensor].shape == scores for o in layer.operators for access in o.writes)
    assert not any(joined.tensors[access.tensor].shape == scores for o in joined.operators for access in o.writes)
    assert sum(o.multiply_adds for o in joined.operators) == sum(o.multiply_adds for o in layer.operators)
    products = [sum(o.multiply_adds > 0 for o in model.operators) for model in (layer, joined)]
    assert products == [8, 7]


def test_layers_of_equal_structure_are_sharded_once(forward):
    parts = blocks(forward)
    assert len({structure(part) for part in parts}) == 3
    told = []
    costs = costs_of(parts, a_run(max_tensor=2), told.append)
    assert len(told) == 3
    assert costs[1] is costs[2]


@pytest.mark.parametrize(("train", "own"), [("adam", 12), ("sgd", 4)])
@pytest.mark.parametrize("weight", [1, 2])
def test_a_parameter_of_few_bits_takes_bytes_by_kind(train, own, weight):
    assert a_run(train=train).state(weight) == (1, 1, own / weight)
    assert a_run(train="none").state(weight) == (1, 0, 0)


@pytest.mark.parametrize(("shard", "own"), [("none", 3), ("optimizer", 2), ("gradients", 1), ("weights", 0)])
def test_replicas_hold_some_kinds_and_divide_the_others(shard, own):
    assert a_run(shard=shard).own == own


def test_what_depends_on_parameters_alone_is_not_kept():
    model = Model("mixed")
    x, w = model.tensor("x", (8, 4), "float32"), model.tensor("w", (4, 2), "bfloat16", parameter=True)
    wide, y = model.tensor("wide", (4, 2), "float32"), model.tensor("y", (8, 2), "float32")
    model.operator("wide", "convert", [Access(w, ("k", "n"))], [Access(wide, ("k", "n"))], {"k": 4, "n": 2}, flops=8)
    reads, loops = [Access(x, ("m", "k")), Access(wide, ("k", "n"))], {"m": 8, "n": 2, "k": 4}
    model.operator("y", "dot_general", reads, [Access(y, ("m", "n"))], loops, multiply_adds=64)
    assert kept(model) == [x]


def test_a_block_that_serves_has_what_enters_and_leaves_it_at_the_same_time():
    """Of x -> y -> z, with a view of y that is read last: x and y, then y and z, and all outputs stay."""
    model = Model("chain")
    x, y, shown, z, w = (
        model.tensor(name, (size,), "float32", parameter=name == "w")
        for name, size in (("x", 30), ("y", 20), ("shown", 20), ("z", 5), ("w", 1000))
    )

    def add(reads, write, **given):
        model.operator(
            f"to {write}", "any", [Access(t, ("d",)) for t in reads], [Access(write, ("d",))], {"d": 1}, **given
        )

    add([x, w], y)
    add([y], shown, view=True)
    add([shown], z)
    model.outputs = [z]
    assert peak_bytes(model, lambda tensor: tensor.bytes) == 4 * (30 + 20)
    assert peak_bytes(model, lambda tensor: tensor.bytes / (2 if tensor.name == "x" else 1)) == 4 * (15 + 20)
    model.outputs = [y, z]
    add([z], model.tensor("u", (40,), "float32"))
    assert peak_bytes(model, lambda tensor: tensor.bytes) == 4 * (20 + 5 + 40)


def test_serving_counts_the_activations_of_its_largest_block(forward):
    """A layer has its hidden part before and behind the activation, four times as wide, and what that is added to."""
    layer = with_kernels(blocks(forward)[2])
    ((served,),) = costs_of([layer], a_run(train="none", max_tensor=1), print)
    assert served.activations == 0
    assert served.running == 2 * TOKENS * WIDTH * (1 + 2 * 4)
