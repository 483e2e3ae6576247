"""Times of operators equal those that the roofline gives by hand."""

from __future__ import annotations

import pytest

from shardmark.instances.models.devices import Device, device
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.roofline import computed_in, roofline

#: 1 GFLOP/s in float32 and 4 in float16, 100 MB/s, 10 us to launch.
DEVICE = Device("toy", {"float32": 1e9, "float16": 4e9}, 1e8, 1e9, 1e-5, 1e7, 0, "made up")


def product(m, k, n, dtype="float32"):
    model = Model("product")
    a, b, c = (model.tensor(name, shape, dtype) for name, shape in (("a", (m, k)), ("b", (k, n)), ("c", (m, n))))
    reads, writes = [Access(a, ("m", "k")), Access(b, ("k", "n"))], [Access(c, ("m", "n"))]
    model.operator("c", "MatMul", reads, writes, {"m": m, "k": k, "n": n}, multiply_adds=m * k * n)
    return model


def seconds(model, on=DEVICE):
    (found,) = roofline(model, on).seconds
    return found


def test_arithmetic_outweighs_traffic():
    # 2 * 100^3 FLOPs take 2 ms, 3 * 40,000 bytes take 1.2 ms
    assert seconds(product(100, 100, 100)) == pytest.approx(2e-3 + 1e-5)


def test_traffic_outweighs_arithmetic():
    # 2 * 100^2 FLOPs take 20 us, 40,000 + 2 * 400 bytes take 408 us
    assert seconds(product(100, 100, 1)) == pytest.approx(408e-6 + 1e-5)


def test_the_data_type_sets_the_rate_and_the_bytes():
    # in float16: 0.5 ms against 0.6 ms
    assert seconds(product(100, 100, 100, "float16")) == pytest.approx(0.6e-3 + 1e-5)


def test_an_operator_computes_in_the_type_of_the_largest_tensor_it_reads():
    model = Model()
    table = model.tensor("table", (1000, 8), "float16", parameter=True)
    indices, rows = model.tensor("indices", (10,), "int64"), model.tensor("rows", (10, 8), "float16")
    reads = [Access(indices, ("i",)), Access(table, (None, "d"), numbers=80)]
    model.operator("rows", "Gather", reads, [Access(rows, ("i", "d"))], {"i": 10, "d": 8}, flops=0)
    assert computed_in(model, 0) == "float16"
    # 80 bytes of indices, 160 of the table's rows, 160 written
    assert seconds(model) == pytest.approx(400 / 1e8 + 1e-5)


def test_a_view_takes_no_time():
    model = Model()
    x, y = model.tensor("x", (8, 8), "float32"), model.tensor("y", (64,), "float32")
    model.operator("y", "Reshape", [Access(x, ("i", "j"))], [Access(y, (None,))], {"i": 8, "j": 8}, view=True)
    assert seconds(model) == 0


def test_an_operator_that_reads_nothing():
    model = Model()
    y = model.tensor("y", (100,), "float16")
    model.operator("y", "Random", [], [Access(y, ("i",))], {"i": 100}, flops=4000, known=False)
    assert computed_in(model, 0) == "float16"
    assert seconds(model) == pytest.approx(2e-6 + 1e-5)


def test_a_type_without_a_rate_costs_its_bytes():
    model = Model()
    x, y = model.tensor("x", (100,), "bool"), model.tensor("y", (100,), "bool")
    model.operator("y", "Not", [Access(x, ("i",))], [Access(y, ("i",))], {"i": 100}, flops=10**9)
    assert seconds(model) == pytest.approx(200 / 1e8 + 1e-5)


def test_times_say_where_they_come_from_and_stay():
    costs = roofline(product(2, 2, 2), device("h100"))
    assert costs.origin == "roofline of h100"
    with pytest.raises(ValueError, match="read-only"):
        costs.seconds[0] = 1
