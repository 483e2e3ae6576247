"""Every replica of a layout has devices of its own in one machine."""

from __future__ import annotations

import random
from itertools import chain

import pytest

from shardmark.instances.models.devices import device
from shardmark.plans.cluster.machines.placing import placed
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.views.page import page
from shardmark.plans.cluster.views.text import rows, text


def a_run(machines, devices, **given):
    return Run(machines, devices, device("h100"), 50e9, **{"batch": 64, "microbatch": 1, **given})


@pytest.mark.parametrize(
    ("machines", "devices", "degrees"),
    [(4, 8, [1, 2, 4, 8]), (2, 6, [1, 2]), (3, 12, [1, 2, 4]), (2, 7, [1]), (1, 6, [1, 2, 4]), (1, 7, [1, 2, 4])],
)
def test_degrees_divide_several_machines(machines, devices, degrees):
    assert a_run(machines, devices).degrees == degrees


@pytest.mark.parametrize("seed", range(30))
def test_all_replicas_of_a_layout_find_room(seed):
    rng = random.Random(seed)
    machines, devices = rng.randint(1, 9), rng.randint(1, 12)
    degrees, left = a_run(machines, devices).degrees, machines * devices
    data, tensor = list[int](), list[int]()
    while left:  # all devices are taken, or all but a few
        fitting = [degree for degree in degrees if degree <= left]
        tensor.append(rng.choice(fitting))
        data.append(rng.randint(1, left // tensor[-1]))
        left -= data[-1] * tensor[-1]
    found = placed(data, tensor, machines, devices)
    assert [len(places) for places in found] == data
    every = list(chain.from_iterable(found))
    taken = [(place.machine, number) for place in every for number in place.devices]
    assert len(taken) == len(set(taken)) == machines * devices
    assert all(0 <= machine < machines and 0 <= number < devices for machine, number in taken)
    assert all(len(place.devices) == t for places, t in zip(found, tensor, strict=True) for place in places)


def test_a_stage_that_fits_a_machine_is_in_one_if_there_is_room():
    found = placed([6, 2, 6, 2], [1, 1, 1, 1], 2, 8)
    assert [{place.machine for place in places} for places in found] == [{0}, {0}, {1}, {1}]


def test_stages_that_find_no_room_in_one_machine_are_told(layout):
    stages = [(1, 0, 5, 1), (1, 0, 5, 1), (1, 0, 5, 1)]
    found = layout(stages, batch=20, machines=2)
    assert "not counted: stage 2: replicas in several machines exchange weights or gradients" in text(found)
    assert [row["machines"] for row in rows(found)] == ["0", "1", "0-1"]
    assert "not counted" not in text(layout(stages[:2], batch=20, machines=2))
    assert "not counted" not in text(layout(stages, batch=20, machines=2, train="none"))


def test_machines_with_few_replicas_of_a_stage_are_told(layout):
    few = "not counted: stage 0: machine 1 has 1 of its replicas, so 1 link to the network instead of 8"
    assert few in text(layout([(2, 0, 9, 1)], batch=9, machines=2))
    assert "stage 1: machine 1 has 2 of its replicas, so 2 links to the network instead of 4" in text(
        layout([(1, 0, 4, 1), (1, 0, 6, 2)], batch=12, machines=2)
    )
    assert "not counted" not in text(layout([(2, 0, 16, 1)], batch=16, machines=2)), "all machines are full"
    assert "not counted" not in text(layout([(2, 0, 9, 1)], batch=9, machines=2, train="none")), "nothing is exchanged"


def test_the_page_names_the_machines_of_a_stage(layout):
    stages = [(1, 0, 5, 1), (1, 0, 5, 1), (1, 0, 5, 1)]
    assert "<td>0-1</td>" in page(layout(stages, batch=20, machines=2))
