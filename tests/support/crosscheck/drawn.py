"""The part of the cross-check that the test run has: a few seeds per track, with short limits, and known bad inputs."""

from __future__ import annotations

from pathlib import Path

#: Seeds per track that reveal each false claim that `plant` makes three times, if 50 do.
SEEDS: dict[str, tuple[int, ...]] = {
    "intraop": (23, 35, 40, 7, 13, 37),
    "pipeline": (0, 48, 22, 42, 11),
    "placement": (26, 37, 20, 0, 25, 22, 4, 15, 43, 30, 2, 36, 23, 5, 38, 7, 47, 35),
    "scheduling": (18, 38, 20, 28, 43, 30),
}

#: Seconds of a method, on a seed and on a known bad input, on which a method may need them to be wrong.
SECONDS, SECONDS_KNOWN = 0.2, 1.0

#: Files of known bad inputs by track.
FOLDER = Path(__file__).parents[2] / "data" / "crosscheck"
KNOWN: dict[str, tuple[str, ...]] = {"pipeline": ("exact_highs_false_bound.json",)}

#: Costs that some solutions of them have, as fractions, in the same folder.
LEAST = "least.json"
