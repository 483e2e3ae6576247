"""Reasons of solvers to decline: which claim that nothing fits, and what solution makes such a claim false."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import oracle_intraop
import oracle_placement

#: Claims, the first that matches counts: (pattern of the reason, what it says does not exist; see `refuted`).
CLAIMS: tuple[tuple[str, str], ...] = (
    (r"time step ", "any"),
    (r"every assignment that fits into memory has an entry of 10\^17 or more", "possible"),
    (r"nodes\.costs: expected a strategy that fits into memory and costs less than 10\^17", "possible"),
    (r"edges\.costs\[\d*\]: expected a combination of strategies that fits, with entries below 10\^17", "possible"),
    (r"no schedule fits the memory", "any"),
    (r"no stages fit the devices and their memory", "any"),
    (r"no placement fits the memory of the accelerators$", "any"),
    (r"no acyclic placement fits the memory of the accelerators$", "acyclic"),
    (r"no contiguous placement fits the memory of the accelerators$", "contiguous"),
    (
        r"no placement with (one subgraph|\d* ?subgraphs or fewer) an accelerator fits the memory of the accelerators$",
        "few",
    ),
)

#: Reasons that have the words of such claims, but claim nothing about what exists.
NO_CLAIMS: tuple[str, ...] = (
    r"found no (schedule|placement|stages) ",
    r"no (acyclic )?placement .*, or there was no time to find one$",
    r"no acyclic placement is known to fit ",
    r"no way to cut the path of contracted branchings fits the devices",
    r"no stages fit the devices and their memory with ",
    r"no stages with the same degrees fit ",
    r"no number of equal stages fits ",
    r"with this restriction, ",
    r"the accelerators are full before all nodes are placed",
    r".* knows no memories: ",
    r"(as many nodes for each accelerator|the graph does|a branching of the graph|classes on a cycle).* fit",
    r"(a table of|the graph has more than) .* too (large|many) for .* MiB",
    r".*no gpart of Scotch on the path",
)


def claimed(reason: str) -> str:
    """Return what a reason says does not exist, "" if it claims nothing: "any", "possible", "acyclic", "few", ...."""
    if any(re.match(pattern, reason) for pattern in NO_CLAIMS):
        return ""
    return next((claim for pattern, claim in CLAIMS if re.match(pattern, reason)), "")


def classified(reason: str) -> bool:
    """Return True if a reason is among the claims or among those that claim nothing."""
    return bool(claimed(reason)) or any(re.match(pattern, reason) for pattern in NO_CLAIMS)


def refuted(instance: Any, solution: Any) -> list[str]:
    """Return the claims that a feasible solution makes false.

    any         no solution is feasible
    possible    none is without an entry of 10^17 or more (intraop)
    acyclic     none has devices that follow one another (placement, throughput)
    contiguous  none has a contiguous set on each accelerator (placement, throughput)
    few         none has but one subgraph per accelerator (placement, latency); with more subgraphs this asks too much
                of a solution, so that no true claim counts as false
    """
    found = ["any"]
    if instance.track == "intraop":
        greatest = max(oracle_intraop.Oracle(instance).entries(solution), default=0)
        found += ["possible"] if greatest < oracle_intraop.IMPOSSIBLE else []
    if instance.track == "placement" and instance.objective == "throughput":
        where = solution["stage"] if isinstance(solution, dict) else solution
        sets = [frozenset(v for v, d in enumerate(where) if d == device) for device in set(where)]
        narrower = oracle_placement.judge(replace(instance, contiguity="contiguous"), solution)
        found += ["contiguous"] if narrower[0] else []
        found += ["acyclic"] if oracle_placement.Oracle(instance).acyclic(sets) else []
    if instance.track == "placement" and instance.objective == "latency":
        found += ["few"] if _subgraphs(instance, solution) <= 1 else []
    return found


def _subgraphs(instance: Any, solution: Any) -> float:
    """Return the greatest number of subgraphs of an accelerator; infinite if the solution leaves it open."""
    if not isinstance(solution, dict):
        return 1 if not instance.training else math.inf
    pairs = set(zip(solution["device"], solution["slot"], strict=True))
    return max((sum(d == device for d, _ in pairs) for device in range(instance.accelerators)), default=0)
