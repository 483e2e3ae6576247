"""What the cross-check knows of each track; ``draws.TRACK`` draws its instances, ``oracle_TRACK`` judges solutions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fuzz import Exact

from crosscheck import internals, restrict
from crosscheck.draws.strata import Drawn
from shardmark.instances import InputError
from shardmark.solvers.registry import Run


@dataclass(frozen=True)
class Track:
    """A track in the cross-check.

    ``left_out``  pattern of the solvers left out: heuristics that others nearly always beat, and those that need input
                  or a program
    ``parts``     parts of bounds, or other programs, as methods of their own
    ``restrict``  an instance with less to choose from, None if it has no such restriction; see `restrict`
    ``seeds``     reveal each false claim that `plant` makes three times, if 50 do: the seeds of the test run
    """

    left_out: str
    parts: tuple[Callable[[Any, Run], None], ...]
    restrict: Callable[[Any, random.Random], Any]
    seeds: tuple[int, ...]


TRACKS: Mapping[str, Track] = {
    "intraop": Track(
        r"cfn-penalty.*|random", (internals.leaves, internals.branches), restrict.dearer, (23, 35, 40, 7, 13, 37)
    ),
    "pipeline": Track(
        r"brkga-.*|mla.*|random-1|random-10000", (internals.weighed,), restrict.merged, (0, 48, 22, 42, 11)
    ),
    "placement": Track(
        r"expert|equal-parts|scotch|metis|pipedream",
        (internals.covered,),
        restrict.fewer,
        (26, 37, 20, 0, 25, 22, 4, 15, 43, 30, 2, 36, 23, 5, 38, 7, 47, 35),
    ),
    "scheduling": Track(
        r"(hash|batch-split|critical-path|mite|dfs)-.*|heft-(pct|msr)",
        (internals.overfull,),
        restrict.slower,
        (18, 38, 20, 28, 43, 30),
    ),
    "hybrid": Track(r"", (internals.unaided, internals.integer_program), restrict.scarcer, (16, 47, 10, 24, 7, 48, 13)),
}


def drawn(track: str, index: int) -> Drawn:
    """Return the instance of an index."""
    found: Drawn = import_module(f"crosscheck.draws.{track}").draw(index)
    return found


def restricted(instance: Any, seed: int) -> Any:
    """Return the instance with less to choose from; None if it has no such restriction."""
    with suppress(InputError):
        return TRACKS[instance.track].restrict(instance, random.Random(f"restricted {seed}"))
    return None


def judge(track: str, instance: Any, solution: Any) -> tuple[bool, Exact | None]:
    """Return whether a solution is feasible, and its exact cost, as the oracle of the track says."""
    found: tuple[bool, Exact | None] = import_module(f"oracle_{track}").judge(instance, solution)
    return found
