"""Locations as JAX writes them: components, the backward pass, scopes and layers."""

from __future__ import annotations

import pytest

from shardmark.instances.models.stablehlo import scopes


@pytest.mark.parametrize(
    ("name", "backward", "scope", "layer"),
    [
        ("jit(step)/jvp(layer3)/dot_general", False, ("layer3",), (3, "layer*")),
        ("jit(step)/transpose(jvp(layer3))/bsm,mhd->bshd/dot_general", True, ("layer3", "bsm,mhd->bshd"), None),
        ("jit(step)/transpose(jvp(net/block_12))/mul", True, ("net", "block_12"), (12, "net/block_*")),
        ("jit(step)/jvp()/reduce_sum", False, (), (-1, "")),
        ("jit(step)/jit(main)/jvp(jit(_take))/gather", False, ("jit(_take)",), (-1, "jit(_take)")),
        ("jit(step)/transpose(jvp(jvp()))/checkpoint/rematted_computation/sin", True, (), (-1, "")),
        ("jit(step)/transpose(jvp(layer3))/jvp(layer3)/checkpoint/mul", True, ("layer3",), (3, "layer*")),
        ("jit(step)/transpose(jvp(a))/jvp(b)/mul", True, ("a", "b"), None),
        ("jit(step)/vmap(transpose(jvp(layer3)))/mul", True, ("layer3",), (3, "layer*")),
        ("jit(step)/vmap(transpose(jvp(layer3)))/vmap(jvp(layer3))/checkpoint/mul", True, ("layer3",), None),
        ("jit(step)/vmap(jvp(layer3))/mul", False, ("layer3",), (3, "layer*")),
        ("transpose", False, (), (-1, "")),
        ("jit(step)/jvp(layer3)/transpose", False, ("layer3",), (3, "layer*")),
        ("", False, (), (-1, "")),
        ("jit(a(b/c", False, (), (-1, "")),
    ],
)
def test_parts_of_a_location(name, backward, scope, layer):
    assert scopes.is_backward(name) == backward
    assert scopes.scope(name) == scope
    assert layer is None or scopes.layer(name) == layer


def test_the_outer_function_is_left_out_of_names():
    assert scopes.parts("jit(step)/jit(main)/add:") == ("add",)
    assert scopes.parts("jit(step)/jit(update)/sub") == ("jit(update)", "sub")
    assert scopes.parts("jit(step)") == ("jit(step)",)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("jit(step)/jvp(Net)/layers_3/attn/dot_general", ("Net", "layers_3", "attn")),
        ("jit(step)/transpose(jvp(Net/layers_3))/bsm,mhd->bshd/dot_general", ("Net", "layers_3")),
        ("jit(step)/jvp(layer0)/jit(_where)/select_n", ("layer0",)),
        ("jit(f)/block.1/while/body/closed_call/mlp/add", ("block.1", "mlp")),
        ("jit(f)/block/while/3/closed_call/mlp/add", ("block", "while.3", "mlp")),
        ("jit(f)/cond/branch_1_fun/mlp/add", ("mlp",)),
        ("jit(step)/jvp()/reduce_sum", ()),
    ],
)
def test_a_module_is_a_scope_without_calls_of_jax(name, module):
    assert scopes.module(name) == module
