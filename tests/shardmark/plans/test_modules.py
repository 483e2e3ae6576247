"""The modules that parts hold, whole or cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances.models.model import Access, Model
from shardmark.plans.modules import Held, held_modules, in_short


def chain(modules):
    """A chain of operators; operator i is in ``modules[i]``, a path with slashes between its levels."""
    model = Model()
    read = model.tensor("x", (1,), "int8")
    for index, module in enumerate(modules):
        made = model.tensor(f"t{index}", (1,), "int8")
        levels = tuple(filter(None, module.split("/")))
        reads, writes = [Access(read, ("d0",))], [Access(made, ("d0",))]
        model.operator(f"op{index}", "Relu", reads, writes, {"d0": 1}, module=levels)
        read = made
    return model


LAYERS = ["m/embed", *(f"m/layers.{i}/{name}" for i in range(4) for name in ("attn", "mlp", "mlp")), "head"]


@pytest.mark.parametrize(
    ("ends", "held", "cut"),
    [
        ([7, 14], [["m.embed", "m.layers.0", "m.layers.1"], ["m.layers.2", "m.layers.3", "head"]], [[], []]),
        (
            [5, 14],
            [
                ["m.embed", "m.layers.0", "m.layers.1.attn"],
                ["m.layers.1.mlp", "m.layers.2", "m.layers.3", "head"],
            ],
            [["m.layers.1"], ["m.layers.1"]],
        ),
        (
            [6, 10, 14],
            [
                ["m.embed", "m.layers.0", "m.layers.1.attn", "m.layers.1.mlp"],
                ["m.layers.1.mlp", "m.layers.2"],
                ["m.layers.3", "head"],
            ],
            [["m.layers.1.mlp"], ["m.layers.1.mlp"], []],
        ),
        ([14], [["m", "head"]], [[]]),
    ],
)
def test_a_part_holds_the_outermost_whole_modules_and_cuts_the_innermost(ends, held, cut):
    part_of = [next(part for part, end in enumerate(ends) if index < end) for index in range(len(LAYERS))]
    found = held_modules(chain(LAYERS), part_of, len(ends))
    assert [list(part.modules) for part in found] == held
    assert [list(part.cut) for part in found] == cut


def test_a_module_that_encloses_others_of_the_part_is_not_listed_for_an_operator_of_its_own():
    assert held_modules(chain(["m", "m/a", "m", "m/b"]), [0, 0, 1, 1], 2)[1].modules == ("m.b",)
    assert held_modules(chain(["m", "m", "m"]), [0, 0, 1], 2)[1] == Held(("m",), ())


def test_nothing_is_held_where_the_file_names_no_modules():
    assert held_modules(chain(["", "", ""]), [0, 0, 1], 2) == [Held(), Held()]
    assert held_modules(chain(["", "a", ""]), [0, 1, 1], 2) == [Held(), Held(("a",))]


def test_modules_in_short():
    assert [in_short(list(text)) for text in ("", "a", "ab", "abc", "abcd")] == ["", "a", "a, b", "a ... c", "a ... d"]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "a/b", "a/b/c", "a/d", "e"]), st.integers(0, 2)), min_size=1))
def test_a_module_that_is_listed_as_cut_is_in_several_parts_and_no_part_is_within_it(pairs):
    modules, part_of = zip(*pairs, strict=True)
    found = held_modules(chain(modules), part_of, 3)
    for part, held in enumerate(found):
        for path in held.cut:
            inside = [f"{module.replace('/', '.')}.".startswith(f"{path}.") for module in modules]
            parts = {p for p, within in zip(part_of, inside, strict=True) if within}
            assert part in parts
            assert len(parts) > 1
            assert all(
                any(
                    p == q and not within and module for q, within, module in zip(part_of, inside, modules, strict=True)
                )
                for p in parts
            )
