"""Networks written down in few words become operators over tensors."""

from __future__ import annotations

import pytest

from shardmark.instances.generate.networks.builder import Network
from shardmark.instances.models.model import Access


def test_operators_of_one_layer_share_a_parameter_by_its_name():
    network = Network(layer=3)
    loops = {"m": 4, "n": 6, "k": 8}
    first = network.add("first", [], {"m": 4, "k": 8}, "m k", flops=0)
    second = network.add("second", [first], loops, "m n", each=2, weight="k n 9", shared="w", whole="k")
    third = network.add("third", [network.read(first, "m -")], loops, "m n", each=2, weight="k n 9", shared="w")
    a, b = network.operators[second], network.operators[third]
    assert (a.name, a.layer, a.role, a.whole) == ("layer3/second", 3, "second", {"k"})
    assert (a.flops, a.multiply_adds) == (2 * 4 * 6 * 8, 4 * 6 * 8)
    assert a.reads[0] == Access(0, ("m", "k"))
    assert b.reads[0] == Access(0, ("m", None))
    assert a.reads[1] == b.reads[1] == Access(2, ("k", "n", None))
    assert network.tensors[2].shape == (8, 6, 9)
    assert network.parameter_bytes() == 2 * 8 * 6 * 9
    assert list(network.edges()) == [(first, second), (first, third)]


def test_only_a_sum_of_products_has_multiply_adds():
    network = Network()
    first = network.add("image", [], {"m": 4, "k": 8}, "m k", flops=0)
    network.add("norm", [first], {"m": 4, "k": 8}, "m k", each=8)
    network.add("look-up", [first], {"m": 4, "k": 8}, "m", flops=4)
    assert [operator.multiply_adds for operator in network.operators] == [0, 0, 0]


def test_reading_through_the_wrong_number_of_loops_is_refused():
    network = Network()
    first = network.add("image", [], {"m": 4, "k": 8}, "m k", flops=0)
    with pytest.raises(ValueError, match="has the dimensions"):
        network.read(first, "m")
