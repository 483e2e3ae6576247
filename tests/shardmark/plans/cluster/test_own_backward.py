"""The backward pass of a step is its own: times near the rule's, the same tensors kept, nothing counted twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import Deferred

from shardmark.harness.verify import verify
from shardmark.instances.models.as_intraop import as_intraop
from shardmark.instances.models.devices import device
from shardmark.instances.models.fuse import fuse
from shardmark.instances.models.roofline import roofline
from shardmark.instances.models.stablehlo.module import parse
from shardmark.instances.models.stablehlo_file import model_of
from shardmark.plans.cluster.attention import with_kernels
from shardmark.plans.cluster.blocks import blocks_of
from shardmark.plans.cluster.configurations import costs_of, parameters_of
from shardmark.plans.cluster.kept import kept
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.steps.passes import NO_BACKWARD, NO_NAMES, with_backward
from shardmark.plans.cluster.steps.times import forward_seconds
from shardmark.plans.cluster.submodels import forward_pass, part_of, structure, with_borders

training_steps = Deferred("training_steps")
pytestmark = pytest.mark.gate
SIZES = {"layers": 3, "width": 1024, "heads": 8, "sequence": 512, "vocabulary": 1000, "batch": 1}
NETWORKS = ("transformer", "llama", "mixture-of-experts")
H100 = replace(device("h100"), launch=0.0)  # small layers would take the time of their launches


def model(network="transformer", *, names=True, **given):
    pytest.importorskip("jax")
    if names:
        text = training_steps.lowered(network, bits=16, **SIZES | given)
    else:
        step, arguments = training_steps.step_of(network, bits=16, **SIZES | given)
        text = Deferred("jax").jit(step, donate_argnums=(0, 1)).lower(*arguments).as_text().encode()
    return model_of(parse(text, "step"), "step")


def layers(step):
    """The second layer with both passes of the step, and with the forward pass alone."""
    forward = forward_pass(step)
    blocks = blocks_of(forward)
    number = next(i for i, block in enumerate(blocks) if block.name == "layer1")
    own = with_backward(step, blocks)
    assert not isinstance(own, str), own
    return own[number], with_kernels(part_of(forward, blocks[number].operators))


@pytest.fixture(scope="module", params=NETWORKS)
def both(request):
    return layers(model(request.param))


def seconds(block):
    """Seconds of the forward and of the backward pass on one device."""
    fused, _ = fuse(block)
    times = roofline(fused, H100).seconds
    backward = [operator.backward for operator in fused.operators]
    return times[[not x for x in backward]].sum(), times[backward].sum()


def test_the_backward_pass_takes_about_twice_the_time(both):
    own, rule = both
    forward, backward = seconds(own)
    assert forward == pytest.approx(seconds(rule)[0], rel=0.2)
    assert 1.6 < backward / forward < 2.6


def test_products_of_the_backward_pass_are_two_per_product_and_the_scores_again(both):
    own, rule = both
    forward, backward = (sum(o.multiply_adds for o in own.operators if o.backward == late) for late in (False, True))
    assert forward == sum(operator.multiply_adds for operator in rule.operators)
    scores = SIZES["sequence"] ** 2 * SIZES["width"]
    expected = 2 + scores / forward
    if any("route" in tensor.name for tensor in rule.tensors):  # a choice of experts has no gradient
        assert backward / forward < expected
    else:
        assert backward / forward == pytest.approx(expected, rel=0.02)


def test_the_same_tensors_are_kept_as_by_rule(both):
    own, rule = both
    sizes = [sum(block.tensors[tensor].bytes for tensor in kept(block)) for block in both]
    assert sizes[0] <= sizes[1] * 1.01
    shapes = {own.tensors[tensor].shape for tensor in kept(own)}
    assert not any(shape[-2:] == (SIZES["sequence"],) * 2 for shape in shapes)  # scores
    if not any("route" in tensor.name for tensor in rule.tensors):  # whose weights are read in another format
        assert sizes[0] == pytest.approx(sizes[1], rel=0.2)


def test_what_a_step_computes_again_is_not_counted_twice():
    usual, again = (layers(model(rematerialise=number))[0] for number in (0, 1))
    assert seconds(usual) == pytest.approx(seconds(again), rel=1e-3)
    sizes = [sum(block.tensors[tensor].bytes for tensor in kept(block)) for block in (usual, again)]
    assert sizes[0] == sizes[1]


def test_gradients_of_parameters_have_their_shapes_and_stay_where_these_are(both):
    own, _ = both
    parameters = [number for number, tensor in enumerate(own.tensors) if tensor.parameter]
    assert set(own.updates) == set(parameters)
    assert len(set(own.updates.values())) == len(parameters)
    assert all(own.tensors[before].shape == own.tensors[after].shape for before, after in own.updates.items())
    bordered = with_borders(own)
    borders = {
        access.tensor for operator in bordered.operators if operator.kind == "border" for access in operator.reads
    }
    assert borders.isdisjoint(bordered.updates.values())


def test_the_times_of_both_passes_are_that_of_the_sharding(both):
    own, _ = both
    sharding = as_intraop(with_borders(fuse(own)[0]), H100, "4", training=True, updates=0.0, memory=float("inf"))
    solution = sharding.solution([group.size - 1 for group in sharding.groups])
    total = 1e-9 * float(verify(sharding.instance, solution).cost)
    forward = forward_seconds(sharding, solution, H100)
    turned = replace(sharding, model=_turned(sharding.model))
    backward = forward_seconds(turned, solution, H100)
    assert 0 < forward < backward < total
    gradients = total - forward - backward  # their way to the layouts of parameters
    assert -1e-6 < gradients < 0.5 * total


def test_every_device_keeps_a_share_and_what_was_whole_is_gathered_once(both):
    own, _ = both
    total = sum(own.tensors[tensor].bytes for tensor in kept(own))
    chosen = replace(H100, link_latency=0.0)
    for costs in costs_of([own], Run(1, 4, chosen, 50e9, 4, 1), print)[0]:
        assert costs.activations == pytest.approx(total / costs.degree)
        assert costs.gather_s == pytest.approx((costs.running - costs.activations) / chosen.link_bandwidth)
        assert (costs.gather_s > 0) == (costs.degree > 1)
        assert 0 < costs.forward_s < costs.step_s / 2
        assert [len(split) for split in costs.splits] == [len(tensor.shape) for tensor in parameters_of(own)]


def _turned(bordered):
    operators = [replace(operator, backward=not operator.backward) for operator in bordered.operators]
    return replace(bordered, operators=operators)


def test_blocks_of_a_step_are_alike():
    step = model()
    own = with_backward(step, blocks_of(forward_pass(step)))
    assert len({structure(block) for block in own}) == 3


def test_without_names_the_forward_pass_leads_to_the_loss_and_a_rule_completes_it():
    step, named = model(names=False), model()
    forward = forward_pass(step)
    assert with_backward(step, blocks_of(forward)) == NO_NAMES
    products = [
        sum(operator.multiply_adds for operator in passes.operators) for passes in (forward, forward_pass(named))
    ]
    assert products[0] == products[1]


def test_a_forward_graph_has_no_backward_pass():
    forward = forward_pass(model())
    assert with_backward(forward, blocks_of(forward)) == NO_BACKWARD


def test_products_that_belong_nowhere_are_told():
    step = model(layers=2)
    lost = max(i for i, o in enumerate(step.operators) if o.backward and o.multiply_adds)
    step.operators[lost] = replace(step.operators[lost], forward=None)
    told = with_backward(step, blocks_of(forward_pass(step)))
    assert isinstance(told, str)
    assert told == f"{step.operators[lost].name} belongs to no operator of the forward pass"
