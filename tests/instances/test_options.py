"""Which instances are ranked together."""

from __future__ import annotations

import random

import pytest
from placements import draw_instance

from shardmark.instances import intraop, pipeline, placement
from shardmark.instances.options import Option, division

PLAIN = "throughput, contiguous"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, PLAIN),
        ({"contiguity": "acyclic"}, "throughput, acyclic"),
        ({"objective": "latency", "contiguity": "free", "memory": 16.0}, "latency, free"),
        ({"overlap": "half"}, f"{PLAIN}, overlap half"),
        ({"schedule": "gpipe", "overlap": "full"}, f"{PLAIN}, schedule gpipe, overlap full"),
        ({"cluster": 4, "slowdown": 2.0}, f"{PLAIN}, clusters"),
        ({"cluster": 2, "slowdown": 8.0}, f"{PLAIN}, clusters"),
        ({"allreduce": 0.5, "cluster": None}, f"{PLAIN}, replication"),
    ],
)
def test_the_name_says_what_sets_a_ranking_apart(values: dict[str, object], name: str) -> None:
    assert division(placement.OPTIONS, values)[1] == name


def test_rankings_stand_in_the_order_of_the_choices() -> None:
    names = ["contiguous", "acyclic", "free"]
    found = [({"objective": o, "contiguity": c}) for o in ("throughput", "latency") for c in names]
    found.insert(1, {"overlap": "half"})
    assert sorted(found, key=lambda values: division(placement.OPTIONS, values)) == found


def test_tracks_without_modes_have_one_ranking() -> None:
    for module in (intraop, pipeline):
        assert division(module.OPTIONS, {"stages": 4, "overlap": "half"}) == ((), "")


def test_what_is_stored_of_an_older_or_newer_version_is_told_apart() -> None:
    options = {"rule": Option(str, "", "old", ("old", "new", "best"), "{}")}
    places = [division(options, {"rule": value}) for value in ("old", "new", "best", "newer", None)]
    assert places == [((0,), "old"), ((1,), "new"), ((2,), "best"), ((1,), "newer"), ((1,), "None")]


def test_instances_share_a_ranking_if_and_only_if_they_share_their_modes() -> None:
    rng = random.Random(3)
    modes = ("objective", "contiguity", "schedule", "overlap")
    for _ in range(40):
        one, other = (draw_instance(rng) for _ in range(2))
        same = all(getattr(one, mode) == getattr(other, mode) for mode in modes)
        same &= (one.cluster is None) == (other.cluster is None) and (one.allreduce is None) == (
            other.allreduce is None
        )
        ranked = [division(placement.OPTIONS, instance.summary()) for instance in (one, other)]
        assert (ranked[0] == ranked[1]) == same
