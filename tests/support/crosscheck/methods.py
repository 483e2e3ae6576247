"""The methods that the cross-check runs: every bound, every exact method, the best heuristics of a track."""

from __future__ import annotations

import re
from functools import cache

import fuzz

from crosscheck.internals import internals
from shardmark.solvers.registry import Solver

#: Solvers left out: heuristics that others nearly always beat, and those that need input or a program.
LEFT_OUT = {
    "intraop": r"cfn-penalty.*|random",
    "pipeline": r"brkga-.*|mla.*|random-1|random-10000",
    "placement": r"expert|equal-parts|scotch|metis|pipedream",
    "scheduling": r"(hash|batch-split|critical-path|mite|dfs)-.*|heft-(pct|msr)",
}

TRACKS = tuple(LEFT_OUT)


@cache
def chosen(track: str) -> dict[str, Solver]:
    """Return the methods of a track, by name; those that search come first."""
    kept = [
        m for name, m in fuzz.methods(track).items() if m.kind == "bound" or not re.fullmatch(LEFT_OUT[track], name)
    ]
    return {method.name: method for method in sorted(kept, key=lambda method: method.kind == "bound")} | internals(
        track
    )
