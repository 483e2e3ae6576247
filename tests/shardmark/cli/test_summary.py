"""Tests for the summary of a campaign."""

from __future__ import annotations

from typing import Any

import pytest
from referee import refusal, shardmark

from shardmark.cli.matrix import locked_store
from shardmark.cli.summary import EXPECTED, counts, kind, words
from shardmark.harness.results.database import FILE_NAME, Ending
from shardmark.instances import InputError


def ending(status: str, **changes: Any) -> Ending:
    run = Ending(False, "pipeline", "chain", "mine", 0, status, "it said so", 0.5, 2.0)
    return run._replace(**changes)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (ending("ok", answered=True), "ok"),
        (ending("declined"), "declined"),
        (ending("timeout", answered=True), "stopped"),
        (ending("cpu", answered=True), "stopped"),
        (ending("timeout"), "late"),
        (ending("none", wall_s=1.7), "late"),
        (ending("infeasible", wall_s=1.7), "unsolved"),
        (ending("none"), "failed"),
        (ending("infeasible"), "failed"),
        (ending("infeasible", instance="waiting-room"), "trapped"),
        (ending("crash", instance="waiting-room"), "failed"),
        *(
            (ending(status, answered=True, wall_s=2.0), "failed")
            for status in ("crash", "error", "memory", "lost", "killed")
        ),
        *((ending(status, answered=True), "failed") for status in ("misclaim", "contradiction", "import")),
    ],
)
def test_every_end_is_expected_or_not(run, expected):
    assert kind(run) == expected


def test_failures_are_listed_by_name():
    runs = [ending("ok", answered=True), ending("declined"), *(ending("crash", seed=seed) for seed in range(30))]
    found = {"results": "results", "runs": 32, "started": 2, **counts(runs)}
    assert (found["ok"], found["declined"], found["failed"]) == (1, 1, 30)
    assert found["failures"][:2] == [
        "mine on chain (pipeline): crash, it said so",
        "mine on chain seed 1 (pipeline): crash, it said so",
    ]
    text = words(found)
    assert "    30 FAILED, which is not expected:\n       mine on chain (pipeline): crash" in text
    assert "and 10 more" in text
    assert EXPECTED["late"] not in text


def test_a_campaign_that_is_refused_leaves_no_new_folder(tmp_path):
    def refuse():
        with locked_store(tmp_path / "results"):
            raise InputError("chain.json", "", "expected a file of another track")

    assert "another track" in refusal(refuse)
    assert list(tmp_path.iterdir()) == []
    with locked_store(tmp_path / "results"):
        pass
    assert "another track" in refusal(refuse)
    assert (tmp_path / "results" / FILE_NAME).is_file()


def test_runs_killed_from_outside_are_told_to_be_repeated():
    found = {"results": "results", "runs": 2, "started": 2, **counts([ending("killed"), ending("crash")])}
    assert (found["failed"], found["killed"]) == (2, 1)
    assert words(found).endswith("; the same command repeats those that were killed from outside.")


def test_a_campaign_without_failures_says_so():
    found = {"results": "results", "runs": 2, "started": 0, **counts([ending("ok"), ending("declined")])}
    assert words(found).endswith("All runs ended as expected.")
    assert "busy" not in words(found)
    assert "busy" in words({**found, "ok": 0, "late": 1})


def test_an_interrupted_campaign_tells_what_is_left_and_does_not_say_that_all_runs_ended():
    found = {"results": "results", "runs": 3, "started": 3, **counts([ending("ok")])}
    assert words(found).startswith("3 runs, 2 of them left; results are in results\n")
    assert words(found).endswith("\nThe same command carries out the runs that are left.")
    failed = words({**found, **counts([ending("crash")])})
    assert failed.startswith("3 runs, 2 of them left;")
    assert "mine on chain (pipeline): crash" in failed


def test_a_search_without_a_feasible_solution_is_named_and_does_not_blame_the_machine():
    runs = [ending("infeasible", wall_s=1.7, seed=seed) for seed in range(2)]
    text = words({"results": "results", "runs": 2, "started": 2, **counts(runs)})
    assert f"     2 {EXPECTED['unsolved']}\n       mine on chain\nNo run ended unexpectedly." in text
    assert text.endswith("The leaderboard lists 2 runs without an answer under Failures.")
    assert "busy" not in text


BAD = """
from shardmark import solver

@solver(track="pipeline")
def bad(instance, run):
    raise ValueError("no")
"""


def test_a_campaign_says_what_failed(tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    arguments = ["run", "--instance", "chain", "--solver", "random-1", "--solver", "bad", "--timeout", "60", "--quiet"]
    done = shardmark(*arguments, "--results", tmp_path / "results", "--solver-path", tmp_path / "bad.py")
    assert done.returncode == 3
    assert "2 runs, 2 of them started now" in done.stdout
    assert "bad on chain (pipeline): error, " in done.stdout
