"""Checks the folder of a layout on a cluster: the verifier finds the degrees, time and memory of `plan.json`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardmark.harness import verify
from shardmark.instances import InputError, load
from shardmark.instances.files.jsonfile import read_json
from shardmark.plans.saving import INSTANCE, LAYOUT_FORMAT, PLAN, SOLUTION

#: Relative difference of two sums of the same numbers.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Checked:
    """A figure of a plan: what ``plan.json`` says, and what the verifier finds."""

    what: str
    planned: float
    verified: float

    @property
    def equal(self) -> bool:
        """True if both are the same, apart from rounding."""
        return math.isclose(self.planned, self.verified, rel_tol=ROUNDING, abs_tol=1e-15)


@dataclass(frozen=True)
class LayoutCheck:
    """What the verifier says of the files of a layout.

    ``objective``   what is best, as in ``plan.json``
    ``violations``  sentences on broken rules, memory among them
    ``figures``     of the whole layout and of every stage
    """

    objective: str
    violations: tuple[str, ...]
    figures: tuple[Checked, ...]

    @property
    def equal(self) -> bool:
        """True if the layout keeps all rules, and all figures are the verifier's."""
        return not self.violations and all(figure.equal for figure in self.figures)


def is_layout(folder: Path) -> bool:
    """True for the folder of a layout on a cluster."""
    path = folder / PLAN
    found = read_json(path) if path.exists() else None
    return isinstance(found, dict) and found.get("format") == LAYOUT_FORMAT


def check_layout(folder: Path) -> LayoutCheck:
    """Judge the solution in a folder, and compare its figures with those of ``plan.json``.

    Raises InputError if a file is missing or malformed.
    """
    plan, instance, solution = read_json(folder / PLAN), load(folder / INSTANCE), read_json(folder / SOLUTION)
    verdict, found = verify.verify(instance, solution), verify.stages(instance, solution)
    if found is None or verdict.cost is None:
        reason = "; ".join(verdict.violations) or f"an instance of track {instance.track}"
        raise InputError(folder / SOLUTION, "", f"expected the solution of a layout, found {reason}")
    try:
        cost = math.fsum(found.microbatch) if plan["objective"] == "latency" else verdict.cost
        figures = tuple(_figures(plan, cost, found))
        short = [
            f"stage {number}: expected at most {instance.memory:,.0f} bytes per device, found {stage['memory']:,.0f}"
            for number, stage in enumerate(plan["stages"])
            if stage["memory"] > instance.capacity
        ]
    except (IndexError, KeyError, TypeError) as error:
        expected = f"expected a file written by `shardmark plan`, found an edited one ({error})"
        raise InputError(folder / PLAN, "stages", expected) from None
    return LayoutCheck(plan["objective"], (*verdict.violations, *short), figures)


def _figures(plan: dict[str, Any], cost: float, found: verify.Stages) -> Iterator[Checked]:
    """The figures of a plan; the memory of a block that is computed again is no matter of the track."""
    yield Checked("time in ms", 1e3 * plan["cost_s"], 1e3 * cost)
    for i, stage in enumerate(plan["stages"]):
        yield Checked(f"stage {i}: replicas", stage["replicas"], found.data[i])
        yield Checked(f"stage {i}: devices of a replica", stage["tensor"], found.tensor[i])
        yield Checked(f"stage {i}: microbatch ms", 1e3 * stage["microbatch_s"], 1e3 * found.microbatch[i])
        yield Checked(f"stage {i}: gradients ms", 1e3 * stage["sync_s"], 1e3 * found.sync[i])
        held, working = sum(found.held[i].values()), stage["held"]["working"]
        yield Checked(f"stage {i}: memory GiB", stage["memory"] / 2**30, (held + working) / 2**30)
    yield Checked("stages", len(plan["stages"]), len(found.data))
