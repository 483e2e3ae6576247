"""Loops and branches of programs that JAX lowers: the same operators and costs as without the loop."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from effort import Deferred
from read_models import flops, kinds, read_stablehlo, seconds

from shardmark.instances.errors import InputError
from shardmark.instances.models.control.choices import LARGEST_LOOP
from shardmark.plans.saving import require_export

jax, jnp = Deferred("jax"), Deferred("jax.numpy")

LAYERS, WIDTH, BATCH = 4, 16, 8


def shaped(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


X, W = shaped(BATCH, WIDTH), shaped(WIDTH, WIDTH)
PRODUCT = 2 * BATCH * WIDTH * WIDTH  # operations


@pytest.fixture
def read(tmp_path):
    def read(function, *arguments, branches=None, told=None, donated=()):
        path = tmp_path / "step.mlir"
        lowered = jax.jit(function, donate_argnums=donated).lower(*arguments)
        path.write_text(lowered.as_text(debug_info=True))
        return read_stablehlo(path, [].append if told is None else told.append, branches)

    return read


def layer(x, weights):
    return x + jnp.tanh(x @ weights["in"]) @ weights["out"] * weights["scale"]


def loss(params, x, *, scan, remat):
    block = jax.checkpoint(layer) if remat else layer
    x = x @ params["head"]
    if scan:
        x, _ = jax.lax.scan(lambda carry, weights: (block(carry, weights), None), x, params["layers"])
    else:
        for weights in params["layers"]:
            x = block(x, weights)
    return jnp.sum(jnp.square(x @ params["head"]))


def step(params, x, *, scan, remat):
    value, gradient = jax.value_and_grad(partial(loss, scan=scan, remat=remat))(params, x)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradient)))
    return value, jax.tree.map(lambda p, g: p - 0.1 * g / norm, params, gradient)


def parameters(*, scan):
    shapes = {"in": (WIDTH, 32), "out": (32, WIDTH), "scale": (WIDTH,)}
    if scan:
        layers = {name: shaped(LAYERS, *shape) for name, shape in shapes.items()}
    else:
        layers = [{name: shaped(*shape) for name, shape in shapes.items()} for _ in range(LAYERS)]
    return {"layers": layers, "head": W}


@pytest.mark.parametrize("remat", [False, True])
def test_a_training_step_with_scan_costs_the_same_as_one_without(read, remat):
    found, expected = (
        read(partial(step, scan=scan, remat=remat), parameters(scan=scan), X, donated=0) for scan in (True, False)
    )
    assert flops(found) == flops(expected)
    assert found.parameter_bytes() == expected.parameter_bytes()
    assert len(found.updates) == len(expected.updates) == 3 * LAYERS + 1
    assert seconds(found) == pytest.approx(seconds(expected), rel=0.01)
    assert sum(o.backward for o in found.operators) == pytest.approx(sum(o.backward for o in expected.operators), abs=2)


def test_each_round_has_its_slice_of_the_weights_and_its_number(read):
    model = read(partial(loss, scan=True, remat=False), parameters(scan=True), X)
    slices = [tensor.name for tensor in model.tensors if tensor.parameter and "['in']" in tensor.name]
    assert slices[-LAYERS:] == [f"params['layers']['in'][{number}]" for number in range(LAYERS)]
    assert [operator.layer for operator in model.operators if operator.kind == "tanh"] == list(range(LAYERS))
    assert "while/3/closed_call/tanh" in [operator.name for operator in model.operators]


def test_the_backward_pass_has_the_numbers_of_the_rounds_forward(read):
    model = read(partial(step, scan=True, remat=True), parameters(scan=True), X)
    pairs = [(o.layer, model.operators[o.forward].layer) for o in model.operators if o.forward is not None]
    assert len(pairs) > 8 * LAYERS
    assert all(own == forward for own, forward in pairs if own >= 0)


@pytest.mark.parametrize(
    ("first", "last", "by", "rounds"), [(0, 12, 1, 12), (0, 12, 5, 3), (3, 4, 1, 1), (5, 5, 1, 0), (9, 2, 1, 0)]
)
def test_rounds_follow_from_the_counter(read, first, last, by, rounds):
    def function(x, w):
        return jax.lax.while_loop(lambda c: c[0] < last, lambda c: (c[0] + by, c[1] @ w), (first, x @ w))[1]

    assert flops(read(function, X, W)) == (rounds + 1) * PRODUCT


def test_a_counter_may_fall_and_pass_through_calls(read):
    less = jax.jit(lambda count: count - 2)
    model = read(
        lambda x, w: jax.lax.while_loop(lambda c: c[0] >= 0, lambda c: (less(c[0]), c[1] @ w), (7, x))[1], X, W
    )
    assert flops(model) == 4 * PRODUCT


def test_another_condition_may_end_a_loop_earlier(read):
    told = []

    def going(carry):
        return (carry[0] < 12) & (jnp.sum(carry[1]) > 0)

    model = read(lambda x, w: jax.lax.while_loop(going, lambda c: (c[0] + 1, c[1] @ w), (0, x))[1], X, W, told=told)
    assert flops(model) == 12 * PRODUCT
    assert "loops that may end earlier count with all their rounds: while (12 rounds)" in told


def test_a_loop_of_unknown_length_is_refused(read):
    with pytest.raises(InputError, match=r"while: expected a loop with a counter.*use jax.lax.scan"):
        read(lambda x, w: jax.lax.while_loop(lambda c: jnp.sum(c) > 0, lambda c: c @ w, x), X, W)
    with pytest.raises(InputError, match="expected a loop with a counter"):
        read(lambda x, w, n: jax.lax.fori_loop(0, n, lambda _, c: c @ w, x), X, W, shaped(dtype=np.int32))


def test_a_slice_of_a_loop_costs_its_own_bytes(read):
    """Rows of an input are tensors; columns are slices, of which only their own numbers move."""
    rows = read(lambda x: jax.lax.scan(lambda c, row: (c + jnp.sin(row), None), x[0], x)[0], X)
    assert "dynamic_slice" not in kinds(rows)
    columns = read(lambda x: jax.lax.fori_loop(0, WIDTH, lambda i, c: c + x[:, i], jnp.zeros(BATCH)), X)
    slices = [index for index, kind in enumerate(kinds(columns)) if kind == "dynamic_slice"]
    assert len(slices) == WIDTH
    assert {columns.bytes_read(index) for index in slices} == {4 * BATCH}

    def put(number, x):
        return jax.lax.dynamic_update_slice(x, x[:, :1] * 2, (0, number))

    updated = read(lambda x: jax.lax.fori_loop(0, WIDTH, put, jnp.sin(x)), X)
    updates = [index for index, kind in enumerate(kinds(updated)) if kind == "dynamic_update_slice"]
    assert {(updated.bytes_read(index), updated.bytes_written(index)) for index in updates} == {(4 * BATCH, 4 * BATCH)}


def test_a_cache_is_updated_layer_by_layer(read):
    def decode(cache, x, w, position):
        def one(x, slices):
            cache, w = slices
            cache = jax.lax.dynamic_update_slice(cache, (x @ w)[:, None], (0, position, 0))
            return x + jnp.sum(cache, 1), cache

        return jax.lax.scan(one, x, (cache, w))

    arguments = shaped(6, BATCH, 32, WIDTH), X, shaped(6, WIDTH, WIDTH), shaped(dtype=np.int32)
    model = read(decode, *arguments, donated=0)
    assert kinds(model).count("dynamic_update_slice") == 6
    assert len(model.outputs) == 7
    assert model.parameter_bytes() == 4 * math.prod(arguments[0].shape)
    assert "concatenate" not in kinds(model)


def test_a_loop_of_too_many_operators_stays_one_of_the_same_cost(read):
    told = []

    def function(x, w, *, rounds):
        return jax.lax.fori_loop(0, rounds, lambda _, c: jnp.tanh(c @ w), x)

    one = read(partial(function, rounds=1), X, W)
    many = read(partial(function, rounds=LARGEST_LOOP), X, W, told=told)
    assert kinds(many) == ["while"]
    assert flops(many) == LARGEST_LOOP * flops(one)
    assert seconds(many) == pytest.approx(LARGEST_LOOP * seconds(one))
    assert any(
        "stay one operator of rounds x body" in sentence and "while (20,000 rounds)" in sentence for sentence in told
    )


def test_nested_loops_do_not_grow_beyond_the_limit(read):
    def nested(x, depth):
        return jax.lax.fori_loop(0, 200, lambda _, c: nested(c, depth - 1), x) if depth else jnp.sin(x)

    model = read(lambda x: nested(x, 3), X)
    assert len(model.operators) <= LARGEST_LOOP
    assert flops(model) == 200**3 * BATCH * WIDTH


def test_a_constant_condition_takes_its_branch(read):
    def body(x, number):
        return jax.lax.cond(number % 3 == 0, lambda y: y @ jnp.ones((WIDTH, WIDTH)), jnp.sin, x), None

    model = read(lambda x: jax.lax.scan(body, x, jnp.arange(6))[0], X)
    assert kinds(model) == ["dot_general", "sine", "sine"] * 2


def test_the_dearer_branch_is_planned_unless_another_is_named(read):
    def function(flag, x, w):
        return jax.lax.cond(flag, lambda x: x @ w, jnp.sin, x)

    arguments, told = (shaped(dtype=bool), X, W), []
    assert "dot_general" in kinds(read(function, *arguments, told=told))
    assert any("the dearer branch is planned (cond=then); --branch names another" in sentence for sentence in told)
    assert "sine" in kinds(read(function, *arguments, branches={"cond": "else"}))
    assert "sine" in kinds(read(function, *arguments, branches={"c*": "else"}))
    with pytest.raises(InputError, match="branch cond: expected else or then, found '2'"):
        read(function, *arguments, branches={"cond": "2"})
    with pytest.raises(InputError, match=r"branch con: expected the name of a branch.*'cond'"):
        read(function, *arguments, branches={"con": "then"})


def test_both_passes_take_the_same_branch(read):
    def loss(w, x, flag):  # the first branch has more arithmetic in the forward pass, the second one in the other
        return jnp.sum(jax.lax.cond(flag, lambda y: jax.lax.stop_gradient(y @ w @ w), lambda y: jnp.sin(y @ w), x))

    step, told = jax.value_and_grad(loss), []
    arguments = W, X, shaped(dtype=bool)
    dearer = kinds(read(step, *arguments, told=told))
    assert (dearer.count("dot_general"), dearer.count("cosine")) == (2, 0)
    assert any("planned (jvp()/cond=then);" in sentence for sentence in told)
    other = kinds(read(step, *arguments, branches={"jvp()/cond": "else"}))
    assert (other.count("dot_general"), other.count("cosine")) == (2, 1)


def test_a_wrong_name_of_a_branch_is_answered_with_the_right_ones(read):
    arguments = shaped(dtype=bool), X, W
    with pytest.raises(InputError, match=r"branch decoder: expected the name of .* inputs, such as 'cond'"):
        read(lambda p, x, w: jax.lax.cond(p, lambda x: x @ w, jnp.sin, x), *arguments, branches={"decoder": "then"})


def test_one_of_several_branches_goes_by_its_number(read):
    def function(number, x, w):
        return jax.lax.switch(number, [jnp.sin, lambda x: x @ w, jnp.cos], x)

    arguments = shaped(dtype=np.int32), X, W
    assert "dot_general" in kinds(read(function, *arguments))
    assert "cosine" in kinds(read(function, *arguments, branches={"cond": "2"}))


def test_branches_within_branches_are_measured_once_each(read):
    """If each level measured the levels below anew, 2^18 branches would be read."""

    def nested(flag, x, depth):
        if depth == 0:
            return jnp.sin(x)
        return jax.lax.cond(flag, lambda x: nested(flag, x, depth - 1), jnp.cos, jnp.tanh(x))

    assert len(read(lambda flag, x: nested(flag, x, 18), shaped(dtype=bool), X).operators) < 60


def test_what_shard_map_does_on_a_device_is_read():
    text = """
    module @step {
      sdy.mesh @mesh = <["d"=4]>
      func.func public @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
        %0 = sdy.manual_computation(%x, %w) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {}]>]
            out_shardings=[<@mesh, [{"d"}, {}]>] manual_axes={"d"} (%a: tensor<2x16xf32>, %b: tensor<16x16xf32>) {
          %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
              : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
          sdy.return %1 : tensor<2x16xf32>
        } : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
        %2 = sdy.sharding_constraint %0 <@mesh, [{"d"}, {}]> : tensor<8x16xf32>
        %3 = stablehlo.tanh %2 : tensor<8x16xf32>
        return %3 : tensor<8x16xf32>
      }
    }"""
    from shardmark.instances.models.stablehlo.module import parse
    from shardmark.instances.models.stablehlo_file import model_of

    told = []
    model = model_of(parse(text.encode(), "step.mlir"), "step.mlir", told.append)
    assert kinds(model) == ["shard", "dot_general", "shard", "tanh"]
    assert flops(model) == PRODUCT // 4 + BATCH * WIDTH
    assert any("one device's work counts: manual_computation" in sentence for sentence in told)


@pytest.mark.usefixtures("stablehlo_in_process")
def test_specs_of_a_program_with_loops_are_refused_beforehand(tmp_path):
    path = tmp_path / "step.mlir"
    for unroll in (True, False):
        lowered = jax.jit(lambda x, unroll=unroll: jax.lax.scan(lambda c, r: (c + r, None), x[0], x, unroll=unroll)[0])
        path.write_text(lowered.lower(X).as_text(debug_info=True))
        if unroll:
            require_export("specs", path, on_mesh=True)
    with pytest.raises(InputError, match=r"expected a program without loops.*unroll=True"):
        require_export("specs", path, on_mesh=True)
