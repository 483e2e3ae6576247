"""Published results on instances of the catalog: not run here, shown next to ours, never ranked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("contest2025.toml")
#: Results of the paper on placement.
PLACEMENT = FILE.with_name("placement2020.toml")
#: Answers of the program of Piper.
PIPER = FILE.with_name("piper2021.toml")
#: Name of the author of published lower bounds.
BOUND = "lower bound"


@dataclass(frozen=True)
class Author:
    """An author of published results: name, a description, and the machine and time the results took.

    ``role`` is "winner", "team", "compiler", "later", "paper" for costs, and "bound" for lower bounds.
    """

    name: str
    role: str
    about: str
    made: str


@dataclass(frozen=True)
class Result:
    """A published result on an instance: a cost, or a lower bound if its author is called `BOUND`.

    ``value`` is exact decimal text, None if nothing feasible was found.
    """

    author: Author
    value: str | None


@cache
def figures() -> Mapping[str, Any]:
    """Return the file as parsed: ``papers who made points costs bounds infeasible``."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def authors() -> tuple[Author, ...]:
    """Return all authors of costs, in the order of the file: the contest's teams, the compiler, later work."""
    made = figures()["made"]
    return tuple(Author(x["name"], x["role"], x["about"], made[x["made"]]) for x in figures()["who"])


def contestants() -> tuple[Author, ...]:
    """Return the authors whose costs the contest's organisers measured on the contest's machine."""
    return tuple(author for author in authors() if author.role != "later")


def instances() -> tuple[str, ...]:
    """Return the ids of the catalog with published results."""
    return tuple(figures()["costs"])


def costs(instance: str) -> list[Result]:
    """Return the published costs of an instance, one per author in `authors`; empty if there are none."""
    texts = figures()["costs"].get(instance, [])
    return [Result(author, _feasible(text)) for author, text in zip(authors(), texts, strict=bool(texts))]


def contest_costs(instance: str) -> list[Result]:
    return [result for result in costs(instance) if result.author in contestants()]


def _feasible(text: str) -> str | None:
    """Return a cost, None if it includes an infinite entry or is absent."""
    return text if text and int(text) < int(figures()["infeasible"]) else None


def best_cost(instance: str) -> Result | None:
    """Return the least published cost; of equal ones the first in the file."""
    found = [result for result in costs(instance) if result.value is not None]
    return min(found, key=lambda result: int(result.value or 0), default=None)


def lower_bound(instance: str) -> Result | None:
    """Return the greatest published lower bound."""
    text = figures()["bounds"].get(instance)
    about = Author(BOUND, "bound", "the best bound of any method", figures()["made"]["bounds"])
    return None if text is None else Result(about, text)


def results(instance: str) -> list[tuple[str, Result]]:
    """Return all published results on an instance as ("cost" or "bound", result)."""
    bound = lower_bound(instance)
    found = [*costs(instance), *placements(instance), *plans(instance)]
    return [("cost", result) for result in found] + ([("bound", bound)] if bound else [])


#: The paper's methods with figures on every instance, by the suffix of ids that allow their splits: our name, theirs.
METHODS = {
    "throughput": {
        "": {"dp": "DP", "ip-contiguous": "IP (contiguous)", "dpl": "DPL"},
        "-acyclic": {"dp": "DP", "dpl": "DPL"},
        "-free": {"ip-noncontiguous": "IP (non-contiguous)", "local-search": "local search", "scotch": "Scotch"},
    },
    "latency": {
        "": {"greedy": "greedy", "max-load-dp": "max-load DP", "ip": "IP"},
        "-free": {"scotch": "Scotch"},
    },
}
#: Tables of the paper that hold them.
TABLES = {"throughput": "Table 1", "latency": "Table 4"}


@cache
def placement_figures() -> Mapping[str, Any]:
    """Return the file of the placement paper as parsed: ``papers made throughput layers latency splits``."""
    return tomllib.loads(PLACEMENT.read_text(encoding="utf-8"))


def placements(instance: str) -> list[Result]:
    """Return the figures of the placement paper on an instance, one per method whose splits are allowed there.

    Printed costs have two decimals, some of them cut off rather than rounded (31.68 for a proven optimum of 31.6873);
    they are rounded up by one in the last place, so that printing puts no cost below a bound. The value is None for a
    split that exceeds the memory.
    """
    for part, ends in METHODS.items():
        for end, methods in ends.items():
            known = placement_figures()[part].get(instance.removesuffix(end))
            if instance.endswith(end) and known:
                about = f"Tarnawski et al. 2020, {TABLES[part]}, rounded up", placement_figures()["made"]
                printed = known["cost"]
                return [
                    Result(Author(name, "paper", *about), _rounded_up(printed[key]) if key in printed else None)
                    for key, name in methods.items()
                ]
    return []


def _rounded_up(text: str) -> str:
    printed = Decimal(text)
    return str(printed + Decimal((0, (1,), int(printed.as_tuple().exponent))))


@cache
def piper_figures() -> Mapping[str, Any]:
    """Return the file of Piper's program as parsed: ``papers made program``."""
    return tomllib.loads(PIPER.read_text(encoding="utf-8"))


def plans(instance: str) -> list[Result]:
    """Return the answers of Piper's program on an instance: its plan and the best equal stages; None if none fits."""
    known = piper_figures()["program"].get(instance)
    if known is None:
        return []
    about = "public program of Tarnawski et al. 2021", piper_figures()["made"]
    named = {"dynamic program": known["tps"], "equal stages": known["equal"]}
    return [Result(Author(name, "paper", *about), None if text == "-1" else text) for name, text in named.items()]
