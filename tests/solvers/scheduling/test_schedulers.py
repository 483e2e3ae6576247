"""Choices of ``msr`` on graphs with long edges and on more devices than a word has bits."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import schedules_slow as slow
from effort import some_of

from shardmark.instances.generate import families
from shardmark.instances.generate.portable_random import Draws
from shardmark.solvers.scheduling._kernels import Simulator

pytestmark = pytest.mark.gate(cases=2)

#: Alpha to delta of Equation (13): those of the paper, and such that what a vertex alone enables or idle devices count
#: against it.
WEIGHTS = ((1, 1, 1, 5), (0.5, 0.25, -0.75, 1), (1, 0.25, 1, -5))

#: Vertices, devices, inputs of a vertex, and how far back they reach; some vertices wait for several on one device.
SHAPES = ((150, 3, 2, 150), (150, 70, 4, 150), (400, 130, 2, 30))

#: Digests of the schedules by links, as a simpler kernel found them that kept no lists and fetched nothing ahead.
DIGESTS = {
    "independent": "f928e0a68c5a103ab417f4e14ca7e5eaaf0b29dd35eda2e4ef7005214466cb9d",
    "queue": "df4772ab5e342f7b4ccca3b6d89c725130c713db30dc3fee6a9ed2215a40b00f",
    "share": "76d2d428f3d66c4f34a7d10d93ac198ccdae220d5681ed00d073514321f8c9b3",
}

#: The same of 100,000 vertices, whose edges reach far enough that the kernel fetches ahead.
FAR = {
    "independent": "b7af32923109d4515a52bc96b630b24731655a99d143e99c981e6cd694ada7e4",
    "queue": "6de3197a898ad9c7d281bffb6dfd338954204f267c3bd2fce811bb09eda6d3d3",
    "share": "74c9a518ee78587d3888d7b67206fd460bcb713b6d43273e72f63f6c07b1ca24",
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.thorough(cases=5)
@pytest.mark.parametrize("shape", SHAPES)
def test_devices_start_the_vertex_of_greatest_score(shape: tuple[int, int, int, int], weights: slow.Weights) -> None:
    nodes, devices, reads, reach = shape
    family, draws, choices = families()["random-dataflow"], Draws(5), 0
    for seed in range(some_of(3)):
        instance = family.build(seed, nodes=nodes, devices=devices, reads=reads, reach=reach)
        device = (devices * draws.uniform(nodes) ** 4).astype(int)  # so that some devices have long queues
        rank = draws.permutation(nodes)
        execution = Simulator(instance).by_successors(device, weights, rank)
        started = execution.sequence.tolist()
        since = {w: slow.executable_since(instance, execution, w) for w in range(nodes)}
        for at, v in enumerate(started):
            now = float(execution.start[v])
            left = [w for w in set(since).difference(started[:at]) if device[w] == device[v] and since[w] <= now]
            score = {w: slow.successor_score(instance, device.tolist(), execution, w, at, weights) for w in left}
            assert v == max(left, key=lambda w: (score[w], -since[w], -rank[w]))
            choices += len(left) > 1
    assert choices > some_of(50)


@pytest.mark.parametrize("links", DIGESTS)
def test_schedules_stay_the_same_to_the_bit(links: str) -> None:
    digest = hashlib.sha256()
    for reach, devices in ((4000, 20), (4000, 70), (40, 8)):
        instance = families()["random-dataflow"].build(reach, nodes=4000, devices=devices, reach=reach, links=links)
        draws = Draws(devices)
        device, rank = draws.integers(0, devices, instance.nodes), draws.permutation(instance.nodes)
        for weights in (*WEIGHTS, (0.1, 0.3, 0.7, 0.9)):
            execution = Simulator(instance).by_successors(device, weights, rank)
            for column in (execution.sequence, execution.start, execution.finish, execution.arrival):
                digest.update(np.ascontiguousarray(column).tobytes())
    assert digest.hexdigest() == DIGESTS[links]


@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("links", FAR)
def test_fetching_ahead_changes_no_schedule(links: str) -> None:
    instance = families()["random-dataflow"].build(0, nodes=100_000, devices=20, reach=100_000, links=links)
    draws, digest = Draws(0), hashlib.sha256()
    device, rank = draws.integers(0, 20, instance.nodes), draws.permutation(instance.nodes)
    execution = Simulator(instance).by_successors(device, WEIGHTS[0], rank)
    for column in (execution.sequence, execution.start, execution.finish, execution.arrival):
        digest.update(np.ascontiguousarray(column).tobytes())
    assert digest.hexdigest() == FAR[links]
