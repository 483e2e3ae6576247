"""Inception-v3 is the network that its authors describe, layer by layer."""

from __future__ import annotations

import numpy as np
import pytest

from shardmark.instances.generate import families
from shardmark.instances.graph import find_cycle


def test_it_has_the_weights_and_the_branches_of_the_network() -> None:
    instance = families()["inception"].build(1, jitter=0.0)
    names = [name.split("-")[0] for name in instance.node_names]
    assert {name: names.count(name) for name in ("conv", "norm", "relu", "pool", "cat")} == {
        **dict.fromkeys(("conv", "norm", "relu"), 94),
        "pool": 13,
        "cat": 15,
    }
    assert instance.size.sum() / 4 == 23_834_568 - 1000  # what others count, but for the biases of the last layer
    width = np.bincount(np.bincount(instance.graph.tail, minlength=instance.nodes))
    assert width.tolist() == [1, 298, 4, 2, 9]  # readers: 9 modules of four branches and 2 of three, 4 forks


def test_times_and_transfers_follow_the_shapes() -> None:
    instance = families()["inception"].build(1, jitter=0.0, batch=1)
    first = instance.node_names.index("conv-1")
    moved = 4 * (299**2 * 3 + 149**2 * 32 + 32 * 27)
    assert instance.accelerator_time[first] == pytest.approx(moved / 500e6, abs=1e-4)  # waits for memory
    fifth = [v for v, name in enumerate(instance.node_names) if name.startswith("conv")][4]
    assert instance.accelerator_time[fifth] == pytest.approx(2 * 71**2 * 192 * 80 * 9 / 10e9, abs=1e-4)
    assert instance.transfer[first] == pytest.approx(4 * 149**2 * 32 / 12e6, rel=1e-3)
    assert np.allclose(instance.cpu_time, 10 * instance.accelerator_time)
    double = families()["inception"].build(1, jitter=0.0, batch=2)
    assert double.transfer == pytest.approx(2 * instance.transfer, abs=2e-4)


def test_training_adds_a_backward_pass_on_the_same_devices() -> None:
    plain, both = (families()["inception"].build(1, training=training) for training in (0, 1))
    n = plain.nodes
    assert both.nodes == 2 * n
    assert both.backward.tolist() == [False] * n + [True] * n
    assert np.array_equal(both.colour[:n], both.colour[n:])
    assert both.accelerator_time[n:] == pytest.approx(2 * both.accelerator_time[:n], abs=2e-4)
    assert both.size.sum() > 50 * plain.size.sum()
    assert find_cycle(both.nodes, both.graph.tail, both.graph.head) == []
