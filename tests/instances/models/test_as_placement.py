"""Placements of models cost what their tensors, parameters and passes say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.harness.verify import verify
from shardmark.instances.errors import InputError
from shardmark.instances.models.as_placement import as_placement
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.roofline import Costs

#: A tensor of b bytes takes 2 + b / 4 microseconds; memory for 100 bytes.
DEVICE = Device("toy", {"float32": 1e12}, 1e12, 100, 0, 4e6, 2e-6, "made up")


def built(*operators, updates=None, dtype="uint8"):
    """A model of operators (name, reads, writes, properties); a tensor is its size in bytes; "w..." are parameters."""
    model, known = Model("toy"), {}

    def access(name):
        if name not in known:
            size = int("".join(filter(str.isdecimal, name)) or 1)
            known[name] = model.tensor(name, (size,), dtype, parameter=name.startswith("w"))
        return Access(known[name], (None,))

    for name, reads, writes, properties in operators:
        model.operator(name, name, [*map(access, reads)], [*map(access, writes)], {}, **properties)
    model.updates = {known[before]: known[after] for before, after in (updates or {}).items()}
    return model


def placed(model, accelerators=2, cpus=1, device=DEVICE, accelerator_us=None, cpu_us=None):
    count = len(model.operators)
    times = [1e-6 * np.array(us or [1.0] * count) for us in (accelerator_us, cpu_us)]
    return as_placement(model, *(Costs(seconds, "given") for seconds in times), device, accelerators, cpus)


CHAIN = (("a", ["x8", "w10"], ["t8"], {}), ("b", ["t8", "w20"], ["u4"], {}), ("c", ["u4"], ["y1"], {}))


def test_columns_of_a_chain():
    instance = placed(built(*CHAIN), accelerator_us=[5, 6, 7], cpu_us=[50, 60, 70])
    assert instance.node_names == ("a", "b", "c")
    assert np.allclose(instance.accelerator_time, [5, 6, 7])
    assert np.allclose(instance.cpu_time, [50, 60, 70])
    assert np.allclose(instance.transfer, [4, 3, 0])  # nobody reads y1
    assert instance.size.tolist() == [10, 20, 0]
    assert (instance.accelerators, instance.cpus, instance.memory) == (2, 1, 100)
    assert instance.colour.tolist() == [-1, -1, -1]
    assert not instance.training


def test_a_split_costs_what_it_sends():
    instance = placed(built(*CHAIN), accelerator_us=[5, 6, 7], cpu_us=[50, 60, 70])
    assert verify(instance, [0, 1, 1]).cost == pytest.approx(6 + 7 + 4)
    assert verify(instance, [0, 0, 0]).cost == pytest.approx(18)


BRANCHES = (
    ("split", ["x8"], ["t8", "u4", "v2"], {}),
    ("left", ["t8"], ["y1"], {}),
    ("right", ["u4"], ["z1"], {}),
)


def test_only_the_tensors_that_are_read_elsewhere_are_sent():
    instance = placed(built(*BRANCHES), accelerators=2)
    assert instance.node_names == ("split", "left", "right", "t8", "u4")
    assert np.allclose(instance.transfer, [0, 0, 0, 4, 3])
    assert instance.colour.tolist() == [0, -1, -1, 0, 0]
    assert verify(instance, [0, 0, 1, 0, 0]).cost == pytest.approx(2 + 3)  # only u4 crosses
    assert not verify(instance, [0, 0, 1, 0, 1]).feasible  # a helper stays with its operator


STEP = (
    ("forward", ["x8", "w10"], ["t8"], {}),
    ("view", ["t8"], ["s8"], {"view": True}),
    ("loss", ["s8"], ["u4"], {}),
    ("dloss", ["u4", "s8", "t8"], ["d2"], {"backward": True, "forward": 2}),
    ("dforward", ["d2", "w10"], ["g10"], {"backward": True, "forward": 0}),
    ("update", ["g10", "w10"], ["n10"], {"backward": True}),
)


def test_a_training_step_keeps_what_its_backward_pass_reads():
    instance = placed(built(*STEP, updates={"w10": "n10"}))
    assert instance.training
    assert instance.backward.tolist() == [False] * 3 + [True] * 3
    assert instance.colour.tolist() == [0, -1, 1, 1, 0, 0]
    # w10 and t8; s8 is a view of t8; u4; w10 counts once in its colour class
    assert instance.size.tolist() == [18, 0, 4, 0, 0, 0]


def test_a_parameter_that_no_step_replaces_counts_at_each_reader():
    instance = placed(built(("a", ["x1", "w10"], ["t1"], {}), ("b", ["t1", "w10"], ["y1"], {})), accelerators=1)
    assert instance.size.tolist() == [10, 10]
    assert instance.colour.tolist() == [-1, -1]


def test_single_numbers_that_a_step_replaces_tie_nothing():
    step = (("a", ["x1", "w1"], ["t1"], {}), ("b", ["t1", "w1"], ["n1"], {}))
    assert placed(built(*step, updates={"w1": "n1"}), accelerators=1).colour.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("memory", "cpus", "sentence"),
    [
        (14, 0, "toy: parameters: expected at most 28 bytes, the memory of 2 devices like toy, found 30: 2 too many"),
        (19, 0, "toy: operator 'b': expected parameters of at most 19 bytes, the memory of toy, found 20: 1 too many"),
    ],
)
def test_lack_of_memory(memory, cpus, sentence):
    with pytest.raises(InputError) as caught:
        placed(built(*CHAIN), cpus=cpus, device=replace(DEVICE, memory=memory))
    assert str(caught.value) == sentence
    placed(built(*CHAIN), cpus=1, device=replace(DEVICE, memory=memory))  # CPUs have room


@st.composite
def placements(draw):
    """A model of up to five operators with up to three tensors each, and a device for each operator."""
    count = draw(st.integers(2, 5))
    tensors, operators = [f"x{draw(st.integers(1, 9))}"], []
    for number in range(count):
        reads = draw(st.lists(st.sampled_from(tensors), max_size=3, unique=True))
        writes = [
            f"{'abcde'[number]}{'uvt'[port]}{draw(st.integers(1, 99))}" for port in range(draw(st.integers(1, 3)))
        ]
        operators.append((f"o{number}", reads, writes, {}))
        tensors += writes
    times = st.lists(st.integers(0, 9), min_size=count, max_size=count)
    devices = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    return built(*operators), draw(times), draw(times), devices


@given(placements())
def test_loads_are_times_and_each_tensor_that_crosses_once(drawn):
    """Device 0 is an accelerator, 1 a CPU, which pays for no transfers."""
    model, accelerator_us, cpu_us, device = drawn
    instance = placed(model, 1, 1, accelerator_us=accelerator_us, cpu_us=cpu_us)
    loads = [0.0, 0.0]
    for times, on in ((accelerator_us, 0), (cpu_us, 1)):
        loads[on] += sum(us for us, at in zip(times, device, strict=True) if at == on)
    for tensor, readers in zip(model.tensors, model.readers(), strict=True):
        if tensor.producer is not None and len({device[v] for v in (tensor.producer, *readers)}) > 1:
            loads[0] += 2 + tensor.bytes / 4
    of = [*device, *(device[tail] for tail in instance.graph.tail[instance.graph.head >= len(device)].tolist())]
    verdict = verify(replace(instance, contiguity="free"), of)
    assert verdict.cost == pytest.approx(max(loads))
