"""The public API: what it returns, what it refuses, and that it is the command line's referee."""

from __future__ import annotations

import dataclasses
import doctest
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from referee import CHAIN, ZOO, answer, refusal, shardmark

import shardmark as sm
from shardmark import api, problems
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records.best import BestKnown, by_checksum
from shardmark.harness.records.history import FOLDER, Improvement
from shardmark.harness.results.records import Bound, Incumbent
from shardmark.instances import InputError, catalog
from shardmark.instances.files.jsonfile import write_json
from shardmark.instances.generate import families
from shardmark.solvers.registry import declared_by
from shardmark.solvers.registry import load as load_solvers


class BytesPath:
    """A path object that yields bytes, as `os.DirEntry` does for a folder that was given as bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return bytes(self.path)


ROOT = Path(__file__).resolve().parents[2]
FOUR = {**CHAIN, "name": "four"}
BOUND = 10 / 2 * (1 - 1e-12)  # half of the work, safe from rounding
SOLVER = '''
from __future__ import annotations

import shardmark as sm
from shardmark import CheckResult, Run, RunResult, bound, check, load, results, solve, solver


@solver(track="pipeline", source="a test")
def halves(instance, run: Run, *, share: float = 0.5):
    """Cut behind a share of the nodes."""
    print("cutting")
    run.report([int(i >= share * instance.nodes) for i in range(instance.nodes)])


@bound(track="pipeline", source="a test")
def liar(instance, run):
    """Bounds everything by far too much."""
    run.bound(1e6)


@solver(track="pipeline", source="a test")
def nested(instance, run):
    """Starts a run of its own."""
    sm.solve("chain", "random-1")


if __name__ == "__main__":
    print(sm.solve("chain", halves, timeout=20, limits="posix").status)
'''

CELL = """
from shardmark import solver

@solver(track="pipeline")
def of_a_cell(instance, run):
    run.report([0] * instance.nodes)
"""


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """Four nodes in a row: one stage costs 10, the best cut into two costs 6."""
    path = tmp_path / "four.json"
    write_json(path, FOUR)
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's file with a solver and a bound."""
    path = tmp_path / "mine.py"
    path.write_text(SOLVER)
    return path


def test_paths_may_be_objects_that_yield_bytes(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    write_json(folder / "chain.json", FOUR)
    write_json(folder / "split.json", [0, 0, 1, 1])
    places = BytesPath(folder / "chain.json"), BytesPath(folder / "split.json")
    assert sm.check(*places).cost == sm.check(sm.load(places[0]), [0, 0, 1, 1]).cost
    assert "results.sqlite, run `shardmark run` first" in refusal(sm.results, BytesPath(folder))
    assert "expected an ONNX model" in refusal(sm.plan, places[0], devices=2)
    assert "expected a file *.toml, or one of h100" in refusal(
        sm.plan, places[0], devices=2, device=BytesPath(folder / "none")
    )
    assert "a solver file or a folder" in refusal(sm.solve, places[0], "x", solver_path=BytesPath(folder / "none"))


@pytest.mark.parametrize("module", [sm, api], ids=lambda module: module.__name__)
def test_the_examples_of_the_documentation_hold(module):
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed


def loaded_by(code: str) -> set[str]:
    """Modules of ours, and NumPy, that are loaded once some code has run in a process of its own."""
    code += "\nimport sys; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return {name for name in modules if name == "numpy" or name.split(".")[0] == "shardmark"}


def test_a_name_is_imported_when_it_is_used():
    assert loaded_by("import shardmark") == {"shardmark"}
    assert loaded_by("from shardmark import bound") == {"shardmark"}
    assert loaded_by("from shardmark import solver, Declined, LocalRun, Run") == {
        *("shardmark", "shardmark.solvers", "shardmark.solvers.registry"),
    }


def test_commands_import_what_they_need():
    def run(*words: str) -> set[str]:
        return loaded_by(f"from shardmark.cli.arguments import main; main({list(words)})")

    assert "numpy" not in run("list", "solvers")
    checked = run("check", "chain", __file__)
    assert {"numpy", "shardmark.harness.verify"} <= checked
    assert not checked & {
        "shardmark.harness.sandbox.supervisor",
        "shardmark.harness.campaign.discover",
        "shardmark.harness.results.database",
    }


def test_every_name_is_there_and_no_other():
    assert all(callable(getattr(sm, name)) for name in sm.__all__)
    assert {*sm.__all__, "__version__"} == set(dir(sm))
    assert sm.__version__.startswith(version("shardmark"))
    with pytest.raises(AttributeError, match="'shardmark' has no attribute 'sovle'"):
        sm.sovle  # noqa: B018


@pytest.mark.parametrize("function", [sm.solve, sm.bound, sm.check])
def test_an_unknown_keyword_is_told_with_those_that_are_known(function):
    expected = rf"^{function.__name__}\(\) got an unexpected keyword argument 'stages', expected timeout, memory, cores"
    with pytest.raises(TypeError, match=expected):
        function("chain", "simple", stages=3)
    with pytest.raises(TypeError, match=r"isolation, progress, did you mean 'timeout'\?; options of an instance"):
        function("chain", "simple", timeuot=3)


def test_a_solver_that_cannot_be_called_is_told_where_it_is_declared(tmp_path):
    file = tmp_path / "halves.py"
    file.write_text("from shardmark import solver\n\n@solver(track='pipeline')\ndef halves(instance):\n    ...\n")
    with pytest.raises(sm.InputError, match=r"expected halves\(instance, run\), found halves\(instance\) .*:3\)"):
        sm.solve("chain", "halves", solver_path=file)


def test_the_earlier_name_of_the_decorator_still_works(mine):
    mine.write_text(
        re.sub(r"from shardmark import .*", "from shardmark.solvers.registry import Run, bound, solver", SOLVER)
    )
    assert sm.solve("chain", "halves", solver_path=mine, timeout=20).status == "ok"


def test_an_instance_is_read_with_options(four):
    assert sm.load(four).stages == sm.load(str(four), track="pipeline").stages == 2
    assert sm.load(four, stages=3).stages == 3
    assert sm.load("chain").name == "chain"


def test_bad_input_is_told_in_one_sentence(four):
    for call, words in {
        lambda: sm.load("chian"): "expected a file or an id of the catalog, did you mean 'chain'?",
        lambda: sm.load("chain", track="intraop"): "chain: track: expected pipeline, found intraop",
        lambda: sm.load(four, lanes=3): "option lanes: expected an option of pipeline: stages",
        lambda: sm.load(four, stage=3): "option stage: expected an option of pipeline: stages, did you mean 'stages'?",
        lambda: sm.load(3): "instance: expected a file or an id of the catalog, found int",
        lambda: sm.solve(four, "random-1", params=3): "params: expected values by name, such as {'tries': 10}, found 3",
        lambda: sm.solve([1, 2], "random-1"): "expected a file, an id of the catalog or an instance, found list",
        lambda: sm.solve(four, "radnom-1"): "did you mean 'random-1'?",
        lambda: sm.solve(four, "simple"): "expected a solver, found a bound",
        lambda: sm.solve(four, len): "a function that declares one solver of pipeline in a file",
        lambda: sm.solve(four, "random-1", timeout=-1): "timeout: expected a positive number below 1e+09, found -1",
        lambda: sm.solve(four, "random-1", memory="4 GB"): "memory: expected a positive number",
        lambda: sm.solve(four, "random-1", cores=10**6): "cores: expected at most",
        lambda: sm.solve(four, "random-1", seed=-1): "seed: expected a whole number, at least 0, found -1",
        lambda: sm.solve(four, "random-1", isolation="some"): "isolation: expected one of auto, none, found 'some'",
        lambda: sm.solve(four, "random-1", params={"orderings": "x"}): "expected",
        lambda: sm.check(four, {1, 2}): "solution: expected plain JSON or the path of a file",
        lambda: sm.check(four, four.with_name("missing.json")): "missing.json",
        lambda: sm.results(four.with_name("nowhere")): "expected a results folder",
    }.items():
        assert words in refusal(call)


def test_calls_that_cannot_be_meant_are_refused(four):
    for call in (
        lambda: sm.solve(four),
        lambda: sm.solve(four, "random-1", command="true"),
        lambda: sm.solve(four, "random-1", timeuot=5),
        lambda: sm.check(four, [0, 0, 1, 1], timeout=5),
        lambda: sm.bound("chain"),
    ):
        with pytest.raises(TypeError):
            call()


def test_what_was_loaded_runs_as_its_file_does(tmp_path, monkeypatch):
    """With its id, its published bound and its options; from any working directory."""
    named = sm.solve("chain", "random-1", timeout=20)
    instance = sm.load("chain")
    monkeypatch.chdir(tmp_path)
    given = sm.solve(instance, "random-1", timeout=20)
    assert (given.instance, given.cost, given.solution) == (named.instance, named.cost, named.solution)
    assert (given.lower_bound, given.bound_from) == (named.lower_bound, named.bound_from) == (11, "published")


def test_an_instance_whose_file_has_changed_is_not_run(four):
    instance = sm.load(four)
    write_json(four, {**FOUR, "bandwidth": 2.0})
    found = sm.solve(instance, "random-1", timeout=20)
    assert found.status == "error"
    assert "the file has changed" in found.reason


def test_an_instance_made_in_memory_is_run_with_its_options(four):
    changed = dataclasses.replace(sm.load(four), stages=1)
    found = sm.solve(changed, "random-1", timeout=20)
    assert (found.instance, found.cost, found.options) == ("four", 10.0, {"stages": 1})
    placement = dataclasses.replace(sm.load("sandwich-free", contiguity="contiguous"), contiguity="free")
    found = sm.solve(placement, "greedy", timeout=20)
    assert (found.status, found.options) == ("ok", {"contiguity": "free"})
    assert sm.check(placement, found.solution).cost == found.cost


def test_a_large_instance_in_memory_is_written_once_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    instance = families()["watts-strogatz"].build(1, nodes=300)
    assert sm.check(instance, [0] * 300).feasible
    assert sm.solve(instance, "random-1", timeout=20).feasible
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_run_tells_all_that_it_reported(four, mine):
    found = sm.solve(four, "halves", solver_path=str(mine), params={"share": 0.25}, timeout=20, seed=3)
    assert (found.instance, found.track, found.method) == ("four.json", "pipeline", "halves[share=0.25]")
    assert (found.status, found.reason, found.feasible, found.log) == ("ok", "", True, "cutting\n")
    assert (found.cost, found.solution) == (8.0, [0, 1, 1, 1])
    assert (found.lower_bound, found.bound_from) == (BOUND, "instance")
    assert (found.gap, found.optimal) == (pytest.approx(8 / BOUND - 1), False)
    (incumbent,) = found.incumbents
    assert incumbent == Incumbent(incumbent.time_s, True, 8.0)
    assert 0 < incumbent.time_s <= found.wall_s
    assert found.cpu_s > 0
    assert found.peak_mib > 1
    assert found.limits.startswith("posix")
    assert re.search(r"^method +halves\[share=0.25\]\n(.*\n)*cost +8\n", str(found), re.MULTILINE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.cost = 0


def test_a_function_in_a_file_is_run_and_one_in_a_notebook_is_not(four, mine):
    (halves,) = [solver.function for solver in load_solvers(str(mine)) if solver.name == "halves"]
    assert sm.solve(four, halves, timeout=20).cost == 6.0
    scope = {"__name__": "__main__"}
    exec(CELL, scope)
    with pytest.raises(sm.InputError, match="in a file"):
        sm.solve(four, scope["of_a_cell"])
    local = sm.LocalRun()
    scope["of_a_cell"](sm.load(four), local)
    assert local.solutions == [[0, 0, 0, 0]]


def test_a_cell_of_a_notebook_may_declare_its_solver_again():
    for _ in range(2):
        scope = {"__name__": "__main__", "solver": sm.solver}
        exec('@solver(track="pipeline")\ndef of_a_cell(instance, run): ...', scope)
        assert [solver.name for solver in declared_by(scope["of_a_cell"])] == ["of-a-cell"]


def test_a_program_that_declares_a_solver_may_run_it(mine):
    command = [sys.executable, str(mine)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "ok\n"


def test_no_run_starts_another(four, mine):
    found = sm.solve(four, "nested", solver_path=mine, timeout=20)
    assert found.status == "error"
    told = 'a run cannot call shardmark: in a solver file, put calls under `if __name__ == "__main__":`'
    assert found.reason.startswith(told)
    mine.write_text(SOLVER.split("if __name__")[0] + 'sm.solve("chain", halves)\n')
    with pytest.raises(sm.InputError, match=re.escape(f"random-10000; {mine} cannot be imported ({told} (mine.py:")):
        sm.solve(four, "halves", solver_path=mine)


def test_a_program_in_any_language_is_run(four):
    found = sm.solve(four, command=f'{sys.executable} -c "print([0, 0, 1, 1])"', timeout=20)
    assert (found.status, found.cost, found.optimal) == ("ok", 6.0, False)


def test_a_run_that_fails_is_a_result(four):
    zoo = ZOO / "zoo.py"
    found = sm.solve(four, "silent", solver_path=[zoo], timeout=20)
    assert (found.status, found.reason, found.cost) == ("none", "reported no solution", None)
    assert (found.feasible, found.gap, found.optimal) == (None, None, None)


def test_a_bound_is_what_the_method_proved(four, mine):
    found = sm.bound(four, "exact", timeout=60)
    assert found.lower_bound == pytest.approx(6.0, rel=1e-5)
    assert (found.bound_from, found.optimal, found.gap) == ("exact", True, 0.0)
    assert found.bounds[-1] == Bound(found.bounds[-1].time_s, found.lower_bound)
    found = sm.bound(four, method="halves", solver_path=mine, timeout=20)
    assert (found.lower_bound, found.bound_from, found.reason) == (None, "", "reported no lower bound")


def test_a_solution_is_checked(four, tmp_path):
    good = sm.check(four, np.array([0, 0, 1, 1]))
    assert (good.feasible, good.cost, good.violations) == (True, 6.0, ())
    assert (good.lower_bound, good.bound_from, good.gap, good.optimal) == (
        BOUND,
        "instance",
        pytest.approx(6 / BOUND - 1),
        False,
    )
    write_json(tmp_path / "solution.json", {"block": [0, 0, 1, 1], "order": [0, 1, 2, 3]})
    assert sm.check(four, tmp_path / "solution.json").cost == 6.0
    bad = sm.check(four, [0, 0, 1, 2])
    assert (bad.feasible, bad.gap, bad.optimal) == (False, None, None)
    assert "solution[3]" in bad.violations[0]
    assert "feasible" in str(good)
    assert bad.violations[0] in str(bad)


def with_record(monkeypatch, instance, cost, bound):
    """Let an instance have a record of this cost and bound."""
    entry = catalog.find(instance)
    checksum = Problem.of(entry, catalog.locate(entry)).checksum
    made = ("m", "v", 0, 1.0, 64.0, 1, 1.0, "x", "2025-01-02", "Ada")
    lines = [
        Improvement(instance, checksum, kind, value, "", *made) for kind, value in (("cost", cost), ("bound", bound))
    ]
    monkeypatch.setattr(problems, "_records", lambda: {checksum: BestKnown(entry, lines)})


def test_a_solution_is_compared_with_the_best_known(monkeypatch):
    with_record(monkeypatch, "erdos-renyi-60", "2.0", "1.5")
    solution = [0] * sm.load("erdos-renyi-60").nodes
    found = sm.check("erdos-renyi-60", solution)
    assert (found.best_known, found.best_from) == (2.0, "records")
    assert found.over_best == pytest.approx(found.cost / 2.0 - 1)
    monkeypatch.setattr(problems, "_records", dict)
    unknown = sm.check("erdos-renyi-60", solution)
    assert (unknown.best_known, unknown.best_from, unknown.over_best) == (None, "", None)


def test_a_known_bound_above_a_verified_cost_is_told_and_does_not_count(monkeypatch, tmp_path):
    with_record(monkeypatch, "chain", "13.0", "12.0")
    found = sm.check("chain", [0, 0, 0, 1, 1])
    assert (found.cost, found.lower_bound, found.bound_from) == (11.0, 11, "published")
    words = "the lower bound of the records, 12.0, is above the verified cost 11.0: one of the two is wrong"
    assert found.contradiction == words
    write_json(tmp_path / "solution.json", [0, 0, 0, 1, 1])
    told = shardmark("check", "chain", tmp_path / "solution.json")
    assert (told.returncode, told.stderr) == (0, f"shardmark: {words}\n")


def test_a_bound_that_the_record_refutes_counts_nowhere():
    known = problems.Known([(90.0, "records")], [(1.0, "instance"), (100.0, "published"), (80.0, "records")])
    assert known.greatest_bound() == known.greatest_bound(100.0) == (80.0, "records")
    assert known.contradiction(100.0).startswith("the published lower bound, 100.0, is above the verified cost 90.0")


def test_costs_of_float_tracks_have_their_tolerance_however_they_are_written():
    with problems.problem_of("chain") as problem:
        known = problems.Known.of(problem)
    assert problem.published["best_cost"] == "11"
    assert {type(value) for value, _ in (*known.costs, *known.bounds)} == {float}


def test_a_bound_above_the_cost_of_a_record_is_refuted(mine):
    found = sm.bound("chain", "liar", solver_path=mine, timeout=20)
    assert found.status == "contradiction"
    assert found.reason.endswith("but the solution of the records has the cost 11.0")


def test_nothing_is_published_about_an_instance_with_other_options():
    assert problems.find_problem("chain").published
    assert problems.find_problem("chain", None, {"stages": 3}).published == {}
    entry = next(entry for entry in catalog.entries() if entry.options and entry.published and entry.embedded)
    assert problems.find_problem(entry.id, None, entry.options).published == entry.published


@pytest.mark.parametrize(
    ("instance", "given"),
    [("chain", {"stages": 2}), ("fork-join", {"links": "independent"}), ("fork-join", {"holding": "waiting"})],
)
def test_an_option_that_changes_nothing_names_the_same_instance(instance, given):
    plain = problems.find_problem(instance)
    stated = problems.find_problem(instance, None, given)
    assert (stated.checksum, dict(stated.options)) == (plain.checksum, dict(plain.options))
    assert stated.published == plain.published
    own = problems.find_problem(catalog.locate(catalog.find(instance)), None, given)
    assert own.checksum == plain.checksum
    assert problems.Known.of(own).best[1] == "records"


def test_the_default_in_place_of_the_catalog_s_option_names_the_instance_without_it():
    free = catalog.find("sandwich-free")
    assert free.options == {"contiguity": "free"}
    assert problems.find_problem(free.id, None, {"contiguity": "contiguous"}).options == {}
    assert problems.find_problem(free.id, None, {"objective": "throughput"}).options == free.options
    assert problems.find_problem(free.id, None, {"objective": "latency"}).published == {}


def test_an_option_is_refused_as_before_if_its_value_or_name_is_wrong(four):
    for options in ({"stages": 2.0}, {"nodes": 4}, {"stages": 10**30}):
        with pytest.raises(InputError):
            sm.load(four, **options)


def test_a_broken_line_of_the_records_is_left_out_with_a_warning(monkeypatch, tmp_path):
    whole = (FOLDER / "history.jsonl").read_bytes()
    (tmp_path / "history.jsonl").write_bytes(b'{"instance": \xff\n' + whole + b'{"instance": "diamond"}\n')
    monkeypatch.setattr(problems, "by_checksum", lambda wrong: by_checksum(tmp_path, wrong))
    monkeypatch.setattr(problems, "_records", problems._records.__wrapped__)
    with pytest.warns(UserWarning, match=r"skipped in the records: .*history.jsonl: line ") as caught:
        assert sm.check("chain", [0, 0, 0, 1, 1]).best_known == 11.0
    assert len(caught) == 2
    write_json(tmp_path / "solution.json", [0, 0, 0, 1, 1])
    told = shardmark("check", "chain", tmp_path / "solution.json")
    assert (told.returncode, told.stderr.count("\n")) == (0, 2)
    assert told.stderr.startswith("warning: skipped in the records: ")


def test_a_recorded_bound_is_shown_without_a_recorded_cost(monkeypatch):
    entry = catalog.find("erdos-renyi-60")
    checksum = Problem.of(entry, catalog.locate(entry)).checksum
    line = Improvement(entry.id, checksum, "bound", "1.5", "", "m", "v", 0, 1.0, 64.0, 1, 1.0, "x", "2025-01-02", "Ada")
    line = dataclasses.replace(line, value=repr(2 * problems.find_problem(entry.id).summary["simple_bound"]))
    monkeypatch.setattr(problems, "_records", lambda: {checksum: BestKnown(entry, [line])})
    told = answer("info", entry.id)
    assert (told["best_known"], told["lower_bound"], told["bound_from"]) == (None, float(line.value), "records")
    told = answer("bound", entry.id, "--method", "simple", "--limits", "posix")
    assert (told["known_bound"], told["known_from"]) == (float(line.value), "records")
    assert "best_known" not in told
    monkeypatch.setattr(problems, "_records", dict)
    assert "bound_from" not in answer("info", entry.id)
    assert "known_bound" not in answer("bound", entry.id, "--method", "simple", "--limits", "posix")


def test_a_solution_is_checked_against_a_method(four, mine):
    found = sm.check(four, [0, 1, 1, 1], method="exact", timeout=60)
    assert found.lower_bound == pytest.approx(6.0, rel=1e-5)
    assert (found.bound_from, found.run.method, found.run.cost) == ("exact", "exact", 6.0)
    assert "found a RunResult: pass its `solution`" in refusal(sm.check, four, found.run)
    assert found.gap == pytest.approx(8 / 6 - 1, rel=1e-4)
    found = sm.check(four, [0, 0, 1, 1], method="liar", solver_path=mine, timeout=20)
    assert (found.run.status, found.lower_bound, found.bound_from) == ("contradiction", BOUND, "instance")
    assert sm.check(four, [0, 0, 1, 2], method="exact", timeout=60).run is None


def test_the_command_line_says_the_same(four):
    given = [str(four), "--stages", "3", "--solver", "random-100", "--seed", "7", "--timeout", "20"]
    printed = answer("solve", *given, "--limits", "posix")
    found = sm.solve(sm.load(four, stages=3), "random-100", seed=7, timeout=20)
    names = ("instance", "status", "reason", "feasible", "cost", "lower_bound", "bound_from", "gap", "optimal")
    assert {name: printed[name] for name in names} == {name: getattr(found, name) for name in names}
    assert (printed["solver"], printed["stages"]) == (found.method, found.options["stages"])


def test_results_are_data_frames(four, tmp_path):
    folder = tmp_path / "results"
    given = ["--instance", str(four), "--solver", "random-1", "--timeout", "20", "--results", str(folder)]
    answer("run", *given, "--limits", "posix", "--quiet")
    found = sm.results(folder)
    assert isinstance(found.runs, pl.DataFrame)
    assert found.runs["status"].to_list() == ["ok"]
    assert found.solvers["solver"].to_list() == ["random-1"]
    assert repr(found).startswith("Tables(rows: runs 1, instances 1,")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.runs = None


def drawn(found: sm.RunResult | sm.CheckResult) -> ElementTree.Element:
    """Return the HTML that a notebook shows, which must be well-formed and fetch nothing."""
    text = found._repr_html_()
    assert not any(word in text for word in ("http", "src=", "href=", "url(", "<script", "@import"))
    return ElementTree.fromstring(text)


def told(shown: ElementTree.Element) -> dict[str, str]:
    return {row[0].text: "".join(row[1].itertext()) for row in shown.iter("tr")}


RUN = sm.RunResult(
    instance="a<b",
    track="intraop",
    options={},
    method="m",
    status="ok",
    reason="",
    feasible=True,
    cost=90,
    lower_bound=60,
    bound_from="m",
    solution=[0],
    incumbents=(
        Incumbent(0.5, True, 120),
        Incumbent(0.7, False, 50),
        Incumbent(1.0, True, 130),
        Incumbent(2.0, True, 90),
    ),
    bounds=(Bound(1.0, 10), Bound(3.0, 60)),
    wall_s=4.0,
    cpu_s=4.0,
    peak_mib=100.0,
    limits="",
    log="",
)


def test_a_notebook_shows_costs_and_bounds_over_time():
    shown = drawn(RUN)
    assert told(shown) == {
        "instance": "a<b",
        "method": "m",
        "status": "ok",
        "cost": "90",
        "lower bound": "60 (m, claimed)",
        "gap": "50 %",
        "time": "4.00 s",
        "memory": "100 MiB",
    }
    points = {
        line.get("class"): len(list(line.iter("circle"))) for line in shown.iter("g") if line.find("circle") is not None
    }
    assert points == {"series cost": 2, "series bound": 2}  # improvements only


def test_a_notebook_shows_what_there_is():
    nothing = dataclasses.replace(
        RUN,
        status="timeout",
        reason="killed & gone",
        cost=None,
        lower_bound=None,
        bound_from="",
        incumbents=(),
        bounds=(),
    )
    assert told(drawn(nothing))["status"] == "timeout: killed & gone"
    assert told(drawn(nothing))["gap"] == "–"
    assert drawn(nothing).find("svg") is None
    known = dataclasses.replace(RUN, bounds=(), bound_from="published", lower_bound=90, cost=90)
    assert told(drawn(known))["gap"] == "optimal"
    assert "lower bound (published)" in drawn(known).find("svg").itertext()
    same = dataclasses.replace(RUN, incumbents=(Incumbent(0.0, True, 0),), bounds=(), lower_bound=0, cost=0, wall_s=0.0)
    assert drawn(same).find("svg") is not None


def test_a_notebook_shows_a_verdict():
    checked = sm.CheckResult("x", "intraop", {}, False, 7, ("solution[0]: a & b",), {}, 5, "instance")
    assert told(drawn(checked))["violation 1"] == "solution[0]: a & b"
    held = dataclasses.replace(checked, feasible=True, violations=(), run=RUN)
    assert told(drawn(held))["method"] == "m: ok"
    assert "this solution" in drawn(held).find("svg").itertext()
