"""Parts of a plan: what they hold, and what crosses between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances.models.model import Access, Model
from shardmark.plans.parts import crossing_bytes, in_order, parts_of


def chain(sizes, parameters=()):
    """A chain of operators; operator i writes ``sizes[i]`` bytes and reads ``parameters[i]`` bytes of weights."""
    model = Model()
    read = model.tensor("x", (1,), "int8")
    for index, size in enumerate(sizes):
        made = model.tensor(f"t{index}", (size,), "int8")
        reads = [Access(read, (None,))]
        weights = [model.tensor(f"w{index}", (n,), "int8", parameter=True) for n in parameters[index : index + 1]]
        reads += [Access(weight, (None,)) for weight in weights]
        model.operator(f"op{index}", "Relu", reads, [Access(made, ("d0",))], {"d0": size})
        read = made
    return model


def test_a_part_holds_what_its_operators_need():
    model = chain([10, 20, 30], [5, 6, 7])
    parts = parts_of(model, [0, 1, 1], ["stage 0", "stage 1"], [1.0, 2.0, 4.0], [1.5, 6.5])
    assert [(part.name, part.operators) for part in parts] == [("stage 0", ("op0",)), ("stage 1", ("op1", "op2"))]
    assert [part.compute_us for part in parts] == [1.0, 6.0]
    assert [part.load_us for part in parts] == [1.5, 6.5]
    assert [part.parameter_bytes for part in parts] == [5, 13]
    assert [(part.received_bytes, part.sent_bytes) for part in parts] == [(0, 10), (10, 0)]


def test_a_tensor_that_several_parts_read_is_sent_once_and_received_by_each():
    model = chain([10])
    for index in range(3):
        made = model.tensor(f"y{index}", (1,), "int8")
        model.operator(f"reader{index}", "Relu", [Access(1, (None,))], [Access(made, ("d0",))], {"d0": 1})
    assert crossing_bytes(model, [0, 1, 1, 2], 3) == ([0, 10, 10], [10, 0, 0])


def test_a_parameter_that_operators_of_a_part_share_counts_once_there():
    model = Model()
    weight = model.tensor("w", (8,), "int8", parameter=True)
    for index in range(3):
        made = model.tensor(f"y{index}", (1,), "int8")
        model.operator(f"op{index}", "Relu", [Access(weight, (None,))], [Access(made, ("d0",))], {"d0": 1})
    parts = parts_of(model, [0, 0, 1], ["a", "b"], [1.0] * 3, [2.0, 1.0])
    assert [part.parameter_bytes for part in parts] == [8, 8]


@st.composite
def split_graphs(draw):
    nodes = draw(st.integers(1, 8))
    edges = [(u, v) for v in range(nodes) for u in range(v) if draw(st.booleans())]
    return edges, draw(st.lists(st.integers(0, 4), min_size=nodes, max_size=nodes))


@given(split_graphs())
def test_parts_come_in_the_order_of_the_flow_if_there_is_one(case):
    edges, part_of = case
    order = in_order(part_of, edges)
    assert sorted(order) == sorted(set(part_of))
    place = {part: i for i, part in enumerate(order)}
    crossing = {(part_of[u], part_of[v]) for u, v in edges if part_of[u] != part_of[v]}
    backwards = [pair for pair in crossing if place[pair[0]] > place[pair[1]]]
    if backwards:  # only if no order would do
        reach = {part: {part} for part in order}
        for _ in order:
            for u, v in crossing:
                reach[u] |= reach[v]
        assert any(u in reach[v] and v in reach[u] for u, v in crossing)


def test_parts_on_a_cycle_keep_their_own_order():
    assert in_order([2, 1, 2], [(0, 1), (1, 2)]) == [1, 2]


@pytest.mark.parametrize("flow", [[0, 1, 2], [2, 0, 1], [5, 3, 4]])
def test_a_chain_of_parts_is_ordered_along_the_chain(flow):
    assert in_order(flow, [(0, 1), (1, 2)]) == flow
