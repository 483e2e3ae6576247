"""The conformance check: what is right passes, and every defect is found by the check that is there for it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import given_time
from referee import refusal

from shardmark.cli.arguments import main
from shardmark.cli.new_solver import template
from shardmark.cli.submission import busy, conformance, standing
from shardmark.cli.submission.conformance import Finding, submit, verdict
from shardmark.harness.campaign.discover import discover
from shardmark.harness.campaign.problems import Problem
from shardmark.instances import InputError, tracks

pytestmark = pytest.mark.gate(cases=1)

AMPLE_S = 60.0
HEAD = """
import itertools, os, time
import numpy as np
from shardmark.solvers.registry import Declined, bound, solver

def frugal(instance):
    return [int(np.argmin(instance.usage[a:b])) for a, b in itertools.pairwise(instance.strategy_start.tolist())]

def big(instance):
    return instance.nodes > 500

def spin(run):
    while run.remaining() > 0:
        pass

@solver(track="intraop", source="a test"{more})
def mine(instance, run):
    '''Take what uses the least memory.'''
    run.report(frugal(instance))
"""
BOUND = HEAD.replace("@solver", "@bound").replace("run.report(frugal(instance))", "run.bound(1)")


@pytest.fixture(autouse=True)
def time_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets seconds for tiny instances and until the deadline; at first ample ones: what ends by itself needs none.

    Of the tiny instances of each track, two are enough for most tests.
    """
    problems = conformance.problems

    def limit(tiny: float, deadline: float, most: int = 2) -> None:
        def limited(suite: str, track: str) -> list[Problem]:
            return [dataclasses.replace(problem, timeout_s=tiny) for problem in problems(suite, track)[:most]]

        monkeypatch.setattr(conformance, "problems", limited)
        monkeypatch.setattr(conformance, "DEADLINE_S", deadline)

    limit(AMPLE_S, AMPLE_S)
    return limit


def check(tmp_path: Path, body: str = "", more: str = "", head: str = HEAD) -> dict[str, Finding]:
    """Findings about a solver whose function ends with ``body``, by check."""
    path = tmp_path / "mine.py"
    path.write_text(head.replace("{more}", more) + "".join(f"    {line}\n" for line in body.splitlines()))
    findings = submit(path, say=lambda _: None)
    assert {finding.solver for finding in findings} == {"mine"}
    return {finding.check: finding for finding in findings}


def failed(findings: dict[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if finding.passed == "no"}


@pytest.mark.gate
def test_a_good_solver_passes_everything(tmp_path, time_limits):
    time_limits(AMPLE_S, AMPLE_S, 4)
    findings = check(tmp_path)
    assert list(findings) == [
        "can be imported", "name is free", "description", "source",
        "solves diamond", "solves triangle", "solves sharded-transformer-2", "solves sharded-u-net-4",
        "is repeatable", "meets the deadline", "stays on one core", "stays within memory",
    ]  # fmt: skip
    assert {finding.passed for finding in findings.values()} == {"yes"}
    assert "the optimum is 137" in findings["solves diamond"].detail
    assert verdict(list(findings.values()), "mine.py").startswith(
        "No check failed: `shardmark submit mine.py --branch`"
    )


@pytest.mark.gate
@pytest.mark.parametrize("track", tracks())
def test_the_file_to_start_from_lacks_nothing_but_words_of_its_own(tmp_path, track):
    path = tmp_path / "my_idea.py"
    path.write_text(template("my-idea", track))
    findings = submit(path, track, lambda _: None)
    assert {f.check: f.detail for f in findings if f.passed == "no"} == {
        "description": "expected your own description, found that of the template: "
        "'Say in one line what it does; tables show it.'",
        "module docstring": "expected your own words, found those of the template: "
        "'my-idea: say in one line what the method is.'",
        "source": "expected your own source, found that of the template: 'where the method is described'",
    }
    assert [f.detail for f in findings if re.search(r"(cost|optimum is|bound) [0-9]*[.][0-9]{6}", f.detail)] == []


def test_a_file_that_cannot_be_imported_has_one_finding(tmp_path):
    (finding,) = check(tmp_path, head="import a_package_that_nobody_has").values()
    assert finding.passed == "no"
    assert "No module named 'a_package_that_nobody_has'" in finding.detail
    assert "1 of 1 checks failed" in verdict([finding], "mine.py")


def test_a_file_of_no_known_track_that_cannot_be_imported_has_one_finding(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import a_package_that_nobody_has\n")
    assert [finding.passed for finding in submit(path, None, lambda _: None)] == ["no"]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("old", "new", "name", "detail"),
    [
        ("'''Take what uses the least memory.'''", "", "description", "expected a description"),
        ('source="a test"', 'source=" "', "source", "expected a source"),
        ("Take what", "Take " * 40, "description", "expected one line of at most 160 characters"),
        ("def mine", "def greedy", "name is free", "intraop/greedy.py"),
    ],
)
def test_what_a_solver_does_not_say_or_has_no_right_to_is_found(tmp_path, old, new, name, detail):
    path = tmp_path / "mine.py"
    path.write_text(HEAD.replace(old, new).replace("{more}", ""))
    (info,) = conformance.candidates(path, None)
    (finding,) = [finding for finding in conformance.declares(info, discover()) if finding.passed == "no"]
    assert finding.check == name
    assert detail in finding.detail


TINY = {"solves diamond", "solves triangle"}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("body", "names", "detail"),
    [
        ("raise RuntimeError('no idea')", TINY | {"meets the deadline"}, "error: RuntimeError: no idea"),
        (
            "if not big(instance): raise Declined('too small')",
            {"accepts an instance"},
            "it declined every tiny instance",
        ),
        ("if instance.nodes == 3: run.bound(7)", {"solves triangle"}, "lower bound 7"),
        ("run.report(os.urandom(1)[0] + 9)", {"is repeatable"}, ""),
        ("if big(instance): time.sleep(3600)", {"meets the deadline"}, "return before run.deadline"),
        ("if big(instance): os._exit(3)", {"meets the deadline"}, "exit status 3"),
        ("if big(instance): x = np.ones(2**26)", {"meets the deadline", "stays within memory"}, "256 MiB"),
    ],
)
def test_what_a_solver_does_wrong_is_found(tmp_path, monkeypatch, time_limits, body, names, detail):
    monkeypatch.setattr(conformance, "MEMORY_MIB", 256.0)
    if "sleep" in body:
        time_limits(AMPLE_S, 1.0)
    if "urandom" in body:
        body = "s = frugal(instance); s[0] = os.urandom(1)[0] % int(instance.strategies[0]); run.report(s)"
        body += "\nrun.bound(-int.from_bytes(os.urandom(3)))"
    findings = check(tmp_path, body)
    assert failed(findings) == names
    assert all(detail in findings[name].detail for name in names)


@pytest.mark.gate
def test_what_crashes_is_not_said_to_use_all_of_its_time(tmp_path):
    findings = check(tmp_path, "os._exit(3)")
    assert failed(findings) == TINY | {"meets the deadline"}
    assert findings["is repeatable"].passed == findings["stays on one core"].passed == "not tested"
    assert findings["is repeatable"].detail == "no run on a tiny instance succeeded"
    assert findings["stays on one core"].detail.startswith("the run above failed after ")


def test_a_result_that_does_not_count_leaves_the_deadline_untested(tmp_path):
    silent = HEAD.replace("run.report(frugal(instance))", "pass")
    findings = check(tmp_path, "return [-1] * instance.nodes if big(instance) else frugal(instance)", head=silent)
    (unsolved,) = failed(findings)
    assert findings[unsolved].detail.startswith("infeasible: ")
    deadline = findings["meets the deadline"]
    assert (deadline.passed, deadline.detail.partition(": ")[2]) == ("not tested", "no feasible solution")


@pytest.mark.parametrize(
    ("cpu_s", "busy", "passed", "detail"),
    [
        (1.0, 1.2, "yes", "1.00 s of CPU time in 1.00 s, one thread at a time"),
        (1.0, None, "yes", "1.00 s of CPU time in 1.00 s, one thread at a time"),
        (0.2, 1.5, "not tested", "0.20 s of CPU time in 1.00 s, too little to tell how many threads were busy"),
        (0.3, 1.3, "no", "1.3 threads on average ran or waited for a core, expected one thread at a time"),
        (1.9, 1.0, "no", "1.90 s of CPU time in 1.00 s, which takes more than one core"),
    ],
)
def test_what_is_said_of_cores(cpu_s, busy, passed, detail):
    row = SimpleNamespace(cpu_s=cpu_s, wall_s=1.0, status="ok")
    assert conformance._on_one_core(row, busy) == (passed, detail)


def test_a_process_that_ends_while_its_threads_are_counted_has_none(monkeypatch):
    assert busy._running(os.getpid()) >= 1
    assert busy._running(2**22 + 1) == 0  # greater than any number of a process
    threads = [*os.listdir("/proc/self/task"), str(2**22 + 1)]
    monkeypatch.setattr(os, "listdir", lambda folder: threads)
    assert busy._running(os.getpid()) >= 1


@pytest.mark.gate
def test_a_solver_may_say_that_it_does_not_repeat_itself(tmp_path):
    findings = check(tmp_path, "run.bound(-int.from_bytes(os.urandom(3)))", more=", deterministic=False")
    assert failed(findings) == set()
    assert findings["is repeatable"].passed == "not tested"


@pytest.mark.gate
def test_what_time_cut_short_need_not_repeat_itself(tmp_path, time_limits):
    body = "if instance.nodes != 3: raise Declined('other')\nspin(run)\nrun.bound(-int.from_bytes(os.urandom(3)))"

    def within(limit: float) -> dict[str, Finding]:
        time_limits(limit, AMPLE_S)
        return check(tmp_path, body)

    findings = given_time(
        within, lambda findings: all("killed at" not in found.detail for found in findings.values()), 0.3
    )
    assert failed(findings) == set()
    assert findings["is repeatable"].passed == "not tested"


@pytest.fixture
def one_core() -> Iterator[None]:
    """This process, and what it starts, has one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.gate
@pytest.mark.usefixtures("one_core")
def test_a_second_busy_thread_is_found_even_if_there_is_one_core(tmp_path, time_limits):
    def within(limit: float) -> dict[str, Finding]:
        time_limits(AMPLE_S, limit)
        return check(tmp_path, "if big(instance):\n    child = os.fork()\n    spin(run)\n    child or os._exit(0)")

    findings = given_time(within, lambda findings: findings["meets the deadline"].passed == "yes", 2.0)
    assert failed(findings) == {"stays on one core"}
    assert findings["stays on one core"].detail.endswith(
        "threads on average ran or waited for a core, expected one thread at a time"
    )


@pytest.mark.gate
def test_a_bound_is_held_against_the_optimum(tmp_path):
    assert failed(check(tmp_path, head=BOUND)) == set()
    findings = check(tmp_path, "run.bound(138)", head=BOUND)
    assert {"bounds diamond", "bounds triangle"} <= failed(findings)
    assert findings["bounds diamond"].detail == "contradiction: claims the lower bound 138, the optimum is 137"
    silent = check(tmp_path, head=BOUND.replace("run.bound(1)", ""))
    assert "reported no lower bound" in silent["bounds diamond"].detail


@pytest.fixture
def program(tmp_path) -> Path:
    """A program that puts every operator into one stage, however many there are."""
    path = tmp_path / "one-stage"
    count = "import json, sys; d = json.load(open(sys.argv[1])); print([0] * len(d['nodes']['work']))"
    path.write_text(f'#!/bin/sh\nexec python3 -S -c "{count}" "$1"\n')
    path.chmod(0o755)
    return path


@pytest.mark.gate
def test_a_program_is_checked_as_it_is(program):
    findings = {f.check: f for f in submit(program, "pipeline", lambda _: None)}
    assert failed(findings) == set()
    assert findings["source"].passed == "not tested"
    assert "declare the program in a TOML file" in verdict(list(findings.values()), program)


@pytest.mark.gate
def test_a_toml_is_checked_program_after_program(program):
    text = '[[solver]]\nname = "{}"\ntrack = "pipeline"\ncommand = "{}"\nsource = "x"\ndescription = "One stage."\n'
    file = program.with_name("some.toml")
    file.write_text(text.format("one-stage", "./one-stage") + text.format("gone", "./gone"))
    findings = submit(file, say=lambda _: None)
    assert [f for f in findings if f.solver == "one-stage" and f.passed == "no"] == []
    (gone,) = [f for f in findings if f.solver == "gone"]
    assert (gone.check, gone.passed) == ("can be started", "no")


@pytest.mark.parametrize(
    ("name", "text", "track", "expected"),
    [
        ("solver", "", None, "expected --track for a program"),
        ("solver", "", "pipeline", "is not executable"),
        ("solver.py", "x = 1", None, "expected at least one solver, found none"),
        ("solver.py", HEAD.replace("{more}", ""), "pipeline", "expected at least one solver of the track pipeline"),
        ("solver.toml", "[[solver]]", None, "solver 1: expected a key 'name'"),
        ("nowhere.py", None, None, "found nothing of that name"),
        ("nowhere", None, "pipeline", "found nothing of that name"),
    ],
)
def test_what_cannot_be_checked_is_a_sentence(tmp_path, name, text, track, expected):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    assert expected in refusal(submit, path, track, lambda _: None)


def test_a_folder_is_no_file_to_submit(tmp_path):
    with pytest.raises(InputError, match="expected a file that declares solvers, or a program, found a folder"):
        submit(tmp_path, None, lambda _: None)


def test_a_syntax_error_is_told_with_its_file_and_line(tmp_path):
    path = tmp_path / "slip.py"
    path.write_text("# intraop\nx = 1\ndef (\n")
    (finding,) = submit(path, "intraop", lambda _: None)
    assert (finding.check, finding.passed) == ("can be imported", "no")
    assert finding.detail == "SyntaxError: invalid syntax (slip.py:3)"
    path.write_text("# intraop\nimport slipped\n")
    (tmp_path / "slipped.py").write_text("\ny = (\n")
    (finding,) = submit(path, "intraop", lambda _: None)
    assert finding.detail == "SyntaxError: '(' was never closed (slipped.py:2)"


@pytest.mark.gate
def test_submit_ends_with_what_to_do_next(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(standing, "SUITE", "smoke")
    monkeypatch.chdir(tmp_path)
    good, bad = tmp_path / "mine.py", tmp_path / "bad.py"
    good.write_text(HEAD.replace("{more}", ""))
    bad.write_text("import a_package_that_nobody_has")
    assert main(["submit", str(good)]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split() == ["check", "solver", "passed", "detail"]
    assert "pull request" in shown.out.splitlines()[-1]
    assert "results has no runs of other solvers on these instances" in shown.out
    assert "mine on diamond" in shown.err
    assert main(["submit", str(bad)]) == 1
    checks, verdict_, *more = capsys.readouterr().out.split("\n\n")
    assert (verdict_.startswith("1 of 1 checks failed"), more) == (True, [])
    assert checks.splitlines()[1].split()[:2] == ["can", "be"]
    assert main(["submit", str(bad), "--json", "--track", "pipeline"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["standing"], told["branch"]) == ([], None)
    (row,) = told["checks"]
    assert (row["check"], row["solver"], row["passed"]) == ("can be imported", "bad", "no")
    assert main(["submit", str(tmp_path / "nowhere.py")]) == 2
