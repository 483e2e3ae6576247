"""A bound is checked by a certificate, agreed by two families of methods, and claimed otherwise."""

from __future__ import annotations

import ast
from itertools import combinations
from pathlib import Path

import pytest

from shardmark.harness.campaign.discover import discover
from shardmark.harness.results.grades import FAMILIES, PUBLISHED, Evidence, grade, published

ROOT = Path(__file__).parents[3]
#: What every method uses: the contract, the loader of compiled code, and a track's table of it.
COMMON = ("solvers.registry", "solvers.native", "solvers._redirect_stdout")

CERTIFIED = Evidence("a-method", 10, 10)
WEAKLY_CERTIFIED = Evidence("a-method", 10, 9)
STAGES, ALSO_STAGES, WINDOWS = (Evidence(name, 10) for name in ("reweighted", "anchored", "windows"))
ENGINE, PAPER, LESS = Evidence("exact", 10), Evidence(PUBLISHED, 10), Evidence(PUBLISHED, 9)


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ((), "claimed"),
        ((STAGES,), "claimed"),
        ((CERTIFIED,), "checked"),
        ((WEAKLY_CERTIFIED,), "claimed"),
        ((STAGES, ALSO_STAGES), "claimed"),
        ((STAGES, WINDOWS), "agreed"),
        ((STAGES, PAPER), "agreed"),
        ((STAGES, LESS), "claimed"),
        ((ENGINE, PAPER), "claimed"),
        ((ENGINE, WINDOWS), "claimed"),
        ((STAGES, PAPER, CERTIFIED), "checked"),
    ],
)
def test_a_bound_is_graded_by_what_supports_it(stated: tuple[Evidence, ...], found: str) -> None:
    assert grade("pipeline", stated, 10) == found


def test_a_certificate_may_prove_more_than_its_method_claims() -> None:
    assert grade("intraop", [Evidence("lagrange", 8, 10)], 10) == "checked"


def test_the_proof_of_an_optimum_has_the_grade_of_its_best_bound() -> None:
    almost = 10 * (1 - 1e-6)
    assert grade("pipeline", [Evidence("exact", 10.0), Evidence("reweighted", 9.0, almost)], 10.0, 10.0) == "checked"
    assert grade("pipeline", [Evidence("reweighted", almost), Evidence("windows", 10.0)], 10.0, 10.0) == "agreed"
    assert grade("pipeline", [Evidence("exact", 10.0), Evidence("reweighted", 9.0, 9.0)], 10.0, 10.0) == "claimed"
    assert grade("pipeline", [Evidence("exact", 9.0), Evidence("reweighted", 9.0, 9 - 1e-6)], 9.0, 10.0) == "claimed"


def test_what_lies_above_a_verified_cost_supports_nothing() -> None:
    assert grade("pipeline", [Evidence("exact", 10.0, 11.0)], 10.0, 10.0) == "claimed"
    assert grade("pipeline", [Evidence("reweighted", 8.0), Evidence("windows", 11.0)], 8.0, 10.0) == "claimed"
    assert grade("pipeline", [Evidence("reweighted", 8.0), Evidence("windows", 9.0)], 8.0, 10.0) == "agreed"


def test_what_was_enumerated_for_the_catalog_is_not_published() -> None:
    assert published({"lower_bound": "7", "lower_bound_source": "enumeration of all plans"}) == []
    assert published({"lower_bound": "7", "lower_bound_source": "Example et al. 2024"}) == [Evidence(PUBLISHED, 7)]
    assert published({"best_cost": "7"}) == []


def test_methods_of_two_families_share_no_module_of_ours() -> None:
    files = {(info.track, info.name): Path(info.file).resolve() for info in discover() if not info.error}
    shared = {}
    for track, families in FAMILIES.items():
        for one, other in combinations(families, 2):
            if families[one] != families[other]:
                common = _modules(files[track, one]) & _modules(files[track, other])
                shared[track, one, other] = common - {f"solvers.{track}._kernels", *COMMON}
    assert shared
    assert {pair for pair, modules in shared.items() if modules} == set()


def test_no_method_of_a_family_lets_an_engine_search() -> None:
    files = {(info.track, info.name): Path(info.file).resolve() for info in discover() if not info.error}
    named = {(track, name) for track, families in FAMILIES.items() for name in families}
    engines = {"solvers._scip", "solvers._cpsat"}
    assert {method for method in named if _modules(files[method]) & engines} == set()


def _modules(file: Path) -> set[str]:
    """The modules of solvers that a file imports, directly or not."""
    found, left = set[str](), [file]
    while left:
        tree = ast.parse(left.pop().read_text())
        names = {
            f"{node.module}{end}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for end in ("", *(f".{alias.name}" for alias in node.names))
        }
        for name in {name.removeprefix("shardmark.") for name in names} - found:
            path = ROOT / Path(*name.split(".")).with_suffix(".py")
            if name.startswith("solvers.") and path.is_file():
                found.add(name)
                left += [] if name in COMMON else [path]
    return found
