"""Models and layouts of published training runs: parameters, arithmetic and memory by formula, and what fits."""

from __future__ import annotations

import pytest
from effort import Deferred

from shardmark.instances.models.devices import device
from shardmark.instances.models.stablehlo.module import parse
from shardmark.instances.models.stablehlo_file import model_of
from shardmark.plans.cluster.attention import with_kernels
from shardmark.plans.cluster.blocks import blocks_of
from shardmark.plans.cluster.configurations import costs_of
from shardmark.plans.cluster.kept import kept
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.submodels import part_of

published = Deferred("published_layouts")
training_steps = Deferred("training_steps")
COUNT, GPT, WORDS = 15, 11, 51200  # layouts, models of GPT, and their vocabulary
#: Parameters of https://huggingface.co/meta-llama: width, hidden width, heads, layers.
LLAMA = {
    8_030_261_248: (4096, 14336, 32, 32),
    70_553_706_496: (8192, 28672, 64, 80),
    405_853_388_800: (16384, 53248, 128, 126),
}


def forward(network, sizes, layers=2):
    pytest.importorskip("jax")
    text = training_steps.lowered(network, "none", bits=16, batch=1, **{**sizes, "layers": layers})
    return model_of(parse(text, "loss"), "loss")


def totals(network, sizes):
    """Parameters and FLOPs of all passes of a model, whose layers are equal; and one layer."""
    few, more = (forward(network, sizes, layers) for layers in (1, 2))
    counted = [
        (
            sum(tensor.numbers for tensor in model.tensors if tensor.parameter),
            6 * sum(operator.multiply_adds for operator in model.operators),
        )
        for model in (few, more)
    ]
    layer = with_kernels(part_of(more, blocks_of(more)[2].operators))
    return [one + (two - one) * (sizes["layers"] - 1) for one, two in zip(*counted, strict=True)], layer


@pytest.mark.thorough(cases=3)
@pytest.mark.gate(cases=1)
@pytest.mark.parametrize("number", range(GPT))
def test_gpt_has_the_parameters_arithmetic_and_activations_of_the_formulas(number):
    """Narayanan et al., SC 2021, Equations 2 and 3; Korthikanti et al., MLSys 2023, with attention in one kernel."""
    one = published.LAYOUTS[number]
    h, s, layers = (one.sizes[name] for name in ("width", "sequence", "layers"))
    (parameters, flops), layer = totals(one.network, one.sizes)
    theirs = 12 * layers * h**2 + 13 * layers * h + (WORDS + s) * h
    # they have biases and positions, two numbers per norm, and one matrix at both ends
    assert parameters == theirs - 11 * layers * h - s * h + WORDS * h
    assert parameters == pytest.approx(1e9 * float(one.name.split()[1]), rel=0.08)
    formula = 72 * s * layers * h**2 * (1 + s / (6 * h) + WORDS / (12 * layers * h))
    assert flops == pytest.approx(formula, rel=1e-12)
    assert published.flops(one.sizes) == pytest.approx(formula, rel=1e-12)
    found = sum(layer.tensors[tensor].bytes for tensor in kept(layer))
    assert found == pytest.approx(34 * s * h - 2 * s * h, rel=1e-3)  # less two masks of dropout


@pytest.mark.parametrize("parameters", LLAMA)
def test_llama_has_its_parameters_arithmetic_and_activations(parameters):
    width, hidden, heads, layers = LLAMA[parameters]
    sizes = dict(published.llama("", width, hidden, heads, layers)[2])
    (found, flops), layer = totals("llama", sizes)
    assert found == parameters - width  # the last norm
    s = sizes["sequence"]
    weights = parameters - (2 * layers + 1) * width - 128256 * width  # of products
    assert flops == 6 * s * (weights + 2 * layers * s * width)
    # before and behind both norms; queries, keys, values and attention; the gate, what it gates, and the result
    numbers = 4 * width + 2 * width + 2 * 8 * (width // heads) + 3 * hidden
    assert sum(layer.tensors[tensor].bytes for tensor in kept(layer)) == pytest.approx(2 * s * numbers, rel=1e-3)


def test_a_layer_on_several_devices_is_that_of_megatron():
    """Shoeybi et al., 2019, with sequence parallelism for what is kept (Korthikanti et al., MLSys 2023, Section 4)."""
    s, h, chosen = 2048, 2048, device("a100-80")
    model = forward("transformer", {"width": h, "heads": 16, "sequence": s, "vocabulary": 1000})
    layer = with_kernels(part_of(model, blocks_of(model)[2].operators))
    run = Run(machines=1, devices=8, device=chosen, network=25e9, batch=8, microbatch=1)
    costs = {one.degree: one for one in costs_of([layer], run, print)[0]}
    for t, one in costs.items():
        assert one.gap == 0
        assert one.weights == pytest.approx(2 * 12 * h**2 / t, rel=0.01)
        assert one.running == pytest.approx(s * h * (8 + 24 / t), rel=1e-3)  # 10 less two masks of dropout
        assert one.activations == pytest.approx(s * h * 32 / t, rel=1e-3)
        assert one.entering == 2 * s * h / t
        gathered = 2 * s * h * (1 - 1 / t) / chosen.link_bandwidth + chosen.link_latency * (t > 1)
        assert one.enter_s == pytest.approx(gathered)
        # what enters, and what both norms write, and the sums of these, are whole on every device
        assert one.gather_s == pytest.approx(4 * gathered + 2 * chosen.link_latency * (t > 1), rel=0.01)
        summed = (t > 1) * (2 * (t - 1) / t * 2 * s * h / chosen.link_bandwidth + chosen.link_latency)
        computed = one.forward_s - 2 * summed  # behind attention, and behind the rest
        assert costs[1].forward_s / t <= computed * (1 + 1e-9) <= costs[1].forward_s * (1.1 / t + 0.2)
        # backward for each reader of a norm: queries, keys, values, and the rest
        assert one.step_s == pytest.approx(3 * computed + 6 * summed, rel=1e-5)


@pytest.mark.thorough(cases=1)
@pytest.mark.gate
@pytest.mark.usefixtures("stablehlo_in_process")
@pytest.mark.parametrize("number", range(COUNT))
def test_a_published_layout_fits_and_the_best_one_is_no_slower(number, tmp_path):
    pytest.importorskip("jax")
    assert len(published.LAYOUTS) == COUNT
    one = published.LAYOUTS[number]
    found, theirs = published.compare(one, published.write(one, tmp_path), 30.0)
    assert theirs.lacking == 0
    assert found.cost_s <= theirs.cost
    assert found.gap <= 0.02
    assert not found.unproven
    assert f"{one.stages} x {one.replicas} x {one.tensor}" in published.row(one, found, theirs)
