"""The table of solvers to use has a row for each kind of instance."""

from __future__ import annotations

import math
from typing import Any

from shardmark.leaderboard.reading_aids import side_by_side

SECONDS = [1.0, 20.0]


def choices(least: float, most: float, *solvers: str, track: str = "pipeline") -> list[dict[str, Any]]:
    place = {"track": track, "division": "", "least": least, "most": most}
    return [
        place | {"limit_s": limit, "solver": solver, "share": 0.9, "close": 2, "instances": 3}
        for limit, solver in zip(SECONDS, solvers, strict=False)
    ]


def shown(*rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = side_by_side([row for kind in rows for row in kind], SECONDS)
    return [
        (kind["size"], *((choice.get("solver"), choice["instances"]) for choice in kind["choices"])) for kind in found
    ]


def test_neighbouring_sizes_with_the_same_choices_are_one_kind() -> None:
    assert shown(choices(0, 50, "a", "a"), choices(50, 200, "a", "a"), choices(200, math.inf, "a", "b")) == [
        ("up to 200 nodes", ("a", 6), ("a", 6)),
        ("over 200 nodes", ("a", 3), ("b", 3)),
    ]
    assert shown(choices(0, 50, "a", "a"), choices(50, math.inf, "a", "a")) == [("any", ("a", 6), ("a", 6))]
    found = side_by_side([*choices(0, 50, "a", "a"), *choices(50, 200, "a", "a")], SECONDS)
    assert [choice["close"] for choice in found[0]["choices"]] == [4, 4]


def test_sizes_apart_other_tracks_and_kinds_without_a_choice_stay_apart() -> None:
    assert len(shown(choices(0, 50, "a", "a"), choices(200, 1000, "a", "a"))) == 2
    assert len(shown(choices(0, 50, "a", "a"), choices(50, 200, "a", "a", track="hybrid"))) == 2
    late = [choices(least, most, "", "a")[1:] for least, most in ((0, 50), (50, 200))]
    assert shown(*late) == [("up to 50 nodes", (None, 0), ("a", 3)), ("51 to 200 nodes", (None, 0), ("a", 3))]
