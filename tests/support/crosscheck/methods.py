"""The methods that the cross-check runs: every bound, every exact method, the best heuristics of a track."""

from __future__ import annotations

import re
from functools import cache

import fuzz

from crosscheck.tracks import TRACKS
from shardmark.solvers.registry import Solver


@cache
def chosen(track: str) -> dict[str, Solver]:
    """Return the methods of a track, by name; those that search come first."""
    out = TRACKS[track].left_out
    kept = [m for name, m in fuzz.methods(track).items() if m.kind == "bound" or not re.fullmatch(out, name)]
    named = {f"part:{function.__name__}": function for function in TRACKS[track].parts}
    parts = [Solver(name, track, "bound", "", {}, False, True, function) for name, function in named.items()]
    return {method.name: method for method in [*sorted(kept, key=lambda method: method.kind == "bound"), *parts]}
