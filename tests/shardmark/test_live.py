"""Runs under way: progress, the early end of what is proven optimal, and an end at the user's request."""

from __future__ import annotations

import json
import shutil
import signal

import pytest
from referee import answer, shardmark

from shardmark import api, live
from shardmark.cli import watching
from shardmark.cli.watching import words
from shardmark.harness.sandbox.protocol import HEADER, encode
from shardmark.instances import catalog
from shardmark.live import Live, Progress

WAITS = """import time
from shardmark.solvers.registry import solver

@solver(track="pipeline")
def waits(instance, run, *, split: str = "[0,0,1,1]", bound: float = 0.0):
    for _ in range(4):
        run.report([0, 0, 0, 0])
    if split:
        run.report([int(c) for c in split if c.isdigit()])
    if bound:
        run.bound(bound)
    time.sleep(60)

@solver(track="pipeline")
def finds_nothing(instance, run):
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def waits(tmp_path_factory):
    file = tmp_path_factory.mktemp("solvers") / "waits.py"
    file.write_text(WAITS)
    return {"solver_path": file, "timeout": 50}


def test_a_run_ends_once_its_own_bound_proves_its_cost(chain, waits):
    found = api.solve(chain.path, "waits", params={"bound": 5.99999}, **waits)
    assert (found.status, found.cost, found.optimal) == ("ok", 6.0, True)
    assert found.reason == "ended early: the lower bound 5.99999 proves the cost 6 optimal"
    assert found.wall_s < 40
    assert [incumbent.cost for incumbent in found.incumbents] == [10.0] * 4 + [6.0]


def test_a_run_ends_once_it_reaches_a_bound_known_before(waits):
    found = api.solve("chain", "waits", params={"split": "[0,0,0,1,1]"}, **waits)
    assert (found.status, found.cost, found.bound_from, found.optimal) == ("ok", 11.0, "published", True)


def test_a_run_ends_once_it_reaches_a_recorded_bound_and_says_so(waits, tmp_path):
    """The record is found by content, whatever the name of the file."""
    file = shutil.copyfile(catalog.locate(catalog.find("chain")), tmp_path / "mine.json")
    found = api.solve(file, "waits", params={"split": "[0,0,0,1,1]"}, **waits)
    assert (found.status, found.cost, found.bound_from, found.optimal) == ("ok", 11.0, "records", True)
    assert found.reason.endswith("(records) proves the cost 11 optimal")
    assert (found.best_known, found.best_from, found.over_best) == (11.0, "records", 0.0)


@pytest.mark.gate
def test_no_known_bound_ends_a_run_of_a_campaign(waits, tmp_path):
    solver = ["--solver", "waits", "--solver-path", waits["solver_path"], "--set", "split=[0,0,0,1,1]"]
    done = answer("run", "--instance", "chain", *solver, "--timeout", 5, "--results", tmp_path / "results", "--quiet")
    assert (done["runs"], done["stopped"]) == (1, 1)


def test_a_bound_method_ends_at_its_own_proof_only(chain, waits):
    ended = []

    def progress(found: Progress) -> str | None:
        ended.append(found.lower_bound)
        return "enough" if found.lower_bound else None

    found = api.bound(chain.path, "waits", params={"bound": 4.0}, progress=progress, **waits)
    assert (found.status, found.reason, found.lower_bound, found.optimal) == ("ok", "enough", 4.0, False)
    assert ended[0] is None


def test_a_run_that_is_ended_before_it_found_anything_has_nothing(chain, waits):
    found = api.solve(chain.path, "finds-nothing", progress=lambda _: "not today", **waits)
    assert (found.status, found.reason, found.cost) == ("halted", "not today", None)


def test_a_refuted_bound_ends_nothing_early(chain):
    one = Live(chain.instance, 60.0, None, None)
    solution, bound = (encode(*words)[HEADER.size :] for words in (("solution", [0, 0, 1, 1], None), ("bound", 7.0)))
    one.take([(1.0, solution), (2.0, bound)])
    assert one.tick() == (False, "")
    assert one.reports.cost == 6.0


def test_a_known_bound_that_the_cost_refutes_does_not_hide_the_runs_own(chain):
    one = Live(chain.instance, 60.0, (8.0, "published"), None)
    solution, bound = (encode(*words)[HEADER.size :] for words in (("solution", [0, 0, 1, 1], None), ("bound", 6.0)))
    one.take([(1.0, solution), (2.0, bound)])
    assert one.tick()[1] == "ended early: the lower bound 6 proves the cost 6 optimal"


def test_verifying_takes_a_fifth_of_a_core_at_most(chain, monkeypatch):
    times = iter([100.0, 103.0, 104.0, 114.9, 115.1])
    monkeypatch.setattr(live.time, "monotonic", lambda: next(times))
    one = Live(chain.instance, 60.0, None, None)
    one.take([])
    assert [one.tick()[0] for _ in range(3)] == [False, False, True]


def test_what_was_found_before_a_signal_counts(chain, waits, tmp_path, monkeypatch):
    shown = watching.Watching.__call__

    def interrupted(watch, progress):
        if progress.cost == 6.0 and not watch.signal:
            signal.raise_signal(signal.SIGTERM)
        return shown(watch, progress)

    monkeypatch.setattr(watching.Watching, "__call__", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    command = ["solve", chain.path, "-s", "waits", "--solver-path", waits["solver_path"], "-t", 50]
    found = answer(*command, "-o", tmp_path / "best.json", status=143)
    assert (found["status"], found["reason"], found["cost"]) == ("ok", "interrupted", 6.0)
    assert json.loads((tmp_path / "best.json").read_text()) == [0, 0, 1, 1]
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_second_signal_ends_the_command(chain, waits, monkeypatch):
    shown = watching.Watching.__call__

    def twice(*given):
        shown(*given)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(watching.Watching, "__call__", twice)
    told = shardmark("solve", chain.path, "-s", "random-1")
    assert (told.returncode, told.stdout, told.stderr) == (130, "", "shardmark: interrupted\n")


def test_progress_is_a_line_on_a_terminal_and_nothing_elsewhere(capsys, monkeypatch):
    progress = Progress(3.2, 60.0, 6.0, 1.25, 5.0)
    for terminal, quiet, shown in ((True, False, True), (True, True, False), (False, False, False)):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        with watching.watching(quiet=quiet) as watch:
            assert watch(progress) is None
        line = "\r3 s of 60 s, cost 6 after 1.2 s, bound 5, gap 20 %\x1b[K\r\x1b[K"
        assert capsys.readouterr().err == (line if shown else "")


def test_progress_says_what_there_is_not():
    assert words(Progress(0.0, 7200.0, None, None, None)) == "0 s of 2.0 h, no solution yet"
    assert words(Progress(0.0, 10.0, None, None, 5)) == "0 s of 10 s, no solution yet, bound 5"
    assert words(Progress(0.0, 10.0, None, None, 923.1099)).endswith("bound 923.109")  # down, as it is a claim
    assert words(Progress(0.0, 10.0, None, None, 922.999999999991)).endswith("bound 923")
    assert words(Progress(0.0, 10.0, 923.11, 1.0, 923.1099)) == "0 s of 10 s, cost 923.11 after 1.0 s, proven optimal"
