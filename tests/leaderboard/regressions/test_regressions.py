"""Tests for the history of the project's own times and costs, on results in asv's format."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shardmark.instances import InputError
from shardmark.leaderboard.build import build
from shardmark.leaderboard.regressions.history import Commit, Point, Series, commits, series
from shardmark.leaderboard.regressions.page import render, sentence, shown, table, write
from shardmark.leaderboard.regressions.steps import regression, steps
from tests.leaderboard.sites import broken_links, sections, tree, words

ROOT = Path(__file__).resolve().parents[3]
COMMITS = [Commit(f"{place:040x}", place, datetime(2026, 11, 1, tzinfo=UTC), f"Change {place}") for place in range(60)]
COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25"]
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def of(values: Sequence[float], unit: str = "seconds", spread: float = 0.01, name: str = "heft") -> Series:
    points = [Point(commit, value, spread) for commit, value in zip(COMMITS, values, strict=False)]
    return Series("Ranking", name, "dataflow-200", "box, Python 3.11", unit, points)


def noisy(levels: Sequence[float], noise: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [level * rng.lognormvariate(0.0, noise) for level in levels]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 1), (10, 1), (10, 10), (30, 2)])
def test_a_time_half_as_long_again_is_named_with_its_commit(before, after, seed):
    found = of(noisy([1e-4] * before + [1.5e-4] * after, 0.02, seed))
    (step,) = steps(found)
    worse = regression(found)
    assert worse is not None
    assert worse.after == step.after == found.points[before]
    assert f"slower since {COMMITS[before].short}, 2026-11-01 (" in sentence(step)
    assert 35 < float(sentence(worse).split(" %")[0]) < 65


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03, 0.08])
def test_noise_is_no_change(noise):
    assert [steps(of(noisy([1e-3] * 40, noise, seed))) for seed in range(5)] == [[]] * 5


def test_a_small_change_that_lasts_an_hour_is_no_change():
    assert steps(of([1.0] * 10 + [1.04] * 10)) == []


def test_times_below_the_clock_are_no_error():
    assert [step.worse for step in steps(of([1.0] * 3 + [0.0] * 3 + [1.0] * 3))] == [False, True]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(2.0, "2 s"), (0.0015, "1.5 ms"), (1.5e-6, "1.5 µs"), (3e-9, "3 ns"), (2.5e-10, "0.25 ns")],
)
def test_times_are_in_units_of_which_there_is_at_least_one(seconds, words):
    assert shown(of([seconds]), seconds) == words


def test_one_commit_that_is_off_is_no_change():
    assert steps(of([1.0] * 10 + [1.15] + [1.0] * 10)) == []


def test_what_was_mended_is_a_change_but_no_regression():
    found = of([1.0] * 8 + [2.0] * 8 + [1.0] * 8)
    assert [step.worse for step in steps(found)] == [True, False]
    assert regression(found) is None


def test_a_regression_is_told_since_the_best_level_was_left():
    worse = regression(of([2.0] * 8 + [1.0] * 8 + [1.5] * 8 + [2.0] * 8))
    assert worse is not None
    assert (worse.ratio, worse.after.commit.place) == (2.0, 16)


def test_a_small_change_of_a_figure_that_never_varies_is_named():
    assert steps(of([0.25] * 5, "cost / bound - 1")) == []
    worse = regression(of([0.25] * 5 + [0.2502], "cost / bound - 1"))
    assert worse is not None
    assert sentence(worse).startswith("0.02 % costlier since")


def test_commits_without_a_measurement_share_the_blame():
    found = of([1.0, 1.0, 1.0, 2.0])
    (step,) = steps(Series(*("a", "b", "", "c", "seconds"), [*found.points[:2], found.points[3]]))
    assert "or the commit before it, which was not measured" in sentence(step)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for command in (["init", "-q"], *(["commit", "-q", "--allow-empty", "-m", f"<b>{i}</b>\x85"] for i in range(4))):
        subprocess.run([*GIT, *command], cwd=folder, check=True)
    return folder


def write_results(folder: Path, hashes: Sequence[str], **changes: Any) -> Path:
    """asv's folder for one benchmark with two cases: the first becomes slower at the last commit."""
    name = "benchmarks.Ranking.time_heft"
    about = {"version": 2, name: {"unit": "seconds", "version": "1"}}
    (folder / "box").mkdir(parents=True)
    (folder / "benchmarks.json").write_text(json.dumps(about))
    (folder / "box" / "machine.json").write_text("{}")
    for number, one in enumerate(hashes):
        values = [2e-4 if number == len(hashes) - 1 else 1e-4, math.nan if number == 1 else 3e-4]
        row = [values, [["'a'", "'b'"]], "1", 0, 0.1, None, None, [0.9e-4, 2.9e-4]]
        gone = [[1.0], [], "0", 0, 0.1, None, None, None]
        text = {"commit_hash": one, "python": "3.11", "result_columns": COLUMNS} | {
            "results": {name: row, "benchmarks.Gone.time_x": gone}
        }
        (folder / "box" / f"{one[:8]}-env.json").write_text(json.dumps(text | changes))
    return folder


def test_results_of_asv_become_a_page(repository, tmp_path, scored):
    hashes = list(commits(repository))
    results = write_results(tmp_path / "results", [*hashes[::-1][1:][::-1], hashes[-1]])
    found = series(results, commits(repository))
    assert [(one.name, one.case, len(one.points)) for one in found] == [("heft", "a", 4), ("heft", "b", 3)]
    site = tmp_path / "site"
    command = [sys.executable, "-m", "shardmark.leaderboard.regressions", results, site]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr) == (0, "")
    assert f"heft (a): 2× slower since {hashes[-1][:8]}" in done.stdout.replace("100 %", "2×")
    page = site / "regressions" / "index.html"
    (worse,) = sections(tree(page), "worse")
    assert f"heft (a) 100 % slower since {hashes[-1][:8]}" in words(worse)
    assert "<b>3</b>" in words(worse), "subjects are text"
    assert (site / "regressions" / "history.csv").read_text().count("Ranking.heft,a,") == 4
    before = page.read_text(encoding="utf-8").split("</header>")[1]
    build(scored, site)
    assert page.read_text(encoding="utf-8").split("</header>")[1] == before
    assert broken_links(site) == []
    assert 'href="regressions/index.html"' in (site / "index.html").read_text(encoding="utf-8")


def test_a_history_without_measurements_has_a_page(tmp_path):
    assert "Nothing: no time" in write([], tmp_path / "site").read_text(encoding="utf-8")
    assert table([]).count("\n") == 1
    assert render([], leaderboard=False) == render([], leaderboard=False)


def test_other_files_are_refused_in_a_sentence(repository, tmp_path, monkeypatch):
    known = commits(repository)
    with pytest.raises(InputError, match="expected the results of `asv run`"):
        series(tmp_path, known)
    with pytest.raises(InputError, match="expected a git repository"):
        commits(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="expected git, to read the commits"):
        commits(repository)
    with pytest.raises(InputError, match="expected a file of results as asv writes them"):
        series(write_results(tmp_path / "results", list(known), results={"benchmarks.Ranking.time_heft": 3}), known)
