"""The part of the cross-check that the test run has: a few seeds per track, with short limits, and known bad inputs."""

from __future__ import annotations

from pathlib import Path

#: Seeds per track: together they reveal false claims of most methods, see `plant`.
SEEDS: dict[str, tuple[int, ...]] = {
    "intraop": (26, 0, 1, 2, 3, 4),
    "pipeline": (20, 0, 1, 2, 3, 4),
    "placement": (7, 30, 2, 0, 1, 3),
    "scheduling": (3, 28, 0, 1, 2, 4),
}

#: Seconds of a method, on a seed and on a known bad input, on which a method may need them to be wrong.
SECONDS, SECONDS_KNOWN = 0.1, 1.0

#: Methods that are known to claim too much, until they go: HiGHS prunes better solutions of `exact`.
FALSE = frozenset({"exact-highs"})

#: Files of known bad inputs by track.
FOLDER = Path(__file__).parents[2] / "data" / "crosscheck"
KNOWN: dict[str, tuple[str, ...]] = {"pipeline": ("exact_highs_false_bound.json",)}

#: Costs that some solutions of them have, as fractions, in the same folder.
LEAST = "least.json"
