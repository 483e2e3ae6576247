"""Fused models compute the same, move no more bytes, stay acyclic, and split only where each member can follow."""

from __future__ import annotations

import time

import numpy as np
import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.instances.models.fuse import cheap, fuse
from shardmark.instances.models.model import Access, Model

SIDE = 3
LOOPS = {"i": SIDE, "j": SIDE}
KINDS = ("elementwise", "elementwise", "view", "product", "sum")


@st.composite
def models(draw):
    """Up to twelve operators on square matrices, of which each axis may be any loop."""
    model = Model("drawn")
    for number in range(3):
        model.tensor(f"input{number}", (SIDE, SIDE), "float32", parameter=number == 2)
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(KINDS))
        known = range(len(model.tensors))
        sources = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        written = [
            model.tensor(f"t{number}.{port}", (SIDE, SIDE), "float32") for port in range(draw(st.integers(1, 2)))
        ]
        backward = number >= 8
        if kind == "view":
            axes = draw(st.sampled_from([("i", "j"), ("i", None)]))
            reads, written = [Access(sources[0], axes)], written[:1]
        elif kind == "product":
            reads = [Access(sources[0], ("i", "k")), Access(sources[-1], ("k", "j"))]
        else:
            axes = st.sampled_from([("i", "j"), ("j", "i"), ("i", None)])
            reads = [Access(source, draw(axes)) for source in sources]
        if kind == "sum":
            reads = [Access(reads[0].tensor, tuple(draw(st.permutations(["i", "k"]))))]
        rows = kind == "sum" or (reads[0].dims == ("i", None) and kind == "view")
        writes = [Access(tensor, ("i", None) if rows else ("i", "j")) for tensor in written]
        loops = {"i": SIDE, "k": SIDE} if kind == "sum" else LOOPS | ({"k": SIDE} if kind == "product" else {})
        model.operator(
            f"o{number}", kind, reads, writes, loops,
            multiply_adds=SIDE**3 if kind == "product" else 0, flops=None if kind == "product" else 5 * number,
            view=kind == "view", whole=frozenset("j" if kind == "view" and rows else ""),
            backward=backward, forward=number - 8 if backward else None,
        )  # fmt: skip
    unwritten = [number for number, tensor in enumerate(model.tensors) if not tensor.parameter]
    model.outputs = draw(st.lists(st.sampled_from(unwritten), max_size=2, unique=True))
    return model


def run(operator, values):
    """Compute what an operator writes; NaN stands for what a device does not have."""
    if operator.view:
        return values[operator.reads[0].tensor]
    letters = iter("abcdefgh")
    terms = ["".join(axis or next(letters) for axis in access.dims) for access in operator.reads]
    operands = [values[access.tensor] for access in operator.reads]
    target = "".join(axis for axis in operator.writes[0].dims if axis)
    if operator.kind == "elementwise":
        present = "".join(sorted(set("".join(terms)) & {"i", "j"}))
        found = np.einsum(f"{','.join(terms)}->{present}", *operands)
        axes = tuple(number for number, axis in enumerate("ij") if axis not in present)
        found = np.broadcast_to(np.expand_dims(found, axes), (SIDE, SIDE))
        return np.cos(found) + 2
    present = [np.nan_to_num(operand) for operand in operands]  # of a part of a loop, other parts are not run
    found = np.einsum(f"{','.join(terms)}->{target}", *present)
    return np.broadcast_to(found[:, None], (SIDE, SIDE)) if operator.kind == "sum" else found


def run_all(model, members, values):
    """Run operators in order on a copy of the values, by name of the tensor."""
    values = dict(values)
    for index in members:
        operator = model.operators[index]
        named = {access.tensor: values[model.tensors[access.tensor].name] for access in operator.reads}
        for port, access in enumerate(operator.writes):
            values[model.tensors[access.tensor].name] = run(operator, named) * (port + 1)
    return values


def moved(model):
    return sum(model.bytes_read(v) + model.bytes_written(v) for v in range(len(model.operators)))


@given(models())
def test_partition_and_totals(model):
    fused, groups = fuse(model)
    assert sorted(index for members in groups for index in members) == list(range(len(model.operators)))
    assert all(members == sorted(members) for members in groups)
    for attribute in ("flops", "multiply_adds"):
        expected = [sum(getattr(model.operators[index], attribute) for index in members) for members in groups]
        assert [getattr(operator, attribute) for operator in fused.operators] == expected
    assert fused.parameter_bytes() == model.parameter_bytes()
    assert moved(fused) <= moved(model)
    assert [fused.tensors[t].name for t in fused.outputs] == [model.tensors[t].name for t in model.outputs]


@given(models())
def test_order_and_names(model):
    fused, groups = fuse(model)
    assert all(tail < head for tail, head in fused.edges())  # an order, so the graph has no cycle
    for operator, members in zip(fused.operators, groups, strict=True):
        assert operator.name in {model.operators[index].name for index in members}
        assert {model.operators[index].backward for index in members} == {operator.backward}
        costly = [model.operators[index] for index in members if not cheap(model.operators[index])]
        assert len(costly) <= 1
        assert not costly or (operator.name, operator.loops) == (costly[0].name, costly[0].loops)
        if operator.forward is not None:
            named = {model.operators[index].forward for index in members}
            assert named & set(groups[operator.forward])


@given(models())
def test_groups_in_order_compute_the_same(model):
    inputs = [tensor.name for tensor in model.tensors if tensor.producer is None]
    chance = np.random.default_rng(0)
    values = {name: chance.normal(size=(SIDE, SIDE)) for name in inputs}
    expected = run_all(model, range(len(model.operators)), values)
    fused, groups = fuse(model)
    known = dict(values)
    for operator, members in zip(fused.operators, groups, strict=True):
        read = {fused.tensors[access.tensor].name for access in operator.reads}
        found = run_all(model, members, {name: known[name] for name in read})  # nothing else is at hand
        known.update(
            {fused.tensors[access.tensor].name: found[fused.tensors[access.tensor].name] for access in operator.writes}
        )
    assert known.keys() == {tensor.name for tensor in fused.tensors}
    assert all(np.array_equal(known[name], expected[name]) for name in known)


@pytest.mark.gate
@settings(max_examples=some_of(100))
@given(models())
def test_each_part_of_a_split_needs_only_its_part_of_what_is_read(model):
    """Slices of what runs along the loop equal those of the whole; what does not run along it is summed over parts."""
    fused, groups = fuse(model)
    chance = np.random.default_rng(1)
    for operator, members in zip(fused.operators, groups, strict=True):
        inputs = {fused.tensors[access.tensor].name: chance.normal(size=(SIDE, SIDE)) for access in operator.reads}
        whole = run_all(model, members, inputs)
        for loop in operator.loops.keys() - operator.whole:
            parts = []
            for at in range(SIDE):
                kept = dict(inputs)
                for name in inputs:
                    axes = [a.dims for a in operator.reads if fused.tensors[a.tensor].name == name]
                    mask = np.zeros((SIDE, SIDE), dtype=bool)
                    for dims in axes:
                        slices = tuple(at if axis == loop else slice(None) for axis in dims)
                        mask[slices] = True
                    kept[name] = np.where(mask, inputs[name], np.nan)
                parts.append(run_all(model, members, kept))
            read = [access.tensor for access in operator.reads if loop in access.dims]
            summable = sorted(read) == sorted({access.tensor for access in operator.reads})
            for access in operator.writes:
                name = fused.tensors[access.tensor].name
                if loop not in access.dims and not summable:
                    continue  # parts of x @ x are not the products of parts of x
                if loop in access.dims:
                    axis = access.dims.index(loop)
                    found = np.stack([part[name].take(at, axis) for at, part in enumerate(parts)], axis)
                else:
                    found = sum(part[name] for part in parts)
                assert np.allclose(found, whole[name]), (operator, loop)


def chain(*kinds):
    """A product, and then operators that each read the one before."""
    model = Model("chain")
    last = model.tensor("x", (SIDE, SIDE), "float32")
    weight = model.tensor("w", (SIDE, SIDE), "float32", parameter=True)
    for number, kind in enumerate(kinds):
        after = model.tensor(f"t{number}", (SIDE, SIDE), "float32")
        if kind == "product":
            reads = [Access(last, ("i", "k")), Access(weight, ("k", "j"))]
            model.operator(
                f"o{number}", kind, reads, [Access(after, ("i", "j"))], LOOPS | {"k": SIDE}, multiply_adds=27
            )
        else:
            model.operator(f"o{number}", kind, [Access(last, ("i", "j"))], [Access(after, ("i", "j"))], LOOPS, flops=9)
        last = after
    return model


def test_activations_join_the_product_before_them():
    fused, groups = fuse(chain("product", "elementwise", "elementwise", "product", "elementwise"))
    assert groups == [[0, 1, 2], [3, 4]]
    product = fused.operators[0]
    assert (product.name, product.flops, product.whole) == ("o0", 72, {"k"})
    assert fused.tensors[product.writes[0].tensor].name == "t2"
    assert product.writes[0].dims == ("i", "j")
    assert fused.bytes_written(0) == 4 * SIDE**2


def test_cheap_operators_at_the_inputs_join_their_reader():
    fused, groups = fuse(chain("elementwise", "elementwise", "product"))
    assert groups == [[0, 1, 2]]
    assert fused.operators[0].whole == frozenset()  # the sum over k is the last step
    assert fused.operators[0].reads[0].dims == ("k", "j") or fused.operators[0].reads[-1].dims == ("i", "k")


def test_a_residual_sum_joins_the_branch_that_nothing_else_reads():
    model = chain("product", "elementwise", "product")
    after = model.tensor("sum", (SIDE, SIDE), "float32")
    skipped, branch = (Access(model.operators[index].writes[0].tensor, ("i", "j")) for index in (1, 2))
    model.operator("add", "Add", [skipped, branch], [Access(after, ("i", "j"))], LOOPS, flops=9)
    assert fuse(model)[1] == [[0, 1], [2, 3]]


def test_an_operator_between_two_of_a_group_stays_out_of_the_middle():
    """A sum of x and of a product of x joins the product, not x: with x, the product would lie on a cycle."""
    model = chain("elementwise", "product")
    x, y = (Access(model.operators[index].writes[0].tensor, ("i", "j")) for index in (0, 1))
    after = model.tensor("sum", (SIDE, SIDE), "float32")
    model.operator("add", "Add", [x, y], [Access(after, ("i", "j"))], LOOPS)
    assert fuse(model)[1] == [[0], [1, 2]]


@pytest.mark.gate
def test_linear_time():
    seconds = {500: [], 4_000: []}
    for size in [*seconds] * 3:
        model = chain(*["product", "elementwise", "elementwise", "view"] * (size // 4))
        start = time.process_time()
        assert len(fuse(model)[1]) == size // 4
        seconds[size].append(time.process_time() - start)
    assert min(seconds[4_000]) < 8 * 4 * min(seconds[500])
