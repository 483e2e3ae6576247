"""What replicas and stages exchange, and the memory that blocks need while they run, against sums by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest

from shardmark.harness.verify import stages, verify
from shardmark.instances.errors import InputError
from shardmark.instances.models.devices import device
from shardmark.instances.models.model import Access, Model
from shardmark.plans.cluster import practice
from shardmark.plans.cluster.blocks import Block
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.layout import _best
from shardmark.plans.cluster.machines.memory import lacking_bytes, refuse_large, working_bytes
from shardmark.plans.cluster.practice import practices
from shardmark.plans.cluster.problem import AGAIN, KEPT, problem
from shardmark.plans.cluster.run import SHARDS, Run
from shardmark.plans.solving import certify

NETWORK, LINK, SENT = 10.0, 100.0, 4000
BLOCKS = [Block("one", (0,), ()), Block("two", (1,), (1,))]
#: A block on one and on two devices.
COSTS = Costs(1, False, 1.0, 3.0, 0.0, 0.0, 600.0, (1000.0, 0.0, 2000.0), 0.0, 500.0, 500.0, 40.0, (), 0.0)
HALF = replace(COSTS, degree=2, gather_s=0.25, enter_s=0.125, weights=300.0, activations=250.0, running=400.0)


def a_run(**given):
    chosen = replace(device("h100"), link_bandwidth=LINK, memory=10_000.0)
    usual = {"machines": 4, "devices": 4, "device": chosen, "network": NETWORK, "batch": 16, "microbatch": 1}
    usual["shard"] = "optimizer"
    return Run(**usual | given)


def instance_of(run, costs=(COSTS, HALF), memory=10_000.0, reserved=lambda block, one, name: 0.0):
    return made_of(run, [costs] * 2, memory, reserved)


def made_of(run, menus, memory=10_000.0, reserved=lambda block, one, name: 0.0):
    model = Model("two blocks")
    tensors = [model.tensor(name, (SENT // 4,), "float32") for name in "xyz"]
    for number in range(2):
        ends = [Access(tensors[number], ("d",))], [Access(tensors[number + 1], ("d",))]
        model.operator(f"o{number}", "any", *ends, {"d": SENT // 4})
    return problem(model, BLOCKS, menus, run, memory, reserved)


def a_solution(stage, data, tensor, configuration=(KEPT, KEPT)):
    degrees = {"data_parallel": list(data), "tensor_parallel": list(tensor)}
    return {"stage": list(stage), "configuration": list(configuration), **degrees}


@pytest.mark.parametrize(
    ("shard", "once", "always"), [("none", 2, 0), ("optimizer", 2, 0), ("gradients", 1, 1), ("weights", 0, 3)]
)
@pytest.mark.parametrize(("data", "speed"), [(4, LINK), (8, 4 * NETWORK), (2, LINK)])
def test_replicas_exchange_what_they_divide(shard, once, always, data, speed):
    """ZeRO, SC 2020, Section 7: a reduce-scatter or an all-gather moves (d - 1) / d of the bytes per device."""
    found = stages(instance_of(a_run(shard=shard)), a_solution((0, 0), [data], [1]))
    moved = (data - 1) / data * 2 * COSTS.weights / speed
    assert found.sync == pytest.approx([once * moved])
    assert found.microbatch == pytest.approx([2 * 3.0 + always * moved])


def test_replicas_that_serve_gather_divided_weights_once():
    found = stages(instance_of(a_run(shard="weights", train="none")), a_solution((0, 0), [4], [1]))
    assert found.sync == [0]
    assert found.microbatch == pytest.approx([2 * 3.0 + 3 / 4 * 2 * COSTS.weights / LINK])


@pytest.mark.parametrize("tensor", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_devices_of_a_stage_send_their_shares_and_gather_the_rest(tensor):
    found = stages(instance_of(a_run()), a_solution((0, 1), [1, 1], tensor))
    for degree, seconds in zip(tensor, found.microbatch, strict=True):
        block = 3.0 if degree == 1 else 3.25
        # one way a share is sent, the other way one arrives, and the others' are gathered
        assert seconds == pytest.approx(block + (2 * SENT / degree) / NETWORK + (1 - 1 / degree) * SENT / LINK)


@pytest.mark.parametrize("tensor", [(1, 1), (1, 2), (2, 1)])
def test_serving_sends_one_way(tensor):
    found = stages(instance_of(a_run(train="none")), a_solution((0, 1), [1, 1], tensor))
    gathered = (1 - 1 / tensor[1]) * SENT / LINK
    blocks = [3.0 if degree == 1 else 3.25 for degree in tensor]
    assert found.microbatch[0] == pytest.approx(blocks[0] + SENT / tensor[0] / NETWORK)
    assert found.microbatch[1] == pytest.approx(blocks[1] + SENT / tensor[1] / NETWORK + gathered)


def test_computing_again_takes_a_forward_pass_and_gathers_what_enters():
    again = a_solution((0, 0), [1], [2], (AGAIN, AGAIN))
    found = stages(instance_of(a_run()), again)
    assert found.microbatch == pytest.approx([2 * (3.0 + 1.0 + 0.125)])
    assert found.held[0]["activations"] == 2 * 40.0


@pytest.mark.parametrize("shard", SHARDS)
def test_one_block_at_a_time_needs_its_activations_and_what_is_divided_whole(shard):
    run = a_run(shard=shard)
    costs = [[replace(COSTS, whole=run.whole * 600.0), replace(HALF, whole=run.whole * 300.0)]] * 2
    whole = {"none": 0, "optimizer": 0, "gradients": 1, "weights": 2}[shard]
    kept, again = (a_solution((0, 0), [2], [2], (KEPT, kind)) for kind in (KEPT, AGAIN))
    assert working_bytes(kept, costs) == [400.0 - 250.0 + whole * 300.0]
    assert working_bytes(again, costs) == [400.0 + whole * 300.0]
    assert working_bytes(a_solution((0, 0), [1], [1]), costs) == [0.0]  # nothing is divided


@pytest.mark.parametrize("memory", [2500.0, 4000.0, 10_000.0])
@pytest.mark.parametrize("train", ["adam", "none"])
def test_customary_layouts_are_the_best_of_all_choices(memory, train, monkeypatch):
    costs = [replace(COSTS, running=900.0), HALF, replace(HALF, lean=True, step_s=3.5, weights=150.0)]
    relaxed = instance_of(a_run(train=train), costs, memory)
    found = practices(relaxed, [costs] * 2)
    monkeypatch.setattr(practice, "_at_best", lambda *_: (False, -math.inf))
    assert found == practices(relaxed, [costs] * 2)


@pytest.mark.parametrize("batch", [2, 4, 6, 16])
def test_equal_degrees_are_the_best_of_all_where_a_batch_has_few_microbatches(batch):
    """The blocks fit in two stages only, for whose most replicas a batch may have too few microbatches."""
    costs = [COSTS, HALF]
    relaxed = instance_of(a_run(batch=batch, shard="none"), costs, 4600.0)
    divisors = [d for d in range(1, batch + 1) if batch % d == 0]
    every = ((stages, d, degree) for stages in (1, 2) for d in divisors for degree in (1, 2))
    choices = (one for one in every if math.prod(one) <= relaxed.devices)
    best = practice.best_of(relaxed, [costs] * 2, "", choices)
    found = practices(relaxed, [costs] * 2)[0]
    assert best.cost is not None
    assert (found.cost, found.layout) == (best.cost, best.layout)


def test_the_bound_has_the_memory_of_the_largest_block_while_it_runs(monkeypatch):
    """As much as that, and no more, as another block may be larger, but is not in every stage."""
    menus, asked = [[COSTS, HALF], [COSTS, replace(HALF, running=900.0)]], list[dict[object, float]]()
    relaxed = made_of(a_run(), menus)

    def problem_of(memory, reserved):
        asked.append({(b, n): reserved(b, menus[b][1], n) for b in range(2) for n in (KEPT, AGAIN)})
        return made_of(a_run(), menus, memory, reserved)

    search = partial(certify, tell=print, cores=1, seed=0)
    _best(relaxed, problem_of, menus, practices(relaxed, menus), search, 5, print)
    assert asked[0] == {(0, KEPT): 0.0, (0, AGAIN): 0.0, (1, KEPT): 900.0 - 250.0, (1, AGAIN): 900.0}


@pytest.mark.parametrize("seed", range(4))
def test_a_layout_is_found_where_memory_for_one_block_rules_out_the_other(seed):
    """One block needs much while it runs, the other holds much: alone in a stage each fits, to the last byte."""
    run = a_run(machines=1, devices=2, max_tensor=1, shard="none", train="none")
    wide = replace(COSTS, activations=0.0, running=5000.0, state=(1000.0, 0.0, 0.0))
    heavy = replace(COSTS, activations=0.0, running=500.0 * seed, state=(6000.0 - 500.0 * seed, 0.0, 0.0))
    menus = [[wide], [heavy]]
    relaxed = made_of(run, menus, 8000.0 if seed == 0 else 6000.0)
    both = a_solution((0, 0), [1], [1])

    def search(instance, steps, timeout, known=None, **given):
        found = certify(instance, steps, 5, print, cores=1, seed=0)
        return replace(found, solution=both) if verify(instance, both).feasible else found

    assert lacking_bytes(relaxed, both, menus) > 0
    found = _best(relaxed, partial(made_of, run, menus), menus, [], search, 5, print)
    assert lacking_bytes(relaxed, found.solution, menus) <= 0
    assert found.solution["stage"] == [0, 1]


def test_a_customary_layout_is_the_answer_if_no_other_one_is_found():
    run = a_run(machines=1, devices=2, max_tensor=1)
    large = replace(COSTS, activations=2200.0, running=2200.0, state=(2500.0, 0.0, 2000.0), entering=10.0)
    costs = [[large], [large]]
    relaxed = instance_of(run, [large])
    customs, asked = practices(relaxed, costs), list[float]()

    def once(memory, reserved):
        asked.append(memory)
        if len(asked) > 1:
            raise InputError("layout", "memory", "expected more")
        return relaxed

    def search(instance, steps, timeout, known=None, **given):
        lacking = a_solution((0, 0), [1], [1], (AGAIN, AGAIN))
        assert verify(instance, lacking).feasible
        assert lacking_bytes(instance, lacking, costs) > 0
        return replace(certify(instance, steps, 5, print, cores=1, seed=0, known=known), solution=lacking)

    found = _best(relaxed, once, costs, customs, search, 5, print)
    assert len(asked) > 2
    assert lacking_bytes(relaxed, found.solution, costs) <= 0
    assert found.cost == min(one.cost for one in customs if one.cost is not None)
    assert found.lower_bound <= found.cost


def test_a_block_that_no_device_holds_is_named():
    run = a_run(machines=1, devices=2)
    fits, large = [COSTS, HALF], [replace(one, state=(20_000.0 / one.degree, 0.0, 0.0)) for one in (COSTS, HALF)]
    refuse_large("m.mlir", ["one", "two"], [fits, fits], run)
    told = "expected at least 10,400 bytes, which block two needs on one of 2 devices as a stage of its own"
    with pytest.raises(InputError, match=f"m.mlir: memory: {told}; found 10,000, 400 too few"):
        refuse_large("m.mlir", ["one", "two"], [fits, large], run)


def test_too_little_memory_for_any_layout_names_what_the_closest_lacks():
    run = a_run(machines=1, devices=2, max_tensor=1)
    large = replace(COSTS, activations=6000.0, running=6000.0, entering=6000.0, state=(6500.0, 0.0, 2000.0))
    relaxed = instance_of(run, [large], 15_000.0)
    customs = practices(relaxed, [[large]] * 2)
    assert all(one.cost is None for one in customs)
    search = partial(certify, tell=print, cores=1, seed=0)
    with pytest.raises(
        InputError,
        match=r"expected more memory or devices; no .* 2 x 1 x 1, which lacks least memory, needs 5,500 bytes more",
    ):
        _best(relaxed, partial(instance_of, run, [large]), [[large]] * 2, customs, search, 6, print)
