"""One run under limits: whatever a solver does is a row with the right status, and its reports count."""

from __future__ import annotations

import math
import re
import time

import psutil
import pytest


@pytest.mark.parametrize(
    ("name", "stop", "status", "reason", "cost"),
    [
        ("good", "exit", "ok", "", 6.0),
        ("returns-it", "exit", "ok", "", 10.0),
        ("raises", "error", "error", "RuntimeError: the oracle is silent (zoo.py:", 10.0),
        ("leaves", "crash", "crash", "ended its process without returning", None),
        ("exits", "crash", "crash", "ended with exit status 3", None),
        ("segfaults", "crash", "crash", "killed by SIGSEGV", None),
        ("declines", "declined", "declined", "more than zero nodes", None),
        ("silent", "exit", "none", "reported no solution", None),
        ("nonsense", "exit", "infeasible", "expected", None),
        ("not-json", "error", "error", "reported a solution that is not plain JSON", None),
        ("nan", "error", "error", "reported a solution that is not plain JSON", None),
        ("liar", "exit", "contradiction", "claims the lower bound 1000000000.0, but has", 10.0),
        ("cyclic", "exit", "infeasible", "cycle", None),
        ("bounds", "exit", "ok", "", None),
        ("odd-bound", "exit", "error", "a bound that is no finite number", None),
        ("broken-import", "import", "import", "ModuleNotFoundError", None),
        ("exits-at-import", "import", "import", "exit status 7", None),
    ],
)
def test_every_end_has_its_row(run_zoo, name, stop, status, reason, cost):
    row = run_zoo(name)
    assert (row.stop, row.status, row.cost) == (stop, status, cost)
    assert reason in row.reason
    assert "\n" not in row.reason
    assert (status == "ok") == (row.reason == "")


def test_incumbents_are_stamped_verified_and_the_best_is_kept(run_zoo):
    row = run_zoo("good")
    assert [x.cost for x in row.incumbents] == [10.0, 6.0]
    assert 0 < row.incumbents[0].time_s <= row.incumbents[1].time_s <= row.wall_s
    assert row.solution == [0, 0, 1, 1]
    assert row.lower_bound == pytest.approx(5.0)
    assert row.lower_bound <= 5.0


def test_the_greatest_bound_counts(run_zoo):
    row = run_zoo("bounds")
    assert row.lower_bound == 2
    assert [b.value for b in row.bounds] == [2, 1.5]


def test_what_was_reported_before_a_time_out_counts(run_zoo):
    row = run_zoo("hangs", timeout=1.5)
    assert (row.status, row.cost) == ("timeout", 10.0)
    assert row.reason == "killed at the time limit of 1.5 s"
    assert 1.5 <= row.wall_s < 30


def test_what_is_reported_after_the_limit_does_not_count(run_zoo):
    row = run_zoo("late", timeout=1.0)
    assert (row.status, row.cost, row.incumbents) == ("timeout", None, ())


def test_a_solver_that_obeys_its_deadline_is_in_time(run_zoo):
    row = run_zoo("obeys", timeout=3.0)
    assert (row.status, row.cost) == ("ok", 10.0)
    assert row.incumbents[0].time_s <= 3.0


@pytest.mark.parametrize("name", ["allocates", "child-allocates"])
def test_the_memory_limit_covers_the_whole_tree(run_zoo, name):
    row = run_zoo(name, timeout=60.0, memory=300.0)
    assert row.stop == "memory"
    assert re.fullmatch(r"used \d+ MiB, the limit is 300 MiB", row.reason)
    assert row.peak_mib > 300
    assert row.cost == (10.0 if name == "allocates" else None)


def test_children_that_outlive_their_solver_are_killed(run_zoo):
    row = run_zoo("leaves-children")
    assert row.status == "ok"
    child = int(re.search(r"child (\d+)", row.log)[1])
    for _ in range(100):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.02)
    pytest.fail(f"process {child} is still alive")


def test_a_flood_on_stdout_is_cut_to_its_end(run_zoo):
    row = run_zoo("prints")
    assert row.status == "ok"
    assert len(row.log) < 64 * 1024
    assert row.log.endswith("the end\n")


def test_rubbish_in_the_pipe_is_a_fault_and_spares_what_came_before(run_zoo):
    row = run_zoo("breaks-pipe")
    assert row.cost == 10.0
    assert row.status != "ok"


def test_what_a_run_used_is_measured(run_zoo):
    row = run_zoo("good")
    assert 0 < row.cpu_s < math.inf
    assert 10 < row.peak_mib < 1024
    assert row.wall_s > 0


def test_a_spike_between_two_looks_at_the_memory_counts(run_zoo):
    row = run_zoo("spike", memory=300.0)
    assert (row.stop, row.status) == ("memory", "memory")
    assert 300 < row.peak_mib < 600


def test_the_referees_own_memory_is_not_the_runs(run_zoo):
    ballast = bytearray(700 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    assert run_zoo("good").peak_mib < 300
    del ballast


def test_of_a_flood_of_reports_the_first_and_the_last_are_kept(run_zoo):
    row = run_zoo("floods")
    assert (row.status, row.cost, len(row.incumbents)) == ("ok", 6.0, 1000 - 1)  # the last message says done
    assert "messages, 1002 between are lost" in row.log
