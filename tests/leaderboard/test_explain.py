"""Explanations: every mode of a ranking has one, and sizes are counted in words."""

from __future__ import annotations

import pytest

from shardmark.instances import track_module, tracks
from shardmark.leaderboard.explain import MODES, modes, sizes


@pytest.mark.parametrize("track", tracks())
def test_every_mode_that_has_a_name_is_explained(track: str) -> None:
    named = [option for option in track_module(track).OPTIONS.values() if option.mode]
    parts = {
        option.mode.format(choice)
        for option in named
        for choice in option.choices or ("",)
        if option.mode == "{}" or choice != option.default
    }
    assert parts <= set(MODES)


def test_the_parts_of_a_name_make_one_sentence() -> None:
    assert modes("") == ""
    assert modes("latency, free") == f"{MODES['latency']}; {MODES['free']}"


def test_sizes_are_counted() -> None:
    assert sizes({"nodes": 1, "edges": 2, "strategies": 3, "usage_limit": 24_616_128_512}) == [
        "1 node",
        "2 edges",
        "3 strategies",
        "memory limit 24.62 G",
    ]
    assert sizes({"nodes": 5, "stages": 2, "memory": None}) == ["5 nodes", "2 stages"]
    assert sizes({"nodes": "many"}) == []
