"""Pipelines of models cost what a split of their operators costs, and moving helpers home never costs more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.harness.verify import verify
from shardmark.instances.errors import InputError
from shardmark.instances.models.as_pipeline import as_pipeline, with_helpers
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.roofline import Costs

#: A tensor of b bytes takes 2 + b / 4 microseconds; memory for 100 bytes.
DEVICE = Device("toy", {"float32": 1e12}, 1e12, 100, 0, 4e6, 2e-6, "made up")


def model_of(operators, tensors, parameters=()):
    """Operators as (reads, writes) of tensors, which are sizes in bytes; parameters are their numbers."""
    model = Model("toy")
    for number, size in enumerate(tensors):
        model.tensor(f"t{number}", (size,), "uint8", parameter=number in parameters)
    for number, (reads, writes) in enumerate(operators):
        named = [[Access(tensor, (None,)) for tensor in side] for side in (reads, writes)]
        model.operator(f"o{number}", "any", *named, {})
    return model


def pipeline(model, microseconds, stages, device=DEVICE, **given):
    return as_pipeline(model, Costs(1e-6 * np.array(microseconds, dtype=float), "given"), device, stages, **given)


#: o0 writes t1 (8 bytes) for o1 and t2 (12 bytes) for o2; o3 joins both.
DIAMOND = model_of([([0], [1, 2]), ([1], [3]), ([2], [4]), ([3, 4], [5])], [4, 8, 12, 4, 4, 4])


def test_a_split_by_hand():
    instance = pipeline(DIAMOND, [1, 2, 3, 4], 2)
    assert instance.node_names == ("o0", "o1", "o2", "o3", "t1", "t2")
    # o0 and o1 work 3 and send t2 and t3: 2 + 12/4 and 2 + 4/4; o2 and o3 work 7 and receive both
    assert verify(instance, with_helpers(instance, [0, 0, 1, 1]).tolist()).cost == pytest.approx(7 + 5 + 3)
    # o0 works 1 and sends t1 and t2: 4 + 5; the others work 9
    assert verify(instance, with_helpers(instance, [0, 1, 1, 1]).tolist()).cost == pytest.approx(9 + 4 + 5)
    assert verify(instance, with_helpers(instance, [0, 0, 0, 0]).tolist()).cost == pytest.approx(10)


@st.composite
def splits(draw):
    """A model of up to five operators with up to three tensors each, and a split of all nodes of its pipeline."""
    operators, tensors = [], []
    for _ in range(draw(st.integers(2, 5))):
        reads = draw(st.lists(st.sampled_from(range(len(tensors))), max_size=3, unique=True)) if tensors else []
        writes = range(len(tensors), len(tensors) + draw(st.integers(1, 3)))
        tensors += draw(st.lists(st.integers(0, 9), min_size=len(writes), max_size=len(writes)))
        operators.append((reads, list(writes)))
    work = draw(st.lists(st.integers(0, 5), min_size=len(operators), max_size=len(operators)))
    instance = pipeline(model_of(operators, tensors), work, len(operators))
    split = st.lists(st.integers(0, 2), min_size=instance.nodes, max_size=instance.nodes)
    return instance, len(operators), [min(block, len(operators) - 1) for block in draw(split)]


@given(splits())
def test_moving_helpers_home_never_raises_the_cost(drawn):
    instance, operators, split = drawn
    verdict, home = verify(instance, split), verify(instance, with_helpers(instance, split[:operators]).tolist())
    if verdict.feasible:
        assert home.feasible
        assert home.cost <= verdict.cost * (1 + 1e-12)


def test_parameters_beyond_the_memory_are_read_over_the_link():
    model = model_of([([0, 1], [2]), ([2, 3], [4])], [4, 60, 4, 60, 4], parameters=(1, 3))
    limited, unlimited = pipeline(model, [1, 1], 2), pipeline(model, [1, 1], 2, limited=False)
    together = [0, 0]
    assert limited.memory == 100
    assert unlimited.memory is None
    assert verify(unlimited, together).cost == pytest.approx(2)
    assert verify(limited, together).cost > 2 + 20 / 4


def test_a_model_that_fits_one_device_has_no_limit():
    model = model_of([([0, 1], [2]), ([2], [3])], [4, 20, 4, 4], parameters=(1,))
    assert pipeline(model, [1, 1], 2).memory is None


def test_no_stages_are_refused_and_more_than_operators_are_not():
    with pytest.raises(InputError, match=r"^toy: stages: expected 1 to 2147483647, found 0$"):
        pipeline(DIAMOND, [1, 1, 1, 1], 0)
    assert pipeline(DIAMOND, [1, 1, 1, 1], 5).stages == 5


def test_lack_of_memory():
    model = model_of([([0, 1], [2]), ([2, 3], [4])], [4, 60, 4, 61, 4], parameters=(1, 3))
    too_small = replace(DEVICE, memory=60)
    with pytest.raises(InputError) as caught:
        pipeline(model, [1, 1], 2, too_small)
    expected = "toy: parameters: expected at most 120 bytes, the memory of 2 devices like toy, found 121: 1 too many"
    assert str(caught.value) == expected
    with pytest.raises(InputError, match="at most 60 bytes, the memory of 1 device like toy, found 121: 61 too many"):
        pipeline(model, [1, 1], 1, too_small)
    pipeline(model, [1, 1], 2, too_small, limited=False)
    uneven = model_of([([0, 1], [2]), ([2, 3], [4])], [4, 50, 4, 61, 4], parameters=(1, 3))
    with pytest.raises(InputError) as caught:
        pipeline(uneven, [1, 1], 2, too_small)
    expected = "toy: operator 'o1': expected parameters of at most 60 bytes, the memory of toy, found 61: 1 too many"
    assert str(caught.value) == expected
