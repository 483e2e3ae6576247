"""Schedules of models: complexities, bytes on edges and colocation, with machines given or in files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.instances import scheduling
from shardmark.instances.errors import InputError
from shardmark.instances.models.as_scheduling import as_scheduling
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.roofline import Costs

MACHINE = {"devices": {"name": ["slow", "fast"], "speed": [1, 4], "memory": [100, 60]}, "bandwidth": 2}
SHAPES = (("x", (4,)), ("t", (6,)), ("u", (8,)), ("y", (1,)), ("z", (1,)), ("n", (10,)))


def diamond(parameter=10):
    """Operator a writes two tensors: b reads one, c both."""
    model = Model("diamond")
    w = model.tensor("w", (parameter,), "uint8", parameter=True)
    x, t, u, y, z, n = (model.tensor(*named, "uint8") for named in SHAPES)
    whole = {tensor: Access(tensor, (None,)) for tensor in (w, x, t, u, y, z, n)}
    model.operator("a", "A", [whole[x], whole[w]], [whole[t], whole[u]], {}, flops=40)
    model.operator("b", "B", [whole[t]], [whole[y]], {}, flops=20)
    model.operator("c", "C", [whole[t], whole[u], whole[w]], [whole[z], whole[n]], {}, flops=8)
    model.outputs = [y, z, n]
    return model


def test_flops_and_bytes():
    instance = as_scheduling(diamond(), None, MACHINE)
    assert instance.node_names == ("a", "b", "c")
    assert instance.complexity.tolist() == [40, 20, 8]
    assert sorted(scheduling.to_document(instance)["edges"]) == [[0, 1, 6], [0, 2, 14]]
    assert instance.device_names == ("slow", "fast")
    assert instance.colocation.tolist() == [-1, -1, -1]


def test_costs_are_microseconds_at_speed_1():
    costs = Costs(np.array([3e-6, 2e-6, 1e-6]), "given")
    instance = as_scheduling(diamond(), costs, MACHINE)
    assert np.allclose(instance.complexity, [3, 2, 1])
    # a on the fast device until 0.75; 6 bytes to the slow one until 3.75; b there until 5.75
    verdict = verify(instance, {"device": [1, 0, 1], "order": [[1], [0, 2]]})
    assert verdict.cost == pytest.approx(0.75 + 3 + 2)


def test_readers_of_a_parameter_that_the_step_replaces_are_colocated():
    model = diamond()
    model.updates = {0: 6}
    assert as_scheduling(model, None, MACHINE).colocation.tolist() == [0, -1, 0]


def test_a_machine_in_a_file(tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({**MACHINE, "comment": "two devices"}))
    instance, other = as_scheduling(diamond(), None, path), as_scheduling(diamond(), None, MACHINE)
    assert instance.speed.tolist() == other.speed.tolist()
    assert instance.bandwidth.tolist() == other.bandwidth.tolist()
    assert instance.memory.tolist() == other.memory.tolist()


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"devices": {"speed": [1]}}, "expected a key 'bandwidth'"),
        ({"devices": {"speed": [0]}, "bandwidth": 1}, "devices.speed[0]: expected a positive number, found 0"),
        ({"devices": {"speed": []}, "bandwidth": 1}, "devices.speed: expected at least one device"),
        ({"devices": {"speed": [1]}, "bandwidth": 1, "links": 3}, "links"),
        ([], "expected an object"),
    ],
)
def test_bad_machines(tmp_path, document, sentence):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        as_scheduling(diamond(), None, path)
    assert str(path) in str(caught.value)
    assert sentence in str(caught.value)


def test_parameters_that_the_devices_cannot_hold():
    as_scheduling(diamond(160), None, MACHINE)
    with pytest.raises(InputError) as caught:
        as_scheduling(diamond(163), None, MACHINE)
    expected = "diamond: parameters: expected at most 160 bytes, the memory of all devices, found 163: 3 too many"
    assert str(caught.value) == expected
    unlimited = {**MACHINE, "devices": {"speed": [1, 4], "memory": [100, None]}}
    as_scheduling(diamond(163), None, unlimited)
