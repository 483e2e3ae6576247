"""Blocks are repeated modules, or runs of operators between the places where few bytes cross."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardmark.instances.models.model import Access, Model
from shardmark.plans.cluster.blocks import FEW, MOST_CUTS, blocks_of


def chain(modules, *, weight=1000, skips=(), shared=()):
    """A chain of operators in modules; ``skips`` are more edges, ``shared`` operators that all later ones read."""
    model = Model("chain")
    last = model.tensor("x", (4,), "float32")
    outputs = []
    for index, levels in enumerate(modules):
        reads = [Access(last, ("d",))] if index not in shared else []
        reads += [Access(outputs[u], ("d",)) for u, v in skips if v == index]
        reads += [Access(outputs[u], ("d",)) for u in shared if u < index]
        if index not in shared:
            w = model.tensor(f"w{index}", (weight,), "float32", parameter=True)
            reads.append(Access(w, (None,)))
        written = model.tensor(f"t{index}", (4,), "float32")
        model.operator(f"o{index}", "any", reads, [Access(written, ("d",))], {"d": 4}, flops=100, module=levels)
        outputs.append(written)
        if index not in shared:
            last = written
    model.outputs = [last]
    return model


def layered(layers):
    inner = [("model", f"layers.{layer}", part) for layer in range(layers) for part in ("attention", "mlp")]
    return [("embed",), *inner, ("head",)]


def names(model):
    return [block.name for block in blocks_of(model)]


def test_numbered_modules_are_blocks_and_so_is_what_stands_between():
    found = blocks_of(chain(layered(FEW)))
    assert [block.name for block in found] == ["embed", *(f"model.layers.{i}" for i in range(FEW)), "head"]
    assert [index for block in found for index in block.operators] == list(range(2 * FEW + 2))
    assert [len(block.tensors) for block in found] == [0, *[1] * FEW, 1]


def test_few_modules_are_divided_into_those_inside():
    modules = [(f"stages.{i}", f"blocks.{j}") for i in range(2) for j in range(3)]
    assert names(chain(modules)) == [f"stages.{i}.blocks.{j}" for i in range(2) for j in range(3)]


def test_what_several_blocks_read_belongs_to_one_and_is_no_block_of_its_own():
    found = blocks_of(chain([("angles",), *layered(FEW)], shared=(0,)))
    assert len(found) == FEW + 2
    assert 0 in found[0].operators
    assert len(found[3].tensors) == 2  # the activation, and the angles


def test_what_depends_on_a_block_is_not_shared_by_later_ones():
    """As the states of an encoder, which all blocks of the decoder read."""
    encoder, decoder = ([(name, f"block.{i}") for i in range(FEW)] for name in ("encoder", "decoder"))
    skips = [(FEW, reader) for reader in range(FEW + 2, 2 * FEW + 1)]
    found = names(chain([*encoder, ("norm",), *decoder], skips=skips))
    assert found == [*map(".".join, encoder), "norm", *map(".".join, decoder)]


def test_few_modules_whose_inner_ones_are_no_blocks_stay_whole():
    """As layers whose projections number only the last ones, ``fc1`` and ``fc2``, where data come back to a layer."""
    modules = [(f"layers.{i}", part) for i in range(4) for part in ("fc1", "fc2", "fc1")]
    assert names(chain(modules)) == [f"layers.{i}" for i in range(4)]


def test_at_modules_all_blocks_but_the_first_begin_with_one():
    inner = [(f"layers.{i}", part) for i in range(FEW) for part in ("up", "down")]
    model = chain([(), *inner, (), ("norm",), (), ("head",)])
    assert [block.operators[0] for block in blocks_of(model, at_modules=True)] == [
        0,
        *range(1, 2 * FEW, 2),
        2 * FEW + 2,
    ]
    cut = chain([("one",), *[("two",)] * 6, ("three",)])
    assert [block.operators for block in blocks_of(cut, at_modules=True)] == [(0,), tuple(range(1, 7)), (7,)]


def test_what_a_loss_makes_of_the_labels_belongs_to_the_last_block():
    model = chain(layered(FEW))
    labels, weights = model.tensor("labels", (4,), "int32"), model.tensor("w", (1000,), "float32", parameter=True)
    made = [model.tensor(name, (1000,), "float32") for name in ("one hot", "cast", "loss")]
    for source, target in zip((labels, weights), made, strict=False):
        model.operator(model.tensors[target].name, "any", [Access(source, ("d",))], [Access(target, ("d",))], {"d": 4})
    reads = [Access(tensor, ("d",)) for tensor in (model.outputs[0], *made[:2])]
    model.operator("loss", "any", reads, [Access(made[2], ("d",))], {"d": 4})
    model.outputs = made[2:]
    found = blocks_of(model)
    assert found[0].operators == (0,)
    assert [len(block.tensors) for block in found] == [0, *[1] * (FEW + 1)]


def test_modules_that_data_leave_and_enter_again_are_no_blocks():
    modules = [("m", f"layers.{i % FEW}") for i in range(2 * FEW)]
    found = blocks_of(chain(modules))
    assert [index for block in found for index in block.operators] == list(range(2 * FEW))
    assert all(len(block.tensors) <= 1 for block in found)


@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_without_modules_blocks_end_where_few_bytes_cross(count):
    skips = [(u, u + 2) for u in range(0, count - 2, 4)]
    found = blocks_of(chain([()] * count, skips=skips))
    assert [index for block in found for index in block.operators] == list(range(count))
    assert len(found) <= 2 * MOST_CUTS
    if count == 1000:
        assert all(len(block.tensors) <= 1 for block in found)


def stepped(blocks, weights):
    """A chain as JAX lowers it: ``blocks`` are scopes, or None outside of any, ``weights`` names of parameters."""
    model = chain([() if scope is None else (scope,) for scope in blocks])
    for index, operator in enumerate(model.operators):
        name = f"jvp({blocks[index] or ''})/dot_general"
        model.operators[index] = replace(operator, name=f"{name}#{index + 1}" if index else name)
    parameters = [number for number, tensor in enumerate(model.tensors) if tensor.parameter]
    for number, name in zip(parameters, weights, strict=True):
        model.tensors[number] = replace(model.tensors[number], name=name)
    return model


LAYERS = [f"layer{i}" for i in range(FEW)]
OF_LAYERS = [f"params['layers'][{i}]['up']" for i in range(FEW)]


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (["params['embed']"], ["params['unembed']"], ["embed", "unembed"]),
        (["params['embed']"], ["params['embed']"], ["embed", "embed#2"]),  # tied
        (
            ["state.params['embed'].table"],
            ["p.norm", "params['out']['kernel']"],
            ["params.embed.table", "p.norm ... out.kernel"],
        ),
        (["x"], ["y"], ["dot_general", "dot_general#10"]),
    ],
)
def test_what_is_outside_of_scopes_has_the_names_of_its_parameters(first, last, found):
    scopes = [*[None] * len(first), *LAYERS, *[None] * len(last)]
    assert names(stepped(scopes, [*first, *OF_LAYERS, *last])) == [found[0], *LAYERS, found[1]]


def test_a_scope_without_parameters_names_no_block_with_some():
    """As that of an optimiser's counter, which runs in the block of the embedding."""
    model = stepped([None, *LAYERS, "head"], ["params['embed']", *OF_LAYERS, "params['w']"])
    count, more = (model.tensor(name, (), "int32", parameter=name == "count") for name in ("count", "more"))
    model.operator("update/add", "any", [Access(count, ())], [Access(more, ())], {}, module=("update",))
    model.outputs.append(more)
    assert names(model) == ["embed", *LAYERS, "head"]


def test_modules_around_others_of_a_block_are_not_in_its_name():
    """As a Transformer that adds position embeddings, which are constant, to its words' embeddings."""
    inner = [("model", f"layers.{i}") for i in range(FEW)]
    found = names(chain([("model", "words"), ("model",), *inner, ("model", "norm"), ("head",)]))
    assert found == ["model.words", *(f"model.layers.{i}" for i in range(FEW)), "model.norm ... head"]
