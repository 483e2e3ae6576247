"""The part of the cross-check that the test run has: a few seeds per track, with short limits, and known bad inputs."""

from __future__ import annotations

from pathlib import Path

from crosscheck.tracks import TRACKS

#: Seeds by track.
SEEDS = {name: track.seeds for name, track in TRACKS.items()}

#: Seconds of a method, on a seed and on a known bad input, on which a method may need them to be wrong.
SECONDS, SECONDS_KNOWN = 0.2, 1.0

#: Files of known bad inputs by track.
FOLDER = Path(__file__).parents[2] / "data" / "crosscheck"
KNOWN: dict[str, tuple[str, ...]] = {"pipeline": ("exact_highs_false_bound.json",)}

#: Costs that some solutions of them have, as fractions, in the same folder.
LEAST = "least.json"
