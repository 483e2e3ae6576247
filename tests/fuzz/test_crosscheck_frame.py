"""The cross-check finds each kind of contradiction, survives what a method does, and draws what it should."""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest
from crosscheck import campaign, check, drawn, methods, plant, reasons, tracks
from crosscheck.campaign import Result, Settings, Task
from crosscheck.claims import Claims
from crosscheck.command import main
from crosscheck.draws.strata import strata
from crosscheck.report import report

from shardmark.harness.verify import verify
from shardmark.instances import TRACKS, track_module
from shardmark.solvers.registry import Declined, Solver

SOLVERS = Path(__file__).parents[2] / "solvers"

#: Words of reasons that may say that nothing fits.
WORDS = re.compile(r"\bfits?\b|\bhold\b|\bfull\b|no placement|no schedule")


def honest(instance, run):
    run.report([0] * instance.nodes)
    run.bound(0.0)


def too_high(instance, run):
    run.bound(verify(instance, [0] * instance.nodes).cost * 1.0001)


def endless(instance, run):
    run.bound(math.inf)


def numberless(instance, run):
    run.bound(math.nan)


def failing(instance, run):
    raise ZeroDivisionError("as a solver may")


def lying(instance, run):
    raise Declined("no schedule fits the memory of the devices")


def unsure(instance, run):
    raise Declined("found no schedule that fits the memory of the devices, and no proof that there is none")


def dying(instance, run):
    os._exit(7)


def hanging(instance, run):
    while True:
        pass


def orphaning(instance, run):
    if not os.fork():
        time.sleep(1000)
    os._exit(7)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let every track have the given methods only."""

    def choose(*functions: Callable[..., None], proves_bounds: bool = True) -> None:
        made = {f.__name__: Solver(f.__name__, "pipeline", "bound", "", {}, True, proves_bounds, f) for f in functions}
        monkeypatch.setattr(methods, "chosen", lambda track: made)

    return choose


@pytest.mark.parametrize(
    ("function", "claim"),
    [(too_high, "bound "), (endless, "an infinite bound"), (numberless, "NaN"), (lying, "declines: no schedule")],
)
def test_a_false_claim_is_a_contradiction(function, claim, only):
    only(honest, function)
    result = campaign.check(Task("pipeline", 0), Settings())
    (found,) = result.contradictions()
    assert found.method == function.__name__
    assert claim in found.claim


def test_a_bound_of_a_method_that_declares_none_is_a_contradiction(only):
    only(honest, proves_bounds=False)
    (found,) = campaign.check(Task("pipeline", 0), Settings()).contradictions()
    assert "declares that it proves none" in found.claim


def test_true_claims_and_unknown_ones_are_none(only):
    only(honest, unsure)
    result = campaign.check(Task("pipeline", 0), Settings())
    assert result.contradictions() == []
    assert result.claims["honest"].cost is not None
    assert result.claims["unsure"].declined


def test_a_verdict_unlike_the_oracle_s_is_a_contradiction(only, monkeypatch):
    monkeypatch.setattr(tracks, "judge", lambda *_: (True, Fraction(1, 3)))
    only(honest)
    found = campaign.check(Task("pipeline", 0), Settings()).contradictions()
    assert [one.method for one in found] == ["verifier"]


def test_two_proofs_that_differ_are_a_contradiction():
    """Bounds within the tolerance of both costs: each method believes its own."""
    by_method = {
        "first": Claims(bound=100, cost=Fraction(100)),
        "second": Claims(bound=Fraction(99), cost=Fraction(101)),
    }
    assert check.contradictions("pipeline", by_method) == []
    by_method["second"] = Claims(bound=Fraction(101), cost=Fraction(101))
    assert [found.method for found in check.contradictions("pipeline", by_method)] == ["second"]


def test_bounds_are_compared_exactly_if_the_oracle_counted_the_cost():
    nearly = 1 + Fraction(1, 10**12)
    by_method = {"search": Claims(cost=Fraction(1)), "bound": Claims(bound=nearly)}
    assert len(check.contradictions("pipeline", by_method)) == 1
    by_method["search"].exact = False
    assert check.contradictions("pipeline", by_method) == []


def test_claims_come_back_from_their_document():
    claims = Claims(bound=Fraction(1, 3), cost=2**70, exact=False, nothing="any", refutes=["any"], seconds=0.5)
    assert Claims.of(json.loads(json.dumps(claims.document()))) == claims


def test_a_method_that_dies_or_fails_is_a_failure_and_the_others_run(only):
    only(failing, dying, honest)
    (result,) = campaign.run([Task("pipeline", 0)], Settings(), 1)
    assert "ZeroDivisionError" in result.claims["failing"].failed
    assert "status 7" in result.claims["dying"].failed
    assert result.claims["honest"].cost is not None


def test_a_method_without_end_is_killed(only, monkeypatch):
    monkeypatch.setattr(campaign, "GRACE", 1.0)
    only(honest, hanging)
    (result,) = campaign.run([Task("pipeline", 0)], Settings(0.1), 1)
    assert result.claims["hanging"].failed == "killed: out of time"
    assert result.claims["honest"].cost is not None


def test_what_a_dead_method_leaves_running_is_killed(only, monkeypatch):
    monkeypatch.setattr(campaign, "GRACE", 1.0)
    only(orphaning, honest)
    (result,) = campaign.run([Task("pipeline", 0)], Settings(0.1), 1)
    assert "status 7" in result.claims["orphaning"].failed
    assert result.claims["honest"].cost is not None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--instances", "0"], "--instances: expected a whole number from 1"),
        (["--jobs", "0"], "--jobs: expected a whole number from 1"),
        (["--seconds", "nan"], "--seconds: expected a positive number"),
        (["--method", "h*", "--method", "x*"], "--method: expected the name of a method of pipeline, found 'x*'"),
        (["--results", "/dev/null"], "--results: expected a folder to write into, found /dev/null (File exists)"),
    ],
)
def test_options_that_would_check_nothing_are_refused(only, tmp_path, capsys, options, expected):
    only(honest)
    with pytest.raises(SystemExit, match="2"):
        main(["--track", "pipeline", "--results", str(tmp_path), *options])
    assert expected in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    [b"\xff", b"{}", b"[1]", b"null", b'{"track": "pipeline", "seed": 0, "claims": {"a": {"bound": "1/0"}}}'],
)
def test_damaged_results_are_left_out(tmp_path, capsys, line):
    campaign.append(tmp_path, Result("pipeline", 0))
    with (tmp_path / "pipeline.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert [result.seed for result in campaign.read(tmp_path, "pipeline")] == [0]
    assert "pipeline.jsonl: line 2 is no result" in capsys.readouterr().err


def test_a_folder_without_results_is_reported_so(tmp_path, capsys):
    assert main(["--report", "--results", str(tmp_path)]) == 0
    assert "no results in" in capsys.readouterr().out


def test_the_command_resumes_reports_and_fails_with_a_contradiction(only, tmp_path, capsys):
    only(honest)
    options = ["--track", "pipeline", "--results", str(tmp_path), "--seconds", "0.1", "--instances"]
    assert main([*options, "1"]) == 0
    with (tmp_path / "pipeline.jsonl").open("a") as file:
        file.write('{"track": "pipe')  # as a kill leaves it
    only(honest, too_high)
    assert main([*options, "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum(text.startswith("CONTRADICTION pipeline seed 1 (") for text in lines) == 2  # at once, and at the end
    assert not any(text.startswith("CONTRADICTION pipeline seed 0 (") for text in lines)
    assert (tmp_path / "pipeline-1.json").exists()
    assert main([*options, "2", "--report"]) == 1
    assert re.search(r"^too_high +1 +1 +1 +100 ", capsys.readouterr().out, re.MULTILINE)


def test_a_report_counts_claims_by_mode_size_and_method():
    by_method = {"a": Claims(bound=Fraction(1), cost=Fraction(1)), "b": Claims(declined="not for this")}
    text = report(
        [Result("pipeline", 0, "some mode", "some kind", 34, by_method), Result("pipeline", 1, "other", "", 41)]
    )
    for row in (
        r"some mode +1 +1 +2 +1 +1 ",
        r"40-49 +1 +0 +0 ",
        r"a +1 +1 +1 +100 +1 +0 +0 +0 ",
        r"b +1 +0 +0 +- +0 +1 ",
    ):
        assert re.search(f"^{row}", text, re.MULTILINE)


# ------------------------------------------------------------ draws


def test_every_track_takes_part():
    assert tuple(tracks.TRACKS) == TRACKS


@pytest.mark.parametrize("track", tracks.TRACKS)
def test_an_index_draws_one_instance_and_indices_many_modes(track):
    draw, write = import_module(f"crosscheck.draws.{track}").draw, track_module(track).to_document
    found = [draw(index) for index in range(40)]
    assert write(draw(7).instance) == write(found[7].instance)
    assert len({one.mode for one in found}) >= 6
    assert all(8 <= one.instance.nodes <= 62 for one in found)


def test_options_and_pairs_of_them_have_even_shares():
    chosen = [strata(index, a=range(4), b=range(5), c=range(3)) for index in range(1000)]
    for names in (("a",), ("b",), ("c",), ("a", "b"), ("b", "c")):
        counts = Counter(tuple(one[name] for name in names) for one in chosen)
        cells = math.prod({"a": 4, "b": 5, "c": 3}[name] for name in names)
        assert len(counts) == cells
        assert all(0.7 < count * cells / 1000 < 1.3 for count in counts.values())


# ------------------------------------------------------------ reasons


def texts(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the texts that an expression may have; a number stands for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = ([*texts(part, constants)] or ["1"] for part in node.values)
        yield from map("".join, itertools.product(*parts))
    elif isinstance(node, ast.FormattedValue):
        yield from texts(node.value, constants)
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body, constants)
        yield from texts(node.orelse, constants)
    elif isinstance(node, ast.Name) and node.id in constants:
        yield from texts(constants[node.id], constants)


def declared_reasons() -> Iterator[str]:
    """Yield the texts of all reasons to decline in ``solvers``, and of functions that make some."""
    for path in SOLVERS.rglob("*.py"):
        tree = ast.parse(path.read_text())
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Declined":
                yield from texts(node.args[0], constants)
            elif isinstance(node, ast.FunctionDef) and node.name in ("contradiction", "lack_of_memory"):
                returned = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return) and inner.value)
                yield from (text for value in returned for text in texts(value, constants))


def test_every_reason_that_may_claim_that_nothing_fits_is_classified():
    found = [reason for reason in declared_reasons() if WORDS.search(reason)]
    assert len(found) > 15
    assert [reason for reason in found if not reasons.classified(reason)] == []


@pytest.mark.parametrize(
    ("reason", "claim"),
    [
        ("no schedule fits the memory and the links of the devices", "any"),
        ("no placement fits the memory of the accelerators", "any"),
        ("no placement fits the memory of the accelerators, or there was no time to find one", ""),
        ("no acyclic placement fits the memory of the accelerators", "acyclic"),
        ("no contiguous placement fits the memory of the accelerators", "contiguous"),
        ("no acyclic placement is known to fit the memory of the accelerators", ""),
        ("no placement with 2 subgraphs or fewer an accelerator fits the memory of the accelerators", "few"),
        ("time step 3: expected a memory limit of at least 7", "any"),
        ("dp is for throughput", ""),
    ],
)
def test_reasons_claim_what_they_say(reason, claim):
    assert reasons.claimed(reason) == claim


def test_a_solution_with_cycles_does_not_refute_that_no_acyclic_one_fits():
    instance = import_module("crosscheck.draws.placement").draw(0).instance
    graph = instance.graph
    assert instance.objective == "throughput"
    assert "acyclic" in reasons.refuted(instance, [0] * instance.nodes)
    middle = next(v for v in range(instance.nodes) if v in graph.head and v in graph.tail)
    assert "acyclic" not in reasons.refuted(instance, [int(v == middle) for v in range(instance.nodes)])


# ------------------------------------------------------------ planted faults


def test_planted_claims_are_revealed_where_bounds_are_tight():
    by_method = {
        "search": Claims(cost=Fraction(10), refutes=["any"]),
        "tight": Claims(bound=Fraction(10)),
        "weak": Claims(bound=Fraction(9)),
    }
    faults = plant.claimed_faults([Result("pipeline", 5, claims=by_method)])
    assert faults["tight", "raised"].revealed == (5,)
    assert faults["weak", "raised"].revealed == ()
    assert faults["weak", "infeasible"].revealed == (5,)
    assert faults["search", "infeasible"].planted == 0


def test_integers_are_raised_by_one_at_least():
    raised = plant.raised("intraop", Claims(bound=10))
    assert raised is not None
    assert raised.bound == 11


@pytest.mark.parametrize("track", tracks.TRACKS)
def test_restricted_instances_are_valid_and_differ(track):
    draw, write = import_module(f"crosscheck.draws.{track}").draw, track_module(track).to_document
    found = [(draw(index).instance, index) for index in range(20)]
    pairs = [(instance, tracks.restricted(instance, index)) for instance, index in found]
    kept = [(instance, other) for instance, other in pairs if other is not None]
    assert len(kept) >= 10
    assert all(write(instance) != write(other) for instance, other in kept)


def test_the_bound_of_a_restricted_instance_is_revealed(only, tmp_path, monkeypatch):
    """The bound is the cost of a single stage, and the restriction doubles the work."""

    def one_stage(instance, run):
        run.bound(verify(instance, [0] * instance.nodes).cost * (1 - 1e-9))

    only(honest, one_stage)
    campaign.append(tmp_path, campaign.check(Task("pipeline", 0), Settings()))
    monkeypatch.setattr(tracks, "restricted", lambda instance, seed: replace(instance, work=2 * instance.work + 1))
    results = campaign.read(tmp_path, "pipeline")
    assert results[0].contradictions() == []
    faults = plant.restricted_faults(results, 1.0, 1)
    assert faults["one_stage", "restricted"].revealed == (0,)
    assert faults["honest", "restricted"].revealed == ()


def test_the_report_of_faults_has_a_row_per_method_and_fault(only, tmp_path):
    only(honest)
    campaign.append(tmp_path, campaign.check(Task("pipeline", drawn.SEEDS["pipeline"][0]), Settings()))
    text = plant.report(tmp_path, ["pipeline"], 0.1, 1)
    assert [line.split()[1:3] for line in text.splitlines()[1:]] == [
        ["honest", "infeasible"],
        ["honest", "raised"],
        ["honest", "restricted"],
    ]
